"""Build the trace of a run from its events: a tree of spans. `Runs.trace`, plans and the graph overlay use it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.protocol.address import parts
from holdfast.protocol.events import (
    BranchStarted,
    Event,
    ItemStarted,
    LoopCompleted,
    LoopIteration,
    ModelReplied,
    PlanCompleted,
    PlanRevised,
    StepCompleted,
    StepFailed,
    StepSkipped,
    StepStarted,
    ToolCalled,
    ToolDenied,
    ToolFailed,
    ToolReturned,
)

Span = dict[str, Any]
CLOSED = ("completed", "failed", "cancelled")


class Trace:
    """A trace under construction: `take` the events in order; `root` is the tree so far."""

    def __init__(self, name: str, address: str, status: str) -> None:
        self.root: Span = {"name": name, "kind": "pipeline", "address": address, "status": status, "steps": []}
        self._spans: dict[str, Span] = {address: self.root}
        self._lists: dict[str, list[Span]] = {address: self.root["steps"]}

    def take(self, event: Event) -> None:
        """Add one event to the tree."""
        match event.data:
            case StepStarted() as step:
                self._open(event.address, step, "running")
            case StepSkipped() as step:
                self._skip(event.address, step)
            case StepCompleted(output=output):
                self._change(event.address, status="completed", output=output)
            case StepFailed() as step:
                self._fail(event.address, step)
            case ToolCalled() | ToolReturned() | ToolDenied() | ToolFailed() as call:
                self._take_call(event.address, call)
            case LoopIteration() as iteration:
                self._iteration(event.address, iteration)
            case LoopCompleted() as loop:
                kept = {"reason": loop.reason, "iterations": loop.iterations}
                self._change(event.address, exit={**kept, "expression": loop.expression, "value": loop.value})
            case ItemStarted(index=index):
                self._item(event.address, index)
            case BranchStarted(branch=branch):
                self._branch(event.address, branch)
            case ModelReplied(finish=finish) if finish != "finished":
                self._unfinished_reply(event.address, finish)
            case PlanCompleted(status=status):
                self._change(event.address, outcome=status)
            case PlanRevised() as revision:
                self._revise(event.address, revision)

    def _take_call(self, address: str, call: ToolCalled | ToolReturned | ToolDenied | ToolFailed) -> None:
        """Add a tool call or its end, if it has an address of its own."""
        if parts(address)[-1][0] != "tool":
            return
        if not isinstance(call, ToolReturned):
            self._tool(address)
        match call:
            case ToolReturned(result=result):
                self._change(address, status="completed", output=result)
            case ToolDenied(reason=reason):
                self._change(address, status="denied", reason=reason)
            case ToolFailed():
                self._change(address, status="failed", error=_error_of(call))

    def _open(self, address: str, step: StepStarted | StepSkipped | StepFailed, status: str) -> None:
        """Add the span of a step, below the step, iteration or branch that contains it."""
        span: Span = {"name": step.name, "kind": step.kind, "address": address, "status": status}
        span |= {"output": None, "error": None}
        if isinstance(step, StepStarted) and step.title is not None:
            span["title"] = step.title
        if isinstance(step, StepSkipped) and step.reason is not None:
            span["reason"] = step.reason
        if step.kind == "loop":
            span["iterations"] = []
        self._spans[address] = span
        self._list_at(self._nearest(address)).append(span)

    def _skip(self, address: str, step: StepSkipped) -> None:
        """Record a skipped step; it has a span already if a question of its plan was asked before."""
        if self._spans.get(address, {}).get("status") == "running":
            self._change(address, status="skipped", reason=step.reason)
        else:
            self._open(address, step, "skipped")

    def _fail(self, address: str, step: StepFailed) -> None:
        if address not in self._spans:  # it failed before it started
            self._open(address, step, "failed")
        self._change(address, status="failed", error=_error_of(step))

    def _revise(self, address: str, revision: PlanRevised) -> None:
        if address in self._spans:
            self._spans[address].setdefault("revisions", []).append(revision.to_json())

    def _unfinished_reply(self, address: str, finish: str) -> None:
        """Count the model replies that were not finished, by the way they ended."""
        if address in self._spans:
            replies = self._spans[address].setdefault("replies", {})
            replies[finish] = replies.get(finish, 0) + 1

    def _change(self, address: str, **values: Any) -> None:
        if address in self._spans:
            self._spans[address].update(values)

    def _iteration(self, address: str, iteration: LoopIteration) -> None:
        loop = address.rpartition(":")[0]
        steps = self._lists[address] = []
        if loop in self._spans:
            item = {} if iteration.item is None else {"item": iteration.item}
            self._spans[loop]["iterations"].append({"n": iteration.iteration, **item, "steps": steps})

    def _tool(self, address: str) -> None:
        """Add the span of a tool call; what runs inside it, such as another agent, goes below it."""
        if address in self._spans:
            return
        name = parts(address)[-1][1]
        span: Span = {"name": name, "kind": "tool", "address": address, "status": "running"}
        span |= {"output": None, "error": None, "steps": []}
        self._spans[address], self._lists[address] = span, span["steps"]
        self._list_at(self._nearest(address)).append(span)

    def _nearest(self, address: str) -> str:
        """Return the address of the nearest step, call or list above an address."""
        above = address.rpartition(";")[0]
        while above and above not in self._spans and above not in self._lists:
            above = above.rpartition(";")[0]
        return above

    def _item(self, address: str, index: int) -> None:
        steps = self._lists[address] = []
        span = self._spans.get(address.rpartition(":")[0])
        if span is not None:
            span.setdefault("items", []).append({"n": index, "steps": steps})

    def _branch(self, address: str, branch: str) -> None:
        step = self._spans.get(address.rpartition(";")[0])
        if step is None:
            return
        if step["kind"] == "parallel":
            self._lists[address] = step.setdefault("branches", {}).setdefault(branch, [])
        else:
            step["branch"] = branch
            self._lists[address] = step.setdefault("steps", [])

    def _list_at(self, address: str) -> list[Span]:
        if address not in self._lists:
            self._lists[address] = self._spans.get(address, self.root).setdefault("steps", [])
        return self._lists[address]


def _error_of(event: StepFailed | ToolFailed) -> dict[str, str]:
    return {"type": event.error, "message": event.message}


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
    if status in CLOSED:
        _end(trace.root)
    if last is not None:
        _cut(trace.root, last)
    return trace.root


def _end(span: Span) -> None:
    """Mark the spans without an end as cancelled, in a run that has ended."""
    for step in inside(span):
        if step["status"] == "running":
            step["status"] = "cancelled"
        _end(step)


def _cut(span: Span, last: int) -> None:
    for key in ("iterations", "items"):
        if len(span.get(key, [])) > last:
            span[f"{key}_left_out"] = len(span[key]) - last
            span[key] = span[key][-last:]
    for step in inside(span):
        _cut(step, last)


def inside(span: Span) -> list[Span]:
    """Return the children of a span: steps, and those of its iterations, items and branches."""
    repeated = [*span.get("iterations", []), *span.get("items", [])]
    inner = [step for iteration in repeated for step in iteration["steps"]]
    return [*span.get("steps", []), *inner, *(step for steps in span.get("branches", {}).values() for step in steps)]
