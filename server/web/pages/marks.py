"""The mark in a form that begins a run: it ends the id of the run, so that the form, sent twice, begins one run."""

from __future__ import annotations

import secrets

from holdfast.protocol.names import join_run_id

MARK_BYTES = 4


def make_mark() -> str:
    """Return a new mark, 8 hexadecimal digits."""
    return secrets.token_hex(MARK_BYTES)


def make_marked_id(name: str, mark: str) -> str:
    """Return the id of a run: a name, shortened where it has to be, and the mark that its form has, else a new one."""
    if len(mark) != 2 * MARK_BYTES or not mark.isalnum() or not mark.isascii():
        mark = make_mark()
    return join_run_id(name, f"-{mark}")
