"""A tool that knows what a currency is worth; a real one would ask a bank."""

from holdfast import tool

RATES = {"EUR": 1.0, "USD": 0.9, "CHF": 1.05}


@tool(idempotent=True)
def exchange_rate(currency: str) -> float:
    """What one unit of a currency is in EUR."""
    return RATES[currency]
