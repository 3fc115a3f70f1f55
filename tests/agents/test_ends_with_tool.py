"""An agent that ends with the result of its tool."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

import tests.interrupting  # noqa: F401 registers the tools
from holdfast.blueprint.errors import BlueprintError
from holdfast.blueprint.load import loads
from tests.agents.turns import call, turn
from tests.conftest import Harness
from tests.tools import calls


def document(house: Harness, turns: list[Any], *after: dict[str, Any], **agent: Any) -> str:
    house.script(yaml.safe_dump({"clerk": turns}))
    clerk = {"model": "scripted:replies.yaml", "tools": ["look_up"], **agent}
    steps = [{"name": "clerk", "agent": "clerk", "ends_with_tool": True}, *after]
    return yaml.safe_dump({"agents": {"clerk": clerk}, "steps": steps})


def look_up(house: Harness, word: str) -> dict[str, Any]:
    return call("look_up", folder=str(house.folder), word=word)


async def test_the_tools_result_is_the_output_without_a_last_request(house: Harness) -> None:
    run = await house.start(document(house, [turn(look_up(house, "w")), {"expect": "nothing", "output": "late"}]), "Go")
    assert await house.output(run) == "w 1"
    assert (await house.types(run)).count("model.requested") == 1


async def test_of_several_calls_each_is_made_once_in_order_and_the_first_success_counts(house: Harness) -> None:
    bad = call("look_up", word="bad")
    run = await house.start(document(house, [turn(bad, *(look_up(house, word) for word in "ab"))]), "Go")
    assert await house.output(run) == "a 1"
    assert [calls(house.folder, f"look_up-{word}") for word in "ab"] == [1, 1]


async def test_a_call_that_cannot_be_made_and_a_reply_without_one_go_back_to_the_model(house: Harness) -> None:
    turns = [turn(call("look_up", word=1)), "I would rather talk.", turn(look_up(house, "w"))]
    run = await house.start(document(house, turns), "Go")
    assert await house.output(run) == "w 1"


async def test_a_model_that_never_calls_fails_the_step(house: Harness) -> None:
    error = (await house.result(await house.start(document(house, ["Done."]), "Go"))).error
    assert error.type == "no_tool_result"
    assert "call look_up" in error.message


async def test_a_no_skips_the_step_and_nothing_more_is_called(house: Harness) -> None:
    tools = [{"name": "look_up", "approve": "always"}]
    after = {"name": "after", "input": ["{{ steps.clerk.status }}", "{{ steps.clerk.output }}", "{{ previous_step }}"]}
    turns = [turn(look_up(house, "a"), look_up(house, "b")), turn(look_up(house, "c"))]
    run = await house.start(document(house, turns, after, tools=tools), "Go")
    await house.answer(run, {"granted": False, "reason": "not now"})
    assert await house.output(run) == ["skipped", None, "Go"]
    assert [calls(house.folder, f"look_up-{word}") for word in "abc"] == [0, 0, 0]


@pytest.mark.slow
async def test_a_no_to_a_later_call_of_the_turn_leaves_the_result_of_the_first(house: Harness) -> None:
    tools = [{"name": "look_up", "approve": "always"}]
    run = await house.start(document(house, [turn(*(look_up(house, word) for word in "abc"))], tools=tools), "Go")
    await house.answer(run, {"granted": True, "scope": "once"})
    await house.answer(run, {"granted": False})
    assert await house.output(run) == "a 1"
    assert [calls(house.folder, f"look_up-{word}") for word in "abc"] == [1, 0, 0]


@pytest.mark.slow
async def test_a_question_of_the_agent_does_not_end_it(house: Harness) -> None:
    turns = [turn(call("request_user_info", question="Which word?")), turn(look_up(house, "w"))]
    run = await house.start(document(house, turns, human=["ask"]), "Go")
    await house.answer(run, "w")
    assert await house.output(run) == "w 1"


@pytest.mark.slow
async def test_the_arguments_that_a_person_puts_in_are_called_and_the_result_is_plain(house: Harness) -> None:
    tools = [{"name": "look_up", "review": True}]
    run = await house.start(document(house, [turn(look_up(house, "a"))], tools=tools), "Go")
    await house.answer(run, {"verdict": "edited", "payload": {"folder": str(house.folder), "word": "b"}})
    assert await house.output(run) == "b 1"


async def test_a_step_that_failed_says_what_was_called_what_it_returned_and_what_kind_of_error_it_was(
    house: Harness,
) -> None:
    after = {"name": "after", "input": "{{ steps.clerk.error.output }}"}
    rules = {"bad_arguments": "fail"}
    text = document(house, [turn(call("look_up", word=1))], after, tool_errors=rules)
    whole = yaml.safe_load(text)
    whole["steps"][0]["on_error"] = "continue"
    run = await house.start(yaml.safe_dump(whole), "Go")
    assert await house.output(run) == {"called": [], "returned": [], "tool_error": "bad_arguments"}


@pytest.mark.parametrize(
    ("step", "message"),
    [
        ({"uses": "look_up"}, "steps that run an agent"),
        ({"agent": {"model": "echo"}}, "an agent with one tool"),
        ({"agent": {"model": "echo", "tools": ["a", "b"]}}, "an agent with one tool"),
        ({"agent": {"model": "echo", "tools": ["mcp:files"]}}, "an agent with one tool"),
        ({"agent": {"model": "echo", "tools": ["a"], "output_schema": {"type": "object"}}}, "has an 'output_schema'"),
    ],
)
def test_where_it_is_not_clear_with_what_the_step_ends_is_an_error(step: dict[str, Any], message: str) -> None:
    with pytest.raises(BlueprintError) as caught:
        loads(yaml.safe_dump({"steps": [{"name": "s", "ends_with_tool": True, **step}]}))
    [problem] = caught.value.problems
    assert (problem.path, problem.code) == ("steps[0].ends_with_tool", "conflict")
    assert message in problem.message
