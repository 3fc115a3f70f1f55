"""The live streams that are open, so many for each person: each holds a connection for as long as a page is open."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator

from starlette.exceptions import HTTPException

MOST_STREAMS = 50
"""The streams of one person, such as pages that are open in tabs."""


class Streams:
    """The number of open streams by person."""

    def __init__(self) -> None:
        self._open: Counter[str] = Counter()

    def open(self, user: str, lines: AsyncIterator[str]) -> AsyncIterator[str]:
        """Return the lines of a stream, counted while they are read. Raises `HTTPException` 429 for one too many."""
        if self._open[user] >= MOST_STREAMS:
            text = f"{user} has {MOST_STREAMS} live streams open; close some of the pages, then load this one again"
            raise HTTPException(429, text, {"Retry-After": "60"})
        return self._counted(user, lines)

    async def _counted(self, user: str, lines: AsyncIterator[str]) -> AsyncIterator[str]:
        self._open[user] += 1
        try:
            async for line in lines:
                yield line
        finally:
            self._open[user] -= 1
            await lines.aclose()  # type: ignore[attr-defined]
