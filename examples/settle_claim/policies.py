"""Policies, the weather, and a bank: what is needed to settle a claim."""

from typing import Any

from holdfast import tool

POLICIES = {"P-1": {"holder": "Ana", "covers_up_to": 1000}}


@tool(idempotent=True)
def policy_of(number: str) -> dict[str, Any]:
    """A policy by its number."""
    return POLICIES[number]


@tool(idempotent=True)
def weather_of_the_day(number: str) -> str:
    """The weather where the policy's holder lives."""
    return "hail"


@tool
def transfer_money(to: str, amount: float) -> str:
    """Transfers money; gives the receipt."""
    return f"{amount:.2f} EUR to {to}"
