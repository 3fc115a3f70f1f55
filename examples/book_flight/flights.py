"""A tool that books a flight, and one that asks for a seat in the middle of its work."""

from datetime import date

from pydantic import BaseModel

from holdfast import Input, Interrupt, resumed, tool


class Found(BaseModel):
    """What the search cost time to find: kept while a person chooses, so that it is not searched for again."""

    flight: str
    seats: list[str]


@tool
def book_flight(passenger: str, to: str, day: date) -> str:
    """Book a flight for a passenger."""
    return f"{passenger} flies to {to} on {day:%d %B %Y}"


@tool
def reserve_seat(flight: str) -> str:
    """Reserve a seat on a flight; a person chooses it."""
    here = resumed(str, Found)
    found = here.state or Found(flight=flight, seats=["12A", "14C"])
    if not here.has_data:
        raise Interrupt(Input(message=f"Which seat on {flight}? Free: {', '.join(found.seats)}"), found)
    return f"seat {here.data} on {found.flight}"
