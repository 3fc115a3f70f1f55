"""Values that `Runs` returns: states, outcomes and rows of lists."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, NotRequired

from temporalio.client import WorkflowExecutionStatus
from typing_extensions import TypedDict

from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.client.open_questions import OpenQuestions
from holdfast.client.stopping import LeftWorkflow
from holdfast.client.tree import CLOSED, collect_events, collect_questions, rests
from holdfast.client.undos import add_progress
from holdfast.protocol.address import Address
from holdfast.protocol.questions import Question
from holdfast.protocol.undos import OpenUndo, UndoProgress
from holdfast.protocol.usage import Usage
from holdfast.protocol.views import Status, WorkflowView

if TYPE_CHECKING:
    from holdfast.protocol.children import Failure

STATUSES: dict[WorkflowExecutionStatus, Status] = {
    WorkflowExecutionStatus.COMPLETED: "completed",
    WorkflowExecutionStatus.CANCELED: "cancelled",
    WorkflowExecutionStatus.FAILED: "failed",
    WorkflowExecutionStatus.TERMINATED: "failed",
    WorkflowExecutionStatus.TIMED_OUT: "failed",
}


class ErrorJSON(TypedDict, total=False):
    """The reason why a run did not complete."""

    type: str
    message: str
    address: str
    reason: str | None
    raised_at: str | None


class OutcomeJSON(TypedDict):
    """An outcome, as `result --json` and `run --json` have it."""

    run: str
    status: Status
    output: Any
    context: dict[str, Any] | None
    error: ErrorJSON | None
    done: NotRequired[list[dict[str, Any]] | None]
    """Of a run that failed or was cancelled: the steps that were completed; None if they are not known."""


@dataclass(frozen=True)
class Outcome:
    """The status of a run, with its output once it has completed or its error once it has failed.

    A run that failed because of a plan has an output too: the results of the steps that did complete.
    """

    run: str
    status: Status
    output: JSON = None
    context: JSONObject | None = None
    """The context at the place where the run is now, failed or was cancelled; once it has completed, the final one."""
    error: Failure | None = None

    def error_json(self) -> ErrorJSON | None:
        """Return why it did not complete, with the place in the author's code; None if it did."""
        fields = set(ErrorJSON.__annotations__)
        return None if self.error is None else self.error.model_dump(mode="json", include=fields)  # type: ignore[return-value]

    def to_json(self, done: Sequence[Done] | None = None) -> OutcomeJSON:
        """Return the JSON object of `result --json`; `done` are the completed steps, see `RunWatch.steps_before`."""
        fields: OutcomeJSON = {
            "run": self.run,
            "status": self.status,
            "output": self.output,
            "context": self.context,
            "error": self.error_json(),
        }
        if self.status in ("failed", "cancelled"):
            fields["done"] = None if done is None else [asdict(step) for step in done]
        return fields


@dataclass(frozen=True)
class Done:
    """A step that was completed."""

    address: Address
    name: str
    kind: str
    output: JSON


@dataclass(frozen=True)
class RunState:
    """A snapshot of a run: its status and the views of its workflows."""

    run: str
    status: Status
    blueprint: str
    views: list[WorkflowView]
    past: str | None = None
    """The run that it goes on from; None also where Temporal has forgotten it."""
    cancel_requested: bool = False
    """Whether it was asked to end, and has not ended."""

    @property
    def questions(self) -> list[Question]:
        """Return the open questions of the run, sorted by address."""
        return collect_questions(self.views)

    @property
    def events(self) -> list[Question]:
        """Return the events of other systems that steps of the run wait for, sorted by address."""
        return collect_events(self.views)

    @property
    def timers(self) -> list[tuple[datetime, str]]:
        """Return when the timers that run are over, with the workflows that wait for them, the next first."""
        return sorted((moment, view.workflow) for view in self.views for moment in view.timers)

    @property
    def deadlines(self) -> list[tuple[datetime, str]]:
        """Return when the run, loops and blocks must have ended, with the workflows that keep it, the next first."""
        return sorted((moment, view.workflow) for view in self.views for moment in view.deadlines)

    @property
    def undoing(self) -> UndoProgress | None:
        """Return how far it has come with what it undoes; None if it undoes nothing now."""
        return add_progress(self.views)

    @property
    def open_questions(self) -> OpenQuestions:
        """Return the open questions, for `Runs.answer`."""
        return OpenQuestions(self.run, self.questions, self.status in CLOSED, events=self.events)

    @property
    def is_paused(self) -> bool:
        """Return whether the run, or any of its children, is paused."""
        return any(view.status == "paused" for view in self.views)

    @property
    def usage(self) -> Usage:
        """Return the model usage of the workflows that are under way, added up."""
        return sum((view.usage for view in self.views), Usage())


