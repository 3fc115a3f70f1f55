"""Short forms of `init` and `state`: each becomes a list of set, append and merge, in the order written."""

from __future__ import annotations

import re
from typing import Any

from holdfast.blueprint.kinds import Operation
from holdfast.blueprint.source import PlacedDict, PlacedList, Position
from holdfast.blueprint.sugar.report import ExpansionReport

_VERBS = ("set", "append", "merge")
_HISTORY = "context.scratchpad.history"
_NOTES = "context.scratchpad.notes"


def writes_core(definition: Any, path: str, report: ExpansionReport, *, presets: bool) -> Any:
    match definition:
        case PlacedList():
            operations = PlacedList(definition.place)
            for index, (operation, place) in enumerate(zip(definition, definition.places, strict=True)):
                operations.add(_operation(operation, f"{path}[{index}]", report), place)
            return operations
        case PlacedDict() if "value" in definition:
            operations = PlacedList(definition.place)
            operations.add(_operation(definition, path, report), definition.place)
            return operations
        case PlacedDict():
            return _from_map(definition, path, report, (*_VERBS, "history", "notes") if presets else _VERBS)
    return definition


def _operation(definition: Any, path: str, report: ExpansionReport) -> Any:
    """Expand `{set: "context.x", value: …}` to `{set: {target: "context.x", value: …}}`."""
    if not isinstance(definition, PlacedDict):
        return definition
    definition = _with_one_verb(report.correct_keys(definition, Operation, path), path, report)
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


def _with_one_verb(definition: PlacedDict, path: str, report: ExpansionReport) -> PlacedDict:
    verbs = [verb for verb in _VERBS if verb in definition]
    if len(verbs) < 2:
        return definition
    message = f"an operation is exactly one of set, append, merge, not {' and '.join(verbs)}"
    report.add(definition.place, path, "bad_value", message, "make it an item of the list for each")
    kept = definition.copy()
    for verb in verbs[1:]:
        kept.take(verb)
    return kept


def _from_map(mapping: PlacedDict, path: str, report: ExpansionReport, allowed: tuple[str, ...]) -> PlacedList:
    report.refuse_other_keys(mapping, allowed, path)
    operations = PlacedList(mapping.place)
    for key in [key for key in mapping if key in allowed]:
        value, place = mapping[key], mapping.value_place(key)
        match key, value:
            case "history", PlacedDict():
                _start_with(operations, value, f"{path}.history", report)
            case "notes", PlacedDict():
                _notes(operations, value, f"{path}.notes", report)
            case (("history" | "notes"), _):
                message = f"{key!r} must be an object"
                report.add(place, f"{path}.{key}", "bad_value", message, _example(key))
            case _, PlacedList():
                for write, item_place in zip(value, value.places, strict=True):
                    operations.add(_single_write(key, write, item_place), item_place)
            case _:
                operations.add(_single_write(key, value, place), place)
    return operations


def _start_with(operations: PlacedList, history: PlacedDict, path: str, report: ExpansionReport) -> None:
    """Add the first turn: another step's output, behind a prefix."""
    report.refuse_other_keys(history, ("start_with",), path)
    start = history.get("start_with")
    if not isinstance(start, PlacedDict) or not isinstance(start.get("from_step"), str):
        report.add(history.place, path, "missing_key", "'start_with' needs 'from_step'", _example("history"))
        return
    report.refuse_other_keys(start, ("from_step", "prefix"), f"{path}.start_with")
    step, place = start["from_step"], start.value_place("from_step")
    prefix = start.get("prefix", "")
    if not isinstance(prefix, str):
        message = f"'prefix' must be text, not {prefix!r}"
        report.add(start.value_place("prefix"), f"{path}.start_with.prefix", "bad_value", message, "put it into quotes")
        prefix = ""
    read = f"steps.{step}" if re.fullmatch(r"[A-Za-z_]\w*", step) else f"steps[{step!r}]"
    _put(operations, "append", _HISTORY, f"{prefix}{{{{ {read}.output }}}}", place)


def _notes(operations: PlacedList, mapping: PlacedDict, path: str, report: ExpansionReport) -> None:
    report.refuse_other_keys(mapping, ("set",), path)
    if "set" in mapping:
        _put(operations, "set", _NOTES, mapping["set"], mapping.value_place("set"))


def _put(operations: PlacedList, verb: str, target: str, value: Any, place: Position) -> None:
    write = PlacedDict(place)
    write.put("target", target, place)
    write.put("value", value, place)
    operations.add(_single_write(verb, write, place), place)


def _single_write(verb: str, write: Any, place: Position) -> PlacedDict:
    operation = PlacedDict(place)
    operation.put(verb, write, place)
    return operation


def _example(key: str) -> str:
    return "start_with: {from_step: get_goal, prefix: 'User: '}" if key == "history" else "notes: {set: '...'}"
