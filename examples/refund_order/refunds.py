"""A graph of LangGraph as its own documentation writes them: it knows nothing of Holdfast.

It stops in the middle by `interrupt`; a person decides, and it goes on from there. What it did is not done again.
"""

from typing import TypedDict

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import interrupt


class Claim(TypedDict, total=False):
    order: str
    amount: float
    risk: str
    decision: str
    letter: str


def assess(claim: Claim) -> Claim:
    return {"risk": "high" if claim["amount"] > 100 else "low"}


def decide(claim: Claim) -> Claim:
    if claim["risk"] == "low":
        return {"decision": "refund"}
    question = f"Refund {claim['amount']:.2f} EUR for order {claim['order']}?"
    schema = {"enum": ["refund", "reject"]}
    return {"decision": interrupt({"question": question, "risk": claim["risk"]}, response_schema=schema)}


def write(claim: Claim) -> Claim:
    words = {"refund": "The money is on its way.", "reject": "We cannot refund this order."}
    return {"letter": f"Order {claim['order']}: {words[claim['decision']]}"}


builder = StateGraph(Claim)
builder.add_node(assess)
builder.add_node(decide)
builder.add_node(write)
builder.add_edge(START, "assess")
builder.add_edge("assess", "decide")
builder.add_edge("decide", "write")
builder.add_edge("write", END)
graph = builder.compile(checkpointer=InMemorySaver())
