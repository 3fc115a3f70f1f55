"""What a step of a block has done, and how it is undone: kept by workflows, handed from children to parents."""

from __future__ import annotations

from holdfast.protocol.address import Address
from holdfast.protocol.values import Value


class UndoProgress(Value):
    """How far a workflow, or a run, has come with what it undoes."""

    number: int
    """Of the undo under way, from 1."""
    total: int

    def __str__(self) -> str:
        return f"undoing {self.number} of {self.total}"


class OpenUndo(Value):
    """A step that was done and would have to be undone, for people: what a terminated run leaves."""

    name: str
    address: Address
    tool: str
    """That would undo it."""
