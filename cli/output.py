"""Output of the commands: results to standard output, everything else to standard error; and the exit codes.

The commands print only through this module and `cli.tables.console`, which make text from elsewhere harmless to a
terminal.
"""

from __future__ import annotations

import json
import sys

from holdfast.protocol.display import clean, escaped_in_json

CLEAR = "\x1b[H\x1b[2J\x1b[3J"
"""Moves the cursor home and clears the screen."""
DONE, FAILED, USAGE, WAITING, REFUSED, UNREACHABLE, INTERRUPTED = 0, 1, 2, 3, 4, 5, 130


def print_json(value: object, *, indent: int | None = 2) -> None:
    """Print one JSON value on standard output."""
    print(json_text(value, indent=indent), flush=True)


def json_text(value: object, *, indent: int | None = 2) -> str:
    """Return the value as JSON; non-ASCII characters stay as they are if standard output is UTF-8."""
    utf8 = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    return escaped_in_json(json.dumps(value, indent=indent, ensure_ascii=not utf8))


def print_text(text: str, *, end: str = "\n") -> None:
    """Print a result on standard output: as it is into a file or a pipe, harmless on a terminal."""
    print(clean(text) if sys.stdout.isatty() else text, end=end, flush=True)


def clear_screen() -> None:
    """Clear the terminal, if standard output is one."""
    if sys.stdout.isatty():
        print(CLEAR, end="", flush=True)


def say(text: str) -> None:
    """Print a message for the person on standard error."""
    print(clean(text), file=sys.stderr, flush=True)


def report(value: object, text: str, as_json: bool) -> int:
    """Print what a command has done, as a value or in words, and return its exit code."""
    if as_json:
        print_json(value)
    else:
        say(text)
    return DONE
