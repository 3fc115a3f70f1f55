"""Errors of tools under both drivers: who is asked, how often a call is made, what becomes of the step."""

from __future__ import annotations

from typing import Any

import pytest

from tests.plans import plan_tools  # noqa: F401 (registers the tools)
from tests.plans.conftest import DRIVERS, Plans, finish, reasons, statuses, step

pytestmark = pytest.mark.parametrize("driver", DRIVERS)
SEND = [step("1", "Send", tools=["plan_send"])]


async def start(plans: Plans, driver: str, calls: int, steps: list[Any] = SEND, **args: Any) -> str:
    """A plan whose agent calls the tool so often."""
    turns = [*[plans.runs("1", "plan_send", to="ana", **args)] * calls, finish("1"), finish("1", "again")]
    script = {"plan": turns} if driver == "agent" else {"1": [plans.wants("plan_send", to="ana", **args)]}
    return await plans.start({"steps": steps, "driver": driver}, script)


async def ended(plans: Plans, run: str) -> dict[str, Any]:
    output: dict[str, Any] = (await plans.harness.result(run)).output
    return output


@pytest.mark.slow
async def test_a_person_reconnects_and_the_same_call_is_made_again(plans: Plans, driver: str) -> None:
    run = await start(plans, driver, 1, fail=[401])
    question = await plans.harness.one(run)
    assert "plan_send is not authorized" in question.message
    await plans.harness.answer(run, "reconnected", question)
    assert statuses(await ended(plans, run)) == {"1": "completed"}
    assert len(plans.calls()) == 2


@pytest.mark.slow
async def test_a_second_401_fails_the_step(plans: Plans, driver: str) -> None:
    run = await start(plans, driver, 1, fail=[401, 401], words="token expired")
    await plans.harness.answer(run, "reconnected")
    output = await ended(plans, run)
    assert (statuses(output), output["steps"]["1"]["error"]["type"]) == ({"1": "failed"}, "authorization")
    assert len(plans.calls()) == 2


@pytest.mark.slow
async def test_who_does_not_reconnect_ends_the_step(plans: Plans, driver: str) -> None:
    run = await start(plans, driver, 1, fail=[403])
    await plans.harness.decline(run)
    assert statuses(await ended(plans, run)) == {"1": "failed"}
    assert len(plans.calls()) == 1


@pytest.mark.slow
async def test_what_timed_out_is_not_called_again(plans: Plans, driver: str) -> None:
    output = await ended(plans, await start(plans, driver, 1, fail=[504]))
    assert (statuses(output), output["steps"]["1"]["error"]["type"]) == ({"1": "failed"}, "timeout")
    assert len(plans.calls()) == 1


@pytest.mark.slow
async def test_what_timed_out_and_need_not_be_is_skipped(plans: Plans, driver: str) -> None:
    steps = [
        step("1", "Send", tools=["plan_send"], optional=True),
        step("2", "After", condition="RESULT_FROM_1 is empty"),
    ]
    turns = [plans.runs("1", "plan_send", to="ana", fail=[504]), finish("2", "after")]
    script = {"1": plans.wants("plan_send", to="ana", fail=[504]), "2": "after"}
    plan = {"steps": steps, "driver": driver}
    output = await plans.output(plan, {"plan": turns} if driver == "agent" else script)
    assert (output["status"], statuses(output)) == ("completed", {"1": "skipped", "2": "completed"})
    assert reasons(output) == {"1": "timeout"}


async def test_a_tool_that_may_be_run_twice_is_not_after_a_504(plans: Plans, driver: str) -> None:
    steps = [step("1", "Send", tools=["plan_send_safely"])]
    args = {"to": "ana", "words": "504 Gateway Timeout"}
    turns = [plans.runs("1", "plan_send_safely", **args)]
    script = {"plan": turns} if driver == "agent" else {"1": plans.wants("plan_send_safely", **args)}
    output = await plans.ended({"steps": steps, "driver": driver}, script)
    assert output["steps"]["1"]["error"]["type"] == "timeout"
    assert len(plans.calls()) == 1


@pytest.mark.slow
async def test_parameters_are_corrected_twice_and_the_third_400_fails(plans: Plans, driver: str) -> None:
    output = await ended(plans, await start(plans, driver, 3, fail=[400, 400, 400]))
    assert (statuses(output), output["steps"]["1"]["error"]["type"]) == ({"1": "failed"}, "bad_arguments")
    assert len(plans.calls()) == 3


@pytest.mark.slow
async def test_corrected_parameters_complete_the_step(plans: Plans, driver: str) -> None:
    output = await ended(plans, await start(plans, driver, 3, fail=[400, 400]))
    assert output["steps"]["1"]["data"] == {"message_id": "m3", "to": "ana"}


@pytest.mark.slow
async def test_a_failure_of_the_business_is_tried_once_more(plans: Plans, driver: str) -> None:
    output = await ended(plans, await start(plans, driver, 2, fail=[200, 200]))
    assert output["steps"]["1"]["error"] == {"type": "business", "message": "plan_send: the mailbox is full"}
    assert len(plans.calls()) == 2


@pytest.mark.slow
async def test_all_kinds_together_are_tried_twice(plans: Plans, driver: str) -> None:
    output = await ended(plans, await start(plans, driver, 4, fail=[200, 400, 400]))
    assert output["steps"]["1"]["error"]["type"] == "bad_arguments"
    assert len(plans.calls()) == 3


@pytest.mark.slow
async def test_another_tool_is_found_for_one_that_is_missing(plans: Plans, driver: str) -> None:
    steps = [step("1", "Update the calendar event", tools=["plan_updat"], service="calendar")]
    turns: list[Any] = [
        plans.runs("1", "plan_updat", event="e1"),
        {"tool_calls": [{"name": "find_tool", "args": {"service": "calendar", "instruction": "plan update an event"}}]},
        plans.runs("1", "plan_update", event="e1"),
        finish("1"),
    ]
    script = {"plan": turns} if driver == "agent" else {"1": plans.wants("plan_update", event="e1")}
    run = await plans.start({"steps": steps, "driver": driver}, script)
    question = await plans.harness.one(run)
    assert "plan_update is not in the plan that was approved for step 1" in question.message
    await plans.harness.answer(run, {"granted": True}, question)
    assert (await plans.harness.output(run))["steps"]["1"]["data"] == {"updated": "e1"}
    assert plans.tools() == ["update"]


@pytest.mark.slow
async def test_of_several_tools_those_that_are_done_are_not_run_again(plans: Plans, driver: str) -> None:
    steps = [step("1", "Update, then send", tools=["plan_update", "plan_send"])]
    sending = {"to": "ana", "fail": [0, 400]}
    turns = [
        plans.runs("1", "plan_update", event="e"),
        plans.runs("1", "plan_send", **sending),
        plans.runs("1", "plan_update", event="e"),
        plans.runs("1", "plan_send", **sending),
        finish("1"),
    ]
    script = {"1": [plans.wants("plan_update", event="e"), *[plans.wants("plan_send", **sending)] * 2]}
    output = await plans.output({"steps": steps, "driver": driver}, {"plan": turns} if driver == "agent" else script)
    assert plans.tools() == ["update", "send", "send"]
    assert output["steps"]["1"]["data"] == {"message_id": "m3", "to": "ana"}
    assert [one["tool"] for one in output["steps"]["1"]["tool_results"]] == ["plan_update", "plan_send"]
