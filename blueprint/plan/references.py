"""References in the texts of a plan: `RESULT_FROM_<id>`, `CURRENT_ITEM`, `LOOP_INDEX`, compiled to templates."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from holdfast.blueprint.expressions.parse import MAX_SOURCE, is_plain

_TOKEN = re.compile(
    r"(?<![A-Za-z0-9_])(?:RESULT_FROM_(?P<result>[A-Za-z0-9_]+)"
    r"|(?P<item>CURRENT_ITEM)(?:_(?P<of>[A-Za-z0-9_]+))?(?![A-Za-z0-9_])"
    r"|(?P<index>LOOP_INDEX)(?:_(?P<in>[A-Za-z0-9_]+))?(?![A-Za-z0-9_]))"
)
_UNDERSCORE_MISSING = re.compile(r"(?<![A-Za-z0-9_])RESULT_FROM(?!_)[\s:-]*(?P<id>[A-Za-z0-9]*)")
INSIDE = re.compile(r"\.[A-Za-z_]\w*|\[")
"""What would look into a value, behind a reference to it."""


class BadText(ValueError):
    """A mistake in a text of a plan, with a way out."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message, self.hint = message, hint


@dataclass(frozen=True)
class Reference:
    """The result of the unit `name`, or the item or index of the loop `name`; None for the innermost."""

    kind: Literal["result", "item", "index"]
    name: str | None = None

    def __str__(self) -> str:
        word = {"result": "RESULT_FROM", "item": "CURRENT_ITEM", "index": "LOOP_INDEX"}[self.kind]
        return word if self.name is None else f"{word}_{self.name}"


def references_in(text: str) -> list[Reference]:
    """Return the references of a text, each once, in their order. Raises `BadText`.

    >>> [str(each) for each in references_in("Send RESULT_FROM_10, not RESULT_FROM_1, to CURRENT_ITEM_guests")]
    ['RESULT_FROM_10', 'RESULT_FROM_1', 'CURRENT_ITEM_guests']
    """
    if (bad := _UNDERSCORE_MISSING.search(text)) is not None:
        raise BadText(f"{bad.group().strip()!r} is not a reference", f"write RESULT_FROM_{bad['id'] or '<id>'}")
    references: dict[Reference, None] = {}
    for match in _TOKEN.finditer(text):
        inside = None if match["index"] else INSIDE.match(text, match.end())
        if inside is not None:
            message = f"{match.group()}{inside.group()} selects a part of a value, which a reference cannot"
            raise BadText(message, f"write {match.group()} and say in words which part is meant")
        references[_reference(match)] = None
    template = make_template(text, str)
    if template != text and len(template) > MAX_SOURCE:
        message = f"{text[:40]!r}… has references or braces, and is longer than {MAX_SOURCE // 1024} KiB"
        raise BadText(message, "write it shorter")
    return list(references)


def list_references(value: object) -> list[Reference]:
    """Return the references of a text, or of every text in a list or an object. Raises `BadText`."""
    match value:
        case str():
            return references_in(value)
        case list():
            return [reference for part in value for reference in list_references(part)]
        case dict():
            return list_references(list(value.values()))
    return []


def replace_references(text: str, word: Callable[[Reference], str]) -> str:
    """Return the text with words in place of its references."""
    return _TOKEN.sub(lambda match: word(_reference(match)), text)


def make_template(text: str, name: Callable[[Reference], str]) -> str:
    """Return the template of a text; in a text around it a reference gives nothing where its value is null.

    Args:
        text: A text of a plan.
        name: Gives the expression of a reference.

    >>> make_template("RESULT_FROM_1", str), make_template("{1: LOOP_INDEX}", str)
    ('{{ RESULT_FROM_1 }}', '{{ "{" }}1: {{ "" if LOOP_INDEX is none else LOOP_INDEX }}}')
    """
    whole = whole_reference(text)
    if whole is not None:
        return f"{{{{ {name(whole)} }}}}"
    if _TOKEN.search(text) is None:
        return text if is_plain(text) else escape_template(text)

    def write(reference: Reference) -> str:
        value = name(reference)
        return f'{{{{ "" if {value} is none else {value} }}}}'

    return replace_references(escape_template(text), write)


def escape_template(text: str) -> str:
    """Return the template that gives this very text.

    >>> escape_template("Dear {{ name }}")
    'Dear {{ "{" }}{{ "{" }} name }}'
    """
    return text.replace("{", '{{ "{" }}').replace("\r", '{{ "\\r" }}')


def whole_reference(text: str) -> Reference | None:
    """Return the reference that a text consists of, if it is one."""
    match = _TOKEN.fullmatch(text.strip())
    return None if match is None else _reference(match)


def leading_reference(text: str) -> tuple[Reference, str] | None:
    """Return the reference that a text begins with, and the rest."""
    match = _TOKEN.match(text)
    return None if match is None else (_reference(match), text[match.end() :])


def _reference(match: re.Match[str]) -> Reference:
    if match["result"] is not None:
        return Reference("result", match["result"])
    return Reference("item", match["of"]) if match["item"] is not None else Reference("index", match["in"])
