"""The steps of a run as rows of a page: what the template shows of a trace, in the words of the reader's language."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from holdfast.blueprint.json_values import JSON
from holdfast.blueprint.kinds import kind_named
from holdfast.client.trace import Repetition, Span, Spending, StepAnswer
from holdfast.protocol.questions import Question
from holdfast.server.notices.texts import Texts
from holdfast.server.web.pages.templating import amount, dollars

SHORTEST = 0.05
"""Seconds: steps that take less show no time."""
Mark = Literal["running", "waiting", "completed", "failed", "cancelled", "skipped", "denied"]
_OPEN: tuple[str, ...] = ("running", "waiting", "failed")
_MARKS = ("completed", "failed", "cancelled", "skipped", "denied")


@dataclass(frozen=True)
class StepGroup:
    """Steps inside a step: its own list, a branch, an iteration or an item."""

    title: str
    """Empty for the step's own list."""
    rows: list[StepRow]
    mark: Mark
    is_open: bool
    notes: list[str] = field(default_factory=list)
    """How long it took, and what."""
    problem: str = ""


@dataclass(frozen=True)
class StepRow:
    """A step or a tool call."""

    address: str
    name: str
    mark: Mark
    title: str
    kind: str
    """The kind with the branch that was taken, or the turn of a tool call; empty where the name says enough."""
    notes: list[str]
    """Turns, tokens, how often a reply was not finished, and the like."""
    started: datetime | None
    length: str
    """How long it took, or has taken so far."""
    output: JSON
    problem: str
    traceback: str
    """The end of the traceback in the code that was called; empty for none."""
    reason: str
    answers: Sequence[StepAnswer]
    messages: list[tuple[str, str]]
    """What people told the agent: who, and the text."""
    questions: list[Question]
    groups: list[StepGroup]
    left_out: str
    """Says how many earlier iterations or items are not shown; empty for none."""
    earlier: dict[str, object]
    """What the address of the page with those names."""
    is_open: bool


