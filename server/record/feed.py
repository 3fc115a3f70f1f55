"""A feed of the record: what is new, for one reader who remembers its place there. Notices are sent by it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.server.record.entries import Recorded
from holdfast.server.record.store import RecordStore

PAGE = 200


@dataclass(frozen=True)
class Feed:
    """The entries that a reader has not read yet.

    A reader who must do something with each entry writes what it makes of a page and the new place in one transaction,
    by `set_mark(connection, feed.mark, …)`; one for whom twice is no harm calls `advance` after it.

    Args:
        store: The record.
        reader: The name of the reader.
        types: The types of entries to read; empty for all.
    """

    store: RecordStore
    reader: str
    types: Sequence[str] = ()

    @property
    def mark(self) -> str:
        """Return the name of the mark that holds the place: the number of the last entry that was read."""
        return f"feed:{self.reader}"

    async def place(self) -> int:
        """Return the number of the last entry that was read; 0 at first."""
        return int(await asyncio.to_thread(self.store.mark, self.mark) or 0)

    async def page(self) -> list[Recorded]:
        """Return the next entries, the same again until the place has moved; empty if there are none."""
        return await asyncio.to_thread(self._page, await self.place())

    def _page(self, after: int) -> list[Recorded]:
        return list(self.store.entries(after=after, types=self.types, limit=PAGE))

    async def advance(self, entry: Recorded) -> None:
        """Move the place behind an entry."""
        await asyncio.to_thread(self.store.set_mark, self.mark, str(entry.id))
