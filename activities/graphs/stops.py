"""The places at which a graph of LangGraph waits for people, and what is asked there. Used by its calls."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from langgraph.constants import END
from langgraph.types import Interrupt, PregelTask, StateSnapshot

from holdfast.activities.interrupt import question_about
from holdfast.blueprint.questions import Asked, Input
from holdfast.protocol.address import segment

_ALL = "*"


@dataclass(frozen=True)
class Stop:
    """A place at which a graph waits for an answer: an interrupt, or a breakpoint that its author has set."""

    path: str
    id: str
    """Id of the interrupt, or of the checkpoint at the breakpoint."""
    interrupt: Interrupt[Any] | None = None
    task: str = ""
    """Id of the task that has interrupted."""


def read_question(interrupt: Interrupt[Any]) -> Asked:
    """Return the question of an interrupt: one of ours as it is, a form by its schema, else any answer will do."""
    if isinstance(interrupt.value, Asked):
        return interrupt.value
    asked = question_about(interrupt.value)
    if isinstance(interrupt.response_schema, dict):
        return Input(message=asked.message, form=interrupt.response_schema, info=asked.info)
    return asked


def read_pending(state: StateSnapshot, above: str) -> Iterator[tuple[str, Interrupt[Any], str]]:
    """Yield the interrupts that wait with the path of their node and their task, also those of nodes in subgraphs."""
    waiting = {interrupt.id for interrupt in state.interrupts}
    for task in state.tasks:
        path = f"{above};{segment('level', task.name)}" if above else segment("level", task.name)
        inner = list(read_pending(task.state, path)) if isinstance(task.state, StateSnapshot) else []
        yield from inner
        seen = {interrupt.id for _, interrupt, _ in inner}
        yield from ((path, interrupt, task.id) for interrupt in _select_unseen(task, seen) if interrupt.id in waiting)


def _select_unseen(task: PregelTask, seen: set[str]) -> list[Interrupt[Any]]:
    return [interrupt for interrupt in task.interrupts if interrupt.id not in seen]


def choose_names(names: Sequence[str], chosen: str | Sequence[str]) -> list[str]:
    """Return the names at which an author has set breakpoints."""
    if chosen == _ALL:
        return [name for name in names if name != END and not name.startswith("__")]
    return [name for name in names if name in chosen]
