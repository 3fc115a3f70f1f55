"""Short forms of what stands under `loop:`: conversations, exits, propagation, outputs."""

from __future__ import annotations

import re

from holdfast.blueprint.expressions.error import did_you_mean, nearest
from holdfast.blueprint.kinds.base import Step
from holdfast.blueprint.kinds.expansion import Expansion, expand_condition
from holdfast.blueprint.kinds.loop_block import LoopBlock
from holdfast.blueprint.kinds.operations import expand_operations
from holdfast.blueprint.source import PlacedDict, Position

AGENT_FINISHED = "context.scratchpad.last_agent_command.action == 'finish'"
HISTORY = "context.scratchpad.history"
JOINED_HISTORY = "{{ " + HISTORY + " | join('\\n') }}"
_FIELDS = {"initial_prompt": "{{ input }}", "conversation_history": JOINED_HISTORY}
_INPUTS = ("context", "previous_output", "auto")
_ROOTS = "input|context|steps|previous_step|output|resume_input|iteration|history|item|index"
_NAME = re.compile(rf"\s*(?:{_ROOTS})(?:\.\w+|\[[^\]]*\])*\s*(?:\|.*)?", re.DOTALL)
"""Text that looks like a name to read; without braces it would be output as the text itself."""
_WORD = re.compile(r"\s*\w+\s*")
_DEFAULT_INPUT = Step.model_fields["input"].default


def expanded_block(definition: PlacedDict, path: str, expansion: Expansion) -> PlacedDict:
    block = expansion.correct_keys(definition, LoopBlock, path)
    if "body" in block:
        block["body"] = expansion.steps(block["body"], block.value_place("body"), f"{path}.body")
    for key in ("init", "state"):
        if key in block:
            block[key] = expand_operations(block[key], f"{path}.{key}", expansion, presets=key == "init")
    if block.get("conversation") is True:
        _conversation(block)
    _exit(block, path, expansion)
    _propagation(block, path, expansion)
    _output(block, path, expansion)
    if block.get("ai_turn_source") == "last":
        _last_turn_source(block, path, expansion)
    expand_condition(block, "exit_expression")
    return block


def _conversation(block: PlacedDict) -> None:
    """Set the defaults of a conversation that the author leaves out."""
    place = block.key_place("conversation")
    if "propagation" not in block and "iteration_input_mapper" not in block:
        block.put("propagation", "context", place)
    if block.get("stop_when") is None:
        block.put("stop_when", "agent_finished", place)
    if block.get("ai_turn_source") is None and (agents := _agent_steps(block.get("body"))):
        block.put("ai_turn_source", agents[-1], place)
    _keep_written_inputs(block.get("body"))


def _keep_written_inputs(value: object) -> None:
    """Keep an input that equals the default apart from none: without one an agent gets the turns alone."""
    match value:
        case dict():
            if "name" in value and value.get("input") == _DEFAULT_INPUT:
                value["input"] = "{{ output }}"  # another name of the same
            for part in value.values():
                _keep_written_inputs(part)
        case list():
            for part in value:
                _keep_written_inputs(part)


def _exit(block: PlacedDict, path: str, expansion: Expansion) -> None:
    if "stop_when" not in block:
        return
    value, places = block.take("stop_when")
    if value is None:
        return
    if value != "agent_finished":
        message, hint = f"'stop_when' must be 'agent_finished', not {value!r}", "write a condition as `exit_expression`"
        expansion.add(places[1], f"{path}.stop_when", "bad_value", message, hint)
    if block.get("exit_expression") is None and block.get("exit_condition") is None:
        block.put("exit_expression", AGENT_FINISHED, places)


def _propagation(block: PlacedDict, path: str, expansion: Expansion) -> None:
    match block.get("propagation"):
        case str(preset):
            place = block.value_place("propagation")
            block["propagation"] = PlacedDict.at(place, next_input=preset)
        case PlacedDict() as mapping:
            block["propagation"] = mapping.copy()
        case _:
            return
    propagation = block["propagation"]
    match propagation.get("next_input"):
        case "auto":
            updates = _updates_context(block.get("body"))
            propagation["next_input"] = "context" if updates else "previous_output"
        case str(word) if word not in _INPUTS and (_WORD.fullmatch(word) or not word.strip() or _NAME.fullmatch(word)):
            hint = did_you_mean(word, _INPUTS) or "a template has {{ … }}"
            message = f"the next input must be context, previous_output, auto or a template, not {word!r}"
            place = propagation.value_place("next_input")
            expansion.add(place, f"{path}.propagation.next_input", "bad_value", message, hint)
            propagation["next_input"] = "previous_output"


def _output(block: PlacedDict, path: str, expansion: Expansion) -> None:
    match block.get("output"):
        case {"text": "conversation_history", **others} if not others and "output_template" not in block:
            _, places = block.take("output")
            block.put("output_template", JOINED_HISTORY, places)
        case {"text": str(value), **others} if not others and (nearest(value, _FIELDS) or _NAME.fullmatch(value)):
            _refuse_preset(value, block["output"].value_place("text"), f"{path}.output.text", expansion)
        case {"fields": PlacedDict() as mapping, **others} if not others:
            fields = block["output"] = mapping.copy()
            for name, value in mapping.items():
                if isinstance(value, str):
                    fields[name] = _FIELDS.get(value, value)
                    if value not in _FIELDS and (_WORD.fullmatch(value) or _NAME.fullmatch(value)):
                        _refuse_preset(value, mapping.value_place(name), f"{path}.output.fields.{name}", expansion)


def _refuse_preset(value: str, place: Position, path: str, expansion: Expansion) -> None:
    """Report a text that is no preset and no template: it would come out as it is written."""
    if _NAME.fullmatch(value):
        otherwise = f"a template has {{{{ … }}}}: {{{{ {value.strip()} }}}}"
    else:
        otherwise = f"known here: {', '.join(_FIELDS)}; a text of your own is {{{{ {value.strip()!r} }}}}"
    hint = did_you_mean(value.strip(), _FIELDS) or otherwise
    expansion.add(place, path, "bad_value", f"{value!r} is neither a preset nor a template", hint)


def _last_turn_source(block: PlacedDict, path: str, expansion: Expansion) -> None:
    body = block.get("body")
    if any(isinstance(step, dict) and step.get("name") == "last" for step in body or ()):
        return
    if agents := _agent_steps(body):
        block["ai_turn_source"] = agents[-1]
        return
    place, hint = block.value_place("ai_turn_source"), "name the step that speaks for the assistant"
    expansion.add(place, f"{path}.ai_turn_source", "unknown_name", "no step of the body has an agent", hint)
    block.take("ai_turn_source")


def _agent_steps(steps: object) -> list[str]:
    """Return the names of the steps with agents, those inside conditionals too, but not those of inner loops."""
    names: list[str] = []
    for step in steps if isinstance(steps, list) else ():
        match step:
            case {"kind": "step", "agent": _, "name": str(name)}:
                names.append(name)
            case {"kind": "conditional"}:
                branches = step.get("branches")
                for branch in branches.values() if isinstance(branches, dict) else ():
                    names += _agent_steps(branch)
                names += _agent_steps(step.get("default_branch"))
    return names


def _updates_context(value: object) -> bool:
    match value:
        case dict():
            return (value.get("updates_context") is True and "name" in value) or any(
                _updates_context(part) for part in value.values()
            )
        case list():
            return any(_updates_context(part) for part in value)
    return False
