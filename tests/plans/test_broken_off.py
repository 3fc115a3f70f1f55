"""A plan that fails or is cancelled before its end: what was done is told, by the result, the plan and the trace."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast.protocol.events import StepFailed
from holdfast.protocol.runs import HistoryLimits
from tests.conftest import until
from tests.plans import plan_tools  # noqa: F401 (registers the tools)
from tests.plans.conftest import (
    DRIVERS,
    SAYS_INSTRUCTION,
    Plans,
    advance,
    ask,
    begin,
    call,
    finish,
    loop,
    reasons,
    statuses,
    step,
)

Json = dict[str, Any]
PROSE = [{"output": "All done."}] * 3
SENDS = [step("1", "List"), step("2", "Send", tools=["plan_send"]), step("3", "Say", dependencies=["2"])]


async def failed(plans: Plans, plan: Json, turns: list[Any]) -> tuple[str, Any]:
    run = await plans.start({**plan, "driver": "agent"}, {"plan": turns})
    return run, await plans.harness.result(run)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("last", "error"), [(PROSE, "output_invalid"), ([finish(str(n)) for n in range(5, 10)], "bad_calls")]
)
async def test_a_driven_plan_whose_agent_fails_keeps_its_results(plans: Plans, last: list[Any], error: str) -> None:
    _, outcome = await failed(plans, {"steps": SENDS}, [finish("1"), plans.runs("2", "plan_send", to="ana"), *last])
    assert (outcome.status, outcome.error.type, outcome.output["status"]) == ("failed", error, "failed")
    assert statuses(outcome.output) == {"1": "completed", "2": "failed", "3": "skipped"}
    assert reasons(outcome.output) == {"3": "plan_failed"}
    told = outcome.output["steps"]["2"]
    assert (told["error"]["type"], told["called"], told["data"]["to"]) == ("unfinished", ["plan_send"], "ana")


@pytest.mark.slow
async def test_the_plan_and_the_trace_tell_the_same_of_it(plans: Plans) -> None:
    run, outcome = await failed(plans, {"steps": SENDS}, [finish("1"), plans.runs("2", "plan_send", to="ana"), *PROSE])
    seen = await plans.harness.runs.plans.read(run)
    assert {id_: report.status for id_, report in seen.steps().items()} == statuses(outcome.output)
    events = await plans.harness.runs.watch.events(run)
    [failure] = [event.data for event in events if isinstance(event.data, StepFailed) and event.data.name == "2"]
    assert (failure.error, "plan_send was called" in failure.message) == ("unfinished", True)


@pytest.mark.slow
async def test_a_driven_plan_that_fails_in_a_loop_keeps_the_items(plans: Plans) -> None:
    plan = {
        "steps": [step("4", tools=["plan_send"]), step("5")],
        "loop_blocks": {"all": loop(["a", "b", "c"], "4", "5")},
    }
    item = [plans.runs("4", "plan_send", to="a"), finish("4")]
    turns = [begin("all"), *item, finish("5"), advance("all"), plans.runs("4", "plan_send", to="b"), *PROSE]
    _, outcome = await failed(plans, plan, turns)
    told = outcome.output["loops"]["all"]
    assert (outcome.output["status"], told["status"]) == ("failed", "failed")
    assert [one["status"] for one in told["iteration_results"]] == ["completed", "failed"]
    assert told["iteration_results"][1]["steps"]["4"]["called"] == ["plan_send"]


@pytest.mark.slow
async def test_a_driven_plan_that_fails_after_it_continued_as_new_keeps_its_results(plans: Plans) -> None:
    looks = [call("get_state", key=key) for key in ("steps", "summary", "progress", "results", "tools")] * 11
    turns = [finish("1"), plans.runs("2", "plan_send", to="ana"), *looks]
    _, outcome = await failed(plans, {"steps": SENDS}, [*turns, *PROSE])
    assert outcome.output["steps"]["2"]["called"] == ["plan_send"]


@pytest.mark.parametrize("driver", DRIVERS)
async def test_a_step_that_fails_tells_which_of_its_tools_were_called(plans: Plans, driver: str) -> None:
    steps = [step("1", tools=["plan_update", "plan_send"])]
    fail = [0, 500]
    first, second = plans.wants("plan_update", event="e"), plans.wants("plan_send", to="a", fail=fail)
    script: Json = {"1": {"output": "", "tool_calls": [*first["tool_calls"], *second["tool_calls"]]}}
    if driver == "agent":
        script = {"plan": [plans.runs("1", "plan_update", event="e"), plans.runs("1", "plan_send", to="a", fail=fail)]}
    told = (await plans.ended({"steps": steps, "driver": driver}, script))["steps"]["1"]
    assert (told["status"], told["called"]) == ("failed", ["plan_update", "plan_send"])
    assert [one["tool"] for one in told["tool_results"]] == ["plan_update"]


@pytest.mark.slow
@pytest.mark.parametrize("driver", DRIVERS)
async def test_a_plan_that_is_cancelled_tells_what_was_done(plans: Plans, driver: str) -> None:
    steps = [
        step("1", "Send", tools=["plan_send"]),
        step("2", "Well?", pause_for_response=True, dependencies=["1"]),
        step("3", dependencies=["2"]),
    ]
    turns = [plans.runs("1", "plan_send", to="ana"), finish("1"), ask("Well?")]
    script = {"plan": turns} if driver == "agent" else {"1": plans.wants("plan_send", to="ana"), "3": SAYS_INSTRUCTION}
    run = await plans.start({"steps": steps, "driver": driver}, script)
    await plans.harness.one(run)
    await plans.harness.runs.control.cancel(run)
    outcome = await plans.harness.result(run)
    assert (outcome.status, outcome.output["status"]) == ("cancelled", "cancelled")
    assert statuses(outcome.output) == {"1": "completed", "2": "cancelled", "3": "skipped"}


@pytest.mark.slow
@pytest.mark.parametrize("driver", DRIVERS)
async def test_the_requests_of_a_cancelled_plan_are_counted(plans: Plans, driver: str) -> None:
    """Also those of an agent that was at work in it."""
    helper = {"model": "scripted:replies.yaml", "tools": ["plan_wait"], "description": "Helps"}
    clerk = {"model": "scripted:replies.yaml", "tools": ["agent:helper"]}
    plan = {"goal": "Help", "agent": "clerk", "driver": driver, "steps": [step("1", tools=["agent:helper"])]}
    to_helper = {"tool_calls": [{"name": "helper", "args": {"input": "wait"}}]}
    driving = call("execute_step_tool", step_id="1", tool_name="agent:helper", parameters={"input": "wait"})
    plans.harness.script(json.dumps({"1": to_helper, "plan": driving, "helper": plans.wants("plan_wait")}))
    text = {"agents": {"helper": helper, "clerk": clerk}, "steps": [{"kind": "plan", "name": "plan", "plan": plan}]}
    run = await plans.harness.start(json.dumps(text))
    await until(lambda: _has_called(plans), "the call")
    await plans.harness.runs.control.cancel(run)
    outcome = await plans.harness.result(run)
    assert outcome.output["steps"]["1"]["called"] == ["agent:helper", "plan_wait"]
    usage = (await plans.harness.runs.state(run)).usage
    assert usage.requests == 2


# The items of a loop, on every end


ITEMS = {
    "steps": [step("s", "Send", tools=["plan_send"]), step("q", "ASK_INFO: CURRENT_ITEM?")],
    "loop_blocks": {"all": loop(["a", "b", "c"], "s", "q")},
}
NESTED = {**ITEMS, "loop_blocks": {"outer": loop(["x", "y"], "all"), **ITEMS["loop_blocks"]}}


def sends_and_asks(plans: Plans, driver: str) -> Json:
    """What the model says in `ITEMS`, up to the question of the second item."""
    if driver == "engine":
        return {"s": [plans.wants("plan_send", to=item) for item in "abc"]}
    item = [plans.runs("s", "plan_send", to="a"), finish("s"), ask("a?"), finish("q"), advance("all")]
    return {"plan": [begin("all"), *item, plans.runs("s", "plan_send", to="b"), finish("s"), ask("b?")]}


@pytest.mark.slow
@pytest.mark.parametrize("rounds", [50, 1])
@pytest.mark.parametrize("driver", DRIVERS)
async def test_a_cancelled_plan_tells_the_items_of_its_loop(plans: Plans, driver: str, rounds: int) -> None:
    """Also where the loop has continued as new."""
    bounds = HistoryLimits(rounds=rounds)
    run = await plans.start({**ITEMS, "driver": driver}, sends_and_asks(plans, driver), history_limits=bounds)
    await plans.harness.answer(run, "yes")
    await plans.harness.one(run)
    await plans.harness.runs.control.cancel(run)
    outcome = await plans.harness.result(run)
    items = outcome.output["loops"]["all"]["iteration_results"]
    assert [(item["status"], item["steps"]["s"]["status"]) for item in items] == [
        ("completed", "completed"),
        ("cancelled", "completed"),
    ]
    assert (outcome.output["status"], len(plans.calls())) == ("cancelled", 2)
    assert "note" not in outcome.output
    seen = await plans.harness.runs.plans.read(run)
    assert {id_: report.status for id_, report in seen.steps().items()} == statuses(outcome.output)
    assert seen.note is None and len(seen.loops()["all"].items or ()) == 2


@pytest.mark.slow
async def test_a_loop_that_was_cancelled_in_a_tool_names_it(plans: Plans) -> None:
    plan = {"steps": [step("s", tools=["plan_wait"])], "loop_blocks": {"all": loop(["a"], "s")}}
    run = await plans.start(plan, {"s": plans.wants("plan_wait")})
    await until(lambda: _has_called(plans), "the call")
    await plans.harness.runs.control.cancel(run)
    told = (await plans.harness.result(run)).output["loops"]["all"]["iteration_results"][0]["steps"]["s"]
    assert (told["status"], told["called"]) == ("failed", ["plan_wait"])
    assert "plan_wait was called; how plan_wait ended is not known" in told["error"]["message"]


async def _has_called(plans: Plans) -> bool:
    return bool(plans.calls())


@pytest.mark.slow
async def test_a_cancelled_plan_tells_the_items_of_a_loop_in_a_loop(plans: Plans) -> None:
    run = await plans.start(NESTED, sends_and_asks(plans, "engine"))
    for _ in range(4):
        await plans.harness.answer(run, "yes")
    await plans.harness.one(run)
    await plans.harness.runs.control.cancel(run)
    outer = (await plans.harness.result(run)).output["loops"]["outer"]["iteration_results"]
    inner = [item["loops"]["all"]["iteration_results"] for item in outer]
    assert [[item["status"] for item in items] for items in inner] == [["completed"] * 3, ["completed", "cancelled"]]


LIMITED = """
limits: {{steps: 8}}
agents: {{clerk: {{model: "scripted:replies.yaml", tools: [plan_send]}}}}
steps:
  - {{kind: plan, name: plan, plan: {plan}}}
