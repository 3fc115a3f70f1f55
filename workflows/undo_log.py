"""What the steps of a block have done, and how it is undone; kept from each step's end to the block's."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.protocol.address import Address, is_within
from holdfast.protocol.undos import PendingUndo


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
