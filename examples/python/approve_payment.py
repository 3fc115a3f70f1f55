"""The blueprint approve_payment in Python: a decision with a deadline, and a branch for each option."""

from pydantic import BaseModel, Field

from holdfast.build import Pipeline, ask, choose, context, step


class Invoice(BaseModel):
    payee: str
    amount: float = Field(gt=0)


with Pipeline(
    "approve_payment", description="Pay an invoice, if a person approves it in time.", inputs=Invoice
) as approve_payment:
    invoice = approve_payment.input
    ask.decision(
        "approve",
        f"Pay {invoice.amount} EUR to {invoice.payee}?",
        options=[
            {"id": "pay", "label": "Pay it", "risk": "The money is gone"},
            {"id": "refuse", "label": "Do not pay", "recommended": True},
        ],
        timeout="2d",
        default="refuse",
        sink_to=context.decision,
    )
    with choose("outcome", context.decision) as outcome:
        with outcome.branch("pay"):
            step("pay", "pay", {"payee": invoice.payee, "amount": invoice.amount})
        with outcome.branch("refuse"):
            step("refused", input=f"Not paid: {invoice.payee}, {invoice.amount} EUR.")
