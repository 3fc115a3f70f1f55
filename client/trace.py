"""Build the trace of a run from its events: a tree of spans. `RunWatch.trace`, plans and the graph overlay use it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, NamedTuple

from holdfast.blueprint.kinds import kind_named
from holdfast.client.states import RunState
from holdfast.client.tree import CLOSED
from holdfast.protocol.address import parts, root
from holdfast.protocol.events import (
    AgentTold,
    AnyEvent,
    BranchStarted,
    Event,
    ItemCompleted,
    ItemStarted,
    LoopCompleted,
    LoopIteration,
    LoopStarted,
    ModelReplied,
    PlanCompleted,
    PlanRevised,
    QuestionReplied,
    QuestionVerified,
    StepCompleted,
    StepEvent,
    StepFailed,
    StepSkipped,
    StepStarted,
    TimerStarted,
    ToolCalled,
    ToolDenied,
    ToolFailed,
    ToolReturned,
    UnknownEvent,
)
from holdfast.protocol.tracebacks import find_raise


class SpanError(NamedTuple):
    """The error of a failed step or call."""

    type: str
    message: str
    traceback: str | None = None
    """The end of the traceback in the code that was called."""

    @property
    def raised_at(self) -> str | None:
        """Return file, line and function of the innermost call in the author's code; None for none."""
        return find_raise(self.traceback or "")

    def to_json(self) -> dict[str, str]:
        """Return the JSON object of `show --json`."""
        place = {} if self.raised_at is None else {"raised_at": self.raised_at}
        return {"type": self.type, "message": self.message, **place}


class StepAnswer(NamedTuple):
    """An answer to a question of a step, or its end without one."""

    at: datetime
    reply: QuestionReplied

    def to_json(self) -> dict[str, object]:
        """Return who gave it, what proves that, and how the question ended; the content is the step's output."""
        status = self.reply.type.removeprefix("question.")
        proof = self.reply.model_dump(include={"by", "proved_by", "groups", "unseen", "comment"}, exclude_none=True)
        return {"at": self.at.isoformat(), "status": status, **proof}


class Spending(NamedTuple):
    """The cost of model requests."""

    requests: int = 0
    tokens: int = 0
    cost_usd: float | None = 0.0
    """None if the price of a reply is not known."""

    def __add__(self, other: object) -> Spending:
        """Return both together."""
        if not isinstance(other, Spending):
            return NotImplemented
        is_priced = None not in (self.cost_usd, other.cost_usd)
        cost = (self.cost_usd or 0.0) + (other.cost_usd or 0.0) if is_priced else None
        return Spending(self.requests + other.requests, self.tokens + other.tokens, cost)


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
    error: SpanError | None = None
    """For an item of a map that failed and did not end the map."""
    label: str | None = None
    """For an item of a map: what people read of it."""

    def to_json(self) -> dict[str, object]:
        """Return the JSON object of `show --json`."""
        item = {} if self.item is None else {"item": self.item}
        label = {} if self.label is None else {"label": self.label}
        return {"n": self.n, **item, **label, "steps": [step.to_json() for step in self.steps]}


