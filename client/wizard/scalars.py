"""Texts as YAML scalars: plain where nothing can be misread, else in double quotes."""

from __future__ import annotations

import re

_PLAIN = re.compile(r"[^\W\d_](?:[\w .?!()'/@+-]|:(?=[^\s:]))*")
_READ_AS_VALUES = frozenset({"null", "true", "false", "yes", "no", "on", "off", "y", "n"})
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t"}


def scalar(text: str) -> str:
    r"""The text as it may stand in a block or between braces.

    >>> scalar("Who is it for?"), scalar("true"), scalar('Say "a: b"\n')
    ('Who is it for?', '"true"', '"Say \\"a: b\\"\\n"')
    """
    if _PLAIN.fullmatch(text) and text == text.strip() and text.lower() not in _READ_AS_VALUES:
        return text
    return '"' + "".join(_ESCAPES.get(char, _shown(char)) for char in text) + '"'


def _shown(char: str) -> str:
    return char if char.isprintable() else f"\\U{ord(char):08x}"


def literal(text: str) -> str:
    """A person's text inside a template: what looks like a template is shown as it was typed.

    >>> literal("Pay {{ this }}?")
    "Pay {{ '{' }}{ this }}?"
    """
    return re.sub(r"\{(?=[{%#]|\Z)", "{{ '{' }}", text)  # at the end too: more may follow
