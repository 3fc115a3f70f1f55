"""Is a path of the context that a person sets one that the run knows? For `edit` and `fork`, which write there.

A path that nothing holds and nothing reads is a misspelt one: it would be taken without effect.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from holdfast.blueprint.expressions.error import did_you_mean
from holdfast.blueprint.expressions.values import write_text
from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.blueprint.questions import brief
from holdfast.blueprint.reducers import split_keys
from holdfast.blueprint.shape import UNKNOWN, Shape
from holdfast.runtime.errors import BadInput

if TYPE_CHECKING:
    from holdfast.blueprint.kinds import Blueprint

_MOST_LISTED = 8


def check_context_paths(changes: Mapping[str, JSON], blueprint: Blueprint, context: JSONObject) -> None:
    """Raise `BadInput` for a path that is neither in the context nor anywhere in the blueprint.

    Args:
        changes: The new values, by path.
        blueprint: The blueprint of the run.
        context: The context as it is where the values are set, as far as it is known.
    """
    text = write_text(blueprint.model_dump(mode="json", exclude_unset=True))
    declared = UNKNOWN if blueprint.context_schema is None else Shape(blueprint.context_schema)
    for path, value in changes.items():
        keys = split_keys(path)
        if _holds(context, keys) or _declares(declared, keys) or _mentions(text, ".".join(keys)):
            continue
        paths = sorted({*_list_paths(context), *_list_declared(declared)})
        near = did_you_mean(".".join(keys), paths) or f"it has {', '.join(paths[:_MOST_LISTED]) or 'no keys'}"
        above = ".".join(keys[:-1])
        way = f"; to add a key to {above}, set {above} as a whole" if above and _holds(context, keys[:-1]) else ""
        raise BadInput(
            f"{path} cannot be set to {brief(value)}: the context has no {path}, and the blueprint names none"
            f" ({near}{way})"
        )


def _holds(context: JSON, keys: tuple[str, ...]) -> bool:
    for key in keys:
        if not isinstance(context, dict) or key not in context:
            return False
        context = context[key]
    return True


def _declares(shape: Shape, keys: tuple[str, ...]) -> bool:
    """Return whether the schema of the context lists every key of a path."""
    for key in keys:
        inner = shape.find_key(key) if key in shape.keys else None
        if inner is None:
            return False
        shape = inner
    return True


def _mentions(text: str, path: str) -> bool:
    """Return whether a blueprint names a path, or one below it, in an expression or as the target of a write."""
    return re.search(rf"(?<![\w$-]){re.escape(path)}(?![\w$-])", text) is not None


def _list_paths(value: JSON, above: str = "") -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield f"{above}{key}"
            yield from _list_paths(inner, f"{above}{key}.")


def _list_declared(shape: Shape, above: str = "", level: int = 0) -> Iterator[str]:
    for key in shape.keys if level < 4 else ():
        yield f"{above}{key}"
        yield from _list_declared(shape.find_key(key) or UNKNOWN, f"{above}{key}.", level + 1)
