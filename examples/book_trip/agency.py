"""Tools that book, and that cancel what was booked."""

from typing import TypedDict

from holdfast import tool


class Booking(TypedDict):
    """What was booked, under its number."""

    id: str
    what: str


@tool
def book_travel(what: str) -> Booking:
    """Book a part of a trip."""
    return {"id": f"B-{what.partition(' ')[0]}", "what": what}


@tool(idempotent=True)
def cancel_travel(id: str) -> str:
    """Cancel a booking; one that is cancelled already stays so."""
    return f"{id} is cancelled"
