"""Find a plan of a run, report the status of its steps, and change it. `RunPlans` uses it.

A report combines two sources: the view of the workflow that holds the plan, and the trace of the run, which knows
about open questions, the items of loops, and how a run was ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from holdfast.blueprint.errors import BlueprintError
from holdfast.blueprint.expressions import text_of
from holdfast.blueprint.json_values import JSON
from holdfast.blueprint.kinds import Agent, PlanBody
from holdfast.blueprint.load.plans import read_plan
from holdfast.blueprint.plan import Layout, LoopUnit, StepUnit, Unit, compile_plan, question_text
from holdfast.client.answering import Answering
from holdfast.client.trace import Repetition, Span, SpanError
from holdfast.client.tree import CLOSED, Tree, UnknownRun
from holdfast.protocol.address import name_at
from holdfast.protocol.answers import Refusal
from holdfast.protocol.events import ChildStarted, Event, LoopStarted, PlanStarted
from holdfast.protocol.plans import OVER, PLAN, PlanView, UnitResult
from holdfast.protocol.questions import Question
from holdfast.runtime.errors import Ambiguous, BadInput

PENDING = "pending"
NOT_BEGUN = UnitResult(status="pending")
SHOWN = 20
"""The most addresses in a message."""


@dataclass(frozen=True)
class UnitReport:
    """The status of a step or a loop, with its result, or why it has none."""

    status: str = PENDING
    result: object = None
    """For a step."""
    error: SpanError | None = None
    reason: str | None = None
    items: Sequence[ItemReport] | None = None
    """For a loop: the items that have started; None for a step."""
    viewed: UnitResult | None = None
    """The step in the view of its workflow; None for a step in an item of a loop, which only the trace knows."""

    @classmethod
    def of_view(cls, step: UnitResult) -> UnitReport:
        """Return the report of a step in a view."""
        result = step.response if step.data is None else step.data
        return cls(step.status, result, _error_of(step), step.reason, viewed=step)

    @classmethod
    def of_span(cls, span: Span) -> UnitReport:
        """Return the report of a step in a trace."""
        return cls(span.status, span.output, span.error, span.reason)

    def to_json(self) -> dict[str, object]:
        """Return the step or loop as `plan --json` prints it.

        >>> UnitReport().to_json(), UnitReport(items=()).to_json()
        ({'status': 'pending'}, {'status': 'pending', 'iteration_results': []})
        """
        if self.viewed is not None:
            return {**self.viewed.to_output(), "status": self.status}
        error = {} if self.error is None else {"error": self.error._asdict()}
        reason = {} if self.reason is None else {"reason": self.reason}
        own = {"status": self.status, **error, **reason}
        if self.items is not None:
            return {**own, "iteration_results": [item.to_json() for item in self.items]}
        return {**own, **({} if self.result is None else {"output": self.result})}


@dataclass(frozen=True)
class ItemReport:
    """The status of an item of a loop, with those of its steps and inner loops by id."""

    index: int
    item: object
    status: str
    units: Mapping[str, UnitReport]

    def to_json(self) -> dict[str, object]:
        """Return the item as `plan --json` prints it."""
        own = {"index": self.index, "item": self.item, "status": self.status}
        steps = {id_: report for id_, report in self.units.items() if report.items is None}
        loops = {id_: report for id_, report in self.units.items() if report.items is not None}
        return {**own, "steps": _json_of(steps), **({"loops": _json_of(loops)} if loops else {})}


@dataclass(frozen=True)
class Planned:
    """A plan of a run: the view of the workflow that holds it, and its part of the run's trace."""

    run: str
    address: str
    view: PlanView
    span: Span
    """The plan's span in the trace of the run."""
    asked: Sequence[str]
    """The addresses of the run's open questions."""

    @property
    def layout(self) -> Layout:
        """Return the steps and loops in their order."""
        return compile_plan(PlanBody.model_validate(self.view.plan))[0]

    @property
    def status(self) -> str:
        """Return the outcome of the plan, or `running` or `waiting` (not started)."""
        own = self.span.status if self.span.status in CLOSED else self.view.status
        return self.span.outcome or own

    @property
    def is_over(self) -> bool:
        """Return whether the plan has ended."""
        return self.status not in ("running", "waiting")

    def steps(self) -> dict[str, UnitReport]:
        """Return the report of every step by its id; a step in a loop has one report for all items."""
        layout, spans = self.layout, by_name(self.span.steps)
        reports: dict[str, UnitReport] = {}
        for unit in layout.steps():
            report = UnitReport.of_view(self.view.steps.get(unit.id, NOT_BEGUN))
            loops = layout.loops_of(unit.id)
            loop = spans.get(loops[0]) if loops else None
            if loop is not None and report.status == PENDING and loop.status == "running":
                report = replace(report, status="running")
            reports[unit.id] = self._with_trace(report, spans.get(unit.id))
        return reports

    def _with_trace(self, report: UnitReport, span: Span | None) -> UnitReport:
        """Add what only the trace knows: that the step waits for a person, or that the run was ended."""
        if span is not None and self.is_over and report.status not in OVER:
            return replace(report, status=span.status)
        return self._waiting(report, span)

    def loops(self) -> dict[str, UnitReport]:
        """Return the report of every outermost loop by its id, with the items that have started."""
        spans = by_name(self.span.steps)
        reports: dict[str, UnitReport] = {}
        for unit in self.layout.units:
            if isinstance(unit, LoopUnit):
                viewed, traced = self.view.loops.get(unit.id, NOT_BEGUN), self._loop(unit, spans.get(unit.id))
                status = traced.status if unit.id in spans else viewed.status
                error, reason = traced.error or _error_of(viewed), traced.reason or viewed.reason
                reports[unit.id] = replace(traced, status=status, error=error, reason=reason)
        return reports

    def _loop(self, unit: LoopUnit, span: Span | None) -> UnitReport:
        if span is None:
            return UnitReport(items=())
        items = {iteration.n: self._item(unit, iteration) for iteration in span.iterations}
        status = span.status
        if status == "completed" and span.output in OVER:  # the output of a loop is its status
            status = str(span.output)
        return UnitReport(status, error=span.error, reason=span.reason, items=list(items.values()))

    def _item(self, unit: LoopUnit, iteration: Repetition) -> ItemReport:
        spans = by_name(iteration.steps)
        reports = {part.id: self._part(part, spans.get(part.id)) for part in unit.body}
        status = _item_status(unit, reports)
        if status == "running" and self.status in ("failed", "cancelled"):
            status = self.status
        return ItemReport(iteration.n - 1, iteration.item, status, reports)

    def _part(self, unit: Unit, span: Span | None) -> UnitReport:
        """Return the report of a step or a loop in an item, of which only the trace knows."""
        if isinstance(unit, LoopUnit):
            return self._loop(unit, span)
        return UnitReport() if span is None else self._waiting(UnitReport.of_span(span), span)

    def _waiting(self, report: UnitReport, span: Span | None) -> UnitReport:
        """Return the report as that of a waiting step if there is an open question at its address or below."""
        address = "" if span is None else span.address
        waits = address and any(asker == address or asker.startswith(f"{address};") for asker in self.asked)
        return replace(report, status="waiting_input") if waits else report

    @property
    def note(self) -> str | None:
        """Return the remark that the plan completed and did nothing, if so."""
        return self.view.note if self.status in ("completed", "completed_with_errors") else None

    def to_json(self) -> dict[str, object]:
        """Return the plan as `plan --json` prints it."""
        view = self.view.model_dump(mode="json", include={"workflow", "revision", "goal", "driver", "plan"})
        own = {"status": self.status, "steps": _json_of(self.steps()), "loops": _json_of(self.loops())}
        revisions = [revision.model_dump(mode="json") for revision in self.view.revisions]
        note = {} if self.note is None else {"note": self.note}
        return {"run": self.run, "address": self.address, **view, **own, "revisions": revisions, **note}


