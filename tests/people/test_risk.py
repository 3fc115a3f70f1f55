"""The risk of what a person permits, with its action and its details: on the question, in the terminal, in Temporal."""

from __future__ import annotations

import pytest

from holdfast.blueprint.kinds import Agent
from holdfast.blueprint.questions import Permission
from holdfast.cli.render import question_text
from holdfast.protocol.agents import ToolSpec
from holdfast.protocol.permissions import Policy, ProposedCall, decide
from holdfast.workflows.details import write_details
from tests.conftest import Harness
from tests.flows import written

PAY = """
inputs: {type: object}
steps:
  - kind: hitl
    name: pay
    ask: permission
    message: May it be paid?
    risk: high
    action: "Pay {{ input.amount }} EUR"
    details: {to: "{{ input.payee }}"}
"""


async def test_a_permission_shows_action_risk_and_details(house: Harness) -> None:
    run = await house.start(PAY, {"amount": 40, "payee": "Ana"})
    question = await house.one(run)
    assert question.info == {"action": "Pay 40 EUR", "risk": "high", "details": {"to": "Ana"}}
    assert question.asked.risk == "high"
    text = question_text(question).plain
    assert "risk: high\naction: Pay 40 EUR\ndetails: {" in text
    [view] = await house.runs.tree.views(run)
    assert "Risk: **high**." in write_details(view, [question])
    await house.answer(run, {"granted": True})


async def test_without_details_the_input_is_shown(house: Harness) -> None:
    run = await house.start(PAY.replace('    details: {to: "{{ input.payee }}"}\n', ""), {"amount": 40})
    assert (await house.one(run)).info == {"action": "Pay 40 EUR", "risk": "high", "details": {"amount": 40}}
    await house.answer(run, {"granted": False})


@pytest.mark.slow
@pytest.mark.parametrize("how", [{"approve": "always"}, {"review": True}])
async def test_the_approval_of_a_tool_shows_its_risk(house: Harness, how: dict[str, object]) -> None:
    house.script("boss: [{tool_calls: [{name: pay_out, args: {folder: x, payee: Ana, amount: 1}}]}, done]")
    boss = {"model": "scripted:replies.yaml", "tools": [{"name": "pay_out", "risk": "critical", **how}]}
    run = await house.start(written({"name": "boss", "agent": "boss"}, agents={"boss": boss}))
    question = await house.one(run)
    assert question.asked.risk == "critical"
    assert "risk: critical" in question_text(question).plain
    await house.decline(run)
    assert await house.output(run) == "done"


def test_of_several_authors_the_highest_risk_is_shown() -> None:
    def policy(**tool: object) -> Policy:
        agent = Agent.model_validate({"model": "m", "tools": [{"name": "pay", "approve": "always", **tool}]})
        return Policy.of(agent, ToolSpec(name="pay", reference="pay"))

    policies = [policy(risk="medium"), policy(), policy(risk="high"), policy(risk="low")]
    assert decide(ProposedCall(ToolSpec(name="pay", reference="pay"), {}, policies)).risk == "high"


def test_details_that_name_no_risk_have_none() -> None:
    assert [Permission(message="?", info=info).risk for info in ({"risk": "dire"}, {"risk": ["high"]}, "high")] == [
        None
    ] * 3
