"""What authors register as tools beside plain functions, and what is refused before a run starts."""

from __future__ import annotations

import functools
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest
from temporalio.exceptions import ApplicationError

from holdfast.activities import Interrupt, tool
from holdfast.activities.registry import Tool, find
from holdfast.blueprint.errors import BlueprintError
from holdfast.blueprint.questions import Input
from tests.conftest import Harness

if TYPE_CHECKING:
    from decimal import Decimal


class Shop:
    def __init__(self, name: str) -> None:
        self.name = name

    def sell(self, what: str) -> str:
        return f"{what} of {self.name}"

    def __call__(self, count: int) -> str:
        return f"{count} of {self.name}"

    @tool(name="callables_motto")
    @staticmethod
    def motto(text: str) -> str:
        return text.upper()


@tool(name="callables_fields")
def fields(**named: int) -> dict[str, int]:
    return named


@tool(name="callables_items")
def items(*numbers: int) -> list[int]:
    return list(numbers)


@tool(name="callables_lines")
def lines(text: str) -> Iterator[str]:
    yield text
    raise Interrupt(Input(message="More?"))


@tool(name="callables_parts")
async def parts(text: str) -> AsyncIterator[str]:
    yield text
    yield text.upper()


@tool(name="callables_leaves")
def leaves(code: int) -> None:
    sys.exit(code)


@tool(name="callables_leaves_later")
async def leaves_later(code: int) -> None:
    sys.exit(code)


@tool(name="callables_unread")
def unread(amount: Decimal) -> str:
    return str(amount)


tool(name="callables_sell")(Shop("Ana").sell)
tool(name="callables_shop")(Shop("Ana"))
tool(name="callables_half")(functools.partial(Shop("Ana").sell))


def called(name: str, input: Any) -> object:
    found = find(name, [])
    args, named = found.arguments(input)
    return found.validated_function(*args, **named)


@pytest.mark.parametrize(
    ("name", "input", "result"),
    [
        ("callables_sell", "tea", "tea of Ana"),
        ("callables_half", "tea", "tea of Ana"),
        ("callables_shop", 2, "2 of Ana"),
        ("callables_motto", "tea", "TEA"),
        ("callables_fields", {"a": 1}, {"a": 1}),
        ("callables_fields", {"a": 1, "b": "2"}, {"a": 1, "b": 2}),
        ("callables_items", "7", [7]),
    ],
)
def test_whatever_can_be_called_is_a_tool(name: str, input: Any, result: object) -> None:
    assert called(name, input) == result


@pytest.mark.parametrize(
    ("name", "properties"),
    [
        ("callables_shop", ["count"]),
        ("callables_half", ["what"]),
        ("callables_motto", ["text"]),
        ("callables_fields", []),
    ],
)
def test_it_is_described_to_models(name: str, properties: list[str]) -> None:
    assert list(find(name, []).parameters()["properties"]) == properties


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (Shop, "Shop is a class"),
        (Shop.sell, "Shop.sell is a method without its object"),
        (functools.partial(max), "has no name"),
        (Shop("Ana"), "has no name"),
    ],
)
def test_what_no_step_can_call_is_refused_when_it_is_registered(value: Callable[..., Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        tool(value)


def test_annotations_that_cannot_be_read_are_a_bad_tool() -> None:
    with pytest.raises(ApplicationError, match="'Decimal' is not defined; import it") as caught:
        _ = Tool("unread", unread).validated_function
    assert caught.value.type == "bad_tool"


@pytest.mark.slow
async def test_they_are_reported_before_a_run_starts(house: Harness) -> None:
    with pytest.raises(BlueprintError) as caught:
        await house.start(
            "steps: [{name: ask, kind: hitl, message: Go?}, {name: pay, uses: callables_unread}]", check=True
        )
    assert [(one.path, one.code) for one in caught.value.problems] == [("steps[1].uses", "bad_tool")]


@pytest.mark.parametrize("name", ["callables_leaves", "callables_leaves_later"])
async def test_a_tool_that_exits_fails_its_step_and_not_the_worker(house: Harness, name: str) -> None:
    step = f"{{name: leave, uses: {name}, input: 3, on_error: continue}}"
    run = await house.start(f"steps: [{step}]\noutput: '{{{{ steps.leave.error.message }}}}'")
    assert "it called sys.exit(3)" in await house.output(run)


async def test_an_asynchronous_generator_gives_a_list(house: Harness) -> None:
    run = await house.start("steps: [{name: a, uses: callables_parts, input: tea}]")
    assert await house.output(run) == ["tea", "TEA"]


async def test_the_body_of_a_generator_may_ask(house: Harness) -> None:
    run = await house.start("steps: [{name: a, uses: callables_lines, input: tea}]")
    assert (await house.one(run)).message == "More?"


def list_them(items: list[str] = ["a"]) -> list[str]:  # noqa: B006 a default that a call could change
    return items


def test_a_description_is_made_anew_as_its_defaults_may_be_changed_by_who_got_it() -> None:
    listed = Tool("listed", list_them)
    listed.parameters()["properties"]["items"]["default"].append("b")
    assert listed.parameters()["properties"]["items"]["default"] == ["a"]


def test_the_check_of_a_tools_arguments_is_made_once() -> None:
    listed = Tool("listed", list_them)
    assert listed.validated_function is listed.validated_function