def by_name(spans: Iterable[Span]) -> dict[str, Span]:
    """Return the spans of steps and loops by their ids, without those of tool calls beside them."""
    return {span.name: span for span in spans if span.kind != "tool"}


def _json_of(reports: Mapping[str, UnitReport]) -> dict[str, dict[str, object]]:
    return {id_: report.to_json() for id_, report in reports.items()}


def _error_of(viewed: UnitResult) -> SpanError | None:
    return None if viewed.error is None else SpanError(viewed.error["type"], viewed.error["message"])


def _item_status(unit: LoopUnit, reports: Mapping[str, UnitReport]) -> str:
    optional = {part.id for part in unit.body if isinstance(part, StepUnit) and part.step.optional}
    statuses = {id_: report.status for id_, report in reports.items()}
    if "cancelled" in statuses.values():
        return "cancelled"
    if any(status not in OVER for status in statuses.values()):
        return "running"
    has_failed = any(status == "failed" and id_ not in optional for id_, status in statuses.items())
    return "failed" if has_failed else "completed"


def described(unit: Unit) -> str:
    """Return a short description of a step or a loop."""
    if isinstance(unit, StepUnit):
        return unit.step.title or question_text(unit.step.instruction) or ", ".join(unit.step.tools)
    return f"for each of {text_of(unit.block.over)}" if isinstance(unit, LoopUnit) else ""


