"""Build the trace of a run from its events: a tree of spans. `Runs.trace`, plans and the graph overlay use it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.protocol.address import parts
from holdfast.protocol.runs import Event

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
        match event.type:
            case "step.started":
                self._open(event, "running")
            case "step.skipped":
                self._skip(event)
            case "step.completed":
                self._change(event, status="completed", output=event.data.get("output"))
            case "step.failed":
                self._fail(event)
            case "tool.called":
                self._tool(event)
            case "tool.returned":
                self._change_tool(event, status="completed", output=event.data.get("result"))
            case "tool.denied":
                self._tool(event)
                self._change_tool(event, status="denied", reason=event.data.get("reason"))
            case "tool.failed":
                self._tool(event)
                self._change_tool(event, status="failed", error=_error_of(event))
            case "loop.iteration":
                self._iteration(event)
            case "loop.completed":
                kept = {key: event.data.get(key) for key in ("reason", "iterations", "expression", "value")}
                self._change(event, exit=kept)
            case "item.started":
                self._item(event)
            case "branch.started":
                self._branch(event)
            case "model.replied":
                self._reply(event)
            case "plan.completed":
                self._change(event, outcome=event.data["status"])
            case "plan.revised":
                self._revise(event)

    def _open(self, event: Event, status: str) -> None:
        """Add the span of a step, below the step, iteration or branch that contains it."""
        data = event.data
        span: Span = {"name": data["name"], "kind": data["kind"], "address": event.address, "status": status}
        span |= {"output": None, "error": None}
        span |= {key: data[key] for key in ("title", "reason") if key in data}
        if data["kind"] == "loop":
            span["iterations"] = []
        self._spans[event.address] = span
        self._list_at(self._nearest(event.address)).append(span)

    def _skip(self, event: Event) -> None:
        """Record a skipped step; it has a span already if a question of its plan was asked before."""
        if self._spans.get(event.address, {}).get("status") == "running":
            self._change(event, status="skipped", reason=event.data.get("reason"))
        else:
            self._open(event, "skipped")

    def _fail(self, event: Event) -> None:
        if event.address not in self._spans:  # it failed before it started
            self._open(event, "failed")
        self._change(event, status="failed", error=_error_of(event))

    def _revise(self, event: Event) -> None:
        if event.address in self._spans:
            self._spans[event.address].setdefault("revisions", []).append(event.data)

    def _reply(self, event: Event) -> None:
        """Count the model replies that were not finished, by the way they ended."""
        span, finish = self._spans.get(event.address), event.data.get("finish", "finished")
        if span is not None and finish != "finished":
            replies = span.setdefault("replies", {})
            replies[finish] = replies.get(finish, 0) + 1

    def _change(self, event: Event, **values: Any) -> None:
        if event.address in self._spans:
            self._spans[event.address].update(values)

    def _iteration(self, event: Event) -> None:
        loop = event.address.rpartition(":")[0]
        steps = self._lists[event.address] = []
        if loop in self._spans:
            item = {"item": event.data["item"]} if "item" in event.data else {}
            self._spans[loop]["iterations"].append({"n": event.data["iteration"], **item, "steps": steps})

    def _tool(self, event: Event) -> None:
        """Add the span of a tool call; what runs inside it, such as another agent, goes below it."""
        kind, name, _ = parts(event.address)[-1]
        if kind != "tool" or event.address in self._spans:
            return
        span: Span = {"name": name, "kind": "tool", "address": event.address, "status": "running"}
        span |= {"output": None, "error": None, "steps": []}
        self._spans[event.address], self._lists[event.address] = span, span["steps"]
        self._list_at(self._nearest(event.address)).append(span)

    def _change_tool(self, event: Event, **values: Any) -> None:
        if parts(event.address)[-1][0] == "tool":
            self._change(event, **values)

    def _nearest(self, address: str) -> str:
        """Return the address of the nearest step, call or list above an address."""
        above = address.rpartition(";")[0]
        while above and above not in self._spans and above not in self._lists:
            above = above.rpartition(";")[0]
        return above

    def _item(self, event: Event) -> None:
        steps = self._lists[event.address] = []
        span = self._spans.get(event.address.rpartition(":")[0])
        if span is not None:
            span.setdefault("items", []).append({"n": event.data["index"], "steps": steps})

    def _branch(self, event: Event) -> None:
        step = self._spans.get(event.address.rpartition(";")[0])
        if step is None:
            return
        if step["kind"] == "parallel":
            self._lists[event.address] = step.setdefault("branches", {}).setdefault(event.data["branch"], [])
        else:
            step["branch"] = event.data["branch"]
            self._lists[event.address] = step.setdefault("steps", [])

    def _list_at(self, address: str) -> list[Span]:
        if address not in self._lists:
            self._lists[address] = self._spans.get(address, self.root).setdefault("steps", [])
        return self._lists[address]


def _error_of(event: Event) -> dict[str, Any]:
    return {"type": event.data.get("error"), "message": event.data.get("message")}


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
