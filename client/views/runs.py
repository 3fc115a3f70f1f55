"""A run with everything that is known of it, as `show` and the API have it. `RunWatch.view` gives it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from typing_extensions import TypedDict

from holdfast.blueprint.json_values import JSONObject
from holdfast.blueprint.step_traits import find_traits
from holdfast.client.obstacles import Obstacle
from holdfast.client.states import ErrorJSON, Outcome, RunState
from holdfast.client.views.steps import StepView
from holdfast.protocol.address import Address, child_workflow_id
from holdfast.protocol.views import Status
from holdfast.runtime.workers import NoWorker


class RunJSON(TypedDict):
    """A run with everything that is known of it, as `show --json` has it."""

    run: str
    status: Status
    blueprint: str
    context: dict[str, Any] | None
    questions: list[dict[str, Any]]
    events: list[dict[str, Any]]
    """The events of other systems that it waits for."""
    children: list[dict[str, Any]]
    stuck: list[dict[str, Any]]
    """What keeps it from going on though nobody is asked: calls that lose their workers."""
    cancel_requested: bool
    """Whether it was asked to end, and has not ended."""
    undoing: dict[str, Any] | None
    """The `number` of the undo under way and how many there are in `total`; null if it undoes nothing now."""
    usage: dict[str, Any]
    result: Any
    error: ErrorJSON | None
    trace: dict[str, Any]
    past: str | None
    """The run that it goes on from."""
    retried_as: str | None
    silence: str | None
    """Why the steps of a run that has ended are not known; null where they are."""


@dataclass(frozen=True)
class RunView:
    """A run: where it stands, what came of it so far, its steps."""

    state: RunState
    outcome: Outcome
    trace: StepView
    obstacles: Sequence[Obstacle] = ()
    """What keeps it from going on though nobody is asked."""
    retried_as: str | None = None
    silence: NoWorker | None = None
    """Why the steps of a run that has ended are not known; None where they are."""

    def to_json(self) -> RunJSON:
        """Return the JSON object of `show --json`."""
        return {
            "run": self.state.run,
            "status": self.state.status,
            "blueprint": self.state.blueprint,
            "context": self.outcome.context,
            "questions": [question.model_dump(mode="json") for question in self.state.questions],
            "events": [event.model_dump(mode="json") for event in self.state.events],
            "children": self.list_children(),
            "stuck": [obstacle.to_json() for obstacle in self.obstacles],
            "cancel_requested": self.state.cancel_requested,
            "undoing": None if self.state.undoing is None else self.state.undoing.model_dump(),
            "usage": self.state.usage.model_dump(mode="json"),
            "result": self.outcome.output,
            "error": self.outcome.error_json(),
            "trace": self.trace.to_json(),
            "past": self.state.past,
            "retried_as": self.retried_as,
            "silence": None if self.silence is None else str(self.silence),
        }

    def list_children(self) -> list[JSONObject]:
        """Return the child workflows of the run: ended ones from its steps, running ones from their views."""
        ended = {
            step.workflow or child_workflow_id(self.state.run, Address(step.address)): {"status": step.status}
            for step in self.trace.below()
            if find_traits(step.kind).runs_steps_in_child and step.mark != "skipped"
        }
        running = {view.workflow: {"status": view.status, "iteration": view.iteration} for view in self.state.views[1:]}
        return [{"workflow": workflow, **child} for workflow, child in (ended | running).items()]