"""


@pytest.mark.slow
async def test_a_loop_that_is_ended_by_the_failure_of_another_is_told(plans: Plans) -> None:
    """One waits for a person; the other meets the limit of the run, by which the plan fails."""
    plan = {
        "goal": "A test",
        "agent": "clerk",
        "max_parallel": 2,
        "steps": [*ITEMS["steps"], step("w", "Write")],
        "loop_blocks": {**ITEMS["loop_blocks"], "long": loop(list(range(20)), "w")},
    }
    plans.harness.script(json.dumps({**sends_and_asks(plans, "engine"), "w": "written"}))
    run = await plans.harness.start(LIMITED.format(plan=json.dumps(plan)))
    loops = (await plans.harness.result(run)).output["loops"]
    [item] = loops["all"]["iteration_results"]
    assert item["steps"]["s"]["status"] == "completed"
    assert len(loops["long"]["iteration_results"]) > 1


async def test_a_step_that_ends_the_run_is_told_with_its_own_reason(plans: Plans) -> None:
    ids = [f"w{number}" for number in range(10)]
    plan = {"goal": "A test", "agent": "clerk", "steps": [step(id_) for id_ in ids]}
    plans.harness.script(json.dumps(dict.fromkeys(ids, "written")))
    outcome = await plans.harness.result(await plans.harness.start(LIMITED.format(plan=json.dumps(plan))))
    told = outcome.output["steps"]
    [failure] = [one["error"] for one in told.values() if one["status"] == "failed"]
    assert failure == {"type": outcome.error.type, "message": outcome.error.message}
    assert set(reasons(outcome.output).values()) == {"plan_failed"}


@pytest.mark.slow
async def test_of_a_plan_that_is_cancelled_before_it_acts_it_is_told_that_nothing_was_called(plans: Plans) -> None:
    steps = [step("1", "CONFIRM_ACTION: Go on?"), step("2", tools=["plan_send"], dependencies=["1"])]
    run = await plans.start({"steps": steps}, {})
    await plans.harness.one(run)
    await plans.harness.runs.control.cancel(run)
    note = (await plans.harness.result(run)).output["note"]
    assert note == "no tool was called; skipped: 2 (plan_cancelled)"


@pytest.mark.slow
async def test_a_call_before_an_item_was_begun_anew_is_no_absence_of_calls(plans: Plans) -> None:
    steps = [step("s", tools=["plan_send"], condition="CURRENT_ITEM equals a")]
    plan = {"steps": steps, "loop_blocks": {"all": loop(["a"], "s", on_item_error="ask")}}
    run = await plans.start(plan, {"s": plans.wants("plan_send", to="a", fail=[500])})
    await plans.harness.answer(run, "edit: b")
    output = await plans.harness.output(run)
    told = output["loops"]["all"]["iteration_results"][0]["steps"]["s"]
    assert (told["status"], told["called"], "note" in output) == ("skipped", ["plan_send"], False)


@pytest.mark.slow
async def test_of_a_loop_that_hands_over_nothing_it_is_told_that_its_items_are_not_known(plans: Plans) -> None:
    run = await plans.start(ITEMS, sends_and_asks(plans, "engine"))
    await plans.harness.one(run)
    await plans.harness.client.get_workflow_handle(f"{run}/plan:plan;loop:all").terminate()
    output = (await plans.harness.result(run)).output
    assert (output["loops"]["all"]["reason"], output["steps"]["s"]["status"]) == ("items_unknown", "failed")
    assert "note" not in output
