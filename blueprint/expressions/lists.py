"""Lists in texts of people and models: JSON, fenced or after a colon, bullets and numbers; prose is no list."""

from __future__ import annotations

import re

from holdfast.blueprint.expressions.comparisons import only_list
from holdfast.blueprint.expressions.texts import json_from, list_fenced, read_structure
from holdfast.blueprint.json_values import JSON, JSONObject

LIST_OUTPUT: JSONObject = {"type": "array", "description": "One entry for each item that the plan goes on with."}
"""The output schema of a step whose result a loop goes through."""
_JSON_BEGINS = re.compile(r"(?:^|[:\n])\s*(?=[\[{])")
_ENTRY = re.compile(r"(?P<mark>[-*+\u2022\u2023\u2013]|\d{1,4}[.)])[ \t]+(?P<text>\S.*)")


def list_in(text: str) -> list[JSON] | JSONObject | None:
    r"""Return the list that a text is, or the object that holds exactly one; None for prose.

    >>> list_in('["Ana", "Ben"]'), list_in('Here they are: ["Ana"]'), list_in("- Ana\n- Ben"), list_in("Ana and Ben")
    (['Ana', 'Ben'], ['Ana'], ['Ana', 'Ben'], None)
    """
    whole = find_structure(read_structure(text))
    if whole is not None:
        return whole
    fences = list_fenced(text)
    if fences:
        return list_in(fences[0]) if len(fences) == 1 else None
    value = _json_in(text)
    return entries_in(text) if value is None else value


def find_structure(value: object) -> list[JSON] | JSONObject | None:
    """Return a value that is a list, or an object that holds exactly one."""
    if isinstance(value, list) or (isinstance(value, dict) and only_list(value) is not None):
        return value
    return None


def _json_in(text: str) -> list[JSON] | JSONObject | None:
    """Return the only JSON in prose, behind a colon or on a line of its own; `[1]` in a sentence is none."""
    values, at = list[JSON](), 0
    while (begin := _JSON_BEGINS.search(text, at)) is not None:
        at = begin.end() + 1
        if (value := json_from(text, begin.end())) is not None:
            values.append(value[0])
            at = value[1]
    return find_structure(values[0]) if len(values) == 1 else None


def entries_in(text: str) -> list[str] | None:
    r"""Return the entries of a plain list of bullets or numbers, which one line may introduce; else None.

    >>> entries_in("The guests:\n1. Ana\n2. Ben"), entries_in("- Ana\n  - Ben"), entries_in("- Ana\nand Ben")
    (['Ana', 'Ben'], None, None)
    """
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    if lines and lines[0].endswith(":") and _ENTRY.match(lines[0].strip()) is None:
        lines = lines[1:]
    indents = {len(line) - len(line.lstrip()) for line in lines}
    entries = [_ENTRY.fullmatch(line.strip()) for line in lines]
    if len(indents) != 1 or not all(entries):
        return None
    if lines[0].strip()[0].isdigit() and not lines[0].strip().startswith(("0", "1")):
        return None  # a number that begins a sentence, such as a year
    kinds = {"number" if entry["mark"][0].isdigit() else entry["mark"] for entry in entries if entry}
    return [entry["text"].strip() for entry in entries if entry] if len(kinds) == 1 else None


def spoken_items(text: str) -> list[JSON] | JSONObject | None:
    r"""Return the items in a person's words: as in any text, else a line each; one line that counts up is no list.

    >>> spoken_items("Paris"), spoken_items("Paris\nLyon"), spoken_items("Paris, Lyon")
    (['Paris'], ['Paris', 'Lyon'], None)
    """
    value = list_in(text)
    if value is not None:
        return value
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return None if any(sign in line for line in lines for sign in ",;") else lines


def typed_items(text: str) -> list[JSON] | None:
    r"""Return the items that a person types where a list is asked for; None for what may be one item or several.

    They are JSON, bullets, numbered lines, a line each, or in one line with commas between. A line of several words
    without any mark may be a sentence that names several.

    >>> typed_items("Ana\nBen"), typed_items("Ana, Ben Cy"), typed_items("- Ana Mar"), typed_items("Ana")
    (['Ana', 'Ben'], ['Ana', 'Ben Cy'], ['Ana Mar'], ['Ana'])
    >>> typed_items("Ana and Ben"), typed_items('{"a": [1]}'), typed_items("[1,")
    (None, None, None)
    """
    value = list_in(text)
    if value is not None or text.lstrip().startswith(("[", "{")):
        return value if isinstance(value, list) else None
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if len(lines) == 1 and "," in lines[0]:
        lines = [part.strip() for part in lines[0].split(",") if part.strip()]
    return None if len(lines) == 1 and " " in lines[0] else list(lines)
