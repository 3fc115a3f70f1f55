"""What a pydantic model refuses, in one line for the person who gave the value. Used wherever a value is read."""

from __future__ import annotations

from pydantic import ValidationError


def describe_problem(error: ValidationError, whole: str = "") -> str:
    """Return the first problem with its place, such as `answers.0.question: Field required`.

    Args:
        error: What the model raised.
        whole: The place to name where the problem is that of the whole value; empty for none.
    """
    return describe_problems(error, whole)[0]


def describe_problems(error: ValidationError, whole: str = "") -> list[str]:
    """Return every problem as `describe_problem` does the first one; at least one."""
    lines = []
    for problem in error.errors(include_url=False, include_input=False, include_context=False):
        place = ".".join(map(str, problem["loc"])) or whole
        message = problem["msg"].removeprefix("Value error, ")
        lines.append(f"{place}: {message}" if place else message)
    return lines
