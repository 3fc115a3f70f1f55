"""An agent of pydantic-ai as a team has it, before it knows anything of Holdfast."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import BaseModel, Field
from pydantic_ai import Agent, CallDeferred, DeferredToolRequests, ModelRetry, RunContext

ORDERS = {"A-17": {"customer": "ana", "item": "a lamp", "paid": 80}}


@dataclass
class Shop:
    """What the tools work with."""

    customer: str
    orders: dict[str, dict[str, object]]


class Advice(BaseModel):
    """What the customer is told."""

    text: str
    refunded: int = Field(description="In EUR; 0 if nothing was.", ge=0)


adviser = Agent(
    "openai:gpt-5.2",
    deps_type=Shop,
    output_type=[Advice, DeferredToolRequests],
    instructions="You advise the customers of a shop. Look an order up before you say anything of it.",
    retries=2,
    defer_model_check=True,
)


@adviser.instructions
def name_customer(ctx: RunContext[Shop]) -> str:
    return f"You talk with {ctx.deps.customer}."


@adviser.tool
def find_order(ctx: RunContext[Shop], number: str) -> dict[str, object]:
    """Return what is known of an order."""
    if number not in ctx.deps.orders:
        raise ModelRetry(f"There is no order {number}; there are: {', '.join(ctx.deps.orders)}.")
    return ctx.deps.orders[number]


@adviser.tool_plain(requires_approval=True)
def refund(number: str, amount: int) -> str:
    """Give money back for an order."""
    return f"{amount} EUR for {number} are on their way"


@adviser.tool_plain
def ask_carrier(number: str) -> str:
    """Have the carrier say where a parcel is; that takes a day or two."""
    raise CallDeferred


@adviser.output_validator
def be_kind(ctx: RunContext[Shop], advice: Advice | DeferredToolRequests) -> Advice | DeferredToolRequests:
    if isinstance(advice, Advice) and "sorry" not in advice.text.lower():
        raise ModelRetry("Say that we are sorry.")
    return advice


def shop(request: dict[str, str]) -> Shop:
    """Return the dependencies: `deps` of the blueprint. Holdfast calls it on the worker, with the agent's input."""
    return Shop(request["customer"], ORDERS)
