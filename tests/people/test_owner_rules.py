"""The owner of a tool decides, too: what the decorator demands holds in steps, agents and plans."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from holdfast import tool
from holdfast.protocol.answers import Answer
from holdfast.protocol.questions import Question
from tests.agents.turns import agent, call, turn
from tests.conftest import Harness
from tests.tools import calls

OWNED = "tests.owned"


def step(house: Harness, uses: str, **input: Any) -> str:
    value = {"folder": str(house.folder), **input}
    return yaml.safe_dump({"steps": [{"name": "s", "uses": f"{OWNED}:{uses}", "input": value}]})


async def answer(house: Harness, run: str, content: Any) -> Question:
    question = await house.one(run)
    await house.answer(run, content, question)
    return question


async def test_a_step_is_held_until_a_person_agrees(house: Harness) -> None:
    run = await house.start(step(house, "transfer", amount=500))
    question = await answer(house, run, {"granted": True})
    args = {"folder": str(house.folder), "amount": 500, "currency": "EUR"}
    assert (question.kind, question.message) == ("permission", "May the money go?")
    assert question.info == {"tool": "transfer", "risk": "high", "args": args}
    assert (await house.output(run), calls(house.folder, "transfer")) == ("500 EUR", 1)


async def test_the_name_of_the_step_stands_for_the_question_about_its_call(house: Harness) -> None:
    run = await house.start(step(house, "transfer", amount=500))
    address = (await house.one(run)).address
    given = [Answer(question="s", content={"granted": True})]
    receipts = [await house.runs.answer(run, given, key="once"), await house.runs.answer(run, given, key="once")]
    assert address.endswith(";level:owner-approval") and receipts[0] == receipts[1]
    assert await house.output(run) == "500 EUR"


async def test_a_call_for_which_the_expression_does_not_hold_is_made_at_once(house: Harness) -> None:
    run = await house.start(step(house, "transfer", amount=5))
    assert await house.output(run) == "5 EUR"


async def test_a_no_fails_the_step_and_the_tool_is_not_called(house: Harness) -> None:
    run = await house.start(step(house, "transfer", amount=500))
    await answer(house, run, {"granted": False, "reason": "too much"})
    outcome = await house.result(run)
    assert outcome.error is not None and (outcome.error.type, calls(house.folder, "transfer")) == ("not_approved", 0)
    assert "too much" in outcome.error.message


async def test_a_reviewer_of_a_step_changes_the_arguments(house: Harness) -> None:
    run = await house.start(step(house, "post", text="Teh end"))
    payload = {"folder": str(house.folder), "text": "The end"}
    await answer(house, run, {"verdict": "edited", "payload": payload})
    assert await house.output(run) == "The end"


async def test_a_rejected_review_fails_the_step(house: Harness) -> None:
    run = await house.start(step(house, "post", text="Teh end"))
    await answer(house, run, {"verdict": "rejected", "reason": "typo"})
    outcome = await house.result(run)
    assert outcome.error is not None and (outcome.error.type, calls(house.folder, "post")) == ("not_approved", 0)


async def test_the_owners_question_is_none_of_the_tools_own(house: Harness) -> None:
    run = await house.start(step(house, "wipe"))
    await answer(house, run, {"granted": True})
    assert (await answer(house, run, "it is old")).message == "Why?"
    assert await house.output(run) == "wiped: it is old"


async def test_a_yes_for_the_run_counts_for_its_later_steps(house: Harness) -> None:
    text = step(house, "transfer", amount=500)
    steps = yaml.safe_load(text)["steps"]
    run = await house.start(yaml.safe_dump({"steps": [*steps, {**steps[0], "name": "again"}]}))
    await answer(house, run, {"granted": True, "scope": "run"})
    assert (await house.output(run), calls(house.folder, "transfer")) == ("500 EUR", 2)


@pytest.mark.slow
@pytest.mark.parametrize("approve", [None, "never", "always"])
async def test_an_agents_call_is_asked_about_once_whatever_the_blueprint_says(
    house: Harness, approve: str | None
) -> None:
    turns = [turn(call("transfer", folder=str(house.folder), amount=500)), "done"]
    tools = [{"name": f"{OWNED}:transfer", **({"approve": approve} if approve else {})}]
    run = await house.start(agent(house, turns, tools=tools), "Go")
    assert (await answer(house, run, {"granted": True})).message == "May the money go?"
    assert (await house.output(run), calls(house.folder, "transfer")) == ("done", 1)


async def test_the_model_is_told_of_the_owners_no(house: Harness) -> None:
    turns = [turn(call("transfer", folder=str(house.folder), amount=500)), "{{ messages[-1].content }}"]
    run = await house.start(agent(house, turns, tools=[f"{OWNED}:transfer"]), "Go")
    await answer(house, run, {"granted": False, "reason": "too much"})
    assert "not approved: too much" in str(await house.output(run))


@pytest.mark.slow
async def test_a_plan_shows_that_a_tool_needs_approval_and_asks_for_it(house: Harness) -> None:
    house.script(yaml.safe_dump({"1": [turn(call("transfer", folder=str(house.folder), amount=500)), "done"]}))
    step_ = {"id": "1", "instruction": "Send it", "tools": [f"{OWNED}:transfer"]}
    plan = {"goal": "Pay", "agent": "clerk", "confirm": True, "steps": [step_]}
    agents = {"clerk": {"model": "scripted:replies.yaml", "tools": [f"{OWNED}:transfer"]}}
    run = await house.start(yaml.safe_dump({"agents": agents, "steps": [{"kind": "plan", "name": "p", "plan": plan}]}))
    shown = await answer(house, run, {"verdict": "unchanged"})
    assert shown.info["about"]["tools"] == {
        "1": [{"tool": f"{OWNED}:transfer", "effect": "acts", "approval": "depends"}]
    }
    assert (await answer(house, run, {"granted": True})).message == "May the money go?"
    assert (await house.result(run)).status == "completed"
    assert calls(house.folder, "transfer") == 1


async def test_a_tool_that_needs_a_persons_word_can_be_no_condition(house: Harness) -> None:
    conditional = {"kind": "conditional", "name": "c", "condition": f"{OWNED}:wipe", "branches": {"x": []}}
    outcome = await house.result(await house.start(yaml.safe_dump({"steps": [conditional]})))
    assert outcome.error is not None and outcome.error.type == "not_allowed"


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"approve": "args.amount >"}, "approve='args.amount >'"),
        ({"approve": "amount > 3"}, "unknown name 'amount'; it may read args"),
        ({"risk": "high"}, "add approve=True or review=True"),
    ],
)
def test_a_demand_that_cannot_be_kept_is_refused_where_the_tool_is_defined(how: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        tool(name="never_registered", **how)(lambda: None)
