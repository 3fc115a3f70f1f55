"""The console, tables and times of the terminal, for commands that show no events and no steps."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, TextIO

from rich.console import Console
from rich.text import Text

from holdfast.client.texts import preview
from holdfast.protocol.display import clean, one_line

MOST_PADDED = 40
"""The most characters to which the cells of a column are filled up in a file or a pipe: one may be a long message."""
LEAST_OF_LAST = 30
"""The least width, in characters, of a table's last column; with less room it gets a line of its own."""


STYLES = {"waiting": "yellow", "paused": "yellow", "completed": "green", "failed": "red", "cancelled": "red"}
STYLES |= {
    "denied": "yellow",
    "skipped": "dim",
    "superseded": "dim",
    "undone": "yellow",
    "pending": "dim",
    "waiting_input": "yellow",
    "completed_with_errors": "yellow",
}


def console(stream: TextIO | None = None) -> Console:
    """Return a console for a stream (default: standard error): no wrapping, and styles on a colour terminal only."""
    plain = bool(os.environ.get("NO_COLOR")) or not (stream or sys.stderr).isatty()
    system: Any = None if plain else "auto"
    # Without a stream it looks standard error up each time: an open prompt replaces it, to have it above the prompt.
    target: Any = {"stderr": True} if stream is None else {"file": stream}
    return _Console(**target, color_system=system, soft_wrap=True, highlight=False, markup=False, emoji=False)


class _Console(Console):
    """A console that removes control sequences from everything it prints: much of it was written by others."""

    def print(self, *objects: object, **options: Any) -> None:
        super().print(*map(_clean, objects), **options)


def _clean(value: object) -> object:
    """Return text without control sequences; styles stay in place."""
    if isinstance(value, Text):
        value = value.copy()
        value.plain = clean(value.plain)
        return value
    return clean(value) if isinstance(value, str) else value


def print_table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table on standard output, as wide as the terminal."""
    out = console(sys.stdout)
    out.print(table(titles, rows, room(out)), end="")


def cell(value: object, limit: int = 100) -> str:
    """Return a value for a table on standard output: whole where that is no terminal."""
    return preview(value, limit if sys.stdout.isatty() else None)


def room(out: Console) -> int | None:
    """Return the columns of a terminal; None for a file or a pipe, where nothing is cut and nothing is wrapped."""
    return out.width if out.file.isatty() else None


def table(titles: Sequence[str], rows: Sequence[Sequence[str]], room: int | None = None) -> Text:
    """Return a table without a frame.

    Args:
        titles: The titles of the columns.
        rows: The cells of each row.
        room: The width in characters; None is no limit. In a narrow one a row takes several lines, and the last
            column, which people look for, gets a line of its own before it is cut short. No other column is cut: it
            may be an id to be copied.
    """
    cells = [[one_line(cell) for cell in row] for row in [titles, *rows]]
    widths = [max(len(row[column]) for row in cells) for column in range(len(titles))]
    lines = _lines_of_columns(widths, room)
    text = Text()
    for row in cells:
        for number, columns in enumerate(lines):
            line = Text("  " if number else "")
            for column in columns:
                style = "dim" if row is cells[0] else STYLES.get(row[column], "")
                widest = widths[column] if room is not None else min(widths[column], MOST_PADDED)
                width = 0 if column == columns[-1] else widest
                line.append(f"{row[column]:{width}}  ", style)
            line.rstrip()
            if room is not None and columns[-1] == len(titles) - 1:
                line.truncate(room, overflow="ellipsis")
            if line.plain or number == 0:
                text.append(line).append("\n")
    return text


def _lines_of_columns(widths: Sequence[int], room: int | None) -> list[list[int]]:
    """Return the columns of each line of a row."""
    lines: list[list[int]] = [[]]
    used = 0
    for column, width in enumerate(widths):
        needed = min(width, LEAST_OF_LAST) if column == len(widths) - 1 else width
        if room is not None and lines[-1] and used + needed > room:
            lines.append([])
            used = 2
        lines[-1].append(column)
        used += width + 2
    return lines


def when(moment: datetime) -> str:
    """Return a moment in local time, with its distance from now.

    >>> when(datetime(2020, 1, 1, tzinfo=UTC)).endswith("ago)")
    True
    """
    seconds = (moment - datetime.now(UTC)).total_seconds()
    length = _length(abs(seconds))
    return f"{moment.astimezone():%Y-%m-%d %H:%M:%S} ({f'in {length}' if seconds > 0 else f'{length} ago'})"


def _length(seconds: float) -> str:
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= size * 2:
            return f"{int(seconds // size)}{unit}"
    return f"{int(seconds)}s"


def ago(moment: datetime) -> str:
    """Return how long ago something happened, in a few characters; by a clock that is ahead of this one just now.

    >>> from datetime import timedelta
    >>> now = datetime.now(UTC)
    >>> ago(now - timedelta(minutes=3, seconds=5)), ago(now), ago(now + timedelta(minutes=3))
    ('3 min ago', 'just now', 'just now')
    """
    seconds = (datetime.now(UTC) - moment).total_seconds()
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{int(seconds // size)} {unit} ago"
    return "just now"
