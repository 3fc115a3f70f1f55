"""The built-in tools: small and pure functions that run in workflow code and cost no activity."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from holdfast.blueprint.expressions.values import write_text
from holdfast.protocol.context import read
from holdfast.workflows.failures import failure
from holdfast.workflows.frame import Frame

_YES = {"y", "yes", "ok", "okay", "approve", "approved", "confirm", "confirmed", "true", "oui"}


def check_user_confirmation(value: Any, frame: Frame) -> str:
    """Return ``approved`` for an explicit yes, else ``denied``, also for an empty answer."""
    answer = write_text(value).strip().strip(".!").casefold() if isinstance(value, str | bool) else ""
    return "approved" if answer in _YES else "denied"


def stringify(value: Any, frame: Frame) -> str:
    return write_text(value)


def passthrough(value: Any, frame: Frame) -> Any:
    return value


def context_set(value: Any, frame: Frame) -> Any:
    """Write `value` at `path` of the context and return it. Input: `{path, value}`."""
    path = _read_field(value, "path", frame)
    frame.apply("set", path, value.get("value"))
    return value.get("value")


def context_get(value: Any, frame: Frame) -> Any:
    """Return the value at a path of the context. Input: `{path, default}`, or the path."""
    if isinstance(value, str):
        return read(frame.store.value, value)
    return read(frame.store.value, _read_field(value, "path", frame), value.get("default"))


def context_merge(value: Any, frame: Frame) -> Any:
    """Merge an object into the one at a path, one level, and return the result. Input: `{path, value}`."""
    path = _read_field(value, "path", frame)
    frame.apply("merge", path, value.get("value"))
    return read(frame.store.value, path)


def select_fields(value: Any, frame: Frame) -> Any:
    """Return an object with only some fields. Input: `{value, fields}`."""
    source, fields = _require_object(value, frame).get("value"), value.get("fields")
    if not isinstance(source, dict) or not isinstance(fields, list):
        raise failure("input_invalid", "select_fields needs {value: an object, fields: a list of names}", frame.address)
    return {name: source[name] for name in fields if name in source}


def flatten(value: Any, frame: Frame) -> list[Any]:
    """Return a list of lists as one list."""
    if not isinstance(value, list):
        raise failure("input_invalid", "flatten needs a list", frame.address)
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


def _require_object(value: Any, frame: Frame) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise failure("input_invalid", "this built-in needs an object as its input", frame.address)
    return value


def _read_field(value: Any, name: str, frame: Frame) -> str:
    field = _require_object(value, frame).get(name)
    if not isinstance(field, str) or not field:
        raise failure("input_invalid", f"this built-in needs {name!r} in its input", frame.address)
    return field
