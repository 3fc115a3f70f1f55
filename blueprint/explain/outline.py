"""The layout of an explanation as text: numbered and indented paragraphs, wrapped."""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass

WIDTH = 96
INDENT = 3
_UNSHOWN = re.compile(
    r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ufffe\uffff]"
)


@dataclass(frozen=True)
class Line:
    """A paragraph, with an optional label such as its number."""

    text: str
    label: str = ""
    depth: int = 0


EMPTY = Line("")


def remove_controls(text: str) -> str:
    """Return the text without characters that steer a terminal, reverse the reading direction or cannot be shown.

    >>> remove_controls("a\\x1b[2Jb\\u061cc")
    'a�[2Jb�c'
    """
    return _UNSHOWN.sub("\N{REPLACEMENT CHARACTER}", text)


def render(lines: list[Line], width: int = WIDTH) -> str:
    """Return the lines as text of this width.

    >>> print(render([Line("ask: asks a person.", "1."), Line("say: passes it on.", "1.1", 1)]), end="")
    1. ask: asks a person.
       1.1 say: passes it on.
    """
    return "".join(f"{_paragraph(line, width)}\n" for line in lines)


def _paragraph(line: Line, width: int) -> str:
    before = " " * (INDENT * line.depth) + (f"{line.label} " if line.label else "")
    wrapper = textwrap.TextWrapper(
        max(width, len(before) + 40),  # however deep, some room for text
        initial_indent=before,
        subsequent_indent=" " * len(before),
        break_long_words=False,
        break_on_hyphens=False,
    )
    return wrapper.fill(remove_controls(line.text))
