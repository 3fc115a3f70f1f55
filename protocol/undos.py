"""What a step of a block has done, and how it is undone: kept by workflows, handed from children to parents."""

from __future__ import annotations

from holdfast.blueprint.json_values import JSON
from holdfast.blueprint.kinds import Undo
from holdfast.protocol.address import Address
from holdfast.protocol.values import Value


class PendingUndo(Value):
    """The undo of one step, with what its tool gets."""

    step: str
    address: Address
    """Of the step."""
    undo: Undo
    input: JSON = None
    problem: str | None = None
    """Why a person must decide whether and with what the tool is called."""


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
