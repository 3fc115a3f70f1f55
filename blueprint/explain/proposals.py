"""A plan that a person is to approve, in plain words: terminals, pages and assistants show it in place of its JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import ValidationError

from holdfast.blueprint.explain.outline import WIDTH, Line, render
from holdfast.blueprint.explain.units import PlanWords, UnitStep
from holdfast.blueprint.kinds import Blueprint, PlainStep, PlanBody
from holdfast.blueprint.plan import LoopUnit, StepUnit, compile_plan
from holdfast.blueprint.words.text import RUN, listed


def describe_plan(value: object, tools: Mapping[str, Sequence[str]], width: int = WIDTH) -> str | None:
    """Return the steps of a plan in running order, one paragraph each.

    Args:
        value: The plan, as its review has it.
        tools: By the step's id its tools, each with what a person should know of it in brackets.
        width: Characters in a line at most.

    Returns:
        The text; None for a value that is no plan that can be run.

    >>> step = {"id": "1", "instruction": "Write to Ana", "tools": ["mail_send"]}
    >>> print(describe_plan({"goal": "Write", "steps": [step]}, {"1": ["mail_send (needs approval)"]}), end="")
    1. step 1: calls mail_send for "Write to Ana". mail_send (needs approval).
    """
    try:
        plan = PlanBody.model_validate(value)
    except ValidationError:
        return None
    layout, faults = compile_plan(plan)
    if faults:
        return None
    blueprint = Blueprint(name="plan", steps=[PlainStep(kind="step", name="plan")])
    words = PlanWords("plan", plan, layout, blueprint)
    return render(_lines(words, words.steps(layout.units), tools, "", 0), width)


def _lines(
    words: PlanWords, steps: Sequence[UnitStep], tools: Mapping[str, Sequence[str]], prefix: str, depth: int
) -> list[Line]:
    lines = []
    for number, step in enumerate(steps, 1):
        label = f"{prefix}{number}"
        lines.append(
            Line(f"{step.label}: {step.describe(RUN).text}{_marks(step, tools)}", label + "." * (not prefix), depth)
        )
        if isinstance(step.unit, LoopUnit):
            lines += _lines(words, words.steps(step.unit.body), tools, f"{label}.", depth + 1)
    return lines


def _marks(step: UnitStep, tools: Mapping[str, Sequence[str]]) -> str:
    """Return a sentence on the step's tools of which there is something to know; empty if there are none."""
    marked = [tool for tool in tools.get(step.name, ()) if "(" in tool] if isinstance(step.unit, StepUnit) else []
    return f" {listed(marked)}." if marked else ""
