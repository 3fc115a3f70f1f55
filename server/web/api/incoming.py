"""The call by which other systems send events."""

from __future__ import annotations

from pydantic import Field

from holdfast.blueprint.json_values import JSON
from holdfast.protocol.answers import Refusal
from holdfast.protocol.incoming import LONGEST_KEY, EventReceipt, read_event
from holdfast.protocol.runs import LONGEST_RUN_ID
from holdfast.server.web.api.bodies import WebInput
from holdfast.server.web.api.calls import ApiCall, Exchange


class EventInput(WebInput):
    """An event of another system."""

    name: str = Field(min_length=1, max_length=100, description="As steps wait `for` it.")
    key: str = Field(min_length=1, max_length=LONGEST_KEY, description="What tells it from others of its name.")
    payload: JSON = None
    id: str = Field(min_length=1, max_length=150, description="The same each time that the event is sent.")
    run: str | None = Field(
        None, min_length=1, max_length=LONGEST_RUN_ID, description="The run, which keeps an event that comes early."
    )


async def send_event(exchange: Exchange) -> list[EventReceipt]:
    """Send an event to the run that is named, or to all that wait for it. A token of a service will do."""
    body: EventInput = exchange.body
    if not exchange.identity.is_service:  # a program sends what it is told of; people act on what they see
        await _check_seen(exchange, body.run)
    if body.run is not None:
        return [await exchange.runs.send_event(body.run, body.name, body.key, body.payload, id=body.id)]
    return await exchange.site.delivery.deliver(exchange.runs, read_event(body.model_dump(exclude={"run"})))


async def _check_seen(exchange: Exchange, run: str | None) -> None:
    if run is not None:
        await exchange.runs.require("answer", run)
    elif exchange.site.access_rules.enforced:
        raise Refusal("not_allowed", "an event to all that wait for it comes from a service: name the run")


INCOMING_CALLS = [
    ApiCall(
        "POST",
        "/events",
        send_event,
        list[EventReceipt],
        scope="answer",
        body=EventInput,
        problems=(404, 409, 410, 422, 503),
    ),
]
