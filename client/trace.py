"""Make the steps of a run of its events, as `client.views` has them. `RunWatch` and the lines of a terminal use it.

`Trace` takes the events one by one and builds a tree of spans; `view_run` and `view` make views of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal

from holdfast.blueprint.step_traits import find_traits
from holdfast.client.states import RunState
from holdfast.client.tree import CLOSED
from holdfast.client.views import GroupView, ItemCount, Mark, Spending, StepAnswer, StepError, StepView
from holdfast.client.views.steps import STRONGEST
from holdfast.protocol.address import parts, root
from holdfast.protocol.events import (
    AgentShortened,
    AgentTold,
    BranchStarted,
    BranchSuperseded,
    DeadlinePassed,
    Event,
    EventData,
    ItemCompleted,
    ItemStarted,
    LoopCompleted,
    LoopIteration,
    LoopStarted,
    ModelReplied,
    ModelUsed,
    PlanCompleted,
    PlanRevised,
    PlanStarted,
    QuestionAsked,
    QuestionCancelled,
    QuestionReplied,
    QuestionVerified,
    StepCompleted,
    StepEvent,
    StepFailed,
    StepSkipped,
    StepStarted,
    StepUndone,
    TimerStarted,
    ToolCalled,
    ToolDenied,
    ToolFailed,
    ToolReturned,
)
from holdfast.protocol.questions import Question
from holdfast.protocol.tool_errors import OUTCOME_UNKNOWN


@dataclass
class Repetition:
    """An iteration of a loop, or an item of a map."""

    n: int
    steps: list[Span]
    item: object = None
    """For a loop of a plan."""
    started: datetime | None = None
    ended: datetime | None = None
    """For an item of a map."""
    error: StepError | None = None
    """For an item of a map that failed and did not end the map."""
    label: str | None = None
    """For an item of a map: what people read of it."""


@dataclass
class Span:
    """A run, a step or a tool call, with what ran in it."""

    name: str
    kind: str
    address: str
    status: str
    output: object = None
    error: StepError | None = None
    title: str | None = None
    """For a step of a plan."""
    reason: str | None = None
    """Why it was skipped or denied."""
    outcome: str | None = None
    """For a plan: how it completed."""
    branch: str | None = None
    """For a conditional: the branch that it took."""
    verified: bool | None = None
    """For a question whose answer an agent has checked: whether it passed."""
    exit: LoopCompleted | None = None
    workflow: str | None = None
    """For a loop or a plan: its workflow."""
    replies: dict[str, int] = field(default_factory=dict)
    """Number of model replies that were not finished, by the way they ended."""
    turns_left_out: int = 0
    """Turns of its conversation that its model is not sent any more."""
    revisions: list[PlanRevised] = field(default_factory=list)
    earlier_plans: list[list[Span]] = field(default_factory=list)
    """For a plan that was made again: the steps of those that failed."""
    steps: list[Span] = field(default_factory=list)
    iterations: list[Repetition] = field(default_factory=list)
    items: list[Repetition] = field(default_factory=list)
    branches: dict[str, list[Span]] = field(default_factory=dict)
    until: datetime | None = None
    """For a timer: when it is over."""
    total: int | None = None
    """For a map: the number of its items."""
    iterations_left_out: int = 0
    items_left_out: int = 0
    items_done: int = 0
    started: datetime | None = None
    ended: datetime | None = None
    spent: Spending = Spending()
    """What models took for the step itself, or for the agent that works in it."""
    turn: int | None = None
    """For a tool call: the turn of the agent that made it, from 1."""
    messages: list[AgentTold] = field(default_factory=list)
    """Messages of people to the agent."""
    answers: list[StepAnswer] = field(default_factory=list)
    is_lost: bool = False
    """Whether it stands in a branch that has lost a race."""

    def children(self) -> list[Span]:
        """Return the spans inside: steps, and those of earlier plans, iterations, items and branches."""
        repeated = [step for repetition in (*self.iterations, *self.items) for step in repetition.steps]
        earlier = [step for steps in self.earlier_plans for step in steps]
        return [*earlier, *self.steps, *repeated, *(step for steps in self.branches.values() for step in steps)]

    def below(self) -> Iterator[Span]:
        """Yield every span below this one, outer ones first."""
        for child in self.children():
            yield child
            yield from child.below()


class Trace:
    """A trace under construction: `take` the events in order; `root` is the tree so far."""

    def __init__(self, name: str, address: str, status: str) -> None:
        self.root = Span(name, "pipeline", address, status)
        self._spans: dict[str, Span] = {address: self.root}
        self._lists: dict[str, list[Span]] = {address: self.root.steps}
        self._repetitions: dict[str, Repetition] = {}

    def take(self, event: Event) -> None:
        """Add one event to the tree."""
        address, span = event.address, self._spans.get(event.address)
        match event.data:
            case StepStarted() as step:
                self._open(address, step, "running")
            case StepSkipped() as step:
                self._skip(address, step)
            case StepFailed() as step:
                self._fail(address, step)
            case ToolCalled() | ToolReturned() | ToolDenied() | ToolFailed() as call:
                self._take_call(address, call)
            case LoopIteration(iteration=number, item=item):
                self._repeat(address, "iterations", Repetition(number, [], item, event.time))
            case ItemStarted(index=index, total=total, label=label):
                self._repeat(address, "items", Repetition(index, [], started=event.time, label=label))
                if (items := self._spans.get(address.rpartition(":")[0])) is not None:
                    items.total = total
            case ItemCompleted() as completed:
                self._end_item(event, completed)
            case BranchStarted(branch=branch):
                self._branch(address, branch)
            case PlanStarted() if span is not None and span.workflow is not None:
                self._begin_again(span)
                _change(span, event.data)
            case BranchSuperseded():
                self._supersede(self._lists.get(address, []))
            case DeadlinePassed() if span is not None:
                self._supersede(span.children())
            case StepUndone(error=None) if span is not None:
                span.status = "undone"
            case data if span is not None:
                _change(span, data)
        self._stamp(event)

    def _stamp(self, event: Event) -> None:
        """Record when a step or call began and ended, what its agent consumed, and what people answered and said."""
        span = self._spans.get(event.address)
        if span is None:
            return
        match event.data:
            case StepStarted() | ToolCalled():
                span.started = span.started or event.time
            case StepCompleted() | StepFailed() | StepSkipped() | ToolReturned() | ToolDenied() | ToolFailed():
                span.ended = event.time
            case ModelReplied() as reply:
                span.spent = span.spent + Spending(1, reply.tokens, reply.cost_usd)
            case ModelUsed() as used:
                span.spent = span.spent + Spending(used.requests, used.tokens, used.cost_usd)
            case AgentTold() as message:
                span.messages.append(message)
            case QuestionReplied() as reply:
                span.answers.append(StepAnswer(event.time, reply))

    def _end_item(self, event: Event, completed: ItemCompleted) -> None:
        item = self._repetitions.get(event.address)
        map_ = self._spans.get(event.address.rpartition(":")[0])
        if map_ is not None:
            map_.items_done += 1
        if item is not None:
            item.ended = event.time
            if completed.error is not None:
                item.error = StepError(completed.error, completed.message or "")

    def _open(self, address: str, step: StepEvent, status: str) -> Span:
        """Add the span of a step, below the step, iteration or branch that contains it."""
        return self._add(Span(step.name, step.kind, address, status, title=step.title))

    def _add(self, span: Span) -> Span:
        self._list_at(self._nearest(span.address)).append(span)
        self._spans[span.address] = span
        return span

    def _skip(self, address: str, step: StepSkipped) -> None:
        """Record a skipped step; it has a span already if a question of its plan was asked before."""
        span = self._spans.get(address)
        if span is None or span.status != "running":
            span = self._open(address, step, "skipped")
        span.status, span.reason = "skipped", step.reason

    def _fail(self, address: str, step: StepFailed) -> None:
        # A step may fail before it has started.
        span = self._spans.get(address) or self._open(address, step, "failed")
        span.status, span.error = "failed", StepError(step.error, step.message, step.traceback, step.raised_at)

    def _take_call(self, address: str, call: ToolCalled | ToolReturned | ToolDenied | ToolFailed) -> None:
        """Add a tool call or its end, if it has an address of its own; what runs inside it goes below it."""
        kind, name, _ = parts(address)[-1]
        span = self._spans.get(address)
        if span is not None and isinstance(call, ToolFailed) and call.error == OUTCOME_UNKNOWN:
            span.error = StepError(call.error, call.message)  # it was cut off, and its step has no other end
        if kind != "tool" or (span is None and isinstance(call, ToolReturned)):
            return
        if span is None:
            span = self._add(Span(name, "tool", address, "running"))
            caller = self._spans.get(self._nearest(address))
            span.turn = (caller.spent.requests or None) if caller else None
        match call:
            case ToolReturned(result=result):
                span.status, span.output = "completed", result
            case ToolDenied(reason=reason):
                span.status, span.reason = "denied", reason
            case ToolFailed(error=error, message=message, traceback=traceback):
                span.status, span.error = "failed", StepError(error, message, traceback)

    def _repeat(self, address: str, kind: Literal["iterations", "items"], repetition: Repetition) -> None:
        self._lists[address], self._repetitions[address] = repetition.steps, repetition
        if (span := self._spans.get(address.rpartition(":")[0])) is not None:
            (span.iterations if kind == "iterations" else span.items).append(repetition)

    def _branch(self, address: str, branch: str) -> None:
        step = self._spans.get(address.rpartition(";")[0])
        if step is None:
            return
        if find_traits(step.kind).runs_branches_at_once:
            self._lists[address] = step.branches.setdefault(branch, [])
        else:
            step.branch, self._lists[address] = branch, step.steps

    def _begin_again(self, span: Span) -> None:
        """Put the steps of a plan aside that another one follows, whose steps stand at the same addresses."""
        for step in span.below():
            if step.status == "running":
                step.status = "cancelled"
        inside = f"{span.address};"
        for known in (self._spans, self._lists, self._repetitions):
            for address in [address for address in known if address.startswith(inside)]:
                del known[address]
        span.earlier_plans.append(list(span.steps))
        span.steps.clear()
        span.revisions.clear()
        span.status, span.outcome = "running", None

    def _supersede(self, steps: Sequence[Span]) -> None:
        """Record that what was under way in these steps was given up."""
        for step in steps:
            for span in (step, *step.below()):
                span.is_lost = True
                if span.status == "running":
                    span.status = "superseded"

    def _nearest(self, address: str) -> str:
        """Return the address of the nearest step, call or list above an address."""
        above = address.rpartition(";")[0]
        while above and above not in self._spans and above not in self._lists:
            above = above.rpartition(";")[0]
        return above

    def _list_at(self, address: str) -> list[Span]:
        if address not in self._lists:
            self._lists[address] = self._spans.get(address, self.root).steps
        return self._lists[address]


def _change(span: Span, data: EventData) -> None:
    """Record in a span what happened at its address."""
    match data:
        case StepCompleted(output=output):
            span.status, span.output = "completed", output
        case LoopStarted(workflow=workflow) | PlanStarted(workflow=workflow):
            span.workflow = workflow
        case LoopCompleted():
            span.exit = data
        case ModelReplied(finish=finish) if finish != "finished":
            span.replies[finish] = span.replies.get(finish, 0) + 1
        case AgentShortened(turns=turns):
            span.turns_left_out += turns
        case QuestionCancelled() if span.status == "running":
            span.status = "cancelled"  # its step has no other end while what was done before is undone
        case QuestionAsked() if span.status == "cancelled":
            span.status = "running"
        case QuestionVerified(verified=verified, given_back=False):
            span.verified = verified
        case TimerStarted(until=until):
            span.until = until
        case PlanCompleted(status=outcome):
            span.outcome = outcome
        case PlanRevised():
            span.revisions.append(data)


def build_trace(events: Sequence[Event], *, name: str, address: str, status: str, last: int | None = None) -> Span:
    """Return the tree that events make.

    Args:
        events: The events of a run and its children, in order.
        name: The name of the root span.
        address: The address of the root span.
        status: The status of the run; if it has ended, open spans count as cancelled.
        last: How many iterations of each loop are kept, the last ones; None keeps all.
    """
    trace = Trace(name, address, status)
    for event in events:
        trace.take(event)
    spans = [trace.root, *trace.root.below()]
    for span in spans:
        if status in CLOSED and span.status == "running":
            span.status = "cancelled"
        if last is not None:
            _cut(span, last)
    return trace.root


def _cut(span: Span, last: int) -> None:
    """Leave out all but the last iterations and items; of a map that runs in pages, not even all are read."""
    span.iterations_left_out = max(len(span.iterations) - last, 0)
    span.iterations = span.iterations[span.iterations_left_out :]
    begun, more = max((item.n + 1 for item in span.items), default=0), max(len(span.items) - last, 0)
    unread = begun - len(span.items)
    span.items_done += unread  # items begin in their order, and a page that is not read is over
    span.items_left_out = unread + more
    span.items = span.items[more:]


# Views


def view_run(state: RunState, events: Sequence[Event], last: int | None) -> StepView:
    """Return a run with its steps; of each loop the last iterations, None keeps all."""
    name = state.blueprint
    return view(build_trace(events, name=name, address=root(name), status=state.status, last=last), state.questions)


def view(span: Span, questions: Sequence[Question] = (), now: datetime | None = None) -> StepView:
    """Return the view of a span, with what is inside it.

    Args:
        span: The span.
        questions: The open questions of the run. Each stands at the step that asks it, or at the nearest one above.
        now: The time to which the lengths of running steps count; by default the current one.
    """
    addresses = {span.address, *(inner.address for inner in span.below())}
    asked: dict[str, list[Question]] = {}
    for question in questions:
        asked.setdefault(_find_nearest(question.address, addresses), []).append(question)
    return _Viewer(asked, now or datetime.now(UTC)).view(span)


def _find_nearest(address: str, addresses: set[str]) -> str:
    """Return the innermost of some addresses at or above an address; of an iteration that of its loop."""
    place = address
    while place and place not in addresses:
        without_iteration = place.rpartition(":")[0]
        place = without_iteration if without_iteration in addresses else place.rpartition(";")[0]
    return place


@dataclass(frozen=True)
class _Viewer:
    asked: Mapping[str, Sequence[Question]]
    now: datetime

    def view(self, span: Span) -> StepView:
        groups = self._groups(span)
        own = self.asked.get(span.address, ())
        is_whole = _is_whole(span)
        return StepView(
            name=span.name,
            kind=span.kind,
            address=span.address,
            mark=_mark_step(span, own, groups),
            output=span.output,
            error=span.error,
            title=span.title,
            reason=span.reason,
            outcome=span.outcome,
            branch=span.branch,
            turn=span.turn,
            started=span.started,
            seconds=self._measure(span.started, span.ended, is_running=span.status == "running"),
            is_verified=span.verified,
            until=span.until,
            exit=span.exit,
            requests=span.spent.requests,
            spent=sum((inner.spent for inner in span.below()), span.spent) if is_whole else span.spent,
            replies=span.replies,
            turns_left_out=span.turns_left_out,
            revisions=span.revisions,
            answers=span.answers,
            messages=span.messages,
            questions=own,
            groups=groups,
            workflow=span.workflow,
            earlier=_count_earlier(span),
            items=_count_items(span),
            iterations_left_out=span.iterations_left_out,
            items_left_out=span.items_left_out,
            is_lost=span.is_lost,
        )

    def _groups(self, span: Span) -> list[GroupView]:
        groups = [self._earlier_plan(n, steps) for n, steps in enumerate(span.earlier_plans, 1)]
        groups += [self._group("own", "", span.steps)] if span.steps else []
        groups += [self._group("branch", name, steps) for name, steps in span.branches.items()]
        groups += [self._repetition("iteration", iteration) for iteration in span.iterations]
        return groups + [self._repetition("item", item) for item in span.items]

    def _group(self, kind: Literal["own", "branch"], branch: str, spans: Sequence[Span]) -> GroupView:
        steps = [self.view(span) for span in spans]
        return GroupView(kind, steps, _mark_all(steps), branch)

    def _earlier_plan(self, n: int, spans: Sequence[Span]) -> GroupView:
        unasked = _Viewer({}, self.now)  # what is open stands at the same address in the plan of now
        return GroupView("failed_plan", [unasked.view(span) for span in spans], "failed", n=n)

    def _repetition(self, kind: Literal["iteration", "item"], repetition: Repetition) -> GroupView:
        steps = [self.view(span) for span in repetition.steps]
        mark = _mark_all(steps)
        ended = repetition.ended or (None if mark in ("running", "waiting") else _find_end(repetition.steps))
        is_whole = all(map(_is_whole, repetition.steps))
        return GroupView(
            kind,
            steps,
            mark if repetition.error is None else "failed",
            n=repetition.n,
            item=repetition.item,
            label=repetition.label,
            seconds=self._measure(repetition.started, ended, is_running=mark == "running"),
            spent=sum((step.spent for step in steps), Spending()) if is_whole else Spending(),
            error=repetition.error,
        )

    def _measure(self, started: datetime | None, ended: datetime | None, *, is_running: bool) -> float | None:
        until = ended or (self.now if is_running else None)
        return None if started is None or until is None else max((until - started).total_seconds(), 0.0)


def _mark_step(span: Span, own: Sequence[Question], groups: Sequence[GroupView]) -> Mark:
    """Return the mark of a step: one that runs waits where a question is open in it, and nothing else goes on.

    A run waits or is paused as its status says.
    """
    for mark in STRONGEST:
        if mark == span.status != "running":
            return mark
    is_waiting = bool(own) or any(group.mark == "waiting" for group in groups)
    return "waiting" if is_waiting and not any(group.mark == "running" for group in groups) else "running"


def _mark_all(steps: Sequence[StepView]) -> Mark:
    return min((step.mark for step in steps), key=STRONGEST.index, default="completed")


def _count_items(span: Span) -> ItemCount | None:
    if not span.items and span.total is None:
        return None
    return ItemCount(len(span.items) + span.items_left_out, span.items_done, span.total)


def _count_earlier(span: Span) -> int:
    # Of a long loop no more events are read than its last iterations need: their numbers tell how many came before.
    before = min((iteration.n for iteration in span.iterations), default=1) - 1
    return before + min((item.n for item in span.items), default=0)


def _is_whole(span: Span) -> bool:
    """Return whether nothing inside a span was left out, so that what it took can be added up."""
    return not any(_count_earlier(part) for part in (span, *span.below()))


def _find_end(spans: Sequence[Span]) -> datetime | None:
    return max((span.ended for span in spans if span.ended is not None), default=None)
