"""Conditions of plans, judged as a running plan does it."""

from holdfast.blueprint.expressions.evaluation import holds
from holdfast.blueprint.plan.conditions import parse_condition


def evaluate_condition(text: str, value: object) -> bool:
    """Return whether the condition of a plan holds of a value. Raises `ExpressionError`."""
    return holds(parse_condition(text).write("input"), {"input": value})[0]
