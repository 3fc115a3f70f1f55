"""Flujo's loops: how they end, who speaks in their conversation, what they write."""

from __future__ import annotations

from typing import Any

from holdfast.blueprint.source import PlacedDict, PlacedList
from holdfast.cli.flujo.nesting import find_steps, list_steps
from holdfast.cli.flujo.notes import Notes

_WITHOUT_EQUAL = {
    "named_steps": "ai_turn_source names one step, or is `last`",
    "user_turn_sources": "the answers of people are the turns of the user",
}
_MOST_ITERATIONS = 5
"""Of a loop of Flujo's that says its end, and not how many; one that says neither runs once."""
_ENDS = ("exit_expression", "exit_condition", "stop_when", "conversation")
_OPERATIONS = ("set", "append", "merge")


def convert_loop(loop: Any, notes: Notes) -> None:
    """Turn what a loop says of itself; its steps are turned after it."""
    if not isinstance(loop, PlacedDict):
        return
    notes.drop(loop, _WITHOUT_EQUAL, left=True)
    _convert_limit(loop, notes)
    _convert_speaker(loop, notes)
    _convert_history(loop.get("history_management"), notes)
    for key in ("init", "state"):
        _drop_lost_writes(loop, key, notes)


def _convert_limit(loop: PlacedDict, notes: Notes) -> None:
    """Say how often a loop runs at most, after which Flujo goes on."""
    if "max_iterations" in loop and "max_loops" not in loop:
        value, places = loop.take("max_iterations")
        loop.put("max_loops", value, places)
        notes.change(places[0], "max_iterations is called max_loops")
    if "max_loops" not in loop:
        most = _MOST_ITERATIONS if any(key in loop for key in _ENDS) else 1
        loop.put("max_loops", most, loop.place)
        notes.change(loop.place, f"a loop that does not say how often it runs ends in Flujo as max_loops: {most} does")
    if "on_max_loops" not in loop and any(key in loop for key in _ENDS):
        loop.put("on_max_loops", "finish", loop.place)
        notes.change(loop.key_place("max_loops"), "after max_loops Flujo goes on: on_max_loops: finish")


def _convert_speaker(loop: PlacedDict, notes: Notes) -> None:
    """Name the step that speaks in a conversation."""
    if loop.get("ai_turn_source") in ("named_steps", "all_agents"):
        text = f"ai_turn_source: {loop['ai_turn_source']} became last: name one step if another one speaks"
        notes.leave(loop.value_place("ai_turn_source"), text)
        loop["ai_turn_source"] = "last"
    body = find_steps(loop.get("body"))
    if loop.get("conversation") is not True or loop.get("ai_turn_source") != "last" or body is None:
        return
    steps = [step for step in body if isinstance(step, PlacedDict)]
    if not steps or any(key in step for step in list_steps(body) for key in ("agent", "uses", "planner")):
        return
    plain = [step for step in steps if step.get("kind", "step") == "step" and isinstance(step.get("name"), str)]
    loop["ai_turn_source"] = speaker = (plain or steps)[-1]["name"]
    text = f"no step of the body has an agent: the turns are those of {speaker}"
    notes.change(loop.value_place("ai_turn_source"), text)


def _convert_history(history: Any, notes: Notes) -> None:
    if not isinstance(history, PlacedDict):
        return
    if "summarize_ratio" in history:
        _, (place, _) = history.take("summarize_ratio")
        notes.leave(place, "summarize_ratio was left out: say max_tokens, or max_turns")
    if history.get("strategy") == "summarize" and "agent" not in history:
        text = "strategy: summarize became truncate_turns: to summarise, name the agent that writes the summary"
        notes.leave(history.value_place("strategy"), text)
        history["strategy"] = "truncate_turns"
        if "max_turns" not in history:
            history.put("max_turns", 20, history.place)


def _drop_lost_writes(loop: PlacedDict, key: str, notes: Notes) -> None:
    """Leave out of `init` or `state` what is written outside the context, which Flujo passes over."""
    match loop.get(key):
        case PlacedDict() as operations:
            for kind in [kind for kind in _OPERATIONS if isinstance(operations.get(kind), PlacedList)]:
                operations[kind] = _keep_writes(operations[kind], notes)
                if not operations[kind]:
                    operations.take(kind)
        case PlacedList() as listed:
            loop[key] = _keep_writes(listed, notes)
    if key in loop and not loop[key]:
        loop.take(key)


def _keep_writes(operations: PlacedList, notes: Notes) -> PlacedList:
    kept = PlacedList(operations.place)
    for operation, place in zip(operations, operations.places, strict=True):
        target = _find_target(operation)
        if target is None or target.strip().startswith("context."):
            kept.add(operation, place)
        else:
            notes.leave(place, f"{target} is outside the context, where Flujo writes nothing: left out")
    return kept


def _find_target(operation: Any) -> str | None:
    """Return the target of `{target, value}`, `{set: {target, value}}` or `{set: target, value}`."""
    if not isinstance(operation, PlacedDict):
        return None
    for kind in _OPERATIONS:
        if kind in operation:
            inner = operation[kind]
            return inner if isinstance(inner, str) else _find_target(inner)
    target = operation.get("target")
    return target if isinstance(target, str) else None
