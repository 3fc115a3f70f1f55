"""A plan of a run as text for people, with the status of each step and loop item. `holdfast plan` prints it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from rich.text import Text

from holdfast.blueprint.plan.layout import LoopUnit, Unit
from holdfast.cli.render import MARKS, MOST_ITERATIONS
from holdfast.cli.tables import STYLES
from holdfast.client.texts import preview, shown_raise
from holdfast.client.views.plans import PENDING, PlanView, UnitView
from holdfast.client.views.steps import GroupView, StepError
from holdfast.protocol.display import one_line

OUTPUT, DESCRIPTION = 80, 60
"""The most characters printed of a result, and of a step's description."""
DETAILS = {"completed_with_errors": "with errors", "waiting_input": "waits for a person", "cancelled": "cancelled"}


def plan_text(plan: PlanView, last: int | None = MOST_ITERATIONS) -> Text:
    """Return the plan with all of its steps; of each loop the `last` items, or all for None."""
    text = Text(f"{plan.run}  ", "bold").append(plan.address, "cyan")
    text.append(f"  {plan.status}", STYLES.get(plan.status, "")).append(f"  revision {plan.snapshot.revision}\n", "dim")
    if plan.snapshot.status == "waiting":
        answer = (
            f"waits for approval: holdfast attach {shlex.quote(plan.run)}" if plan.asks_for_approval else "not started"
        )
        text.append(f"{answer}\n", "yellow")
    if plan.snapshot.goal:
        text.append(f"{one_line(plan.snapshot.goal)}\n")
    for earlier in plan.step.earlier_plans:
        text.append(f"plan {earlier.n} failed{_why(earlier)}; see: holdfast show {shlex.quote(plan.run)}\n", "dim")
    _Lines(text, last).units(plan.layout.units, {**plan.steps(), **plan.loops()}, 1, described_too=True)
    if plan.note is not None:
        text.append(f"{one_line(plan.note)}\n", "yellow")
    for revision in plan.snapshot.revisions:
        origin = "  ".join(filter(None, (revision.by, revision.reason)))
        text.append(f"revision {revision.revision}  {one_line(origin)}\n", "dim")
    return text


def _why(plan: GroupView) -> str:
    failed = next((step for step in plan.steps if step.error is not None), None)
    return "" if failed is None or failed.error is None else one_line(f": {failed.name}: {failed.error.message}")


class _Lines:
    """The lines of a plan's steps, appended to a text."""

    def __init__(self, text: Text, last: int | None) -> None:
        self.text, self.last = text, last

    def units(self, units: Sequence[Unit], reports: Mapping[str, UnitView], depth: int, *, described_too: bool) -> None:
        """Append a line for each step and loop, with its description if `described_too`."""
        for unit in units:
            report = reports.get(unit.id, UnitView())
            self._line(unit, report, depth, described_too)
            if isinstance(unit, LoopUnit):
                self._loop(unit, report, depth + 1)

    def _loop(self, unit: LoopUnit, loop: UnitView, depth: int) -> None:
        items = loop.items or ()
        kept = items if self.last is None else items[-self.last :]
        if loop.status == PENDING:
            self.units(unit.body, {}, depth, described_too=True)
        if hidden := (kept[0].index if kept else 0):
            self.text.append(f"{'  ' * depth}… {hidden} earlier ones: --all\n", "dim")
        for item in kept:
            self.text.append(f"{'  ' * depth}{item.index + 1}: {preview(item.item, OUTPUT)}\n", "dim")
            self.units(unit.body, item.units, depth + 1, described_too=False)

    def _line(self, unit: Unit, report: UnitView, depth: int, described_too: bool) -> None:
        status = report.status
        self.text.append(f"{'  ' * depth}{MARKS.get(status, '?')} {unit.id}", STYLES.get(status, ""))
        if described_too or isinstance(unit, LoopUnit):
            words = one_line(unit.description)
            self.text.append(f"  {words if len(words) <= DESCRIPTION else words[:DESCRIPTION] + '…'}")
        if (detail := _detail(report)) is not None:
            self.text.append(f"  {detail}", "red" if status == "failed" else "dim")
        self.text.append("\n")


def _detail(report: UnitView) -> str | None:
    """Return the text beside a step: its result, reason or error."""
    match report:
        case UnitView(status="completed", items=None):
            return _result(report.result)
        case UnitView(status="failed", error=StepError(message=message, raised_at=raised_at)):
            return one_line(f"{message}  {shown_raise(raised_at)}" if raised_at else message)
        case UnitView(status="failed"):
            return "failed"
        case UnitView(status="skipped", reason=reason):
            return f"skipped: {reason or 'not needed'}"
    return DETAILS.get(report.status)


def _result(result: object) -> str:
    """Return a preview of a step's result; of an answer its text."""
    match result:
        case {"response": str() as words, "outcome": str() as outcome}:
            return f"{preview(words, OUTPUT)} ({outcome})"
        case other:
            return preview(other, OUTPUT)
