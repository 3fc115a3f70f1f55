"""Figures of a market; a real tool would look into a data base."""

from holdfast import tool


@tool(idempotent=True)
def market_figures(market: str, year: int) -> dict[str, object]:
    """How much was sold in a year, in tons."""
    return {"market": market, "year": year, "tons": 100 + 10 * (year - 2024)}
