"""References inside a JSON Schema, such as `#/$defs/Order`: what each leads to. Nothing outside is ever read."""

from __future__ import annotations

from urllib.parse import unquote

from holdfast.blueprint.json_values import JSON


def find_reference(reference: str, root: JSON) -> JSON:
    """Return what a reference leads to in the whole schema; None for one that leads nowhere, or out of it.

    >>> find_reference("#/$defs/a~1b", {"$defs": {"a/b": {"type": "string"}}}), find_reference("#/x/1", {"x": [1, 2]})
    ({'type': 'string'}, 2)
    >>> find_reference("other.json#/x", {"x": 1}), find_reference("#name", {"name": 1}), find_reference("#", {"x": 1})
    (None, None, {'x': 1})
    """
    if reference != "#" and not reference.startswith("#/"):
        return None
    found = root
    for part in unquote(reference).split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        match found:
            case dict():
                found = found.get(key)
            case list() if key.isdecimal() and int(key) < len(found):
                found = found[int(key)]
            case _:
                return None
    return found
