"""A tool: pays, by writing into a ledger file. It is not idempotent, so it is never run twice by itself."""

from datetime import UTC, datetime
from pathlib import Path

from holdfast import tool

LEDGER = Path(".holdfast/ledger.txt")


@tool
def pay(payee: str, amount: float) -> dict[str, object]:
    """Pay somebody; gives the receipt."""
    LEDGER.parent.mkdir(exist_ok=True)
    with LEDGER.open("a") as ledger:
        ledger.write(f"{datetime.now(UTC):%Y-%m-%d %H:%M} {amount:.2f} EUR to {payee}\n")
    return {"paid": amount, "to": payee}
