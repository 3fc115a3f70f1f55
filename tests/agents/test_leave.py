"""What leave is asked for, and what it counts for: defaults at any depth, agents of one name."""

from __future__ import annotations

import time
from typing import Any

import pytest
import yaml
from pydantic import BaseModel, Field

from holdfast.activities import tool
from tests.agents.turns import DONE, agent, call, turn
from tests.conftest import Harness
from tests.tools import calls, count


class Order(BaseModel):
    """What is ordered: much of it may be left out."""

    folder: str
    urgent: bool = True
    path: str = "/etc/passwd"
    amount: int = Field(default_factory=lambda: 500)
    at: float = Field(default_factory=time.time)


@tool
def order(m: Order) -> str:
    """Order one."""
    count(m.folder, "order")
    return "ordered"


@tool
def order_some(all: list[Order | None]) -> str:
    """Order several."""
    count(next(one.folder for one in all if one), "order")
    return "ordered"


def ordering(house: Harness, approve: str | None = None, **more: Any) -> str:
    turns = [turn(call("order", m={"folder": str(house.folder)})), DONE]
    return agent(house, turns, tools=[{"name": "order", "approve": approve}], **more)


@pytest.mark.first_row
@pytest.mark.parametrize("approve", ["args.m.urgent", "args.m.amount > 100", "args.m.at > 1e99", "args.m.nothing"])
async def test_what_a_model_leaves_out_inside_an_argument_asks_as_if_it_were_given(
    house: Harness, approve: str
) -> None:
    run = await house.start(ordering(house, approve), "Go")
    shown = (await house.one(run)).info["args"]["m"]
    assert (shown["urgent"], shown["amount"], shown["path"]) == (True, 500, "/etc/passwd")
    await house.decline(run)
    assert await house.output(run) == "done: not approved"
    assert calls(house.folder, "order") == 0


@pytest.mark.slow
@pytest.mark.parametrize("approve", ["not args.m.urgent", "args.m.get('at', 0) > 1"])
async def test_an_expression_that_knows_what_is_left_out_does_not_ask(house: Harness, approve: str) -> None:
    assert await house.output(await house.start(ordering(house, approve), "Go")) == "done: ordered"


async def test_a_rule_sees_the_texts_that_a_model_leaves_out_inside_an_argument(house: Harness) -> None:
    rule = {"tool": "order", "target": "/etc/*", "action": "deny"}
    run = await house.start(ordering(house, permissions=[rule]), "Go")
    assert await house.output(run) == "done: order is not permitted here"


async def test_defaults_are_known_in_lists_and_of_the_form_that_a_value_has(house: Harness) -> None:
    turns = [turn(call("order_some", all=[None, {"folder": str(house.folder)}])), DONE]
    text = agent(house, turns, tools=[{"name": "order_some", "approve": "args.all[1].urgent"}])
    run = await house.start(text, "Go")
    assert (await house.one(run)).info["args"]["all"][1]["urgent"] is True
    await house.decline(run)
    assert await house.output(run) == "done: not approved"


@pytest.mark.slow
async def test_leave_for_the_run_is_not_for_another_agent_of_the_same_name(house: Harness) -> None:
    model = "scripted:replies.yaml"
    tools = [{"name": "agent:helper", "approve": "always"}]
    inner = {"chief": {"model": model, "tools": tools}, "helper": {"model": model, "instructions": "Theirs."}}
    steps = [{"name": "chief", "agent": "chief"}]
    (house.folder / "inner.yaml").write_text(yaml.safe_dump({"agents": inner, "steps": steps}))
    boss = {"model": model, "tools": tools}
    agents = {"boss": boss, "again": boss, "helper": {"model": model, "instructions": "Ours."}}
    ask = [turn(call("helper", input="x")), DONE]
    house.script(yaml.safe_dump({"boss": ask, "again": ask, "chief": ask, "helper": ["{{ instructions }}"]}))
    steps = [
        {"name": "boss", "agent": "boss"},
        {"name": "again", "agent": "again"},
        {"name": "in", "uses": "imports.i"},
    ]
    text = yaml.safe_dump({"agents": agents, "imports": {"i": "inner.yaml"}, "steps": steps})
    run = await house.start(text, "Go")
    await house.answer(run, {"granted": True, "scope": "run"})
    assert "import:i" in (await house.one(run)).address
    await house.decline(run)
    assert await house.output(run) == "done: not approved"
    assert (await house.runs.watch.events(run))[-1].type == "run.completed"
