"""The callables that authors may register as tools: functions, methods, partials, objects. Used by the registry."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, get_type_hints


def plain_function(value: Any) -> Any:
    """Return what an object is called by: a method for an object with `__call__`, as pydantic checks functions only."""
    if isinstance(value, staticmethod):
        return value.__func__
    if inspect.isroutine(value) or isinstance(value, functools.partial) or not callable(value):
        return value
    return value if inspect.isroutine(inspect.unwrap(value)) else value.__call__


def type_hints(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the annotations of a function; of a partial those of the function inside it."""
    while isinstance(function, functools.partial):
        function = function.func
    return get_type_hints(inspect.unwrap(plain_function(function)), include_extras=True)


def check_callable(value: object, name: str) -> None:
    """Raise `ValueError` for what cannot be called with the input of a step alone, and for what has no name."""
    if not name:
        raise ValueError(f'{value!r} has no name of its own: tool(name="…")(…)')
    if inspect.isclass(value):
        raise ValueError(f"{name} is a class: register a function that makes one, or a method of an object")
    if not callable(value):
        raise ValueError(f"{name} cannot be called: register a function")
    if _is_unbound(value):
        method = getattr(value, "__qualname__", name)
        raise ValueError(f"{method} is a method without its object: register it bound, tool(my_object.{name})")


def _is_unbound(value: object) -> bool:
    """Return whether a function stands in the body of a class and takes `self`, or is a class method there."""
    return (
        inspect.isfunction(value)
        and "." in value.__qualname__.rpartition("<locals>.")[2]
        and next(iter(inspect.signature(value).parameters), "") in ("self", "cls")
    )
