"""The sites of a district, and somebody who repairs them."""

from holdfast import tool


@tool(idempotent=True)
def list_sites(district: str) -> list[str]:
    """The sites of a district."""
    return [f"{district} bridge", f"{district} tower"]


@tool
def order_repair(what: str) -> str:
    """Orders a repair; gives the number of the order."""
    return f"order of {what}"
