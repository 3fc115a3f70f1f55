"""Tools of a help desk that gives people access to systems."""

from holdfast import tool


@tool(idempotent=True)
def find_system(name: str) -> str:
    """Says what a system is for."""
    return f"{name} is a system of the house."


@tool
def note_request(name: str) -> str:
    """Notes that access is asked for."""
    return f"noted: {name}"


@tool
def open_system(name: str) -> str:
    """Lets somebody in."""
    return f"open: {name}"


@tool
def open_vault(name: str) -> str:
    """Lets somebody in where the money is."""
    return f"open: {name}"