@dataclass
class Span:
    """A run, a step or a tool call, with what ran in it."""

    name: str
    kind: str
    address: str
    status: str
    output: object = None
    error: SpanError | None = None
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
    """For a loop: its workflow."""
    replies: dict[str, int] = field(default_factory=dict)
    """Number of model replies that were not finished, by the way they ended."""
    revisions: list[PlanRevised] = field(default_factory=list)
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

    def children(self) -> list[Span]:
        """Return the spans inside: steps, and those of iterations, items and branches."""
        repeated = [step for repetition in (*self.iterations, *self.items) for step in repetition.steps]
        return [*self.steps, *repeated, *(step for steps in self.branches.values() for step in steps)]

    def below(self) -> Iterator[Span]:
        """Yield every span below this one, outer ones first."""
        for child in self.children():
            yield child
            yield from child.below()

    @property
    def spent_in_all(self) -> Spending:
        """Return what models took for the step and everything in it, as far as the span has it."""
        return sum((span.spent for span in self.below()), self.spent)

    def to_json(self) -> dict[str, object]:
        """Return the JSON object of `show --json`: of the fields that only some kinds have, those with a value."""
        whole = {"name": self.name, "kind": self.kind, "address": self.address, "status": self.status}
        result = (
            {} if self.kind == "pipeline" else {"output": self.output, "error": self.error and self.error.to_json()}
        )
        texts = {"title": self.title, "reason": self.reason, "outcome": self.outcome, "branch": self.branch}
        return {
            **whole,
            **result,
            **{key: text for key, text in texts.items() if text is not None},
            **self._details_json(),
            **self._inner_json(),
        }

    def _details_json(self) -> dict[str, object]:
        details: dict[str, object] = {}
        if self.exit is not None:
            details["exit"] = self.exit.model_dump(mode="json", include={"reason", "iterations", "expression", "value"})
        if self.verified is not None:
            details["verified"] = self.verified
        if self.until is not None:
            details["until"] = self.until.isoformat()
        if self.total is not None:
            details["total"] = self.total
        if self.replies:
            details["replies"] = self.replies
        if self.revisions:
            details["revisions"] = [revision.to_json() for revision in self.revisions]
        if self.answers:
            details["answers"] = [answer.to_json() for answer in self.answers]
        return details

    def _inner_json(self) -> dict[str, object]:
        inner: dict[str, object] = {}
        if self.steps or self.branch is not None or self.kind in ("pipeline", "tool"):
            inner["steps"] = [step.to_json() for step in self.steps]
        if kind_named(self.kind).iterates:
            inner["iterations"] = [iteration.to_json() for iteration in self.iterations]
        if self.items:
            inner["items"] = [item.to_json() for item in self.items]
        if self.branches:
            lists = self.branches.items()
            inner["branches"] = {name: [step.to_json() for step in steps] for name, steps in lists}
        left_out = {"iterations_left_out": self.iterations_left_out, "items_left_out": self.items_left_out}
        return {**inner, **{key: count for key, count in left_out.items() if count}}


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
                self._open(address, step, "running").title = step.title
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
                item.error = SpanError(completed.error, completed.message or "")

    def _open(self, address: str, step: StepEvent, status: str) -> Span:
        """Add the span of a step, below the step, iteration or branch that contains it."""
        return self._add(Span(step.name, step.kind, address, status))

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
        span.status, span.error = "failed", SpanError(step.error, step.message, step.traceback)

    def _take_call(self, address: str, call: ToolCalled | ToolReturned | ToolDenied | ToolFailed) -> None:
        """Add a tool call or its end, if it has an address of its own; what runs inside it goes below it."""
        kind, name, _ = parts(address)[-1]
        span = self._spans.get(address)
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
                span.status, span.error = "failed", SpanError(error, message, traceback)

    def _repeat(self, address: str, kind: Literal["iterations", "items"], repetition: Repetition) -> None:
        self._lists[address], self._repetitions[address] = repetition.steps, repetition
        if (span := self._spans.get(address.rpartition(":")[0])) is not None:
            (span.iterations if kind == "iterations" else span.items).append(repetition)

    def _branch(self, address: str, branch: str) -> None:
        step = self._spans.get(address.rpartition(";")[0])
        if step is None:
            return
        if kind_named(step.kind).runs_branches_at_once:
            self._lists[address] = step.branches.setdefault(branch, [])
        else:
            step.branch, self._lists[address] = branch, step.steps

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


def _change(span: Span, data: AnyEvent | UnknownEvent) -> None:
    """Record in a span what happened at its address."""
    match data:
        case StepCompleted(output=output):
            span.status, span.output = "completed", output
        case LoopStarted(workflow=workflow):
            span.workflow = workflow
        case LoopCompleted():
            span.exit = data
        case ModelReplied(finish=finish) if finish != "finished":
            span.replies[finish] = span.replies.get(finish, 0) + 1
        case QuestionVerified(verified=verified, given_back=False):
            span.verified = verified
        case TimerStarted(until=until):
            span.until = until
        case PlanCompleted(status=outcome):
            span.outcome = outcome
        case PlanRevised():
            span.revisions.append(data)


def trace_of(events: Sequence[Event], *, name: str, address: str, status: str, last: int | None = None) -> Span:
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


def trace_run(state: RunState, events: Sequence[Event], last: int | None) -> Span:
    """Return the tree of a run that events make; of each loop the last iterations, None keeps all."""
    return trace_of(events, name=state.blueprint, address=root(state.blueprint), status=state.status, last=last)


def _cut(span: Span, last: int) -> None:
    """Leave out all but the last iterations and items; of a map that runs in pages, earlier ones were not even read."""
    span.iterations_left_out = max(len(span.iterations) - last, 0)
    span.iterations = span.iterations[span.iterations_left_out :]
    unread, more = min((item.n for item in span.items), default=0), max(len(span.items) - last, 0)
    span.items_done += unread  # its pages run one after the other
    span.items_left_out = unread + more
    span.items = span.items[more:]