# Finding


async def planned(
    tree: Tree, run: str, trace: Span, events: Sequence[Event], questions: Sequence[Question], wanted: str | None
) -> Planned:
    """Return a plan of a run.

    Args:
        tree: The run's workflows.
        run: The run's id.
        trace: The trace of the run.
        events: The events of the run and its children.
        questions: The open questions of the run.
        wanted: The address of the plan, or the name of its step; None for the only one.

    Raises:
        BadInput: There is no such plan.
        Ambiguous: There are several.
    """
    plans, loops = _started(events, PlanStarted), _started(events, LoopStarted)
    spans = {span.address: span for span in (trace, *trace.below())}
    address = _chosen(run, [plan for plan in plans if plan in spans], wanted)
    below = [workflow for loop, workflow in loops.items() if loop.startswith(f"{address};")]
    view = await _view(tree, plans[address], below)
    return Planned(run, address, view, spans[address], [question.address for question in questions])


def _started(events: Sequence[Event], kind: type[ChildStarted]) -> dict[str, str]:
    """Return the workflows by address; where one was started again, the last."""
    return {event.address: event.data.workflow for event in events if isinstance(event.data, kind)}


def _chosen(run: str, plans: Sequence[str], wanted: str | None) -> str:
    matches = [address for address in plans if wanted in (None, address, name_at(address))]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise Ambiguous(f"run {run} has several such plans; name one with --plan: {_listed(matches)}")
    if plans:
        raise BadInput(f"run {run} has no plan {wanted!r}; it has {_listed(plans)}")
    raise BadInput(f"run {run} has no plan, or its plan has not started yet; see: holdfast show {run}")


def _listed(addresses: Sequence[str]) -> str:
    """Join the addresses, of many the last 20."""
    kept = addresses[-SHOWN:]
    return ("… " if len(kept) < len(addresses) else "") + ", ".join(kept)


async def _view(tree: Tree, workflow: str, loops: Sequence[str]) -> PlanView:
    """Return the view of the workflow that holds the plan, or held it last: the plan's own or an agent's loop."""
    own = await tree.query(workflow, PLAN, None, PlanView)
    if own.holds or own.status == "completed":
        return own
    for loop in reversed(loops):
        try:
            view = await tree.query(loop, PLAN, None, PlanView)
        except UnknownRun:  # its retention has ended
            continue
        if view.holds or (own.status in CLOSED and view.status == own.status):  # it ended with the loop
            return view
    return own


# Changing


def check_change(plan: object) -> None:
    """Raise `Refusal` for a plan that no run would accept, with every problem.

    The run checks the rest: who drives the plan, whether it knows the agents and what tools they have.
    """
    content = {key: value for key, value in plan.items() if key != "driver"} if isinstance(plan, dict) else plan
    try:
        read_plan(content, PlanBody(), _agents(plan), tools=False)
    except BlueprintError as error:
        problems = "\n".join(map(str, error.problems))
        raise Refusal("invalid_answer", f"the plan was not changed:\n{problems}") from None


async def send_change(tree: Tree, answering: Answering, plan: Planned, change: Mapping[str, JSON]) -> int:
    """Send a change to the workflow that holds the plan; return the number of the new revision. Raises `Refusal`."""
    if plan.is_over:
        raise Refusal("run_closed", f"the plan has ended ({plan.status}); it can no longer be changed")
    try:
        return await answering.steer(tree, plan.run, plan.view.workflow, PLAN, change, int)
    except UnknownRun:
        raise Refusal("run_closed", "the plan has ended; it can no longer be changed") from None


def _agents(plan: object) -> dict[str, Agent]:
    """Return stand-ins for the agents that a plan names, so that they count as known: only the run knows its agents."""
    steps = plan.get("steps") if isinstance(plan, dict) else None
    holders = [plan, *(steps if isinstance(steps, list) else [])]
    agents = [holder.get("agent") for holder in holders if isinstance(holder, dict)]
    return {agent: Agent(model="echo") for agent in agents if isinstance(agent, str) and agent}
