"""Moments as an author or a value of a run writes them: ISO 8601 with a date, a time and an offset."""

from __future__ import annotations

import re
from datetime import UTC, datetime

_ISO = re.compile(r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:?\d{2})?")


def read_moment(value: object) -> datetime:
    """Return the moment. Raises `ValueError`, which says how to write one.

    A time without an offset is refused: what it means would depend on the machine that reads it.

    >>> read_moment("2026-12-01T09:00:00Z").isoformat()
    '2026-12-01T09:00:00+00:00'
    >>> read_moment("2026-12-01T09:00")
    Traceback (most recent call last):
        ...
    ValueError: '2026-12-01T09:00' has no offset; write 2026-12-01T09:00Z for UTC, or an offset such as +01:00
    """
    text = value.strip() if isinstance(value, str) else ""
    preview = repr(value)[:80]
    if not _ISO.fullmatch(text):
        raise ValueError(f"{preview} is not a time; write date, time and offset, such as 2026-12-01T09:00:00Z")
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise ValueError(f"{preview} is not a time: {error}") from None
    if moment.tzinfo is None:
        raise ValueError(f"{preview} has no offset; write {text}Z for UTC, or an offset such as +01:00")
    return moment.astimezone(UTC)