class RunRow(TypedDict):
    """A run in a list, as `runs --json` has it."""

    run: str
    blueprint: str
    status: Status
    waiting_for: list[str]
    stuck: bool
    started: str
    closed: str | None


@dataclass(frozen=True)
class Listed:
    """A run in a list."""

    run: str
    blueprint: str
    status: Status
    started: datetime
    closed: datetime | None
    waiting_for: list[str] = field(default_factory=list)
    """The assignees of its open questions: people, groups, `anyone`, or `many`."""
    stuck: bool = False
    """Whether the server reports that a workflow task of it, or of a workflow below it, fails again and again."""

    def to_json(self) -> RunRow:
        """Return the row of `runs --json`; times are ISO 8601."""
        return {
            "run": self.run,
            "blueprint": self.blueprint,
            "status": self.status,
            "waiting_for": self.waiting_for,
            "stuck": self.stuck,
            "started": self.started.isoformat(),
            "closed": None if self.closed is None else self.closed.isoformat(),
        }


class SteeringJSON(TypedDict):
    """The effect of a command on one run, as `pause --json` has it."""

    run: str
    status: str
    left: list[dict[str, Any]]
    undone: NotRequired[list[dict[str, Any]]]
    undoing: NotRequired[dict[str, Any]]
    open_undos: NotRequired[list[dict[str, Any]] | None]


@dataclass(frozen=True)
class Steered:
    """The effect of a command on a run: it has reached all of it if `left` is empty."""

    run: str
    status: str
    """That of the run, or `pausing` or `resuming` while something is left."""
    left: list[LeftWorkflow] = field(default_factory=list)
    """Workflows that were not reached in time, or have not ended, each with the reason."""
    undone: list[LeftWorkflow] = field(default_factory=list)
    """Workflows ended while activities were running, with what is known of these: they may have taken effect."""
    undoing: UndoProgress | None = None
    """How far a run that was cancelled and has not ended has come with what it undoes."""
    open_undos: list[OpenUndo] | None = field(default_factory=list)
    """What a run that was terminated had done and not undone, the newest first; None if nobody could tell."""
    answered: list[Question] | None = None
    """For a resume that ended no pause: the questions that only waited for a go-ahead."""

    def to_json(self) -> SteeringJSON:
        """Return the JSON object that the command prints for this run."""
        fields: SteeringJSON = {
            "run": self.run,
            "status": self.status,
            "left": [asdict(workflow) for workflow in self.left],
        }
        if self.undone:
            fields["undone"] = [asdict(workflow) for workflow in self.undone]
        if self.undoing is not None:
            fields["undoing"] = self.undoing.model_dump()
        if self.open_undos is None or self.open_undos:
            fields["open_undos"] = None if self.open_undos is None else [undo.model_dump() for undo in self.open_undos]
        return fields


class WaitingRow(TypedDict):
    """An open question in the list of all runs, or a workflow whose questions no worker can tell now."""

    run: str
    owner: str
    waiting_for: NotRequired[list[str]]
    since: NotRequired[str]


@dataclass(frozen=True)
class Waiting:
    """A workflow with open questions: as its search attributes show it, or confirmed by the workflow."""

    run: str
    owner: str
    waiting_for: list[str]
    """Assignees: people, groups, `anyone`, or `many`."""
    since: datetime
    """The time at which the oldest of the questions was asked."""
    questions: list[str] = field(default_factory=list)
    """Their ids, or `many` where there are more than 20."""
    deadline: datetime | None = None
    """The nearest of their deadlines."""
    blueprint: str = ""
    task_queue: str | None = None
    """The one that its worker polls."""
    open: list[Question] | None = None
    """The questions, of a list those that it is for; None where no worker can be asked for them."""

    def to_json(self) -> list[JSONObject]:
        """Return the rows of `questions --json`, one for each open question; one that tells who waits if not known."""
        waits = {"run": self.run, "owner": self.owner, "waiting_for": self.waiting_for, "since": self.since.isoformat()}
        if self.open is None:
            return [waits]
        return [{**question.model_dump(mode="json"), **waits} for question in self.open]


def as_ended(view: WorkflowView, status: Status) -> WorkflowView:
    """Return the view of a workflow whose run has ended: one that was terminated could not note its end."""
    return view if view.status in CLOSED else view.model_copy(update={"status": status})


def read_status(views: Sequence[WorkflowView]) -> Status:
    """Return the status of a run that has not ended."""
    if views[0].status == "paused":
        return "paused"
    if rests(views):
        if collect_questions(views):
            return "waiting"
        if any(view.status == "paused" for view in views):  # a child alone, by Temporal's own tools
            return "paused"
    return "running"
