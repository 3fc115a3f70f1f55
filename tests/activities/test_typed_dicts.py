"""A `typing.TypedDict` that a tool returns, or takes as an answer: read on every Python, also on 3.11."""

from __future__ import annotations

from typing import Annotated, Any, NotRequired, Required, TypedDict

import pytest
from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from holdfast.activities.registry import Tool
from holdfast.activities.typed_dicts import make_readable
from holdfast.blueprint.shape import Shape


class Part(TypedDict):
    price: Annotated[int, Field(ge=0)]
    inside: NotRequired[list[Part]]


class Booking(TypedDict, total=False):
    id: Required[str]
    parts: list[Part] | None


class Animal(BaseModel):
    name: str


class Dog(Animal):
    tricks: int


def find() -> Booking:
    return {"id": "B-1"}


def test_the_result_of_a_tool_is_known_and_has_no_other_keys() -> None:
    result = Tool("find", find).result()
    shape = Shape(result)
    assert (shape.keys, shape.required, shape.find_key("price")) == (["id", "parts"], {"id"}, None)
    assert shape.find_key("parts").element.keys == ["price", "inside"]


def find_animal() -> Animal:
    return Dog(name="Rex", tricks=3)


def test_a_class_of_which_another_one_derives_may_have_more_keys() -> None:
    assert Shape(Tool("find_animal", find_animal).result()).find_key("tricks") is not None


def test_values_are_read_by_its_fields_and_their_rules() -> None:
    adapter: TypeAdapter[Any] = TypeAdapter(make_readable(list[Booking]))
    assert adapter.validate_python([{"id": "a", "parts": [{"price": "3"}]}]) == [{"id": "a", "parts": [{"price": 3}]}]
    for wrong in ([{}], [{"id": "a", "parts": [{"price": -1}]}]):
        with pytest.raises(ValidationError):
            adapter.validate_python(wrong)


@pytest.mark.parametrize("hint", [int, list[str], str | None, dict[str, Any], Any, Annotated[int, Field(ge=0)]])
def test_what_pydantic_reads_stays_as_it_is(hint: Any) -> None:
    assert make_readable(hint) is hint