@dataclass(frozen=True)
class RunTree:
    """Makes rows of spans.

    Args:
        t: The texts.
        now: The time at which the page is made.
        questions: The open questions of the run.
    """

    t: Texts
    now: datetime
    questions: Sequence[Question] = field(default_factory=list)

    def rows(self, spans: Iterable[Span]) -> list[StepRow]:
        """Return the rows of some spans, with what is inside them."""
        return [self.row(span) for span in spans]

    def row(self, span: Span) -> StepRow:
        """Return the row of a span, with what is inside it."""
        own = [question for question in self.questions if question.address == span.address]
        groups = self._groups(span)
        mark = self._mark(span, own, groups)
        return StepRow(
            address=span.address,
            name=span.name,
            mark=mark,
            title=span.title or "",
            kind=self._kind(span),
            notes=self._notes(span),
            started=span.started,
            length=self._length(span.started, span.ended, running=span.status == "running"),
            output=span.output,
            problem="" if span.error is None else span.error.message,
            traceback=(span.error and span.error.traceback) or "",
            reason=span.reason or "",
            answers=span.answers,
            messages=[(message.by or "", message.text) for message in span.messages],
            questions=own,
            groups=groups,
            left_out=self._left_out(span),
            earlier=_earlier(span),
            is_open=mark in _OPEN,
        )

    def repetitions(self, span: Span) -> list[StepGroup]:
        """Return the iterations or items of a loop or a map; the last one is open, and those under way."""
        repeated = span.iterations or span.items
        word = "runs.iteration" if span.iterations else "runs.item"
        return [self._repetition(repetition, word, is_last=repetition is repeated[-1]) for repetition in repeated]

    def _repetition(self, repetition: Repetition, word: str, *, is_last: bool) -> StepGroup:
        rows = self.rows(repetition.steps)
        mark = _strongest(row.mark for row in rows)
        what = repetition.label if repetition.item is None else repetition.item
        item = "" if what is None else f": {what}"
        ended = repetition.ended or (None if mark in ("running", "waiting") else _last_end(repetition.steps))
        return StepGroup(
            title=f"{self.t(word, n=repetition.n)}{item}",
            rows=rows,
            mark="failed" if repetition.error is not None else mark,
            is_open=mark in _OPEN or is_last,
            notes=self._repetition_notes(repetition, ended, running=mark == "running"),
            problem="" if repetition.error is None else repetition.error.message,
        )

    def _repetition_notes(self, repetition: Repetition, ended: datetime | None, *, running: bool) -> list[str]:
        length = self._length(repetition.started, ended, running=running)
        spent = (
            sum((step.spent_in_all for step in repetition.steps), Spending())
            if all(map(_is_whole, repetition.steps))
            else Spending()
        )
        return [*([length] if length else []), *self._spent(spent)]

    def _groups(self, span: Span) -> list[StepGroup]:
        groups = []
        if span.steps:
            groups.append(self._group("", span.steps))
        groups += [self._group(name, steps) for name, steps in span.branches.items()]
        return [*groups, *self.repetitions(span)]

    def _group(self, title: str, steps: Sequence[Span]) -> StepGroup:
        rows = self.rows(steps)
        mark = _strongest(row.mark for row in rows)
        return StepGroup(title, rows, mark, is_open=mark in _OPEN)

    def _mark(self, span: Span, own: Sequence[Question], groups: Sequence[StepGroup]) -> Mark:
        if span.status in _MARKS:
            return span.status  # type: ignore[return-value]
        is_waiting = bool(own) or any(group.mark == "waiting" for group in groups)
        return "waiting" if is_waiting and not any(group.mark == "running" for group in groups) else "running"

    def _kind(self, span: Span) -> str:
        if span.kind == "tool":
            return self.t("runs.tool") if span.turn is None else self.t("runs.tool_in_turn", n=span.turn)
        if not kind_named(span.kind).shows_kind:
            return ""
        return span.kind if span.branch is None else f"{span.kind} → {span.branch}"

    def _notes(self, span: Span) -> list[str]:
        t, notes = self.t, []
        if span.iterations:
            notes.append(t("runs.iterations", count=max(repetition.n for repetition in span.iterations)))
        if span.items:
            begun = span.items_left_out + len(span.items)
            notes.append(t("runs.items_done", done=span.items_done, count=span.total or begun))
        if span.until is not None and span.status == "running":
            notes.append(t("runs.until", at=f"{span.until:%Y-%m-%d %H:%M} UTC"))
        if span.exit is not None:
            notes.append(span.exit.reason)
        if span.spent.requests:
            notes.append(t("runs.turns", count=span.spent.requests))
        notes += self._spent(span.spent_in_all if _is_whole(span) else span.spent)
        if kind_named(span.kind).skips_known_results and span.status == "completed" and not span.steps:
            notes.append(t("runs.cached"))
        if span.verified is False:
            notes.append(t("runs.not_verified"))
        if span.outcome is not None:
            notes.append(span.outcome.replace("_", " "))
        notes += [t("runs.reply", finish=finish.replace("_", " "), count=n) for finish, n in span.replies.items()]
        return [
            *notes,
            *(t("runs.revision", n=revision.revision, by=revision.by or "?") for revision in span.revisions[-1:]),
        ]

    def _spent(self, spent: Spending) -> list[str]:
        """Return what models took, in words: tokens, and dollars where every price is known."""
        if not spent.tokens:
            return []
        tokens = self.t("runs.tokens", count=f"{spent.tokens:,}" if spent.tokens != 1 else 1)
        return [tokens] if spent.cost_usd is None else [tokens, dollars(spent.cost_usd)]

    def _left_out(self, span: Span) -> str:
        count = earlier_than(span)
        return self.t("runs.earlier", count=count) if count else ""

    def _length(self, started: datetime | None, ended: datetime | None, *, running: bool) -> str:
        until = ended or (self.now if running else None)
        if started is None or until is None:
            return ""
        seconds = max((until - started).total_seconds(), 0)
        if seconds < SHORTEST:
            return ""
        return f"{seconds:.1f} s" if seconds < 10 else amount(seconds, self.t)


def _earlier(span: Span) -> dict[str, object]:
    first = min((repetition.n for repetition in span.iterations), default=None)
    if span.workflow is not None and first is not None:
        return {"workflow": span.workflow, "before": first}
    return {"back": len(span.iterations) or len(span.items)}


def earlier_than(span: Span) -> int:
    """Return how many iterations or items of a loop or a map stand before those that a span has."""
    # Of a long loop no more events are read than its last iterations need: their numbers tell how many came before.
    before = min((repetition.n for repetition in span.iterations), default=1) - 1
    return before + min((repetition.n for repetition in span.items), default=0)


def _is_whole(span: Span) -> bool:
    """Return whether nothing inside a span was left out, so that what it took can be added up."""
    return not any(earlier_than(part) for part in (span, *span.below()))


def _strongest(marks: Iterable[Mark]) -> Mark:
    """Return the mark of a list of steps: the one that a reader looks for first."""
    present = set(marks)
    order: tuple[Mark, ...] = ("running", "waiting", "failed", "cancelled", "completed", "denied", "skipped")
    return next((mark for mark in order if mark in present), "completed")


def _last_end(steps: Sequence[Span]) -> datetime | None:
    return max((step.ended for step in steps if step.ended is not None), default=None)
