"""Makes `typing.TypedDict`, which pydantic reads from Python 3.12 on, readable on 3.11. For results and answers."""

from __future__ import annotations

import functools
import operator
import sys
import types
import typing
from typing import Any

import typing_extensions

_PRESENCE = (typing.Required, typing.NotRequired)
_READ_BY_PYDANTIC = sys.version_info >= (3, 12)


def make_readable(hint: Any) -> Any:
    """Return a type that says the same, with each `typing.TypedDict` in it as one that pydantic reads."""
    return hint if _READ_BY_PYDANTIC else _convert(hint, {})


def _convert(hint: Any, made: dict[Any, Any]) -> Any:
    if typing.is_typeddict(hint):
        return _convert_typed_dict(hint, made) if type(hint).__module__ == "typing" else hint
    parts = typing.get_args(hint)
    converted = tuple(_convert(part, made) for part in parts)
    if all(part is other for part, other in zip(parts, converted, strict=True)):
        return hint
    if isinstance(hint, types.UnionType):
        return functools.reduce(operator.or_, converted)
    if typing.get_origin(hint) is typing.Annotated:
        return typing.Annotated[converted]
    return hint.copy_with(converted) if hasattr(hint, "copy_with") else typing.get_origin(hint)[converted]


def _convert_typed_dict(hint: Any, made: dict[Any, Any]) -> Any:
    if hint not in made:
        made[hint] = Any  # where it holds itself
        fields: dict[str, Any] = {}
        for key, part in typing.get_type_hints(hint, include_extras=True).items():
            # Postponed annotations hide the words from `__required_keys__`.
            own = typing.get_origin(part) if typing.get_origin(part) in _PRESENCE else None
            presence: Any = own or (typing.Required if key in hint.__required_keys__ else typing.NotRequired)
            fields[key] = presence[_convert(part if own is None else typing.get_args(part)[0], made)]
        make: Any = typing_extensions.TypedDict
        made[hint] = make(hint.__name__, fields)
    return made[hint]
