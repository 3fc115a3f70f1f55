"""Short forms of loops: conversations, exits, what is handed on, what comes out."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from blueprint.grammar import LoopBlock
from blueprint.source import Place, PlacedDict
from blueprint.spelling import nearest
from blueprint.sugar.notes import Notes
from blueprint.sugar.writes import writes_core

AGENT_FINISHED = "context.scratchpad.last_agent_command.action == 'finish'"
HISTORY = "context.scratchpad.history"
JOINED_HISTORY = "{{ " + HISTORY + " | join('\\n') }}"
_FIELDS = {"initial_prompt": "{{ input }}", "conversation_history": JOINED_HISTORY}
_INPUTS = ("context", "previous_output", "auto")

StepsCore = Callable[[Any, Place, str, Notes], Any]


def loop_core(written: PlacedDict, path: str, notes: Notes, steps_core: StepsCore) -> PlacedDict:
    block = notes.spelled(written, LoopBlock, path)
    if "body" in block:
        block["body"] = steps_core(block["body"], block.value_place("body"), f"{path}.body", notes)
    for key in ("init", "state"):
        if key in block:
            block[key] = writes_core(block[key], f"{path}.{key}", notes, presets=key == "init")
    if block.get("conversation") is True:
        _conversation(block)
    _exit(block, path, notes)
    _propagation(block, path, notes)
    _output(block)
    if block.get("ai_turn_source") == "last":
        _last_turn_source(block, path, notes)
    return block


def _conversation(block: PlacedDict) -> None:
    """What a conversation means where its author says nothing else."""
    place = block.key_place("conversation")
    if "propagation" not in block and "iteration_input_mapper" not in block:
        block.put("propagation", "context", place)
    if block.get("stop_when") is None:
        block.put("stop_when", "agent_finished", place)
    if block.get("ai_turn_source") is None and (agents := _agent_steps(block.get("body"))):
        block.put("ai_turn_source", agents[-1], place)


def _exit(block: PlacedDict, path: str, notes: Notes) -> None:
    if "stop_when" not in block:
        return
    value, places = block.take("stop_when")
    if value is None:
        return
    if value != "agent_finished":
        told, hint = f"'stop_when' must be 'agent_finished', not {value!r}", "write a condition as `exit_expression`"
        notes.add(places[1], f"{path}.stop_when", "bad_value", told, hint)
    if block.get("exit_expression") is None and block.get("exit_condition") is None:
        block.put("exit_expression", AGENT_FINISHED, places)


def _propagation(block: PlacedDict, path: str, notes: Notes) -> None:
    match block.get("propagation"):
        case str(preset):
            place = block.value_place("propagation")
            block["propagation"] = PlacedDict(place)
            block["propagation"].put("next_input", preset, place)
        case PlacedDict() as written:
            block["propagation"] = written.copy()
        case _:
            return
    propagation = block["propagation"]
    match propagation.get("next_input"):
        case "auto":
            updates = _updates_context(block.get("body"))
            propagation["next_input"] = "context" if updates else "previous_output"
        case str(word) if word not in _INPUTS and re.fullmatch(r"\s*\w*\s*", word):
            close = nearest(word, _INPUTS)
            hint = f"did you mean {close!r}?" if close else "a template has {{ … }}"
            told = f"the next input must be context, previous_output, auto or a template, not {word!r}"
            place = propagation.value_place("next_input")
            notes.add(place, f"{path}.propagation.next_input", "bad_value", told, hint)
            propagation["next_input"] = "previous_output"


def _output(block: PlacedDict) -> None:
    match block.get("output"):
        case {"text": "conversation_history", **others} if not others and "output_template" not in block:
            _, places = block.take("output")
            block.put("output_template", JOINED_HISTORY, places)
        case {"fields": PlacedDict() as written, **others} if not others:
            fields = block["output"] = written.copy()
            for name, value in written.items():
                if isinstance(value, str):
                    fields[name] = _FIELDS.get(value, value)


def _last_turn_source(block: PlacedDict, path: str, notes: Notes) -> None:
    body = block.get("body")
    if any(isinstance(step, dict) and step.get("name") == "last" for step in body or ()):
        return
    if agents := _agent_steps(body):
        block["ai_turn_source"] = agents[-1]
        return
    place, hint = block.value_place("ai_turn_source"), "name the step that speaks for the assistant"
    notes.add(place, f"{path}.ai_turn_source", "unknown_name", "no step of the body has an agent", hint)
    block.take("ai_turn_source")


def _agent_steps(steps: Any) -> list[str]:
    """The names of a list's steps with agents, those inside conditionals too, but not those of inner loops."""
    found: list[str] = []
    for step in steps if isinstance(steps, list) else ():
        match step:
            case {"kind": "step", "agent": _, "name": str(name)}:
                found.append(name)
            case {"kind": "conditional"}:
                branches = step.get("branches")
                for branch in branches.values() if isinstance(branches, dict) else ():
                    found += _agent_steps(branch)
                found += _agent_steps(step.get("default_branch"))
    return found


def _updates_context(value: Any) -> bool:
    match value:
        case dict():
            return (value.get("updates_context") is True and "name" in value) or any(
                _updates_context(part) for part in value.values()
            )
        case list():
            return any(_updates_context(part) for part in value)
    return False
