"""What a plan hands on is as large as a server takes, or the plan fails with what it did, and goes on by a retry."""

from __future__ import annotations

from typing import Any

import pytest
from temporalio.client import WorkflowHistory

from holdfast.client import starting
from holdfast.client.states import Outcome
from holdfast.protocol.runs import HistoryLimits
from tests.past.runs import retry
from tests.plans import plan_tools  # noqa: F401 (registers the tools)
from tests.plans.conftest import Plans, loop, step

Json = dict[str, Any]
COUNT = 12
ROOM = 999_999
"""More bytes than any value of these plans has; the limit stands in definitions, so that its digits count."""


def updates(plans: Plans, count: int = COUNT, characters: int = 5_000) -> Json:
    """A plan that updates so many events of so many characters."""
    args = {"log": str(plans.log), "event": "CURRENT_ITEM"}
    events = [f"{n:03}{'x' * characters}" for n in range(count)]
    steps = [
        step("0", tools=["plan_list"], arguments={"log": str(plans.log), "events": events}),
        step("1", tools=["plan_update"], arguments=args),
    ]
    return {"steps": steps, "loop_blocks": {"all": loop("RESULT_FROM_0", "1", max_parallel=3)}}


def count_result(histories: list[WorkflowHistory], end: str) -> int:
    """The bytes of the result of the workflow whose id ends so."""
    ends = [history.events[-1] for history in histories if history.workflow_id.endswith(end)]
    [completed] = [event.workflow_execution_completed_event_attributes for event in ends if event.event_type == 2]
    return sum(payload.ByteSize() for payload in completed.result.payloads)


@pytest.mark.slow
async def test_what_may_just_be_sent_is_sent_and_a_byte_more_fails_the_plan(plans: Plans) -> None:
    async def end_within(value: int) -> tuple[Outcome, list[WorkflowHistory]]:
        run = await plans.start(updates(plans), {}, history_limits=HistoryLimits(value=value))
        return await plans.harness.result(run), await plans.harness.histories(run)

    _, histories = await end_within(ROOM)
    whole = count_result(histories, "plan:plan")
    assert whole > count_result(histories, "loop:all")
    fits, _ = await end_within(whole)
    assert (fits.status, len(fits.output["steps"]["1"]["data"])) == ("completed", COUNT)
    exceeds, _ = await end_within(whole - 1)
    assert exceeds.error is not None and exceeds.error.type == "too_large"
    assert exceeds.error.message.startswith(f"the result of plan has {whole:,} bytes, and at most {whole - 1:,}")


async def test_a_plan_that_hands_on_too_much_tells_what_it_did_and_goes_on_by_a_retry(
    plans: Plans, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = await plans.start(updates(plans), {}, history_limits=HistoryLimits(rounds=5, value=160_000))
    outcome = await plans.harness.result(run)
    assert (outcome.status, outcome.error.type if outcome.error else None) == ("failed", "too_large")
    begun = plans.tools().count("update")
    assert 0 < begun < COUNT
    ledger = outcome.output["ledger"]
    assert [one["item"] for one in ledger if one["step"] == "1"] == [f"item {n + 1} of all" for n in range(begun)]
    assert {one["status"] for one in ledger} == {"returned"}
    monkeypatch.setattr(starting, "stores_large", lambda _: True)
    output = await plans.harness.output(await retry(plans.harness, run))
    assert plans.tools().count("update") == COUNT
    assert [one["updated"][:3] for one in output["steps"]["1"]["data"]] == [f"{n:03}" for n in range(COUNT)]


@pytest.mark.slow
async def test_more_than_a_server_takes_fails_a_plan_and_does_not_hold_it_up(plans: Plans) -> None:
    run = await plans.start(updates(plans, 60, 15_000), {})
    outcome = await plans.harness.result(run)
    assert (outcome.status, outcome.error.type if outcome.error else None) == ("failed", "too_large")
    assert outcome.output["status"] == "failed"


@pytest.mark.slow
async def test_a_large_loop_that_is_cancelled_tells_its_items_without_their_values(plans: Plans) -> None:
    args = {"log": str(plans.log), "event": "x" * 5_000}
    ask = step("2", "ASK_INFO: Go on?", condition="LOOP_INDEX equals 5", dependencies=["1"])
    steps = [step("1", tools=["plan_update"], arguments=args), ask]
    plan = {"steps": steps, "loop_blocks": {"all": loop(list(range(COUNT)), "1", "2")}}
    run = await plans.start(plan, {}, history_limits=HistoryLimits(value=40_000))
    await plans.harness.one(run)
    await plans.harness.runs.control.cancel(run)
    told = (await plans.harness.result(run)).output["loops"]["all"]
    assert (told["status"], told["reason"]) == ("cancelled", "values_left_out")
    done = [(item["steps"]["1"]["status"], item["steps"]["1"]["data"]) for item in told["iteration_results"]]
    assert done == [("completed", None)] * 6


@pytest.mark.slow
@pytest.mark.first_row
@pytest.mark.parametrize(("count", "kept"), [(20, True), (70, False)])
async def test_a_loop_does_not_carry_what_a_ledger_would_leave_out(plans: Plans, count: int, kept: bool) -> None:
    run = await plans.start(updates(plans, count, 900), {})
    output = await plans.harness.output(run)
    assert [one["updated"][:3] for one in output["steps"]["1"]["data"]] == [f"{n:03}" for n in range(count)]
    histories = [one for one in await plans.harness.histories(run) if one.workflow_id.endswith("loop:all")]
    payloads = histories[-1].events[-1].workflow_execution_completed_event_attributes.result.payloads
    [result] = await plans.harness.client.data_converter.decode(payloads)
    calls = [item["results"]["1"]["made"][0] for item in result["result"]["iterations"]]
    assert all(call["args"] and ("arguments" in call) is kept for call in calls)
