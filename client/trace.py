"""Build the trace of a run from its events: a tree of spans. `Runs.trace`, plans and the graph overlay use it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from holdfast.blueprint.kinds import kind_named
from holdfast.protocol.address import parts
from holdfast.protocol.events import (
    AnyEvent,
    BranchStarted,
    Event,
    ItemStarted,
    LoopCompleted,
    LoopIteration,
    ModelReplied,
    PlanCompleted,
    PlanRevised,
    StepCompleted,
    StepEvent,
    StepFailed,
    StepSkipped,
    StepStarted,
    ToolCalled,
    ToolDenied,
    ToolFailed,
    ToolReturned,
    UnknownEvent,
)

CLOSED = ("completed", "failed", "cancelled")


class SpanError(NamedTuple):
    """The error of a failed step or call."""

    type: str
    message: str


@dataclass
class Repetition:
    """An iteration of a loop, or an item of a map."""

    n: int
    steps: list[Span]
    item: object = None
    """For a loop of a plan."""

    def to_json(self) -> dict[str, object]:
        """Return the JSON object of `show --json`."""
        item = {} if self.item is None else {"item": self.item}
        return {"n": self.n, **item, "steps": [step.to_json() for step in self.steps]}


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
    exit: LoopCompleted | None = None
    replies: dict[str, int] = field(default_factory=dict)
    """Number of model replies that were not finished, by the way they ended."""
    revisions: list[PlanRevised] = field(default_factory=list)
    steps: list[Span] = field(default_factory=list)
    iterations: list[Repetition] = field(default_factory=list)
    items: list[Repetition] = field(default_factory=list)
    branches: dict[str, list[Span]] = field(default_factory=dict)
    iterations_left_out: int = 0
    items_left_out: int = 0

    def children(self) -> list[Span]:
        """Return the spans inside: steps, and those of iterations, items and branches."""
        repeated = [step for repetition in (*self.iterations, *self.items) for step in repetition.steps]
        return [*self.steps, *repeated, *(step for steps in self.branches.values() for step in steps)]

    def below(self) -> Iterator[Span]:
        """Yield every span below this one, outer ones first."""
        for child in self.children():
            yield child
            yield from child.below()

    def to_json(self) -> dict[str, object]:
        """Return the JSON object of `show --json`: of the fields that only some kinds have, those with a value."""
        whole = {"name": self.name, "kind": self.kind, "address": self.address, "status": self.status}
        result = (
            {} if self.kind == "pipeline" else {"output": self.output, "error": self.error and self.error._asdict()}
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
        if self.replies:
            details["replies"] = self.replies
        if self.revisions:
            details["revisions"] = [revision.to_json() for revision in self.revisions]
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
                self._repeat(address, "iterations", Repetition(number, [], item))
            case ItemStarted(index=index):
                self._repeat(address, "items", Repetition(index, []))
            case BranchStarted(branch=branch):
                self._branch(address, branch)
            case data if span is not None:
                _change(span, data)

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
        span.status, span.error = "failed", SpanError(step.error, step.message)

    def _take_call(self, address: str, call: ToolCalled | ToolReturned | ToolDenied | ToolFailed) -> None:
        """Add a tool call or its end, if it has an address of its own; what runs inside it goes below it."""
        kind, name, _ = parts(address)[-1]
        span = self._spans.get(address)
        if kind != "tool" or (span is None and isinstance(call, ToolReturned)):
            return
        span = span or self._add(Span(name, "tool", address, "running"))
        match call:
            case ToolReturned(result=result):
                span.status, span.output = "completed", result
            case ToolDenied(reason=reason):
                span.status, span.reason = "denied", reason
            case ToolFailed(error=error, message=message):
                span.status, span.error = "failed", SpanError(error, message)

    def _repeat(self, address: str, kind: Literal["iterations", "items"], repetition: Repetition) -> None:
        self._lists[address] = repetition.steps
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
        case LoopCompleted():
            span.exit = data
        case ModelReplied(finish=finish) if finish != "finished":
            span.replies[finish] = span.replies.get(finish, 0) + 1
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


def _cut(span: Span, last: int) -> None:
    """Leave out all but the last iterations and items."""
    span.iterations_left_out = max(len(span.iterations) - last, 0)
    span.iterations = span.iterations[span.iterations_left_out :]
    span.items_left_out = max(len(span.items) - last, 0)
    span.items = span.items[span.items_left_out :]
