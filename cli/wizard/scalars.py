"""Format text as YAML scalars for the wizard: plain if YAML reads it as text, else in double quotes."""

from __future__ import annotations

import re

_PLAIN = re.compile(r"[^\W\d_](?:[\w .?!()'/@+-]|:(?=[^\s:]))*")
_READ_AS_VALUES = frozenset({"null", "true", "false", "yes", "no", "on", "off", "y", "n"})
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t"}


def scalar(text: str) -> str:
    r"""Return the text as a scalar for block or flow style.

    >>> scalar("Who is it for?"), scalar("true"), scalar('Say "a: b"\n')
    ('Who is it for?', '"true"', '"Say \\"a: b\\"\\n"')
    """
    if _PLAIN.fullmatch(text) and text == text.strip() and text.lower() not in _READ_AS_VALUES:
        return text
    return '"' + "".join(_ESCAPES.get(char, _escape(char)) for char in text) + '"'


def _escape(char: str) -> str:
    return char if char.isprintable() else f"\\U{ord(char):08x}"


def literal(text: str) -> str:
    """Return a person's text for a template, with template markers escaped.

    >>> literal("Pay {{ this }}?")
    "Pay {{ '{' }}{ this }}?"
    """
    return re.sub(r"\{(?=[{%#]|\Z)", "{{ '{' }}", text)  # at the end too: more may follow
