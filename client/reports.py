"""Runs, questions and outcomes as JSON: what the commands print with `--json`, and the API and assistants return."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NotRequired

from typing_extensions import TypedDict

from holdfast.blueprint.json_values import JSONObject
from holdfast.blueprint.kinds import kind_named
from holdfast.client.obstacles import Obstacle
from holdfast.client.runs import Runs
from holdfast.client.states import Done, Listed, Outcome, RunState, Waiting
from holdfast.client.tree import CLOSED, UnknownRun
from holdfast.client.views import StepView
from holdfast.protocol.address import Address, child_workflow_id
from holdfast.protocol.questions import Question
from holdfast.protocol.runs import Status
from holdfast.runtime.workers import NoWorker


class RunRow(TypedDict):
    """A run in a list, as `runs --json` has it."""

    run: str
    blueprint: str
    status: Status
    waiting_for: list[str]
    stuck: bool
    started: str
    closed: str | None


def run_row(listed: Listed) -> RunRow:
    """Return the row of a run; times are ISO 8601."""
    return {
        "run": listed.run,
        "blueprint": listed.blueprint,
        "status": listed.status,
        "waiting_for": listed.waiting_for,
        "stuck": listed.stuck,
        "started": listed.started.isoformat(),
        "closed": None if listed.closed is None else listed.closed.isoformat(),
    }


class ErrorJSON(TypedDict, total=False):
    """The reason why a run did not complete."""

    type: str
    message: str
    address: str
    reason: str | None
    raised_at: str | None


def error_json(outcome: Outcome) -> ErrorJSON | None:
    """Return why a run did not complete: type, message, address, reason, place in the author's code; None if it did."""
    fields = set(ErrorJSON.__annotations__)
    return None if outcome.error is None else outcome.error.model_dump(mode="json", include=fields)  # type: ignore[return-value]


class OutcomeJSON(TypedDict):
    """An outcome, as `result --json` and `run --json` have it."""

    run: str
    status: Status
    output: Any
    context: dict[str, Any] | None
    error: ErrorJSON | None
    done: NotRequired[list[dict[str, Any]] | None]
    """Of a run that failed or was cancelled: the steps that were completed; None if they are not known."""


def outcome_json(outcome: Outcome, done: Sequence[Done] | None = None) -> OutcomeJSON:
    """Return the outcome of a run; `done` are its completed steps, see `done_before`."""
    fields: OutcomeJSON = {
        "run": outcome.run,
        "status": outcome.status,
        "output": outcome.output,
        "context": outcome.context,
        "error": error_json(outcome),
    }
    if outcome.status in ("failed", "cancelled"):
        fields["done"] = None if done is None else [asdict(step) for step in done]
    return fields


async def done_before(runs: Runs, outcome: Outcome) -> list[Done] | None:
    """Return the finished steps of a run that did not complete; None if it did, or if no worker can be asked."""
    if outcome.status not in ("failed", "cancelled"):
        return None
    try:
        return await runs.watch.completed_steps(outcome.run)
    except (NoWorker, UnknownRun):
        return None


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
    usage: dict[str, Any]
    result: Any
    error: ErrorJSON | None
    trace: dict[str, Any]


@dataclass(frozen=True)
class RunReport:
    """Everything that `show` tells about a run."""

    state: RunState
    outcome: Outcome
    trace: StepView
    obstacles: Sequence[Obstacle] = ()
    """What keeps it from going on though nobody is asked."""

    def to_json(self) -> RunJSON:
        """Return the JSON object of `show --json`."""
        return {
            "run": self.state.run,
            "status": self.state.status,
            "blueprint": self.state.blueprint,
            "context": self.outcome.context,
            "questions": [question_json(question) for question in self.state.questions],
            "events": [question_json(event) for event in self.state.events],
            "children": self.children(),
            "stuck": [obstacle.to_json() for obstacle in self.obstacles],
            "usage": self.state.usage.model_dump(mode="json"),
            "result": self.outcome.output,
            "error": error_json(self.outcome),
            "trace": self.trace.to_json(),
        }

    def children(self) -> list[JSONObject]:
        """Return the child workflows of the run: ended ones from the trace, running ones from their views."""
        ended = {
            child_workflow_id(self.state.run, Address(span.address)): {"status": span.status}
            for span in _children(self.trace)
        }
        running = {view.workflow: {"status": view.status, "iteration": view.iteration} for view in self.state.views[1:]}
        return [{"workflow": workflow, **child} for workflow, child in (ended | running).items()]


def _children(run: StepView) -> Iterator[StepView]:
    """Yield the loops and plans of a run, outer ones first: each runs as a child workflow."""
    for step in run.below():
        if kind_named(step.kind).runs_steps_in_child and step.mark != "skipped":
            yield step


async def report_of(runs: Runs, run: str, last: int | None = 100) -> RunReport:
    """Return the report of a run, with the `last` iterations of each loop; None gives all. Raises as `standing`."""
    state = await runs.state(run)
    outcome = await _outcome_so_far(runs, state)
    return RunReport(state, outcome, await runs.watch.trace(state, last), await runs.watch.find_obstacles(state))


async def _outcome_so_far(runs: Runs, state: RunState) -> Outcome:
    """Return the outcome so far, with the current context if the outcome itself carries none (as of a failed run)."""
    context = await runs.watch.context(state)
    ended = await runs.result(state.run) if state.status in CLOSED else Outcome(state.run, state.status)
    return replace(ended, context=context if ended.context is None else ended.context)


def question_json(question: Question) -> JSONObject:
    """Return an open question, as `questions RUN --json` has it."""
    return question.model_dump(mode="json")


class WaitingRow(TypedDict):
    """An open question in the list of all runs, or a workflow whose questions no worker can tell now."""

    run: str
    owner: str
    waiting_for: NotRequired[list[str]]
    since: NotRequired[str]


def waiting_rows(rows: Sequence[Waiting], lists: Sequence[Sequence[Question] | None]) -> list[JSONObject]:
    """Return the rows of workflows with their questions, from `RunLists.read_questions`, as `questions --json` does."""
    return [entry for row, open_ in zip(rows, lists, strict=True) for entry in _waiting_json(row, open_)]


def _waiting_json(row: Waiting, questions: Sequence[Question] | None) -> list[JSONObject]:
    """Return a row for each question; where no worker can be asked for them, one row tells who waits, and where."""
    waits = {"run": row.run, "owner": row.owner, "waiting_for": row.waiting_for, "since": row.since.isoformat()}
    return [waits] if questions is None else [{**question_json(question), **waits} for question in questions]
