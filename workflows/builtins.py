"""The built-in tools: small and pure, so they run in workflow code and cost no activity."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from blueprint.expressions import text_of
from protocol.context import read
from workflows.failures import failure
from workflows.frame import Frame

_YES = {"y", "yes", "ok", "okay", "approve", "approved", "confirm", "confirmed", "true", "oui"}


def check_user_confirmation(value: Any, frame: Frame) -> str:
    """``approved`` for an explicit yes; everything else, an empty answer too, is ``denied``."""
    said = text_of(value).strip().strip(".!").casefold() if isinstance(value, str | bool) else ""
    return "approved" if said in _YES else "denied"


def stringify(value: Any, frame: Frame) -> str:
    return text_of(value)


def passthrough(value: Any, frame: Frame) -> Any:
    return value


def context_set(value: Any, frame: Frame) -> Any:
    """Input `{path, value}`; gives the value."""
    path = _field(value, "path", frame)
    frame.apply("set", path, value.get("value"))
    return value.get("value")


def context_get(value: Any, frame: Frame) -> Any:
    """Input `{path, default}` or the path; gives what is there."""
    if isinstance(value, str):
        return read(frame.store.value, value)
    return read(frame.store.value, _field(value, "path", frame), value.get("default"))


def context_merge(value: Any, frame: Frame) -> Any:
    """Input `{path, value}`; merges the object into the one at the path, one level."""
    path = _field(value, "path", frame)
    frame.apply("merge", path, value.get("value"))
    return read(frame.store.value, path)


def select_fields(value: Any, frame: Frame) -> Any:
    """Input `{value, fields}`; gives the object with these fields only."""
    source, fields = _object(value, frame).get("value"), value.get("fields")
    if not isinstance(source, dict) or not isinstance(fields, list):
        raise failure("input_invalid", "select_fields wants {value: an object, fields: a list of names}", frame.address)
    return {name: source[name] for name in fields if name in source}


def flatten(value: Any, frame: Frame) -> list[Any]:
    """A list of lists as one list."""
    if not isinstance(value, list):
        raise failure("input_invalid", "flatten wants a list", frame.address)
    return [inner for item in value for inner in (item if isinstance(item, list) else [item])]


BUILTINS: dict[str, Callable[[Any, Frame], Any]] = {
    function.__name__: function
    for function in (
        stringify,
        passthrough,
        context_set,
        context_get,
        context_merge,
        select_fields,
        flatten,
        check_user_confirmation,
    )
}


def _object(value: Any, frame: Frame) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise failure("input_invalid", "this built-in wants an object as its input", frame.address)
    return value


def _field(value: Any, name: str, frame: Frame) -> str:
    found = _object(value, frame).get(name)
    if not isinstance(found, str) or not found:
        raise failure("input_invalid", f"this built-in wants {name!r} in its input", frame.address)
    return found
