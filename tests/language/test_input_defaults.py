"""What an input lacks is its schema's default, of a run and of an import."""

from __future__ import annotations

import pytest
from pydantic import BaseModel

from holdfast.build import Pipeline, each, step
from holdfast.runtime.errors import BadInput
from tests.conftest import Harness

INPUTS = """{type: object, required: [who, tags], additionalProperties: false, properties: {
  who: {type: string}, tags: {type: array, default: [new], items: {type: string}},
  place: {type: object, default: {}, properties: {city: {type: string, default: Rome}}}}}""".replace("\n", "")
TEXT = f"""
inputs: {INPUTS}
imports:
  other: {{inputs: {INPUTS}, steps: [{{name: inner, input: "{{{{ input.tags | join }}}} {{{{ input.place.city }}}}"}}]}}
steps:
  - {{name: own, input: "{{{{ input.tags | join }}}} {{{{ input.place.city }}}}"}}
  - {{name: theirs, uses: imports.other, input: {{who: ana, place: {{}}}}}}
output: "{{{{ steps.own.output }}}}, {{{{ steps.theirs.output }}}}"
"""


async def test_a_property_that_is_missing_has_its_default(house: Harness) -> None:
    text = TEXT.replace("default: {}", "default: {city: Bonn}")
    assert await house.output(await house.start(text, {"who": "ana"})) == "new Bonn, new Rome"
    given = {"who": "ana", "tags": [], "place": {"city": "Oslo"}}
    assert await house.output(await house.start(text, given)) == " Oslo, new Rome"


async def test_what_has_no_default_is_still_missing(house: Harness) -> None:
    with pytest.raises(BadInput, match="who is missing"):
        await house.start(TEXT, {})


class Order(BaseModel):
    title: str
    lines: list[str] = ["one"]


async def test_a_model_of_python_gives_its_defaults_to_whoever_starts_it(house: Harness) -> None:
    with Pipeline("order", inputs=Order) as order, each("mails", order.input.lines) as mails:
        step("mail", input=f"{mails.item}!")
    run = await house.runs.start(order, {"title": "x"})
    house.started.append(run)
    assert await house.output(run) == ["one!"]
