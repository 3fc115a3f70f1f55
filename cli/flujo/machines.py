"""Flujo's state machines, as `states`."""

from __future__ import annotations

from typing import Any

from holdfast.blueprint.source import PlacedDict, PlacedList
from holdfast.cli.flujo.notes import Notes

KIND = "StateMachine"
_NEXT = "context.next_state"
"""Where a step of a machine of Flujo's may write what follows."""


def convert_machine(step: PlacedDict, notes: Notes) -> None:
    """Turn a state machine in place; its states' steps are turned after it.

    Args:
        step: A step of kind `StateMachine`.
        notes: Gets what was changed, and what is left.
    """
    place = step.place
    states = step.get("states")
    if not isinstance(states, PlacedDict):
        return
    ends = [end for end in step.get("end_states") or [] if isinstance(end, str)]
    if step.get("start_state") in ends:
        _do_nothing(step, notes)
        return
    step["kind"] = "states"
    for old, new in (("start_state", "start"), ("end_states", "ends")):
        if old in step:
            step.put(new, *step.take(old))
    rules = step.take("transitions")[0] if "transitions" in step else None
    rules = rules if isinstance(rules, PlacedList) else PlacedList(place)
    step["states"] = kept = PlacedDict(states.place)
    targets = [*states, *(end for end in ends if end not in states)]
    for name, steps in states.items():
        if name in ends:
            continue
        body = steps.get("steps") if isinstance(steps, PlacedDict) else steps
        state = PlacedDict.at(steps.place if isinstance(steps, PlacedDict | PlacedList) else place, steps=body)
        state.put("next", _next(name, targets, rules, notes), place)
        kept.put(name, state, states.places[name])
    _drop_unreached(step, kept, notes)
    if dropped := [name for name in states if name in ends]:
        notes.change(place, f"an end has no steps, as Flujo never ran them: {', '.join(dropped)} are names in ends")
    notes.change(place, "StateMachine is the kind states: each state says in next what follows it")


def _do_nothing(step: PlacedDict, notes: Notes) -> None:
    """Turn a machine that begins at an end: it runs nothing, and gives null."""
    for key in [key for key in ("kind", "start_state", "end_states", "states", "transitions") if key in step]:
        step.take(key)
    step.put("input", None, step.place)
    notes.change(step.place, "the machine begins at an end: it is a step that does nothing")


def _drop_unreached(step: PlacedDict, states: PlacedDict, notes: Notes) -> None:
    """Leave out ends that nothing leads to, as only a failure did."""
    following = [state.get("next") for state in states.values()]
    if any(isinstance(each, PlacedDict) and _NEXT in str(each.get("value")) for each in following):
        return
    reached = {name for each in following for name in (each["to"] if isinstance(each, PlacedDict) else [each])}
    ends = step.get("ends")
    if not isinstance(ends, PlacedList):
        return
    unreached = [end for end in ends if end not in reached]
    if unreached and len(unreached) < len(ends):
        place = step.value_place("ends")
        step["ends"] = PlacedList.at(place, *(end for end in ends if end in reached))
        notes.change(place, f"no state leads to {', '.join(unreached)}: a failed step fails the run")


def _next(name: str, targets: list[str], rules: PlacedList, notes: Notes) -> Any:
    """Return what follows a state: the first rule that holds, else what a step wrote to the context."""
    value = f"({_NEXT} or '{name}')"
    for rule in reversed([rule for rule in rules if isinstance(rule, PlacedDict) and rule.get("from") in ("*", name)]):
        if rule.get("on") == "pause":
            notes.change(rule.place, "the rule for a pause was left out: a question waits where it is")
        elif rule.get("on") == "failure":
            notes.leave(rule.place, f"on: failure was left out: say at the steps of {name} what their on_error is")
        elif rule.get("when") is None:
            value = f"'{rule.get('to')}'"
        else:
            value = f"('{rule.get('to')}' if {rule['when']} else {value})"
    if value.startswith("'"):
        return value.strip("'")
    if _NEXT not in value:
        targets = [target for target in targets if f"'{target}'" in value]
    return PlacedDict.at(rules.place, value=value, to=PlacedDict.at(rules.place, **{each: each for each in targets}))
