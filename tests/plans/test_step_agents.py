"""A step with tools under the scheduler: an agent in a workflow of its own, which ends when each tool has returned."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.protocol.runs import HistoryLimits
from tests.conftest import until
from tests.plans import plan_tools  # noqa: F401 (registers the tools)
from tests.plans.conftest import Plans, call, loop, reasons, statuses, step

BOTH = [step("1", "Update and send", tools=["plan_update", "plan_send"])]
CLERK = {"model": "scripted:replies.yaml", "tools": ["plan_update", "plan_send"], "human": ["ask"]}


def together(*replies: dict[str, Any], output: str = "done") -> dict[str, Any]:
    """A reply that makes the calls of these, in their order."""
    return {"output": output, "tool_calls": [one for reply in replies for one in reply["tool_calls"]]}


async def test_a_step_and_each_item_has_its_agent_below_the_plan(plans: Plans) -> None:
    plan = {"steps": [step("0", tools=["plan_send"]), BOTH[0]], "loop_blocks": {"all": loop(["a"], "1")}}
    both = together(plans.wants("plan_update", event="e"), plans.wants("plan_send", to="a"))
    run = await plans.start(plan, {"0": plans.wants("plan_send", to="b"), "1": both})
    await plans.harness.output(run)
    agents = [history.workflow_id.removeprefix(f"{run}/plan:plan") for history in await plans.harness.histories(run)]
    assert [name for name in agents if "step" in name] == [";step:0", ";loop:all:1;step:1"]


async def test_what_is_done_stays_done_when_the_agent_continues_as_new(plans: Plans) -> None:
    script = {"1": [plans.wants("plan_update", event="e"), plans.wants("plan_send", to="a")]}
    run = await plans.start({"steps": BOTH}, script, history_limits=HistoryLimits(rounds=1))
    told = (await plans.harness.output(run))["steps"]["1"]
    assert plans.tools() == ["update", "send"]
    assert [one["tool"] for one in told["tool_results"]] == ["plan_update", "plan_send"]
    first, second = await plans.requests(run)
    assert [[tool["name"] for tool in one["tools"]] for one in (first, second)] == [
        ["plan_update", "plan_send"],
        ["plan_send"],
    ]


async def test_a_call_behind_one_that_failed_waits_for_the_next_turn(plans: Plans) -> None:
    steps = [step("1", "Send, then update", tools=["plan_send", "plan_update"])]
    both = together(plans.wants("plan_send", to="a", fail=[400]), plans.wants("plan_update", event="e"))
    await plans.output({"steps": steps}, {"1": both})
    assert plans.tools() == ["send", "send", "update"]


async def test_a_step_ends_by_the_last_call_of_its_tool(plans: Plans) -> None:
    first, second = plans.wants("plan_send", to="a"), plans.wants("plan_send", to="b", fail=[0, 400])
    output = await plans.output({"steps": [step("1", tools=["plan_send"])]}, {"1": [together(first, second), second]})
    assert [one["to"] for one in plans.calls()] == ["a", "b", "b"]
    assert (output["steps"]["1"]["data"], output["steps"]["1"]["response"]) == ({"message_id": "m3", "to": "b"}, "done")


@pytest.mark.slow
async def test_an_agent_that_may_ask_asks_before_it_calls_and_is_told_more(plans: Plans) -> None:
    replies = [call("request_user_info", question="To whom?"), plans.wants("plan_send", to="ana")]
    run = await plans.start({"steps": [step("1", tools=["plan_send"])], "agent": CLERK}, {"1": replies})
    question = await plans.harness.one(run)
    await plans.harness.runs.control.tell(run, "Be polite", agent="1")
    await plans.harness.answer(run, "ana", question)
    assert statuses(await plans.harness.output(run)) == {"1": "completed"}
    _, second = await plans.requests(run)
    assert [message["content"] for message in second["messages"][-2:]] == ["ana", "Be polite"]


@pytest.mark.slow
async def test_a_tool_that_is_missing_when_it_is_called_is_replaced_and_not_called_again(plans: Plans) -> None:
    steps = [step("1", "Use plan update for the event", tools=["plan_send"])]
    sends = plans.wants("plan_send", to="a", fail=[404, 0])
    agent = {**CLERK, "human": []}
    run = await plans.start(
        {"steps": steps, "agent": agent}, {"1": [sends, sends, plans.wants("plan_update", event=1)]}
    )
    output = await plans.harness.output(run)
    assert (plans.tools(), output["steps"]["1"]["data"]) == (["send", "update"], {"updated": 1})


@pytest.mark.slow
async def test_a_step_whose_agent_was_terminated_fails_and_the_plan_goes_on(plans: Plans) -> None:
    steps = [step("1", tools=["plan_wait"], optional=True), step("2", "After", tools=["plan_send"])]
    script = {"1": plans.wants("plan_wait"), "2": plans.wants("plan_send", to="a")}
    run = await plans.start({"steps": steps}, script)
    await until(lambda: _has_called(plans), "the call")
    await plans.harness.client.get_workflow_handle(f"{run}/plan:plan;step:1").terminate()
    output = await plans.harness.output(run)
    assert (output["status"], statuses(output)) == ("completed_with_errors", {"1": "failed", "2": "completed"})
    assert reasons(output) == {"1": "calls_unknown"}


async def _has_called(plans: Plans) -> bool:
    return bool(plans.calls())
