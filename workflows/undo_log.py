"""What the steps of blocks have done, and how it is undone; kept from each step's end to the block's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from holdfast.protocol.address import Address, is_within
from holdfast.protocol.children import PendingUndo
from holdfast.protocol.undos import OpenUndo, UndoProgress


class UndoLog:
    """The undos of one block, or of a child of its workflow, in the order in which the steps have completed.

    What a child did counts as done when the child has ended: it hands its undos over then.
    """

    def __init__(self, room: int, pending: Iterable[PendingUndo] = ()) -> None:
        """`room` is how many it takes, those that are pending included."""
        self.pending = list(pending)
        self._room = room

    @property
    def room(self) -> int:
        """How many it still takes. Steps and children that are under way at once each see the same room."""
        return max(0, self._room - len(self.pending))

    def take(self, place: Address) -> list[PendingUndo]:
        """Remove and return those of the steps at a place or below it, the last first."""
        taken = [entry for entry in self.pending if is_within(entry.address, place)]
        self.pending = [entry for entry in self.pending if not is_within(entry.address, place)]
        return taken[::-1]

    def take_over(self, entries: Iterable[PendingUndo]) -> None:
        """Keep the undos of a block or a child inside, which has ended."""
        self.pending += entries


class UndoLogs:
    """What one workflow keeps and undoes, for those who look at it."""

    def __init__(self) -> None:
        self._logs: list[UndoLog] = []
        """From the outermost block to the innermost."""
        self._batches: list[tuple[int, list[PendingUndo]]] = []
        """For each block that undoes: how many undos it began with, and those that are left."""

    def keep(self, log: UndoLog) -> None:
        """Show a log until `drop`."""
        self._logs.append(log)

    def drop(self, log: UndoLog) -> None:
        """Show a log no more: what it kept was handed on, or is undone."""
        self._logs = [other for other in self._logs if other is not log]

    @contextmanager
    def walk(self, entries: Sequence[PendingUndo]) -> Iterator[Iterator[PendingUndo]]:
        """Give the entries one by one; each is shown as under way until the next is asked for."""
        batch = (len(entries), list(entries))
        self._batches.append(batch)
        try:
            yield _walk(batch[1])
        finally:
            self._batches = [other for other in self._batches if other is not batch]

    @property
    def progress(self) -> UndoProgress | None:
        """How far the workflow has come; None if it undoes nothing now."""
        if not self._batches:
            return None
        total = sum(total for total, _ in self._batches)
        left = sum(max(0, len(entries) - 1) for _, entries in self._batches)
        return UndoProgress(number=total - left, total=total)

    @property
    def open(self) -> list[OpenUndo]:
        """What is done and is not undone yet, the newest first."""
        entries = [entry for _, left in self._batches for entry in left]
        entries += [entry for log in reversed(self._logs) for entry in reversed(log.pending)]
        return [OpenUndo(name=entry.step, address=entry.address, tool=entry.undo.uses) for entry in entries]


def _walk(entries: list[PendingUndo]) -> Iterator[PendingUndo]:
    while entries:
        yield entries[0]
        del entries[0]
