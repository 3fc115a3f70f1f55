"""The plans of a run: what one says and where each of its steps stands, and changing what is left of it."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from blueprint.errors import BlueprintError
from blueprint.expressions import text_of
from blueprint.grammar import PlanBody
from blueprint.plan import Layout, LoopUnit, StepUnit, Unit, laid_out, question_text
from blueprint.plan.reading import read_plan
from client.errors import Ambiguous, BadInput
from client.trace import Span, inside
from client.tree import CLOSED, Tree, UnknownRun
from protocol.address import parts
from protocol.answers import Refusal
from protocol.plans import OVER, PLAN, PlanView
from protocol.questions import Question
from protocol.runs import Event

Told = dict[str, Any]
PENDING = "pending"
SHOWN = 20
"""Addresses in a message."""


@dataclass(frozen=True)
class Planned:
    """A plan of a run, as the workflow tells of it that has it in its hands, with what happened in its loops."""

    run: str
    address: str
    view: PlanView
    span: Span
    """The plan in the trace of the run."""
    asked: Sequence[str]
    """Addresses of open questions."""

    @property
    def layout(self) -> Layout:
        """Its steps and loops, in the order in which they stand."""
        return laid_out(PlanBody.model_validate(self.view.plan))[0]

    @property
    def status(self) -> str:
        """How the plan ended, or that it has not."""
        outcome = self.span.get("outcome")
        return str(outcome or (self.span["status"] if self.span["status"] in CLOSED else self.view.status))

    @property
    def is_over(self) -> bool:
        return self.status not in ("running", "waiting")

    def steps(self) -> dict[str, Told]:
        """Every step of the plan by its id; those in a loop stand for all items."""
        layout, spans = self.layout, by_name(self.span.get("steps", []))
        told: dict[str, Told] = {}
        for unit in layout.steps():
            known = self.view.steps.get(unit.id, {"status": PENDING})
            loops = layout.loops_of(unit.id)
            if loops and known["status"] == PENDING and spans.get(loops[0], {}).get("status") == "running":
                known = {**known, "status": "running"}
            told[unit.id] = {**known, **self._now(known, spans.get(unit.id))}
        return told

    def _now(self, known: Told, span: Span | None) -> Told:
        """What the trace knows better than the workflow: that a person is awaited, or that the run was ended."""
        if span is not None and self.is_over and known["status"] not in OVER:
            return {"status": span["status"]}
        return self._waiting(span)

    def loops(self) -> dict[str, Told]:
        """Every loop that stands in no other, with its items as far as they have begun."""
        spans = by_name(self.span.get("steps", []))
        told: dict[str, Told] = {}
        for unit in self.layout.units:
            if isinstance(unit, LoopUnit):
                known, span = self.view.loops.get(unit.id, {}), spans.get(unit.id)
                seen = self._loop(unit, span)
                told[unit.id] = {**seen, **known} if span is None else {**known, **seen}
        return told

    def _loop(self, unit: LoopUnit, span: Span | None) -> Told:
        if span is None:
            return {"status": PENDING, "iteration_results": []}
        items = {one["n"]: self._item(unit, one) for one in span.get("iterations", [])}
        told = _ended(span)
        if told["status"] == "completed" and span["output"] in OVER:  # what a loop gives is how it ended
            told["status"] = span["output"]
        return {**told, "iteration_results": list(items.values())}

    def _item(self, unit: LoopUnit, iteration: Mapping[str, Any]) -> Told:
        spans = by_name(iteration["steps"])
        steps = {one.id: self._step(spans.get(one.id)) for one in unit.body if isinstance(one, StepUnit)}
        loops = {one.id: self._loop(one, spans.get(one.id)) for one in unit.body if isinstance(one, LoopUnit)}
        told = {"index": iteration["n"] - 1, "item": iteration.get("item"), "status": _item_status(unit, steps, loops)}
        return {**told, "steps": steps, **({"loops": loops} if loops else {})}

    def _step(self, span: Span | None) -> Told:
        if span is None:
            return {"status": PENDING}
        output = {} if span["output"] is None else {"output": span["output"]}
        return {**_ended(span), **output, **self._waiting(span)}

    def _waiting(self, span: Span | None) -> Told:
        """That a step has asked a person."""
        address = "" if span is None else span["address"]
        waits = address and any(one == address or one.startswith(f"{address};") for one in self.asked)
        return {"status": "waiting_input"} if waits else {}

    def to_json(self) -> Told:
        """What `plan --json` prints."""
        view = self.view.model_dump(mode="json", include={"workflow", "revision", "goal", "driver", "plan"})
        own = {"status": self.status, "steps": self.steps(), "loops": self.loops()}
        revisions = [one.model_dump(mode="json") for one in self.view.revisions]
        return {"run": self.run, "address": self.address, **view, **own, "revisions": revisions}


def by_name(spans: Iterable[Span]) -> dict[str, Span]:
    """Steps and loops by their ids; calls of tools, which stand beside them, are left out."""
    return {span["name"]: span for span in spans if span["kind"] != "tool"}


def _ended(span: Span) -> Told:
    kept = {key: span[key] for key in ("error", "reason") if span.get(key) is not None}
    return {"status": span["status"], **kept}


def _item_status(unit: LoopUnit, steps: Mapping[str, Told], loops: Mapping[str, Told]) -> str:
    must = {one.id: not isinstance(one, StepUnit) or not one.step.optional for one in unit.body}
    statuses = {id_: told["status"] for id_, told in {**steps, **loops}.items()}
    if "cancelled" in statuses.values():
        return "cancelled"
    if any(status not in OVER for status in statuses.values()):
        return "running"
    return "failed" if any(status == "failed" and must[id_] for id_, status in statuses.items()) else "completed"


def described(unit: Unit) -> str:
    """What a step or a loop is, in a line of its own words."""
    if isinstance(unit, StepUnit):
        return unit.step.title or question_text(unit.step.instruction) or ", ".join(unit.step.tools)
    return f"for each of {text_of(unit.over)}" if isinstance(unit, LoopUnit) else ""


# Finding


async def planned(
    tree: Tree, run: str, trace: Span, events: Sequence[Event], questions: Sequence[Question], wanted: str | None
) -> Planned:
    """The plan that is wanted, or the only one, of a run whose events and trace these are.

    Raises `BadInput` if there is none, `Ambiguous` if there are several.
    """
    plans, loops = _started(events, "plan.started"), _started(events, "loop.started")
    spans = {span["address"]: span for span in _all(trace)}
    address = _chosen(run, [one for one in plans if one in spans], wanted)
    below = [workflow for one, workflow in loops.items() if one.startswith(f"{address};")]
    view = await _view(tree, plans[address], below)
    return Planned(run, address, view, spans[address], [question.address for question in questions])


def _started(events: Sequence[Event], type_: str) -> dict[str, str]:
    """Workflows by address; of one that was started again, the last."""
    return {event.address: event.data["workflow"] for event in events if event.type == type_}


def _chosen(run: str, plans: Sequence[str], wanted: str | None) -> str:
    found = [one for one in plans if wanted in (None, one, parts(one)[-1][1])]
    if len(found) == 1:
        return found[0]
    if found:
        raise Ambiguous(f"run {run} has several such plans; name one with --plan: {_listed(found)}")
    if plans:
        raise BadInput(f"run {run} has no plan {wanted!r}; it has {_listed(plans)}")
    raise BadInput(f"run {run} has no plan, or its plan has not begun yet; see: holdfast show {run}")


def _listed(addresses: Sequence[str]) -> str:
    """The last of them, if there are many."""
    kept = addresses[-SHOWN:]
    return ("… " if len(kept) < len(addresses) else "") + ", ".join(kept)


async def _view(tree: Tree, workflow: str, loops: Sequence[str]) -> PlanView:
    """What the workflow tells that has the plan in its hands, or had: its own, or that of a loop of an agent."""
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


def _all(span: Span) -> Iterator[Span]:
    yield span
    for one in inside(span):
        yield from _all(one)


# Changing


def check_change(plan: Any) -> None:
    """Refuse what every plan would refuse, before anything is sent.

    Who drives it, and whether its agents are known, the run will say.
    """
    written = {key: value for key, value in plan.items() if key != "driver"} if isinstance(plan, dict) else plan
    try:
        read_plan(written, PlanBody(), _agents(plan))
    except BlueprintError as error:
        told = "\n".join(map(str, error.problems))
        raise Refusal("invalid_answer", f"the plan stays as it is:\n{told}") from None


async def send_change(tree: Tree, found: Planned, change: Mapping[str, Any]) -> int:
    """The revision that the plan is at with the change. Raises `Refusal`."""
    if found.is_over:
        raise Refusal("run_closed", f"the plan is over ({found.status}); it cannot be changed any more")
    try:
        return await tree.update(found.view.workflow, PLAN, change, int, id=f"plan:{secrets.token_hex(8)}")
    except UnknownRun:
        raise Refusal("run_closed", "the plan has ended; it cannot be changed any more") from None


def _agents(plan: Any) -> list[str]:
    """The agents that a plan names."""
    steps = plan.get("steps") if isinstance(plan, dict) else None
    holders = [plan, *(steps if isinstance(steps, list) else [])]
    agents = [holder.get("agent") for holder in holders if isinstance(holder, dict)]
    return [agent for agent in agents if isinstance(agent, str) and agent]
