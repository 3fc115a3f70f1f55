"""Writes to the context before, between and after iterations: `init` and `state` of loops and maps."""

from __future__ import annotations

import re
from typing import ClassVar, Literal

from pydantic import Field, model_validator

from holdfast.blueprint.findings import Findings, check_path, may_be_object
from holdfast.blueprint.json_values import JSON
from holdfast.blueprint.kinds.expansion import Expansion
from holdfast.blueprint.parts import Part, Template
from holdfast.blueprint.source import PlacedDict, PlacedList, Position

_VERBS = ("set", "append", "merge")
_HISTORY = "context.scratchpad.history"
_NOTES = "context.scratchpad.notes"


class Write(Part):
    """A write: the path it goes to, and the value."""

    target: str = Field(
        description="A context path, such as `context.scratchpad.history`.", examples=["context.scratchpad.history"]
    )
    value: Template = Field(description="A template, or a mapping of them.", examples=["User: {{ input }}"])


class Operation(Part):
    """One write to the context: set a value, append to a list, merge into an object."""

    short_keys: ClassVar[tuple[str, ...]] = ("value",)

    set: Write | None = Field(
        None, description="The target gets the value.", examples=[{"target": "context.tries", "value": 0}]
    )
    append: Write | None = Field(
        None,
        description="The value is added to the list at the target.",
        examples=[{"target": "context.drafts", "value": "{{ previous_step }}"}],
    )
    merge: Write | None = Field(
        None,
        description="The value's keys are written into the object at the target; a text that is a JSON object is one.",
        examples=[{"target": "context.facts", "value": {"topic": "{{ input.topic }}"}}],
    )

    @model_validator(mode="after")
    def _one_of_three(self) -> Operation:
        if sum(write is not None for write in (self.set, self.append, self.merge)) != 1:
            raise ValueError("an operation is exactly one of set, append, merge")
        return self

    @property
    def verb(self) -> Literal["set", "append", "merge"]:
        return "set" if self.set else "append" if self.append else "merge"

    @property
    def write(self) -> Write:
        write = self.set or self.append or self.merge
        assert write is not None
        return write

    @classmethod
    def hint_for(cls, key: str) -> str | None:
        return "it belongs beside the target: {set: {target: context.x, value: …}}" if key == "value" else None

    def check(self, path: str, findings: Findings) -> None:
        """Check where the operation writes, and that a merge gets an object."""
        write_path = f"{path}.{self.verb}"
        _check_target(self.write.target, f"{write_path}.target", findings)
        if self.verb == "merge" and not may_be_object(self.write.value):
            message = "a merge needs an object: this value is neither a mapping nor a text that is a JSON object"
            findings.add(f"{write_path}.value", "bad_value", message, "write a mapping, such as value: {count: 1}")


def _check_target(target: str, path: str, findings: Findings) -> None:
    if not target.startswith("context."):
        message = f"the target {target[:60]!r} is outside the context"
        findings.add(path, "bad_target", message, f"did you mean {'context.' + target[:60]!r}?")
    else:
        check_path(target, path, findings)


# Short forms


def expand_operations(definition: object, path: str, expansion: Expansion, *, presets: bool) -> JSON:
    match definition:
        case PlacedList():
            return definition.each(lambda operation, _, n: _operation(operation, f"{path}[{n}]", expansion))
        case PlacedDict() if "value" in definition:
            return PlacedList.at(definition.place, _operation(definition, path, expansion))
        case PlacedDict():
            return _from_map(definition, path, expansion, (*_VERBS, "history", "notes") if presets else _VERBS)
    return definition


def _operation(definition: object, path: str, expansion: Expansion) -> JSON:
    """Expand `{set: "context.x", value: …}` to `{set: {target: "context.x", value: …}}`."""
    if not isinstance(definition, PlacedDict):
        return definition
    definition = _with_one_verb(expansion.correct_keys(definition, Operation, path), path, expansion)
    verbs = [verb for verb in _VERBS if isinstance(definition.get(verb), str)]
    if not verbs:
        return definition
    operation = definition.copy()
    target, places = operation.take(verbs[0])
    write = PlacedDict(definition.place)
    write.put("target", target, places)
    if "value" in operation:
        write.put("value", *operation.take("value"))
    operation.put(verbs[0], write, places)
    return operation


def _with_one_verb(definition: PlacedDict, path: str, expansion: Expansion) -> PlacedDict:
    verbs = [verb for verb in _VERBS if verb in definition]
    if len(verbs) < 2:
        return definition
    message = f"an operation is exactly one of set, append, merge, not {' and '.join(verbs)}"
    expansion.add(definition.place, path, "bad_value", message, "make it an item of the list for each")
    kept = definition.copy()
    for verb in verbs[1:]:
        kept.take(verb)
    return kept


def _from_map(mapping: PlacedDict, path: str, expansion: Expansion, allowed: tuple[str, ...]) -> PlacedList:
    mapping = expansion.correct_keys(mapping, allowed, path)
    operations = PlacedList(mapping.place)
    for key, value in mapping.items():
        place = mapping.value_place(key)
        match key, value:
            case "history", PlacedDict():
                _start_with(operations, value, f"{path}.history", expansion)
            case "notes", PlacedDict():
                _notes(operations, value, f"{path}.notes", expansion)
            case (("history" | "notes"), _):
                message = f"{key!r} must be an object"
                expansion.add(place, f"{path}.{key}", "bad_value", message, _example(key))
            case _, PlacedList():
                for write, item_place in zip(value, value.places, strict=True):
                    operations.add(PlacedDict.at(item_place, **{key: write}), item_place)
            case _:
                operations.add(PlacedDict.at(place, **{key: value}), place)
    return operations


def _start_with(operations: PlacedList, history: PlacedDict, path: str, expansion: Expansion) -> None:
    """Add the first turn: another step's output, behind a prefix."""
    history = expansion.correct_keys(history, ("start_with",), path)
    start = history.get("start_with")
    if isinstance(start, PlacedDict):
        start = expansion.correct_keys(start, ("from_step", "prefix"), f"{path}.start_with")
    if not isinstance(start, PlacedDict) or not isinstance(start.get("from_step"), str):
        expansion.add(history.place, path, "missing_key", "'start_with' needs 'from_step'", _example("history"))
        return
    step, place = start["from_step"], start.value_place("from_step")
    prefix = start.get("prefix", "")
    if not isinstance(prefix, str):
        message = f"'prefix' must be text, not {prefix!r}"
        expansion.add(
            start.value_place("prefix"), f"{path}.start_with.prefix", "bad_value", message, "put it into quotes"
        )
        prefix = ""
    read = f"steps.{step}" if re.fullmatch(r"[A-Za-z_]\w*", step) else f"steps[{step!r}]"
    _put(operations, "append", _HISTORY, f"{prefix}{{{{ {read}.output }}}}", place)


def _notes(operations: PlacedList, mapping: PlacedDict, path: str, expansion: Expansion) -> None:
    mapping = expansion.correct_keys(mapping, ("set",), path)
    if "set" in mapping:
        _put(operations, "set", _NOTES, mapping["set"], mapping.value_place("set"))


def _put(operations: PlacedList, verb: str, target: str, value: object, place: Position) -> None:
    operations.add(PlacedDict.at(place, **{verb: PlacedDict.at(place, target=target, value=value)}), place)


def _example(key: str) -> str:
    return "start_with: {from_step: get_goal, prefix: 'User: '}" if key == "history" else "notes: {set: '...'}"
