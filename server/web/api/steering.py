"""The calls that steer a run: pause, resume, cancel, tell, edit."""

from __future__ import annotations

from typing import Any

from pydantic import Field
from typing_extensions import TypedDict

from holdfast.blueprint.json_values import JSON
from holdfast.client import steering
from holdfast.client.answering import Sent
from holdfast.client.steering import SteeringJSON
from holdfast.protocol.answers import Receipt
from holdfast.server.web.api.bodies import WebInput
from holdfast.server.web.api.calls import ApiCall, Exchange

MOST_WAIT = 60.0


class NoBody(WebInput):
    """The body of a command that needs none: absent, or an empty object."""


class CancelInput(WebInput):
    """The body of a cancel: how the run is cancelled; may be left out."""

    wait: float = Field(10.0, ge=0, le=MOST_WAIT, description="Seconds to wait for the end of the whole tree.")
    force: bool = Field(False, description="Terminate it: no clean-up, running activities are not notified.")


class TellInput(WebInput):
    """A message to an agent at work."""

    text: str = Field(min_length=1, pattern=r"\S")
    agent: str | None = Field(None, description="The step's name or address, where several agents are at work.")


class EditInput(WebInput):
    """Changes of the context at a stop."""

    set: dict[str, JSON] = Field(min_length=1, description="The new value by its path, such as draft.title.")
    digest: str = Field(description="That of the checkpoint as it was shown.")


class ToldJSON(TypedDict):
    """The agent that gets a message in its next turn, as `tell --json` has it."""

    run: str
    agent: str


async def pause_run(exchange: Exchange) -> SteeringJSON:
    """Pause a run: no further step starts; answers are taken, deadlines run. `left` was not reached in time."""
    return (await steering.pause(exchange.runs, exchange.path("run"), exchange.identity.user)).to_json()


async def resume_run(exchange: Exchange) -> SteeringJSON:
    """Resume a run after a pause, a hold or a stop, or from an interrupt that takes no answer; approves nothing."""
    return (await steering.resume(exchange.runs, exchange.path("run"), exchange.identity.user)).to_json()


async def cancel_run(exchange: Exchange) -> SteeringJSON:
    """Cancel a run and everything below it. `left` had not ended in time; cancelling twice is fine."""
    body: CancelInput = exchange.body
    run, by = exchange.path("run"), exchange.identity.user
    stopped = await exchange.runs.cancel(run, wait=body.wait, force=body.force, by=by)
    return steering.cancelled(stopped, force=body.force).to_json()


async def tell_run(exchange: Exchange) -> ToldJSON:
    """Send a message to an agent of a run, for its next turn."""
    body: TellInput = exchange.body
    run, by = exchange.path("run"), exchange.identity.user
    return {"run": run, "agent": await steering.tell(exchange.runs, run, body.text, body.agent, by)}


async def edit_run(exchange: Exchange) -> list[dict[str, Any]]:
    """Change the context of a run that has stopped before or after a step, and go on."""
    body: EditInput = exchange.body
    run, by = exchange.path("run"), exchange.identity.user
    receipts = await steering.edit(exchange.runs, run, body.set, by, digest=body.digest)
    return [receipt.model_dump(mode="json") for receipt in receipts]


_PROBLEMS = (403, 404, 409, 410, 422, 503)
STEERING_CALLS = [
    ApiCall("POST", "/runs/{run}/pause", pause_run, SteeringJSON, "steer", "steer", body=NoBody, problems=_PROBLEMS),
    ApiCall("POST", "/runs/{run}/resume", resume_run, SteeringJSON, "steer", "steer", body=NoBody, problems=_PROBLEMS),
    ApiCall(
        "POST", "/runs/{run}/cancel", cancel_run, SteeringJSON, "steer", "steer", body=CancelInput, problems=_PROBLEMS
    ),
    ApiCall("POST", "/runs/{run}/tell", tell_run, ToldJSON, "steer", "steer", body=TellInput, problems=_PROBLEMS),
    ApiCall(
        "POST", "/runs/{run}/edit", edit_run, list[Receipt | Sent], "steer", "steer", body=EditInput, problems=_PROBLEMS
    ),
]
