"""What became of an answer, in words: of the command `answer`, which loads no library of terminals for that."""

from __future__ import annotations

from holdfast.client.signals import Sent
from holdfast.protocol.answers import Receipt


def receipt_text(receipt: Receipt | Sent, name: str) -> str:
    """Return what became of an answer to the question of this name."""
    if isinstance(receipt, Sent):
        return f"sent to {receipt.owner}: {name}; it counts as soon as a worker has received it"
    waits = "; more answers are needed" if receipt.status == "waiting_quorum" else ""
    return f"{'accepted' if waits else receipt.status} by {receipt.by}: {name}{waits}"
