"""The steps of a run as people see them: terminal and pages lay out these views, and derive nothing themselves.

A view says in what state a step is, how long it took and what models took for it, what came before what is shown, and
which questions are open in it. Words, glyphs and lengths of text are the surface's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Literal, NamedTuple

from holdfast.blueprint.kinds import kind_named
from holdfast.client.trace import Repetition, Span, SpanError, Spending, StepAnswer
from holdfast.protocol.events import AgentTold, PlanRevised
from holdfast.protocol.questions import Question

Mark = Literal["running", "waiting", "completed", "failed", "cancelled", "skipped", "denied"]
_CLOSED_MARKS: tuple[Mark, ...] = ("completed", "failed", "cancelled", "skipped", "denied")
_STRONGEST: tuple[Mark, ...] = ("running", "waiting", "failed", "cancelled", "completed", "denied", "skipped")
"""The mark of several steps is the first of these, the one that a reader looks for."""


class ItemCount(NamedTuple):
    """How far a map is with its items."""

    begun: int
    done: int
    total: int | None
    """None where no event has told it yet."""


@dataclass(frozen=True)
class GroupView:
    """Steps inside a step: its own, those of a branch, of an iteration or of an item."""

    kind: Literal["own", "branch", "iteration", "item"]
    steps: list[StepView]
    mark: Mark
    branch: str = ""
    n: int = 0
    """The number of an iteration, from 1, or of an item, from 0."""
    item: object = None
    """What a plan's loop works on."""
    label: str | None = None
    """What people read of an item of a map."""
    seconds: float | None = None
    spent: Spending = Spending()
    """What models took for it; nothing where some of it was not read."""
    error: SpanError | None = None

    @property
    def repeats(self) -> bool:
        """True for an iteration or an item."""
        return self.kind in ("iteration", "item")


@dataclass(frozen=True)
class StepView:
    """A step or a tool call."""

    address: str
    name: str
    mark: Mark
    title: str | None
    kind: str | None
    """Its kind; None where the name says enough."""
    branch: str | None
    """The branch that it took."""
    turn: int | None
    """Of a tool call: the turn of the agent that made it, from 1."""
    seconds: float | None
    """How long it took, or has taken so far."""
    output: object
    error: SpanError | None
    reason: str | None
    """Why it was skipped or denied."""
    outcome: str | None
    """How a plan completed."""
    is_cached: bool
    """True if its result came from the cache."""
    is_verified: bool | None
    """Whether an agent that checked the answer was content; None where none did."""
    until: datetime | None
    """When the timer is over that it waits for."""
    exit_reason: str | None
    """Why a loop ended."""
    requests: int
    """Requests to models of the step itself."""
    spent: Spending
    """What models took for it and everything in it; for the step itself where some of it was not read."""
    replies: dict[str, int]
    """Number of model replies that were not finished, by the way they ended."""
    revision: PlanRevised | None
    """The last revision of a plan."""
    answers: Sequence[StepAnswer]
    messages: Sequence[AgentTold]
    """What people told the agent."""
    questions: list[Question]
    """The open ones that it asks itself."""
    groups: list[GroupView]
    workflow: str | None
    """Of a loop: its workflow."""
    earlier: int
    """How many iterations or items stand before those in the groups."""
    items: ItemCount | None

    @property
    def repetitions(self) -> list[GroupView]:
        """Return its iterations or items."""
        return [group for group in self.groups if group.repeats]


def view_steps(
    spans: Iterable[Span], questions: Sequence[Question] = (), now: datetime | None = None
) -> list[StepView]:
    """Return the views of some spans, with what is inside them.

    Args:
        spans: The spans, such as the steps of `RunWatch.trace`.
        questions: The open questions of the run.
        now: The time to which the lengths of running steps count; by default the current one.
    """
    viewer = _Viewer(questions, now or datetime.now(UTC))
    return [viewer.view(span) for span in spans]


def find_step(trace: Span, address: str) -> Span | None:
    """Return the step at an address of a trace; None if it has none, or was left behind."""
    return next((span for span in trace.below() if span.address == address), None)


def cut_repetitions(span: Span, back: int, size: int) -> Span:
    """Return a loop or a map with a page of its iterations or items: at most `size` before the last `back`."""
    repeated = span.iterations or span.items
    last = max(len(repeated) - back, 0)
    kept = repeated[max(last - size, 0) : last]
    return replace(span, iterations=kept if span.iterations else [], items=[] if span.iterations else kept)


@dataclass(frozen=True)
class _Viewer:
    questions: Sequence[Question]
    now: datetime

    def view(self, span: Span) -> StepView:
        own = [question for question in self.questions if question.address == span.address]
        groups = self._groups(span)
        is_running = span.status == "running"
        return StepView(
            address=span.address,
            name=span.name,
            mark=_mark_step(span, own, groups),
            title=span.title,
            kind=span.kind if kind_named(span.kind).shows_kind else None,
            branch=span.branch,
            turn=span.turn,
            seconds=self._measure(span.started, span.ended, is_running=is_running),
            output=span.output,
            error=span.error,
            reason=span.reason,
            outcome=span.outcome,
            is_cached=kind_named(span.kind).skips_known_results and span.status == "completed" and not span.steps,
            is_verified=span.verified,
            until=span.until if is_running else None,
            exit_reason=None if span.exit is None else span.exit.reason,
            requests=span.spent.requests,
            spent=span.spent_in_all if _is_whole(span) else span.spent,
            replies=span.replies,
            revision=span.revisions[-1] if span.revisions else None,
            answers=span.answers,
            messages=span.messages,
            questions=own,
            groups=groups,
            workflow=span.workflow,
            earlier=_count_earlier(span),
            items=_count_items(span),
        )

    def _groups(self, span: Span) -> list[GroupView]:
        groups = [self._group("own", "", span.steps)] if span.steps else []
        groups += [self._group("branch", name, steps) for name, steps in span.branches.items()]
        groups += [self._repetition("iteration", iteration) for iteration in span.iterations]
        return groups + [self._repetition("item", item) for item in span.items]

    def _group(self, kind: Literal["own", "branch"], branch: str, spans: Sequence[Span]) -> GroupView:
        steps = [self.view(span) for span in spans]
        return GroupView(kind, steps, _mark_all(steps), branch)

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
            spent=sum((span.spent_in_all for span in repetition.steps), Spending()) if is_whole else Spending(),
            error=repetition.error,
        )

    def _measure(self, started: datetime | None, ended: datetime | None, *, is_running: bool) -> float | None:
        until = ended or (self.now if is_running else None)
        return None if started is None or until is None else max((until - started).total_seconds(), 0.0)


def _mark_step(span: Span, own: Sequence[Question], groups: Sequence[GroupView]) -> Mark:
    """Return the mark of a step: one that runs waits where a question is open in it, and nothing else goes on."""
    for mark in _CLOSED_MARKS:
        if mark == span.status:
            return mark
    is_waiting = bool(own) or any(group.mark == "waiting" for group in groups)
    return "waiting" if is_waiting and not any(group.mark == "running" for group in groups) else "running"


def _mark_all(steps: Sequence[StepView]) -> Mark:
    return min((step.mark for step in steps), key=_STRONGEST.index, default="completed")


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
