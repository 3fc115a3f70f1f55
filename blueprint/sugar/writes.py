"""Short forms of `init` and `state`: every one becomes a list of set, append and merge, in the order written."""

from __future__ import annotations

import re
from typing import Any

from blueprint.grammar import Operation
from blueprint.source import Place, PlacedDict, PlacedList
from blueprint.sugar.notes import Notes

_VERBS = ("set", "append", "merge")
_HISTORY = "context.scratchpad.history"
_NOTES = "context.scratchpad.notes"


def writes_core(written: Any, path: str, notes: Notes, *, presets: bool) -> Any:
    match written:
        case PlacedList():
            operations = PlacedList(written.place)
            for index, (operation, place) in enumerate(zip(written, written.places, strict=True)):
                operations.add(_operation(operation, f"{path}[{index}]", notes), place)
            return operations
        case PlacedDict() if "value" in written:
            operations = PlacedList(written.place)
            operations.add(_operation(written, path, notes), written.place)
            return operations
        case PlacedDict():
            return _from_map(written, path, notes, (*_VERBS, "history", "notes") if presets else _VERBS)
    return written


def _operation(written: Any, path: str, notes: Notes) -> Any:
    """`{set: "context.x", value: …}` is `{set: {target: "context.x", value: …}}`."""
    if not isinstance(written, PlacedDict):
        return written
    written = _with_one_verb(notes.spelled(written, Operation, path), path, notes)
    verbs = [verb for verb in _VERBS if isinstance(written.get(verb), str)]
    if not verbs:
        return written
    operation = written.copy()
    target, places = operation.take(verbs[0])
    write = PlacedDict(written.place)
    write.put("target", target, places)
    if "value" in operation:
        write.put("value", *operation.take("value"))
    operation.put(verbs[0], write, places)
    return operation


def _with_one_verb(written: PlacedDict, path: str, notes: Notes) -> PlacedDict:
    verbs = [verb for verb in _VERBS if verb in written]
    if len(verbs) < 2:
        return written
    told = f"an operation is exactly one of set, append, merge, not {' and '.join(verbs)}"
    notes.add(written.place, path, "bad_value", told, "make it an item of the list for each")
    one = written.copy()
    for verb in verbs[1:]:
        one.take(verb)
    return one


def _from_map(written: PlacedDict, path: str, notes: Notes, known: tuple[str, ...]) -> PlacedList:
    notes.only(written, known, path)
    operations = PlacedList(written.place)
    for key in [key for key in written if key in known]:
        value, place = written[key], written.value_place(key)
        match key, value:
            case "history", PlacedDict():
                _start_with(operations, value, f"{path}.history", notes)
            case "notes", PlacedDict():
                _notes(operations, value, f"{path}.notes", notes)
            case (("history" | "notes"), _):
                told = f"{key!r} must be an object"
                notes.add(place, f"{path}.{key}", "bad_value", told, _example(key))
            case _, PlacedList():
                for write, at in zip(value, value.places, strict=True):
                    operations.add(_one(key, write, at), at)
            case _:
                operations.add(_one(key, value, place), place)
    return operations


def _start_with(operations: PlacedList, history: PlacedDict, path: str, notes: Notes) -> None:
    """The first turn: another step's output, behind a prefix."""
    notes.only(history, ("start_with",), path)
    written = history.get("start_with")
    if not isinstance(written, PlacedDict) or not isinstance(written.get("from_step"), str):
        notes.add(history.place, path, "missing_key", "'start_with' needs 'from_step'", _example("history"))
        return
    notes.only(written, ("from_step", "prefix"), f"{path}.start_with")
    step, place = written["from_step"], written.value_place("from_step")
    prefix = written.get("prefix", "")
    if not isinstance(prefix, str):
        told = f"'prefix' must be text, not {prefix!r}"
        notes.add(written.value_place("prefix"), f"{path}.start_with.prefix", "bad_value", told, "put it into quotes")
        prefix = ""
    read = f"steps.{step}" if re.fullmatch(r"[A-Za-z_]\w*", step) else f"steps[{step!r}]"
    _put(operations, "append", _HISTORY, f"{prefix}{{{{ {read}.output }}}}", place)


def _notes(operations: PlacedList, written: PlacedDict, path: str, notes: Notes) -> None:
    notes.only(written, ("set",), path)
    if "set" in written:
        _put(operations, "set", _NOTES, written["set"], written.value_place("set"))


def _put(operations: PlacedList, verb: str, target: str, value: Any, place: Place) -> None:
    write = PlacedDict(place)
    write.put("target", target, place)
    write.put("value", value, place)
    operations.add(_one(verb, write, place), place)


def _one(verb: str, write: Any, place: Place) -> PlacedDict:
    operation = PlacedDict(place)
    operation.put(verb, write, place)
    return operation


def _example(key: str) -> str:
    return "start_with: {from_step: get_goal, prefix: 'User: '}" if key == "history" else "notes: {set: '...'}"
