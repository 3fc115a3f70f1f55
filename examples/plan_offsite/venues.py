"""A tool that books a house for a team, and pays for it with a card that nobody else gets to see."""

from holdfast import secret, tool


@tool
def book_venue(place: str, people: int, arrival: str, card: str) -> str:
    """Books a place; `card` is a reference to the number of a card."""
    return f"{place} for {people}, in the {arrival}, with the card that ends in {secret(card)[-4:]}"
