"""Failures that a run had met and not handled yet when it broke off, read from its events. For `past_runs`.

A step that fails ends the branches beside it, and waits for their end before it fails what is around it. If the run
breaks off meanwhile, by a cancel or by another failure, nobody has heard of this one.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from holdfast.blueprint.kinds import Blueprint
from holdfast.client.places import list_steps
from holdfast.protocol.address import Address, is_inside, name_at, parts
from holdfast.protocol.events import (
    BranchCompleted,
    Event,
    ItemCompleted,
    StepCompleted,
    StepFailed,
    StepSkipped,
    StepStarted,
)
from holdfast.protocol.runs import Failure

_ENDS = (BranchCompleted, ItemCompleted, StepCompleted, StepSkipped, StepStarted)
"""Events that what is around a failure has after it was handled; `StepStarted`, where the step runs again."""


def find_open_failures(events: Sequence[Event], blueprint: Blueprint, broken_at: datetime) -> list[Failure]:
    """Return the failures before a moment that were on their way outwards then, each with its innermost step.

    Args:
        events: Those of the run, in any order.
        blueprint: Its blueprint.
        broken_at: When the run broke off.
    """
    open_: dict[str, Failure] = {}
    before = (event for event in events if event.time < broken_at)
    for event in sorted(before, key=lambda event: event.time):
        if not isinstance(event.data, (StepFailed, *_ENDS)):
            continue
        inside = [open_.pop(address) for address in list(open_) if is_inside(address, event.address)]
        if isinstance(event.data, StepFailed) and _fails_around(event.address, blueprint):
            own = Failure(type=event.data.error, message=event.data.message, address=Address(event.address))
            open_[event.address] = inside[-1] if inside else own
    return list(open_.values())


def _fails_around(address: str, blueprint: Blueprint) -> bool:
    """Return whether the step at an address fails what is around it; the steps of a plan do not."""
    steps = list_steps(blueprint, Address(address))
    is_its = bool(steps) and (steps[-1].segment, steps[-1].name) == (parts(address)[-1][0], name_at(address))
    return is_its and steps[-1].on_error == "fail"
