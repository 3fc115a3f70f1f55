"""References in the texts of a plan: `RESULT_FROM_<id>`, `CURRENT_ITEM`, `LOOP_INDEX`. A value is never read again."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from holdfast.blueprint.expressions import text_of

_TOKEN = re.compile(
    r"(?<![A-Za-z0-9_])(?:RESULT_FROM_(?P<result>[A-Za-z0-9_]+)"
    r"|(?P<item>CURRENT_ITEM)(?:_(?P<of>[A-Za-z0-9_]+))?(?![A-Za-z0-9_])"
    r"|(?P<index>LOOP_INDEX)(?:_(?P<in>[A-Za-z0-9_]+))?(?![A-Za-z0-9_]))"
)
_UNDERSCORE_MISSING = re.compile(r"(?<![A-Za-z0-9_])RESULT_FROM(?!_)[\s:-]*(?P<id>[A-Za-z0-9]*)")
_PROPERTY = re.compile(r"\.[A-Za-z_]\w*|\[")


class BadText(ValueError):
    """A text of a plan that cannot be read; with a way out."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message, self.hint = message, hint


@dataclass(frozen=True)
class Reference:
    """What a token stands for: the result of `name`, or item or index of the loop `name` (None: the innermost)."""

    kind: Literal["result", "item", "index"]
    name: str | None = None

    def __str__(self) -> str:
        word = {"result": "RESULT_FROM", "item": "CURRENT_ITEM", "index": "LOOP_INDEX"}[self.kind]
        return word if self.name is None else f"{word}_{self.name}"


def references_in(text: str) -> list[Reference]:
    """The references of a text, each once, in their order. Raises `BadText`.

    >>> [str(one) for one in references_in("Send RESULT_FROM_10, not RESULT_FROM_1, to CURRENT_ITEM_guests")]
    ['RESULT_FROM_10', 'RESULT_FROM_1', 'CURRENT_ITEM_guests']
    """
    if (bad := _UNDERSCORE_MISSING.search(text)) is not None:
        raise BadText(f"{bad.group().strip()!r} is no reference", f"write RESULT_FROM_{bad['id'] or '<id>'}")
    found: dict[Reference, None] = {}
    for match in _TOKEN.finditer(text):
        inside = None if match["index"] else _PROPERTY.match(text, match.end())
        if inside is not None:
            told = f"{match.group()}{inside.group()} looks into a value, which a reference cannot"
            raise BadText(told, f"write {match.group()} and say in words what of it is meant")
        found[_reference(match)] = None
    return list(found)


def references_of(value: Any) -> list[Reference]:
    """The references of a text, or of every text in a list or an object."""
    match value:
        case str():
            return references_in(value)
        case list():
            return [one for part in value for one in references_of(part)]
        case dict():
            return [one for part in value.values() for one in references_of(part)]
    return []


def filled(text: str, value_of: Callable[[Reference], Any]) -> Any:
    """The text with its references filled in; a text that is one reference gives the value itself.

    >>> filled("RESULT_FROM_1", lambda reference: [1]), filled("See RESULT_FROM_1.", lambda reference: [1])
    ([1], 'See [1].')
    """
    whole = _TOKEN.fullmatch(text.strip())
    if whole is not None:
        return value_of(_reference(whole))
    return _TOKEN.sub(lambda match: _shown(value_of(_reference(match))), text)


def whole_reference(text: str) -> Reference | None:
    """The reference that a text consists of, if it is one."""
    match = _TOKEN.fullmatch(text.strip())
    return None if match is None else _reference(match)


def leading_reference(text: str) -> tuple[Reference, str] | None:
    """The reference that a text begins with, and the rest."""
    match = _TOKEN.match(text)
    return None if match is None else (_reference(match), text[match.end() :])


def _reference(match: re.Match[str]) -> Reference:
    if match["result"] is not None:
        return Reference("result", match["result"])
    return Reference("item", match["of"]) if match["item"] is not None else Reference("index", match["in"])


def _shown(value: Any) -> str:
    return "" if value is None else text_of(value)
