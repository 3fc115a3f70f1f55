"""The retry of a plan whose failed steps lie behind it: it went on without them, in a new history or another turn."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from holdfast.protocol.runs import HistoryLimits
from tests.conftest import Harness
from tests.past.runs import fail, paid, retry
from tests.plans import plan_tools  # noqa: F401 (registers the tools)
from tests.plans.conftest import advance, begin, call, finish
from tests.progress import ends
from tests.tools import calls

BOSS = {"agents": {"boss": {"model": "scripted:replies.yaml"}}}
LIMITS = {"many histories": HistoryLimits(events=12, rounds=1), "one history": HistoryLimits()}


def mend(house: Harness) -> dict[str, Any]:
    """Return a step that fails until the cause is mended."""
    arguments = {"folder": str(house.folder), "name": "mended"}
    return {"id": "mend", "title": "Mend", "tools": ["mendable"], "arguments": arguments}


def pay(house: Harness, payee: str, id_: str = "pay") -> dict[str, Any]:
    """Return a step that pays."""
    arguments = {"folder": str(house.folder), "payee": payee, "amount": 1}
    return {"id": id_, "title": "Pay", "tools": ["pay_out"], "arguments": arguments}


def use(step: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return the turn in which an agent calls the tool of a step."""
    parameters = {**step["arguments"], **more}
    return call("execute_step_tool", step_id=step["id"], tool_name=step["tools"][0], parameters=parameters)


async def check_retry(house: Harness, plan: dict[str, Any], limits: str, before: int, end: tuple[int, int]) -> None:
    """Run a plan that fails, and retry it. It pays so often before, and at the end has paid and mended so often."""
    steps = [{"kind": "plan", "name": "plan", "plan": {"goal": "Go", **plan}}]
    more = BOSS if "driver" in plan else {}
    run = await fail(house, steps, history_limits=LIMITS[limits], blueprint=more)
    assert paid(house) == before
    outcome = await house.result(await retry(house, run))
    assert (outcome.status, outcome.error) == ("completed", None)
    assert (paid(house), calls(house.folder, "mended")) == end


@pytest.mark.first_row
@pytest.mark.parametrize("limits", LIMITS)
async def test_a_plan_that_went_on_without_a_step_makes_it_again(house: Harness, limits: str) -> None:
    others = [pay(house, name, name) for name in ("bob", "eve")]
    last = {**pay(house, "zoe", "last"), "dependencies": ["mend"]}
    await check_retry(house, {"steps": [pay(house, "ana"), mend(house), *others, last]}, limits, 3, (4, 1))


@pytest.mark.slow
async def test_a_call_that_timed_out_before_the_last_failure_is_asked_about(house: Harness) -> None:
    """The plan's own rule says that such a call fails; whether it took effect is unknown all the same."""
    log = house.folder / "sent"
    send = {"id": "send", "tools": ["plan_send"], "arguments": {"log": str(log), "to": "ana", "fail": [504]}}
    plan = {"goal": "Go", "steps": [send, mend(house)]}
    run = await fail(house, [{"kind": "plan", "name": "plan", "plan": plan}])
    new = await retry(house, run)
    question = await house.one(new)
    assert "when the earlier run ended" in question.message
    await house.answer(new, {"outcome": "done"}, question)
    assert (await house.result(new)).status == "completed"
    assert len(log.read_text().splitlines()) == 1


@pytest.mark.slow
@pytest.mark.parametrize("limits", LIMITS)
async def test_a_loop_that_went_on_without_an_item_makes_it_again(house: Harness, limits: str) -> None:
    each = {"over": ["ana", "bob", "eve"], "steps": ["mend", "pay"]}
    plan = {"steps": [mend(house), pay(house, "CURRENT_ITEM")], "loop_blocks": {"each": each}}
    await check_retry(house, plan, limits, 3, (3, 3))


@pytest.mark.slow
@pytest.mark.parametrize("limits", LIMITS)
async def test_an_agent_that_drove_on_without_a_step_hears_how_it_ends_now(house: Harness, limits: str) -> None:
    first, broken, last = pay(house, "ana"), mend(house), pay(house, "eve", "last")
    turns = [use(first), finish("pay"), use(broken), use(last), finish("last"), finish("mend")]
    house.script(json.dumps({"plan": turns}))
    plan = {"driver": "agent", "agent": "boss", "steps": [first, broken, last]}
    await check_retry(house, plan, limits, 2, (2, 1))


@pytest.mark.slow
@pytest.mark.parametrize("limits", LIMITS)
async def test_an_agent_hears_it_in_the_loop_that_it_drove_later(house: Harness, limits: str) -> None:
    """The loop was done, and it handed the whole plan back as it was then."""
    broken, each = mend(house), pay(house, "CURRENT_ITEM")
    items = [turn for name in ("ana", "bob") for turn in (use(each, payee=name), finish("pay"), advance("each"))]
    house.script(json.dumps({"plan": [use(broken), begin("each"), *items, finish("mend")]}))
    loops = {"each": {"over": ["ana", "bob"], "steps": ["pay"]}}
    plan = {"driver": "agent", "agent": "boss", "steps": [broken, each], "loop_blocks": loops}
    await check_retry(house, plan, limits, 2, (2, 1))


@pytest.mark.slow
@pytest.mark.first_row
@pytest.mark.parametrize("limits", LIMITS)
async def test_what_had_failed_in_a_plan_that_was_cancelled_is_made_again(house: Harness, limits: str) -> None:
    (house.folder / "broken").touch()
    last = {"id": "ask", "instruction": "Go on?", "pause_for_response": True, "dependencies": ["pay"]}
    after = {**pay(house, "zoe", "last"), "dependencies": ["mend"]}
    body = {"goal": "Go", "steps": [mend(house), pay(house, "ana"), last, after]}
    text = yaml.safe_dump({"steps": [{"kind": "plan", "name": "plan", "plan": body}]})
    run = await house.start(text, history_limits=LIMITS[limits])
    await house.one(run)
    await ends(house, run)
    new = await retry(house, run)
    await house.answered(new, "yes")
    outcome = await house.result(new)
    assert (outcome.status, outcome.error) == ("completed", None)
    assert (paid(house), calls(house.folder, "mended")) == (2, 1)
