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
