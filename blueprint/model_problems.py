"""What a pydantic model refuses, in one line for the person who gave the value. Used wherever a value is read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

_PLAIN_WORDS = {
    "bool_parsing": "must be true or false",
    "bool_type": "must be true or false",
    "float_parsing": "must be a number",
    "float_type": "must be a number",
    "dict_type": "must be an object",
    "list_type": "must be a list",
    "model_type": "must be an object",
    "string_type": "must be a text",
}
"""What pydantic's types of errors mean: its own messages speak of Python."""


def word_problem(problem: Mapping[str, Any]) -> str:
    """Return what is wrong in plain words, without the place.

    >>> word_problem({"type": "value_error", "msg": "Value error, must be even"})
    'must be even'
    """
    if problem["type"] == "too_short" and problem.get("ctx", {}).get("min_length") == 1:
        return "must not be empty"
    return _PLAIN_WORDS.get(problem["type"]) or str(problem["msg"]).removeprefix("Value error, ")


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
    for problem in error.errors(include_url=False, include_input=False):
        place = ".".join(map(str, problem["loc"])) or whole
        message = word_problem(problem)
        lines.append(f"{place}: {message}" if place else message)
    return lines
