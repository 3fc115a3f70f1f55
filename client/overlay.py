"""The state of a run as an overlay for the graph of its blueprint. `holdfast graph --run` draws it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from holdfast.blueprint.graph import Path, RunOverlay, State
from holdfast.blueprint.graph.overlay import path_of_stop
from holdfast.client.views import Mark, StepView
from holdfast.protocol.address import parts
from holdfast.protocol.questions import Question

STATES: dict[Mark, State] = {
    "completed": "done",
    "failed": "failed",
    "cancelled": "failed",
    "running": "running",
    "waiting": "running",
    "paused": "running",
    "skipped": "skipped",
    "denied": "skipped",
    "superseded": "skipped",
    "undone": "skipped",
}
_STRONGEST: tuple[State, ...] = ("running", "failed", "done", "skipped")
"""The order in which a state wins where a step ran for several items."""


def mark_steps(run: StepView, questions: Iterable[Question]) -> RunOverlay:
    """Return the state of each step, from the steps and the open questions of a run.

    >>> from holdfast.client.views import GroupView
    >>> ask = StepView("ask", "hitl", "pipeline:talk;loop:again:2;hitl:ask", "running")
    >>> second = GroupView("iteration", [ask], "running", n=2)
    >>> loop = StepView("again", "loop", "pipeline:talk;loop:again", "running", groups=[second])
    >>> own = GroupView("own", [loop], "running")
    >>> marks = mark_steps(StepView("talk", "pipeline", "pipeline:talk", "waiting", groups=[own]), [])
    >>> marks.states[("again", "ask")], marks.rounds
    ('running', {('again',): 2})
    """
    steps = {step.address: step for step in _list_current(run)}
    states: dict[Path, State] = {}
    for address, step in steps.items():
        for path in _paths(address, step):
            state = STATES[step.mark]
            states[path] = min(state, states.get(path, state), key=_STRONGEST.index)
    rounds = {make_path(address): step.iterations[-1].n for address, step in steps.items() if step.iterations}
    return RunOverlay(states, rounds, frozenset(map(_path_of_question, questions)))


def _path_of_question(question: Question) -> Path:
    if question.asked.stopped_at is None:
        return make_path(question.address)
    step, position = question.asked.stopped_at
    return path_of_stop(make_path(step), position)


def make_path(address: str) -> Path:
    """Return the path of an address in the graph: the names without kinds and iterations.

    >>> make_path("pipeline:brief;loop:clarify:2;conditional:how;branch:warm;hitl:review")
    ('clarify', 'how', 'warm', 'review')
    """
    return tuple(id_ for _, id_, _ in parts(address)[1:])


def _paths(address: str, step: StepView) -> list[Path]:
    """Return the path of a step and those of the branches that it took."""
    own = make_path(address)
    at_once = [group.branch for group in step.branches]
    return [own, *((*own, branch) for branch in (at_once if step.branch is None else [step.branch]))]


def _list_current(step: StepView) -> Iterator[StepView]:
    """Yield a step and all below it; of a loop, those of the last iteration and of those under way.

    What a plan before did is left out.
    """
    yield step
    # A plan's loop may work on several items at once.
    left = [group for group in step.iterations[:-1] if STATES[group.mark] != "running"] + step.earlier_plans
    for group in step.groups:
        if group not in left:
            for inner in group.steps:
                yield from _list_current(inner)
