"""A plan of a run as text for people: where each step stands, and each item of a loop."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from blueprint.plan import LoopUnit, Unit
from client.plans import PENDING, Planned, Told, described
from client.render import MARKS, MOST_ITERATIONS, STYLES, preview, preview_text

OUTPUT, DESCRIPTION = 80, 60
"""Characters that are shown of a result, and of what a step does."""


def plan_text(found: Planned, last: int | None = MOST_ITERATIONS) -> Text:
    """The plan with all of its steps; of each loop the last items."""
    text = Text(f"{found.run}  ", "bold").append(found.address, "cyan")
    text.append(f"  {found.status}", STYLES.get(found.status, "")).append(f"  revision {found.view.revision}\n", "dim")
    if found.view.status == "waiting":
        text.append(f"it has not begun; holdfast questions {found.run} tells whether it waits for a yes\n", "yellow")
    if found.view.goal:
        text.append(f"{preview_text(found.view.goal)}\n")
    _Lines(text, last).units(found.layout.units, {**found.steps(), **found.loops()}, 1, described_too=True)
    for revision in found.view.revisions:
        told = "  ".join(filter(None, (revision.by, revision.reason)))
        text.append(f"revision {revision.revision}  {preview_text(told)}\n", "dim")
    return text


class _Lines:
    """Writes the steps of a plan below each other."""

    def __init__(self, text: Text, last: int | None) -> None:
        self.text, self.last = text, last

    def units(self, units: Sequence[Unit], told: dict[str, Told], depth: int, *, described_too: bool) -> None:
        for unit in units:
            known = told.get(unit.id, {"status": PENDING})
            self._line(unit, known, depth, described_too)
            if isinstance(unit, LoopUnit):
                self._loop(unit, known, depth + 1)

    def _loop(self, unit: LoopUnit, known: Told, depth: int) -> None:
        items = known.get("iteration_results", [])
        kept = items if self.last is None else items[-self.last :]
        if known["status"] == PENDING:
            self.units(unit.body, {}, depth, described_too=True)
        if hidden := (kept[0]["index"] if kept else 0):
            self.text.append(f"{'  ' * depth}… {hidden} earlier ones: --all\n", "dim")
        for item in kept:
            self.text.append(f"{'  ' * depth}{item['index'] + 1}: {preview(item['item'], OUTPUT)}\n", "dim")
            self.units(unit.body, {**item["steps"], **item.get("loops", {})}, depth + 1, described_too=False)

    def _line(self, unit: Unit, known: Told, depth: int, described_too: bool) -> None:
        status = known["status"]
        self.text.append(f"{'  ' * depth}{MARKS.get(status, '?')} {unit.id}", STYLES.get(status, ""))
        if described_too or isinstance(unit, LoopUnit):
            words = preview_text(described(unit))
            self.text.append(f"  {words if len(words) <= DESCRIPTION else words[:DESCRIPTION] + '…'}")
        if (more := _more(unit, known)) is not None:
            self.text.append(f"  {more}", "red" if status == "failed" else "dim")
        self.text.append("\n")


def _more(unit: Unit, known: Told) -> str | None:
    """What is told of a step beside its mark."""
    match known["status"]:
        case "completed" if not isinstance(unit, LoopUnit):
            return _result(known)
        case "completed_with_errors":
            return "with errors"
        case "waiting_input":
            return "waits for a person"
        case "skipped":
            return f"skipped: {known.get('reason') or 'not needed'}"
        case "failed":
            return preview_text((known.get("error") or {}).get("message") or "failed")
        case "cancelled":
            return "cancelled"
    return None


def _result(known: Told) -> str:
    """What a step gave: in an item of a loop as the trace has it, else whole; of an answer, the words."""
    value = known["output"] if "output" in known else known.get("data")
    match known.get("response") if value is None else value:
        case {"response": str() as words, "outcome": str() as outcome}:
            return f"{preview(words, OUTPUT)} ({outcome})"
        case other:
            return preview(other, OUTPUT)
