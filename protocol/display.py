"""Escape untrusted text for display, in a terminal or as Markdown in Temporal's UI. Used by clients and workflows.

Text is kept, sent and compared unchanged; it is escaped only where a person looks at it.
"""

from __future__ import annotations

import re

_BIDI = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
"""Unicode's Bidi_Control: a label that contains one is displayed in another order than it is compared in."""
_UNSAFE = re.compile(f"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff{_BIDI}]")
"""Those, control characters (they steer a terminal), Unicode's line ends, and lone surrogates (printing them fails)."""
_URL = re.compile(r"://|www\.|@")
_MARKUP = re.compile(r"[\\`*\[\]<>&|~$]|(?<![^\W_])_|_(?![^\W_])")
_INDENT = re.compile(r"^[ \t]+", re.MULTILINE)
_LINE_START = re.compile(r"^(\s*)(?:([-+=#])|(\d+)([.)]))", re.MULTILINE)


def clean(text: str) -> str:
    r"""Return the text for a terminal, with a replacement character for each one that could steer it.

    >>> clean("a\x1b[2Jb\tc\n"), clean("to \u202etfel")
    ('a�[2Jb\tc\n', 'to �tfel')
    """
    return _UNSAFE.sub("\N{REPLACEMENT CHARACTER}", text.replace("\r\n", "\n"))


def one_line(text: str) -> str:
    r"""Return the clean text in one line, so that a label cannot show further lines that look like ours.

    >>> one_line("warm\n  2  cold")
    'warm   2  cold'
    """
    return clean(text).replace("\n", " ")


def escaped_in_json(text: str) -> str:
    r"""Return JSON text with escapes in place of what could steer a terminal: the same value.

    >>> escaped_in_json('{\n"a": "\u202e"}')
    '{\n"a": "\\u202e"}'
    """
    return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def markdown(text: str) -> str:
    r"""Return Markdown that shows the text as it stands: no image, link, HTML or formatting of it takes effect.

    Web and mail addresses become code spans: Markdown links them even behind a backslash.

    >>> markdown("![x](http://a.example/y)"), markdown("*now* snake_case <b>")
    ('`![x](http://a.example/y)`', '\\*now\\* snake_case \\<b\\>')
    """
    words = re.split(r"(\s+)", _INDENT.sub(_indent, clean(text)))
    escaped = "".join(code(word) if _URL.search(word) else _MARKUP.sub(r"\\\g<0>", word) for word in words)
    return _LINE_START.sub(lambda match: f"{match[1]}{match[3] or ''}\\{match[2] or match[4]}", escaped)


def _indent(match: re.Match[str]) -> str:
    """Return an indentation that does not begin a block of code, in which backslashes would show."""
    return "\N{NO-BREAK SPACE}" * len(match[0].expandtabs(4))


def code(text: str) -> str:
    r"""Return a Markdown code span that shows the text as it stands, in one line.

    >>> code("a"), code("a`b"), code("`")
    ('`a`', '``a`b``', '`` ` ``')
    """
    text = one_line(text)
    ticks = "`" * (max(map(len, re.findall("`+", text)), default=0) + 1)
    room = " " if text.startswith("`") or text.endswith("`") or not text.strip() else ""
    return f"{ticks}{room}{text}{room}{ticks}"
