"""Check values before they are sent to a run: that JSON can hold them, and their size. `Runs` and its facets use it.

A value that fits here arrives as it is, and is not refused for its size.
"""

from __future__ import annotations

from collections.abc import Mapping

from pydantic_core import PydanticSerializationError, to_json, to_jsonable_python

from holdfast.blueprint import json_values
from holdfast.blueprint.json_values import JSON
from holdfast.protocol.answers import AnswerBatch, Refusal
from holdfast.protocol.size_limits import SizeLimit, check_bytes, check_values
from holdfast.runtime.errors import BadInput


def read_json(value: object, name: str) -> JSON:
    """Return the JSON value of what a program gives. Raises `BadInput` with its name where it has none."""
    try:
        return json_values.to_json(value)
    except ValueError as error:
        raise BadInput(f"{name}: {error}") from None


def check_outgoing(values: Mapping[str, JSON], limit: SizeLimit) -> None:
    """Check that JSON can hold the values and that they are not too large. Raises `Refusal` with the path of one.

    Args:
        values: The values by the names that the paths begin with.
        limit: The limit for all of them together.
    """
    try:  # "constants": by default pydantic writes null for NaN and for infinity
        plain = to_jsonable_python(dict(values), inf_nan_mode="constants")
    except (PydanticSerializationError, ValueError) as error:  # no JSON type, or a value that contains itself
        raise Refusal("invalid_answer", f"this is not JSON: {error}") from None
    check_values(plain, limit)
    check_bytes(sum(len(to_json(value)) for value in plain.values()), limit)


def check_batch(batch: AnswerBatch, limit: SizeLimit) -> None:
    """Check the contents of a batch of answers, and its size in bytes, as the workflow would. Raises `Refusal`."""
    contents = [answer.content for answer in batch.answers]
    names = ["content"] if len(contents) == 1 else [f"answers[{index}].content" for index in range(len(contents))]
    check_outgoing(dict(zip(names, contents, strict=True)), limit)
    check_bytes(len(to_json(batch)), limit)
