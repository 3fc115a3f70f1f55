"""Values, addresses and people in words, as a terminal and the pages show them alike. They load no language."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from holdfast.blueprint.questions.kind import brief
from holdfast.protocol.address import parts
from holdfast.protocol.display import one_line


def result_text(value: object) -> str:
    """Return a value as results are printed: text as it is, else indented JSON."""
    return value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)


def preview(value: object, limit: int | None = 100) -> str:
    """Return a value in one line of at most `limit` characters; None: the whole value."""
    return one_line(brief(value, sys.maxsize if limit is None else limit))


def place(address: str) -> str:
    """Return an address as people read it.

    >>> place("pipeline:brief;loop:clarify:2;hitl:review")
    'brief · clarify 2 · review'
    """
    return " · ".join(id_ if sub is None else f"{id_} {sub}" for _, id_, sub in parts(address))


def name_by(person: str | None) -> str:
    return f"  {one_line(person)}" if person else ""


def shown_raise(place: str) -> str:
    """Return the place where an author's code raised, as it is typed from the current folder if it is below that."""
    return place.removeprefix(f"{Path.cwd()}/")
