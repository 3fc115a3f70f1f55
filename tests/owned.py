"""Tools whose owner demands a person's word, for the tests."""

from __future__ import annotations

from holdfast import Interrupt, resumed, tool
from tests.tools import count


@tool(approve="args.amount > 100", risk="high", permission="May the money go?")
def transfer(folder: str, amount: int, currency: str = "EUR") -> str:
    """Sends money."""
    count(folder, "transfer")
    return f"{amount} {currency}"


@tool(approve=True)
def wipe(folder: str) -> str:
    """Takes one argument, and asks for its own reason."""
    reason = resumed(str)
    if not reason.has_data:
        assert not reason.was_interrupted
        raise Interrupt("Why?")
    count(folder, "wipe")
    return f"wiped: {reason.data}"


@tool(review=True)
def post(folder: str, text: str) -> str:
    """Publishes a text."""
    count(folder, "post")
    return text
