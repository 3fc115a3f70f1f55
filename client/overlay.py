"""The state of a run as an overlay for the graph of its blueprint. `holdfast graph --run` draws it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from holdfast.blueprint.graph import Path, RunOverlay, State
from holdfast.blueprint.graph.overlay import path_of_stop
from holdfast.client.trace import Repetition, Span
from holdfast.protocol.address import parts
from holdfast.protocol.questions import Question

STATES: dict[str, State] = {
    "completed": "done",
    "failed": "failed",
    "cancelled": "failed",
    "running": "running",
    "waiting": "running",
    "paused": "running",
    "skipped": "skipped",
    "denied": "skipped",
}
_STRONGEST: tuple[State, ...] = ("running", "failed", "done", "skipped")
"""The order in which a state wins where a step ran for several items."""


def marks_of(trace: Span, questions: Iterable[Question]) -> RunOverlay:
    """Return the state of each step, from the trace and the open questions of a run.

    >>> ask = Span("ask", "hitl", "pipeline:talk;loop:again:2;hitl:ask", "running")
    >>> loop = Span("again", "loop", "pipeline:talk;loop:again", "running", iterations=[Repetition(2, [ask])])
    >>> marks = marks_of(Span("talk", "pipeline", "pipeline:talk", "waiting", steps=[loop]), [])
    >>> marks.states[("again", "ask")], marks.rounds
    ('running', {('again',): 2})
    """
    spans = {span.address: span for span in _spans(trace)}
    states: dict[Path, State] = {}
    for address, span in spans.items():
        for path in _paths(address, span):
            state = STATES.get(span.status, "running")
            states[path] = min(state, states.get(path, state), key=_STRONGEST.index)
    rounds = {path_of(address): span.iterations[-1].n for address, span in spans.items() if span.iterations}
    return RunOverlay(states, rounds, frozenset(map(_path_of_question, questions)))


def _path_of_question(question: Question) -> Path:
    if question.asked.stopped_at is None:
        return path_of(question.address)
    step, position = question.asked.stopped_at
    return path_of_stop(path_of(step), position)


def path_of(address: str) -> Path:
    """Return the path of an address in the graph: the names without kinds and iterations.

    >>> path_of("pipeline:brief;loop:clarify:2;conditional:how;branch:warm;hitl:review")
    ('clarify', 'how', 'warm', 'review')
    """
    return tuple(id_ for _, id_, _ in parts(address)[1:])


def _paths(address: str, span: Span) -> list[Path]:
    """Return the path of a span and those of the branches that it took."""
    own = path_of(address)
    taken = list(span.branches) if span.branch is None else [span.branch]
    return [own, *((*own, branch) for branch in taken)]


def _spans(span: Span) -> Iterator[Span]:
    """Yield a span and all spans below it; of a loop, those of the last iteration and of those under way."""
    yield span
    for child in replace(span, iterations=_current(span.iterations)).children():
        yield from _spans(child)


def _current(iterations: list[Repetition]) -> list[Repetition]:
    """Return the last iteration, and earlier ones that still run: a plan's loop may work on several items at once."""
    running = [
        iteration
        for iteration in iterations[:-1]
        if any(STATES.get(step.status) == "running" for step in iteration.steps)
    ]
    return [*running, *iterations[-1:]]
