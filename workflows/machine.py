"""A machine, the kind `states`, in the workflow of a loop: each visit of a state is an iteration."""

from __future__ import annotations

from typing import NamedTuple

from holdfast.blueprint.expressions.values import write_text
from holdfast.blueprint.json_values import JSON
from holdfast.blueprint.kinds import MachineState, NextState, States
from holdfast.protocol.children import LoopState
from holdfast.protocol.events import BranchCompleted, BranchStarted, StateLeft
from holdfast.workflows.failures import failure
from holdfast.workflows.frame import Frame


class Visit(NamedTuple):
    """A visit that is over: its output, and the state or the end that follows."""

    output: JSON
    next: str
    visits: dict[str, int]
    """How often each state was visited, this visit included."""


async def visit_state(step: States, reached: LoopState, frame: Frame, value: JSON) -> Visit:
    """Run the steps of the state that is due, in the frame of the iteration.

    Raises:
        StepFailure: `max_visits`, `no_transition`, or what its steps raise.
    """
    name = reached.at or step.start
    state, count = step.states[name], reached.visits.get(name, 0) + 1
    if state.max_visits is not None and count > state.max_visits:
        message = f"{step.name} came back to {name} after {state.max_visits} visits: max_visits"
        raise failure("max_visits", message, frame.address)
    inside = frame.inside("branch", name)
    inside.note(BranchStarted(branch=name))
    output = await frame.run_steps(state.steps, inside, value)
    chosen, target = _choose(name, state, inside.after(output))
    inside.note(BranchCompleted(branch=name))
    frame.note(StateLeft(state=name, next=target, value=chosen))
    return Visit(output, target, {**reached.visits, name: count})


def _choose(name: str, state: MachineState, frame: Frame) -> tuple[JSON, str]:
    """Return the value that chooses what follows, None if there is no choice, and what follows."""
    if not isinstance(state.next, NextState):
        return None, state.next
    value = frame.evaluate(state.next.value)
    target = state.next.to.get(write_text(value), state.next.other)
    if target is None:
        known = ", ".join(state.next.to)
        message = (
            f"nothing follows the state {name} for {write_text(value)!r}, and there is no else; there are: {known}"
        )
        raise failure("no_transition", message, frame.address)
    return value, target
