"""Functions that the blueprints of these tests name: mappers, exits, a failure."""

from typing import Any


def ten_times(value: int, context: dict[str, Any]) -> int:
    return value * 10


def next_input(output: int, context: dict[str, Any], iteration: int) -> int:
    return output * 10 + iteration


def over_a_hundred(output: int, context: dict[str, Any]) -> bool:
    return output > 100


def as_text(output: int, context: dict[str, Any]) -> str:
    return f"it is {output}"


def explode(value: Any) -> None:
    raise ValueError("boom")


def halved(value: int) -> int:
    if value % 2:
        raise ValueError(f"{value} is odd")
    return value // 2
