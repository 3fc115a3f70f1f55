"""The blueprint check_expenses in Python: steps for each item of a list, and a choice."""

from holdfast.build import Pipeline, add, ask, choose, context, each, previous, step

EXPENSE = {"type": "object", "required": ["what", "amount"]}

with (
    Pipeline(
        "check_expenses",
        description="Go through a list of expenses; a person decides on those above 100 EUR.",
        inputs={
            "type": "object",
            "required": ["expenses"],
            "properties": {"expenses": {"type": "array", "items": EXPENSE}},
        },
        context={"total": 0},
        limits={"steps": 1000, "seconds": "1h", "on_limit": "ask"},
    ) as check_expenses,
    each(
        "each",
        check_expenses.input.expenses,
        init=[{"set": {"target": "context.refused", "value": []}}],
        on_item_error="ask",
    ) as spent,
):
    currency = spent.item.currency.filter("default", "EUR")
    look = {"name": "look", "uses": "exchange_rate", "input": {"currency": currency}}
    add("rate", kind="cache", key=currency, ttl="1d", wrapped_step=look)
    euros = step("euros", input=spent.item.amount * previous, on_error="ask")
    decide = ask.decision(
        "decide",
        f"{spent.item.what} for {euros.output} EUR?",
        options=["pay", "refuse"],
        when=euros.output > 100,
    )
    with choose("count", decide.output == "refuse") as count:
        with count.branch(True):
            step("refused", input=context.refused + [spent.item.what], sink_to=context.refused)
        with count.branch(False):
            step("paid", input=context.total + euros.output, sink_to=context.total)
    spent.gives({"paid": context.total, "refused": context.refused})
