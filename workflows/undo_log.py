"""What the steps of a block have done, and how it is undone; kept from each step's end to the block's."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.blueprint.json_values import JSON
from holdfast.blueprint.kinds import Undo
from holdfast.protocol.address import Address, is_within


@dataclass(frozen=True)
class PendingUndo:
    """The undo of one step, with what its tool gets."""

    step: str
    address: Address
    """Of the step."""
    undo: Undo
    input: JSON = None
    problem: str | None = None
    """Why a person must decide whether and with what the tool is called."""


class UndoLog:
    """The undos of one block, in the order in which the steps have completed."""

    def __init__(self) -> None:
        self.pending: list[PendingUndo] = []

    def take(self, place: Address) -> list[PendingUndo]:
        """Remove and return those of the steps at a place or below it, the last first."""
        taken = [entry for entry in self.pending if is_within(entry.address, place)]
        self.pending = [entry for entry in self.pending if entry not in taken]
        return taken[::-1]

    def take_over(self, other: UndoLog) -> None:
        """Keep the undos of a block inside, which has completed."""
        self.pending += other.pending
