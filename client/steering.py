"""Pause, resume, cancel, tell and edit a run, with the result that commands print and the API returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NotRequired

from typing_extensions import TypedDict

from holdfast.blueprint.json_values import JSON
from holdfast.client.answering import Sent
from holdfast.client.event_texts import place
from holdfast.client.runs import Runs
from holdfast.client.states import STATUSES, Stopped
from holdfast.client.stopping import Left
from holdfast.protocol.answers import Receipt, Refusal
from holdfast.protocol.runs import PIPELINE_WORKFLOW


class SteeringJSON(TypedDict):
    """The effect of a command on one run, as `pause --json` has it."""

    run: str
    status: str
    left: list[dict[str, Any]]
    undone: NotRequired[list[dict[str, Any]]]


@dataclass(frozen=True)
class SteeringResult:
    """The effect of a command on one run."""

    run: str
    status: str
    text: str
    remaining: list[Left]
    """Workflows that were not reached, or have not ended."""
    undone: list[Left] = field(default_factory=list)
    """Workflows that were ended at work, with what is known of their activities: they may have taken effect."""

    def to_json(self) -> SteeringJSON:
        """Return the JSON object that the command prints for this run."""
        fields: SteeringJSON = {
            "run": self.run,
            "status": self.status,
            "left": [asdict(workflow) for workflow in self.remaining],
        }
        if self.undone:
            fields["undone"] = [asdict(workflow) for workflow in self.undone]
        return fields


async def check_open(runs: Runs, run: str) -> None:
    """Raise `Refusal` if a run has ended, and `UnknownRun` if there is none."""
    status = (await runs.tree.describe(run)).status
    if status in STATUSES:
        raise Refusal("run_closed", f"run {run} is {STATUSES[status]}; it has ended")


async def pause(runs: Runs, run: str, by: str) -> SteeringResult:
    """Pause a run. Raises as `RunControl.pause`, and `Refusal` if it has ended."""
    await check_open(runs, run)
    remaining = await runs.control.pause(run, by)
    if remaining:
        return SteeringResult(run, "pausing", f"run {run} was asked to pause; not reached:", remaining)
    text = f"run {run} is paused; resume it with: holdfast resume {run}"
    if (type_ := (await runs.find(run)).workflow_type) != PIPELINE_WORKFLOW:
        text += f". Its questions and blueprints are paused; everything else in {type_} continues"
    return SteeringResult(run, "paused", text, [])


async def unpause(runs: Runs, run: str, by: str) -> SteeringResult:
    """End the pause of a run and answer no question. Raises as `RunControl.unpause`, and `Refusal` if it has ended."""
    await check_open(runs, run)
    remaining = await runs.control.unpause(run, by)
    if remaining:
        return SteeringResult(run, "resuming", f"run {run} was asked to go on; not reached:", remaining)
    return SteeringResult(run, "running", f"run {run} goes on", [])


async def resume(runs: Runs, run: str, by: str) -> SteeringResult:
    """End the pause of a run, or answer what only waits for a go-ahead. Raises as `RunControl.resume`."""
    await check_open(runs, run)
    if await runs.control.is_paused(run):
        result = await unpause(runs, run, by)
        return result if result.remaining else replace(result, status=(await runs.state(run)).status)
    held = await runs.control.answer_pauses(run, by)
    status = (await runs.state(run)).status
    places = ", ".join(place(question.address) for question in held)
    return SteeringResult(run, status, f"goes on: {places}" if held else f"run {run} was not held; it is {status}", [])


def cancelled(stopped: Stopped, *, force: bool) -> SteeringResult:
    """Return the result of a cancel for people and programs."""
    run, text = stopped.run, f"run {stopped.run} is {stopped.status}"
    if stopped.left:
        hint = "" if force else f" (holdfast cancel {run} --force terminates it)"
        text = f"run {run} was asked to end; these have not ended{hint}:"
    elif force and stopped.undone:
        text = f"run {run} was terminated; these may not be finished:"
    elif force:
        text = f"run {run} was terminated; no activity was running"
    elif stopped.undone:
        text += "; these were at work:"
    return SteeringResult(run, stopped.status, text, stopped.left, stopped.undone)


async def tell(runs: Runs, run: str, text: str, agent: str | None, by: str) -> str:
    """Send a message to an agent, return its address. Raises as `RunControl.tell`, and `Refusal` for an ended run."""
    await check_open(runs, run)
    return await runs.control.tell(run, text, agent=agent, by=by)


async def edit(
    runs: Runs, run: str, changes: Mapping[str, JSON], by: str, *, digest: str | None = None
) -> list[Receipt | Sent]:
    """Change the context at a stop and go on. Raises as `RunControl.edit`, and `Refusal` for an ended run."""
    await check_open(runs, run)
    return await runs.control.edit(run, changes, by, digest=digest)
