"""Every example loads, is valid for editors, and runs to its end."""

from __future__ import annotations

import jsonschema_rs
import pytest

from blueprint import load, loads
from blueprint.core import expand
from blueprint.schema import language_schema
from blueprint.source import plain, read
from tests.conftest import Harness
from tests.loops.test_loops import answered
from tests.test_architecture import HOME

EXAMPLES = sorted((HOME / "examples").glob("*/*.yaml"))
EXAMPLES = [path for path in EXAMPLES if path.stem != "replies"]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_loads_and_its_core_form_is_the_same_blueprint(path) -> None:
    blueprint = load(path)
    assert loads(expand(blueprint)) == blueprint


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_fits_the_schema_for_editors(path) -> None:
    jsonschema_rs.validate(language_schema(), plain(read(path.read_text(), path.name)[0]))


async def start(house: Harness, name: str, input: object) -> str:
    run = await house.runs.start(load(HOME / "examples" / name / f"{name}.yaml"), input)
    house.started.append(run)
    return run


async def test_the_clarification_asks_three_times_and_writes_the_brief(house: Harness) -> None:
    run = await start(house, "clarify", "A poem")
    asked = await answered(house, run, "my team", "short and warm", "the merger")
    assert asked == ["Who is it for?", "How long may it be, and in which tone?", "What must it not mention?"]
    output = await house.output(run)
    assert output["goal"] == "A poem"
    assert "User: short and warm" in output["brief"]


async def test_the_payment_is_refused_unless_a_person_says_pay(house: Harness) -> None:
    run = await start(house, "approval", {"payee": "Ana", "amount": 12})
    await house.answer(run, "Do not pay")
    assert await house.output(run) == "Not paid: Ana, 12 EUR."


async def test_the_text_is_revised_until_it_is_good(house: Harness) -> None:
    run = await start(house, "feedback", "Tea")
    messages = await answered(house, run, "warmer please", "good")
    assert messages[0].endswith("Topic: Tea. Feedback: none yet")
    assert messages[1].endswith("Feedback: warmer please")
    assert (await house.output(run)).startswith("Second draft.")
