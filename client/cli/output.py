"""Where words go: results to standard output, everything else to standard error; and the exit codes."""

from __future__ import annotations

import json
import sys
from typing import Any

DONE, FAILED, USAGE, WAITING, REFUSED, UNREACHABLE, INTERRUPTED = 0, 1, 2, 3, 4, 5, 130


def print_json(value: Any, *, indent: int | None = 2) -> None:
    """One JSON value on standard output."""
    print(json_text(value, indent=indent), flush=True)


def json_text(value: Any, *, indent: int | None = 2) -> str:
    """JSON as itself, not as ASCII, where standard output can say it."""
    utf8 = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    return json.dumps(value, indent=indent, ensure_ascii=not utf8)


def say(text: str) -> None:
    """A word to the person, beside the result."""
    print(text, file=sys.stderr, flush=True)
