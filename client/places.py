"""The places of a run from which another one may go on: which there are, and what is independent of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from holdfast.blueprint.expressions.error import did_you_mean
from holdfast.blueprint.kinds import AnyStep, Blueprint
from holdfast.blueprint.kinds.base import Block, Fallback
from holdfast.blueprint.kinds.needs import find_needs, has_needs
from holdfast.protocol.address import OPAQUE, Address, find_opaque, is_inside, name_at, parts, segment, within
from holdfast.protocol.events import (
    BranchStarted,
    BranchSuperseded,
    Event,
    ItemStarted,
    LoopIteration,
    StepCompleted,
    StepFailed,
    StepSkipped,
    StepStarted,
)
from holdfast.protocol.past import ResumePoint
from holdfast.runtime.errors import Ambiguous, BadInput

PLACES = (StepStarted, StepSkipped, LoopIteration, ItemStarted, BranchStarted)
"""Events at whose address another run may begin."""
ENDS = (StepCompleted, StepFailed, StepSkipped)


@dataclass(frozen=True)
class _StepAround:
    """A step around a place, or the step there."""

    steps: Sequence[AnyStep]
    """The list in which it stands."""
    owner: AnyStep
    """The step of that list: the step itself, or the one that has failed and in whose place it runs."""
    step: AnyStep
    address: Address
    """Without the number of an iteration or an item."""


def find_place(events: Sequence[Event], at: str) -> Address:
    """Return the address that somebody names: whole, by its end, or by the name of a step.

    Raises `BadInput` for a place that the run did not come to, and `Ambiguous` for one that stands several times in it.
    """
    places = list(dict.fromkeys(event.address for event in events if isinstance(event.data, PLACES)))
    if at in places:
        return Address(at)
    named = [place for place in places if _is_named(place, at)]
    named = [place for place in named if parts(place)[-1][2] is None] or named
    if not named:
        for event in events:
            if event.address == at or _is_named(event.address, at):
                _check_outside(event.address)
        hint = did_you_mean(at, [*places, *map(name_at, places)]) or "`holdfast show RUN --json` has the addresses"
        raise BadInput(f"the run did not come to {at!r}; {hint}")
    if len(named) > 1:
        if all(map(find_opaque, named)):
            _check_outside(named[0])
        raise Ambiguous(f"{at!r} stands several times in the run: {', '.join(named[:5])}")
    return Address(named[0])


def _is_named(place: Address, at: str) -> bool:
    """Return whether somebody may mean a place by its end, or by the name of what is there."""
    return place.endswith(f";{at}") or name_at(place) == at


def _check_outside(at: Address) -> None:
    """Raise `BadInput` for a place inside what a run can only begin as a whole."""
    if (inside := find_opaque(at)) is not None:
        raise BadInput(f"a run cannot begin inside the {inside}: begin at that step, or at one behind it")


def check_place(at: Address, events: Sequence[Event]) -> None:
    """Raise `BadInput` for a place that no run can begin at, as the events of its run say."""
    lost = [event.address for event in events if isinstance(event.data, BranchSuperseded)]
    for branch in lost:
        if is_inside(at, branch):
            message = f"the branch {name_at(branch)} has lost its race, so that a run would not come to {at} again"
            raise BadInput(f"{message}: begin at the step around it, or in the branch that has won")
    _check_outside(at)


def find_goal(events: Sequence[Event], failed: str, ended: datetime) -> Address | None:
    """Return the innermost place that a run had come to when it broke off, outside of agents and plans.

    Args:
        events: Those of the run, in order.
        failed: The address of its failure; empty for one that was ended from outside: the last place still at work.
        ended: When it broke off.
    """
    places = {event.address for event in events if isinstance(event.data, PLACES)}
    over = {event.address for event in events if isinstance(event.data, ENDS) and event.time < ended}
    begun = [event.address for event in events if isinstance(event.data, StepStarted) and event.address not in over]
    segments = (failed or (begun[-1] if begun else "")).split(";")
    inner = next((depth for depth, segment_ in enumerate(segments) if parts(segment_)[0][0] in OPAQUE), len(segments))
    around = [";".join(segments[: depth + 1]) for depth in range(min(inner + 1, len(segments)))]
    return next((Address(address) for address in reversed(around) if address in places), None)


def describe_place(blueprint: Blueprint, at: Address) -> ResumePoint:
    """Return a place with what is independent of it, as its blueprint says."""
    levels = list(_walk(blueprint, at))
    lines = [level.address for level in levels if level.step.takes_turns]
    return ResumePoint(
        address=at, lines=lines, independent=[step for level in levels for step in _list_independent(level)]
    )


def list_steps(blueprint: Blueprint, at: Address) -> list[AnyStep]:
    """Return the steps around a place, from the outermost one to that at the place."""
    return [level.step for level in _walk(blueprint, at)]


def _list_independent(level: _StepAround) -> Iterator[Address]:
    """Yield the steps of a list that neither need the step on the way to the place nor are needed by it."""
    if not has_needs(level.steps):
        return
    needs, name = find_needs(level.steps), level.owner.name
    around = Address(level.address.rpartition(";")[0])
    for step in level.steps:
        if step.name != name and name not in needs[step.name] and step.name not in needs[name]:
            yield within(around, step.segment, step.name)


def _walk(blueprint: Blueprint, at: Address) -> Iterator[_StepAround]:
    """Yield the steps around a place, from the outermost one to that at the place."""
    lists: list[Sequence[AnyStep]] = [blueprint.steps]
    blocks: Mapping[str, Block] = {}
    segments = at.split(";")
    for depth, (kind, name, _) in enumerate(parts(at)):
        found = [level for steps in lists for level in _list_owned(steps) if _is_at(level[2], kind, name)]
        if found:
            steps, owner, step = found[0]
            yield _StepAround(steps, owner, step, Address(";".join([*segments[:depth], segment(kind, name)])))
            if step.import_alias is not None:
                blueprint = blueprint.imports[step.import_alias]
            blocks = step.blocks()
            lists = [block.steps for block in blocks.values()] if step.import_alias is None else [blueprint.steps]
        elif kind == "branch":
            lists = [block.steps for key, block in blocks.items() if _is_branch(key, name)] or lists


def _list_owned(steps: Sequence[AnyStep]) -> Iterator[tuple[Sequence[AnyStep], AnyStep, AnyStep]]:
    """Yield list, owner and step for each step of a list, and for each that runs in its place if it fails."""
    for owner in steps:
        step: AnyStep | None = owner
        while step is not None:
            yield steps, owner, step
            step = step.on_error.fallback if isinstance(step.on_error, Fallback) else None


def _is_at(step: AnyStep, kind: str, name: str) -> bool:
    return (step.segment, step.name) == (kind, name)


def _is_branch(key: str, name: str) -> bool:
    """Return whether a block, by its path in the step, is the branch or the state of a name.

    >>> [_is_branch(key, "paid") for key in ("branches.paid", "states.paid.steps", "branches.unpaid", "steps")]
    [True, True, False, False]
    """
    return key in (name, f"branches.{name}", f"states.{name}.steps")
