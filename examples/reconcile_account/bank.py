"""A bank that gives its entries in pages, and the functions that a loop over its pages needs."""

from typing import Any

from holdfast import tool

PAGES = [[{"text": "Rent", "amount": -900.0}, {"text": "Wages", "amount": 2500.0}], [{"text": "Tea", "amount": -4.5}]]


@tool(idempotent=True)
def bank_page(account: str, page: int) -> dict[str, Any]:
    """One page of an account's entries; `next` is the number of the page behind it, if there is one."""
    return {"account": account, "entries": PAGES[page], "next": page + 1 if page + 1 < len(PAGES) else None}


def first_page(input: dict[str, Any], context: dict[str, Any]) -> dict[str, Any]:
    """What the first iteration asks for."""
    return {"account": input["account"], "page": 0}


def next_page(output: dict[str, Any], context: dict[str, Any], iteration: int) -> dict[str, Any]:
    """What the next iteration asks for."""
    return {"account": output["account"], "page": output["next"]}


def was_last(output: dict[str, Any], context: dict[str, Any]) -> bool:
    """Whether there is no page behind this one."""
    return output["next"] is None


def as_statement(output: dict[str, Any], context: dict[str, Any]) -> dict[str, Any]:
    """What all pages together say."""
    entries = context["entries"]
    return {"entries": len(entries), "balance": sum(entry["amount"] for entry in entries)}


def verdict(input: dict[str, Any], context: dict[str, Any]) -> str:
    """The branch for a statement."""
    difference = input["balance"] - input["expected"]
    return "balanced" if abs(difference) < 0.01 else "surplus" if difference > 0 else "missing"
