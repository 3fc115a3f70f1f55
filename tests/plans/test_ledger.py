"""The ledger of a plan that failed: its planner gets it, and what stands in it is not done again without a person."""

from __future__ import annotations

import asyncio
import json
from functools import partial
from typing import Any

import pytest

from holdfast.blueprint.questions.agreement import TABLES, Language
from holdfast.blueprint.words.repeats import choose_repeat_words
from holdfast.cli.plan_text import plan_text
from holdfast.cli.render import question_text
from holdfast.protocol.address import Address
from holdfast.protocol.agents import MadeCall, add_calls
from holdfast.protocol.ledger import MOST_ENTRIES, LedgerEntry, add_entries, make_entry, read_ledger, tell_ledger
from holdfast.workflows.ledger import Ledgers
from holdfast.workflows.tool_calls import ToolCalls
from tests.plans import plan_tools  # noqa: F401 (registers the tools)
from tests.plans.conftest import DRIVERS, Plans, advance, ask, begin, call, finish, loop, step

Json = dict[str, Any]
MODEL = {"model": "scripted:replies.yaml"}
ANA: Json = {"to": "ana"}
BEN: Json = {"to": "ben", "fail": [0, 500]}
FAILING: Json = {"to": "ben", "fail": [0, 500]}


def replanned(plan: Json, *before: Json, **more: Any) -> str:
    """A blueprint of a planner and of a plan that is read from its output; `more`: keys of the plan."""
    agents = {
        "planner": {**MODEL, "instructions": "Plan it", "output_schema": "plan"},
        "clerk": {**MODEL, "tools": ["plan_send", "plan_list", "agent:helper"]},
        "helper": {**MODEL, "tools": ["plan_send"], "description": "Helps"},
    }
    think = {"name": "think", "uses": "agents.planner", "input": "Invite Ana and Ben"}
    work = {"kind": "plan", "name": "work", "plan": {"from": "{{ steps.think.output }}", "agent": "clerk", **plan}}
    return json.dumps({"agents": agents, "steps": [*before, think, {**work, **more}]})


def two_steps(*later: str) -> list[Json]:
    """Steps that write to Ana and then to Ben, with ids of their own."""
    first, second = later or ("ana", "ben")
    return [
        step(first, "Write to Ana", tools=["plan_send"]),
        step(second, "Write to Ben", tools=["plan_send"], dependencies=[first]),
    ]


def script_for(plans: Plans, driver: str, second: Json, after: list[Json] | None = None) -> None:
    """A first plan that fails at Ben, and a second that begins with Ana again."""
    think = [
        {"output": {"goal": "Invite both", "steps": two_steps()}},
        {
            "output": {"goal": "Invite both", "steps": two_steps("one", "two")},
            "expect": '"status":"returned"',
            **second,
        },
    ]
    wants = {
        **{id_: plans.wants("plan_send", to="ana") for id_ in ("ana", "one")},
        **{id_: plans.wants("plan_send", **FAILING) for id_ in ("ben", "two")},
    }
    turns = [plans.runs("ana", "plan_send", to="ana"), finish("ana"), plans.runs("ben", "plan_send", **FAILING)]
    turns += [plans.runs("one", "plan_send", to="ana"), finish("one"), plans.runs("two", "plan_send", **FAILING)]
    own = {"work": [*turns, finish("two")]} if driver == "agent" else wants
    plans.harness.script(json.dumps({"think": think, **own}))


@pytest.mark.first_row
@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize(("answer", "sent"), [(False, ["ana", "ben", "ben"]), (True, ["ana", "ben", "ana", "ben"])])
async def test_what_the_plan_before_has_done_is_asked_about(
    plans: Plans, driver: str, answer: bool, sent: list[str]
) -> None:
    """The planner begins with Ana once more; a no lets her first mail stand, and the plan goes on with its result."""
    script_for(plans, driver, {})
    run = await plans.harness.start(replanned({"driver": driver, "max_replans": 1}))
    question = await plans.harness.one(run)
    assert question.message.startswith("May plan_send be called again? Step ana has already made this call.")
    assert question.info["done"]["output"]["data"]["message_id"] == "m1"
    await plans.harness.answer(run, {"granted": answer}, question)
    output = await plans.harness.output(run)
    assert [made["to"] for made in plans.calls()] == sent
    assert output["steps"]["one"]["data"]["message_id"] == ("m3" if answer else "m1")
    assert output["status"] == "completed" and "ledger" not in output


@pytest.mark.slow
@pytest.mark.parametrize("driver", DRIVERS)
async def test_an_import_that_failed_on_its_way_is_asked_about(plans: Plans, driver: str) -> None:
    """It had written to Ana when it failed at Ben: what it did may stand, and the plan goes on without it."""
    log = {"log": str(plans.log)}
    mails = [{"name": name, "uses": "plan_send", "arguments": {**log, **to}} for name, to in (("a", ANA), ("b", BEN))]
    plan = {"goal": "Write", "agent": "clerk", "driver": driver, "steps": [step("s", tools=["imports.mail"])]}
    calls = {"output": "done", "tool_calls": [{"name": "mail", "args": {"input": "x"}}]}
    turn = call("execute_step_tool", step_id="s", tool_name="imports.mail", parameters={"input": "x"})
    plans.harness.script(json.dumps({"s": calls, "work": [turn, turn, finish("s")]}))
    document = json.loads(replanned({}))
    document["agents"]["clerk"]["tools"] = ["imports.mail"]
    body = [{"kind": "plan", "name": "work", "plan": plan, "on_error": "continue"}]
    again = {"max_loops": 2, "exit_expression": "steps.work.status == 'completed'", "body": body}
    steps = [{"kind": "loop", "name": "again", "loop": again}]
    run = await plans.harness.start(json.dumps({**document, "imports": {"mail": {"steps": mails}}, "steps": steps}))
    question = await plans.harness.one(run)
    assert "made this call, and it is unknown whether it took effect" in question.message
    await plans.harness.answer(run, {"granted": False}, question)
    output = await plans.harness.output(run)
    assert ([made["to"] for made in plans.calls()], output["status"]) == (["ana", "ben"], "completed")


@pytest.mark.slow
async def test_the_agents_of_the_second_plan_have_workflows_of_their_own(plans: Plans) -> None:
    """Though their steps stand at the same addresses: the events of the first ones stay."""
    send = step("ben", "Write to Ben", tools=["plan_send"])
    script = {
        "think": {"output": {"goal": "Write", "steps": [send]}},
        "ben": plans.wants("plan_send", to="b", fail=[500]),
    }
    plans.harness.script(json.dumps(script))
    run = await plans.harness.start(replanned({"max_replans": 1}))
    await plans.harness.output(run)
    started = [event for event in await plans.harness.runs.watch.events(run) if event.type == "agent.started"]
    assert [event.data.workflow for event in started] == [f"{run}/plan:work;step:ben", f"{run}/plan:work~2;step:ben"]
    results = [event.type for event in await plans.harness.runs.watch.events(run) if event.type.startswith("tool.")]
    assert results.count("tool.called") == 2


@pytest.mark.slow
async def test_the_planner_gets_what_was_done_step_by_step(plans: Plans) -> None:
    script_for(plans, "engine", {})
    run = await plans.harness.start(replanned({"max_replans": 1}))
    await plans.harness.answer(run, {"granted": False}, await plans.harness.one(run))
    await plans.harness.output(run)
    [first, again] = [one for one in await plans.requests(run) if one["step"] == "think"]
    asked = again["messages"][0]["content"]
    assert (asked["task"], first["messages"][0]["content"]) == ("Invite Ana and Ben",) * 2
    assert "plan work failed: ben: plan_send" in asked["failed"]
    assert [(done["step"], done["arguments"]["to"], done["status"]) for done in asked["done"]] == [
        ("ana", "ana", "returned"),
        ("ben", "ben", "failed"),
    ]


@pytest.mark.slow
async def test_the_second_plan_is_shown_with_what_differs_from_the_first(plans: Plans) -> None:
    script_for(plans, "engine", {})
    run = await plans.harness.start(replanned({"max_replans": 1, "confirm": True}))
    first = await plans.harness.one(run)
    await plans.harness.answer(run, {"verdict": "unchanged"}, first)
    second = await plans.harness.one(run)
    assert "changes" not in first.info["about"] and {"id": "one", "change": "new"} in second.info["about"]["changes"]
    assert "failed" not in first.info["about"] and "ben: plan_send" in second.info["about"]["failed"]
    assert [(made["step"], made["status"]) for made in second.info["about"]["done"]][0] == ("ana", "returned")
    assert "returned" in question_text(second).plain
    await plans.harness.answer(run, {"verdict": "rejected"}, second)
    assert "rejected the plan" in str((await plans.harness.result(run)).error)


@pytest.mark.slow
async def test_the_second_plan_is_told_apart_from_the_first(plans: Plans) -> None:
    """While it waits for approval nothing of it has begun, and what the first did is there."""
    script_for(plans, "engine", {})
    run = await plans.harness.start(replanned({"max_replans": 1, "confirm": True}))
    await plans.harness.answer(run, {"verdict": "unchanged"}, await plans.harness.one(run))
    second = await plans.harness.one(run)
    plan = await plans.harness.runs.plans.read(run)
    told = plan.to_json()
    assert told["status"] == "waiting" and {step["status"] for step in told["steps"].values()} == {"pending"}
    [first] = told["earlier_plans"]
    ana, ben = first["steps"]
    assert (ana["name"], ana["status"], ana["output"]["message_id"]) == ("ana", "completed", "m1")
    assert (ben["name"], ben["status"]) == ("ben", "failed") and "500" in ben["error"]["message"]
    assert "plan 1 failed: ben: " in plan_text(plan).plain
    await plans.harness.answer(run, {"verdict": "rejected"}, second)


@pytest.mark.slow
async def test_no_planner_is_asked_more_often_than_the_author_says(plans: Plans) -> None:
    fails = {**FAILING, "fail": [500] * 9}
    think = {"output": {"goal": "Write", "steps": [step("ben", tools=["plan_send"])]}}
    plans.harness.script(json.dumps({"think": think, "ben": plans.wants("plan_send", **fails)}))
    run = await plans.harness.start(replanned({"max_replans": 2}))
    outcome = await plans.harness.result(run)
    assert outcome.error is not None
    assert (outcome.error.type, len(plans.calls())) == ("plan_failed", 3)


@pytest.mark.slow
@pytest.mark.parametrize("rounds", [1, pytest.param(50, marks=pytest.mark.slow)])
async def test_the_next_iteration_of_a_loop_knows_what_was_done(plans: Plans, rounds: int) -> None:
    """Whatever the author hands on: it is kept over continue-as-new, too."""
    script_for(plans, "engine", {"expect": "Plan"})
    inner = json.loads(replanned({}, on_error="continue"))
    loop = {"max_loops": 2, "exit_expression": "steps.work.status == 'completed'", "body": inner["steps"]}
    text = {**inner, "steps": [{"kind": "loop", "name": "again", "loop": {**loop, "checkpoint_every": rounds}}]}
    run = await plans.harness.start(json.dumps(text))
    question = await plans.harness.one(run)
    assert "Step ana has already made" in question.message
    await plans.harness.answer(run, {"granted": False}, question)
    await plans.harness.output(run)
    assert [made["to"] for made in plans.calls()] == ["ana", "ben", "ben"]


@pytest.mark.slow
async def test_a_new_run_goes_on_from_what_a_run_gave_that_failed(plans: Plans) -> None:
    script_for(plans, "engine", {})
    first = await plans.harness.result(await plans.harness.start(replanned({})))
    run = await plans.harness.start(replanned({"done": "{{ input }}"}), input=first.output)
    question = await plans.harness.one(run)
    assert "Step ana has already made" in question.message
    await plans.harness.answer(run, {"granted": False}, question)
    await plans.harness.output(run)
    assert [made["to"] for made in plans.calls()] == ["ana", "ben", "ben"]


async def test_what_is_no_ledger_is_told(plans: Plans) -> None:
    plans.harness.script(json.dumps({"think": {"output": {"goal": "x", "steps": [step("1")]}}}))
    run = await plans.harness.start(replanned({"done": "{{ input }}"}), input=[{"tol": "plan_send"}])
    outcome = await plans.harness.result(run)
    assert outcome.error is not None and outcome.error.type == "bad_ledger"
    assert "plan.done: [0].tool" in outcome.error.message


@pytest.mark.slow
async def test_a_plan_that_reached_its_goal_leaves_nothing_to_the_next(plans: Plans) -> None:
    """Each week the same mails: that is no repetition."""
    think = {"output": {"goal": "Write", "steps": [step("ana", tools=["plan_send"])]}}
    plans.harness.script(json.dumps({"think": think, "ana": plans.wants("plan_send", to="ana")}))
    inner = json.loads(replanned({}))
    text = {**inner, "steps": [{"kind": "loop", "name": "weeks", "loop": {"max_loops": 2, "body": inner["steps"]}}]}
    await plans.harness.output(await plans.harness.start(json.dumps(text)))
    assert len(plans.calls()) == 2


DONE = {"step": "4", "tool": "plan_send", "status": "returned", "output": {"message_id": "m0"}}


def made(plans: Plans, **args: Any) -> Json:
    """An entry of the ledger with the whole arguments of a call, as the tool's defaults fill them in."""
    return {**DONE, "arguments": {"log": str(plans.log), "fail": None, "words": "", **args}}


async def run_done(plans: Plans, steps: list[Json], script: Json, done: list[Json], **plan: Any) -> str:
    """Start a plan whose author says what was done before."""
    plan = {"goal": "Write", "steps": steps, "agent": "clerk", "done": done, **plan}
    whole = json.loads(replanned({}))
    plans.harness.script(json.dumps(script))
    return await plans.harness.start(json.dumps({**whole, "steps": [{"kind": "plan", "name": "work", "plan": plan}]}))


@pytest.mark.slow
async def test_a_call_of_an_agent_that_is_a_tool_is_asked_about(plans: Plans) -> None:
    script = {
        "1": {"tool_calls": [{"name": "helper", "args": {"input": "send it"}}]},
        "helper": [plans.wants("plan_send", to="ana"), {"output": "told", "expect": "Not called again"}],
    }
    run = await run_done(plans, [step("1", tools=["agent:helper"])], script, [made(plans, to="ana")])
    await plans.harness.answer(run, {"granted": False}, await plans.harness.one(run))
    await plans.harness.output(run)
    assert plans.calls() == []


@pytest.mark.slow
async def test_a_call_of_an_object_that_is_a_tool_is_in_the_ledger_and_is_asked_about(plans: Plans) -> None:
    add = {"tool_calls": [{"name": "t_plain_add", "args": {"a": 1, "b": 2}}]}
    script = {"1": {"tool_calls": [{"name": "helper", "args": {"input": "add"}}]}, "helper": [add, "told"]}
    plan = {"goal": "Add", "steps": [step("1", tools=["agent:helper"])], "agent": "clerk"}
    whole = json.loads(replanned({}))
    whole["agents"]["helper"] = {**MODEL, "from": "tests.team_agents:plain", "description": "Helps"}
    plans.harness.script(json.dumps(script))
    tool = "tests.team_agents:plain/t_plain_add"
    done = [{"step": "0", "tool": tool, "arguments": {"a": 1, "b": 2}, "status": "returned", "output": 3}]
    whole["steps"] = [{"kind": "plan", "name": "work", "plan": {**plan, "done": done}}]
    run = await plans.harness.start(json.dumps(whole))
    question = await plans.harness.one(run)
    assert question.info["done"]["tool"] == tool
    await plans.harness.answer(run, {"granted": True}, question)
    output = await plans.harness.output(run)
    assert output["steps"]["1"]["called"] == ["agent:helper", tool], output


async def test_a_failed_call_does_not_hide_an_equal_one_that_returned() -> None:
    calls, results = ToolCalls(None), iter(({"id": 1}, {"success": False}))

    async def send() -> Any:
        return next(results)

    for _ in range(2):
        await calls.make("send", ANA, send, frame=None)  # type: ignore[arg-type] # it reads the frame of errors only
    assert [(call.outcome, call.output) for call in calls.made] == [("returned", {"id": 1})]


async def test_a_failed_call_does_not_hide_an_equal_one_that_may_have_acted() -> None:
    calls, fails = ToolCalls(None), asyncio.Event()

    async def send(*, cut: bool) -> Any:
        fails.set()
        if cut:
            await asyncio.Event().wait()
        return {"success": False}

    async with asyncio.timeout(5):
        lost = asyncio.create_task(calls.make("send", ANA, partial(send, cut=True), frame=None))  # type: ignore[arg-type]
        await fails.wait()
        await calls.make("send", ANA, partial(send, cut=False), frame=None)  # type: ignore[arg-type]
    assert [call.outcome for call in calls.made] == ["begun"]
    lost.cancel()


@pytest.mark.slow
@pytest.mark.parametrize(("answer", "data"), [(False, "none"), (True, "42 is the answer to add")])
async def test_a_function_that_is_an_agent_is_asked_about(plans: Plans, answer: bool, data: str) -> None:
    source = "tests.team_agents:prophet"
    whole = json.loads(replanned({}))
    whole["agents"]["helper"] = {"from": source, "description": "Helps"}
    plans.harness.script(json.dumps({"1": {"tool_calls": [{"name": "helper", "args": {"input": "add"}}]}}))
    done = [{"step": "0", "tool": source, "arguments": {"input": "add"}, "status": "returned", "output": "none"}]
    plan = {"goal": "Ask", "steps": [step("1", tools=["agent:helper"])], "agent": "clerk", "done": done}
    run = await plans.harness.start(json.dumps({**whole, "steps": [{"kind": "plan", "name": "work", "plan": plan}]}))
    await plans.harness.answer(run, {"granted": answer}, await plans.harness.one(run))
    done = (await plans.harness.output(run))["steps"]["1"]
    assert (done["data"], source in done.get("called", [])) == (data, answer)


@pytest.mark.slow
@pytest.mark.parametrize("driver", DRIVERS)
async def test_an_item_of_a_loop_is_asked_about(plans: Plans, driver: str) -> None:
    send = step("s", tools=["plan_send"], arguments={"log": str(plans.log), "to": "CURRENT_ITEM"})
    turn = call("execute_step_tool", step_id="s", tool_name="plan_send", parameters={})
    items = [call("start_loop", loop_id="all"), turn, finish("s"), call("advance_loop", loop_id="all")]
    script = {"work": [*items, turn, finish("s"), call("advance_loop", loop_id="all")]} if driver == "agent" else {}
    loops = {"all": {"over": ["ana", "ben"], "steps": ["s"]}}
    run = await run_done(plans, [send], script, [made(plans, to="ben")], loop_blocks=loops, driver=driver)
    question = await plans.harness.one(run)
    assert question.info["args"]["to"] == "ben"
    await plans.harness.answer(run, {"granted": False}, question)
    output = await plans.harness.output(run)
    assert [sent["to"] for sent in plans.calls()] == ["ana"]
    assert output["loops"]["all"]["iteration_results"][1]["steps"]["s"]["data"] == {"message_id": "m0"}


@pytest.mark.parametrize(
    ("entry", "words", "tools"),
    [
        ({"status": "unknown"}, "has already made this call, and it is unknown whether it took effect.", []),
        (
            {"status": "unknown", "arguments": None},
            "may already have called this tool; it is not known with which arguments.",
            ["send"],
        ),
    ],
)
async def test_a_call_that_may_have_been_made_is_asked_about(
    plans: Plans, entry: Json, words: str, tools: list[str]
) -> None:
    """A decline is a no: the plan goes on without the call."""
    done = {**made(plans, to="ana"), **entry}
    send = step("s", tools=["plan_send"], arguments={"log": str(plans.log), "to": "ana"})
    run = await run_done(plans, [send], {}, [done])
    question = await plans.harness.one(run)
    assert question.message == f"May plan_send be called again? Step 4 {words}"
    await (plans.harness.answer(run, {"granted": True}, question) if tools else plans.harness.decline(run))
    await plans.harness.output(run)
    assert plans.tools() == tools


@pytest.mark.parametrize("entry", [{"status": "failed"}, {"arguments": {"to": "ben"}}, {"tool": "plan_update"}])
async def test_another_call_or_one_that_failed_is_not_asked_about(plans: Plans, entry: Json) -> None:
    send = step("s", tools=["plan_send"], arguments={"log": str(plans.log), "to": "ana"})
    await plans.harness.output(await run_done(plans, [send], {}, [{**made(plans, to="ana"), **entry}]))
    assert plans.tools() == ["send"]


async def test_a_tool_that_may_run_twice_is_not_asked_about(plans: Plans) -> None:
    args = {"log": str(plans.log), "events": [1]}
    done = {"step": "4", "tool": "plan_list", "arguments": args}
    look = step("s", tools=["plan_list"], arguments=args)
    await plans.harness.output(await run_done(plans, [look], {}, [done]))
    assert plans.tools() == ["list"]


@pytest.mark.slow
async def test_an_approval_that_is_asked_anyway_says_what_was_done(plans: Plans) -> None:
    """One question, not two; and a tool that was allowed for the rest of the run is asked about all the same."""
    send = step("s", tools=["plan_send"], arguments={"log": str(plans.log), "to": "ana"})
    agent = {**MODEL, "tools": [{"name": "plan_send", "approve": "always"}]}
    run = await run_done(plans, [send, {**send, "id": "t"}], {}, [made(plans, to="ana")], agent=agent)
    first = await plans.harness.one(run)
    assert first.message.startswith("May plan_send be called? Step 4 has already made this call.")
    await plans.harness.answer(run, {"granted": True, "scope": "run"}, first)
    second = await plans.harness.one(run)
    await plans.harness.answer(run, {"granted": False}, second)
    await plans.harness.output(run)
    assert plans.tools() == ["send"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answer", "sent"), [(False, ["ana", "ben", "ben"]), (True, ["ana", "ben", "ana", "ben"])], ids=["no", "yes"]
)
async def test_an_item_that_is_begun_anew_repeats_no_call_unasked(plans: Plans, answer: bool, sent: list[str]) -> None:
    """A step of it had written to Ana, and failed at Ben. Nobody is asked of the next item, which calls the same."""
    calls = [plans.wants("plan_send", **args)["tool_calls"][0] for args in (ANA, BEN)]
    blocks = {"all": loop(["a", "b"], "s", on_item_error="ask")}
    plan = {"steps": [step("s", "Write to both", tools=["plan_send"])], "loop_blocks": blocks}
    run = await plans.start(plan, {"s": {"output": "done", "tool_calls": calls}})
    await plans.harness.answer(run, {"action": "retry"})
    question = await plans.harness.one(run)
    assert "Step s (item 1 of all) has already made this call." in question.message
    await plans.harness.answer(run, {"granted": answer}, question)
    output = await plans.harness.output(run)
    assert ([made["to"] for made in plans.calls()], output["status"]) == ([*sent, "ana", "ben"], "completed")


@pytest.mark.slow
@pytest.mark.parametrize("driver", DRIVERS)
async def test_an_item_that_is_begun_anew_as_another_repeats_no_call_unasked(plans: Plans, driver: str) -> None:
    steps = [step("1", tools=["plan_send"]), step("2", tools=["plan_send"], dependencies=["1"])]
    item = [plans.runs("1", "plan_send", **ANA), finish("1"), plans.runs("2", "plan_send", **BEN), advance("all")]
    again = [*item[:3], finish("2"), advance("all")]
    script = {"1": plans.wants("plan_send", **ANA), "2": plans.wants("plan_send", **BEN)}
    plan = {"steps": steps, "loop_blocks": {"all": loop(["a"], "1", "2", on_item_error="ask")}, "driver": driver}
    run = await plans.start(plan, {**script, "plan": [begin("all"), *item, *again]})
    await plans.harness.answer(run, "edit: b")
    await plans.harness.answer(run, {"granted": False})
    output = await plans.harness.output(run)
    assert ([made["to"] for made in plans.calls()], output["status"]) == (["ana", "ben", "ben"], "completed")


# The values

ENDS: dict[str, Any] = {"send": "returned", "look": "failed"}


def entry(tool: str = "send", **more: Any) -> LedgerEntry:
    return LedgerEntry(step="1", tool=tool, **more)


def test_of_equal_calls_no_failed_one_hides_an_effect() -> None:
    sent = entry(arguments={"to": "ana"})
    failed = entry(arguments={"to": "ana"}, status="failed")
    assert add_entries([sent], [failed]) == [sent]
    assert add_entries([failed], [sent]) == [sent]


def test_a_long_ledger_still_tells_calls_apart() -> None:
    entries = [entry(arguments={"to": f"guest {n}", "text": "x" * 400}) for n in range(200)]
    told = tell_ledger(entries)
    assert "arguments" not in told[0]
    assert [one.matches("send", entries[7].arguments_digest or "") for one in read_ledger(told)].count(True) == 1


def test_calls_that_are_too_many_to_keep_are_asked_about() -> None:
    """Neither a step nor a ledger forgets one: an entry without arguments stands for what was left out of each tool."""
    made = [MadeCall(tool=tool, args=f"{n}", outcome=end) for n in range(150) for tool, end in ENDS.items()]
    entries = [make_entry(call, "1", None) for call in add_calls(add_calls([], made), made[:1])]
    assert [(one.tool, one.status) for one in entries if one.digest is None] == list(ENDS.items())
    ledger = add_entries([], entries)
    for n in range(MOST_ENTRIES):
        ledger = add_entries(ledger, [entry(tool="other", digest=f"{n}", status="failed")])
    asked = [one for one in read_ledger(tell_ledger(ledger)) if one.matches("send", "7")]
    assert (len(asked), asked[0].arguments_digest, len(ledger)) == (1, None, MOST_ENTRIES + len(ENDS))


def test_the_ledger_is_found_at_its_plan_and_below_it_in_every_iteration() -> None:
    ledgers = Ledgers(None)
    ledgers.add(Address("pipeline:p;loop:l:1;map:m:1;plan:w"), [entry(arguments={})])
    found = [
        ledgers.find(Address(address), "send", {}) is not None
        for address in (
            "pipeline:p;loop:l:2;map:m:1;plan:w;step:1",
            "pipeline:p;loop:l:2;map:m:2;plan:w;step:1",
            "pipeline:p;loop:l:2;map:m:1;plan:work",
        )
    ]
    assert found == [True, False, False]


def test_what_a_child_has_forgotten_is_forgotten() -> None:
    ledgers = Ledgers(None)
    inside, beside = Address("pipeline:p;loop:l:1;plan:w"), Address("pipeline:p;plan:w")
    for plan in (inside, beside):
        ledgers.add(plan, [entry(arguments={})])
    ledgers.take_over(Address("pipeline:p;loop:l"), {})
    assert list(ledgers.entries) == ["pipeline:p;plan:w"]
    ledgers.take_over(Address("pipeline:p"), None)
    assert list(ledgers.entries) == ["pipeline:p;plan:w"]


@pytest.mark.parametrize("language", TABLES)
def test_a_person_is_asked_in_the_language_of_the_plan(language: Language) -> None:
    """Each says who made the call, and what it returned."""
    words, entry = choose_repeat_words(language), LedgerEntry(step="ana", tool="send", arguments={}, language=language)
    assert entry.ask_again("send") == words.again.format("send")
    assert [text.count("{}") for text in words] == [text.count("{}") for text in choose_repeat_words("en")]
    for told in (entry, entry.model_copy(update={"status": "unknown"}), entry.model_copy(update={"arguments": None})):
        assert told.describe().startswith(words.step.format("ana"))
    assert read_ledger([entry.to_output()]) == [entry]


async def test_a_french_plan_names_the_item_of_a_loop_in_french(plans: Plans) -> None:
    send = step("s", tools=["plan_send"], arguments={"log": str(plans.log), "to": "CURRENT_ITEM", "fail": [500]})
    loops = {"all": {"over": ["ana"], "steps": ["s"], "on_item_error": "continue"}}
    plan = {"goal": "Inviter", "language": "fr", "steps": [send], "loop_blocks": loops}
    step_ = {"kind": "plan", "name": "work", "on_error": "continue", "plan": plan}
    text = json.dumps({"steps": [step_, {"name": "told", "input": "{{ steps.work.error.output.ledger }}"}]})
    output = await plans.harness.output(await plans.harness.start(text))
    assert [entry["item"] for entry in output] == ["élément 1 de all"]


@pytest.mark.slow
async def test_a_french_plan_asks_in_french_whether_a_call_is_made_again(plans: Plans) -> None:
    script_for(plans, "engine", {})
    text = (plans.harness.folder / "replies.yaml").read_text()
    plans.harness.script(text.replace('"goal":', '"language": "fr", "goal":'))
    run = await plans.harness.start(replanned({"max_replans": 1}))
    question = await plans.harness.one(run)
    asked = "plan_send peut-il être appelé encore une fois ? L'étape ana a déjà fait cet appel."
    assert question.message.startswith(asked)


@pytest.mark.slow
@pytest.mark.first_row
@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize(("answer", "sent"), [(False, ["ana"]), (True, ["ana", "ana"])])
async def test_what_a_change_of_the_plan_would_repeat_is_asked_about(
    plans: Plans, driver: str, answer: bool, sent: list[str]
) -> None:
    """Of the steps that were there before, nobody is asked."""
    first = step("ana", "Write to Ana", tools=["plan_send"])
    again = step("one", "Write to Ana", tools=["plan_send"], dependencies=["wait"])
    new = {
        "goal": "A test",
        "steps": [first, step("wait", "Go on?", pause_for_response=True, dependencies=["ana"]), again],
    }
    old = {**new, "steps": [*new["steps"][:2], step("rest", "Rest", dependencies=["wait"])]}
    turns = [
        *(plans.runs("ana", "plan_send", to="ana"), finish("ana"), ask("Go on?", step_id="wait")),
        *(finish("wait"), plans.runs("one", "plan_send", to="ana"), finish("one")),
    ]
    wants = {id_: plans.wants("plan_send", to="ana") for id_ in ("ana", "one")}
    run = await plans.start({**old, "driver": driver}, {"plan": turns, **wants})
    question = await plans.harness.one(run)
    await plans.harness.runs.plans.change(run, new)
    await plans.harness.answer(run, "yes", question)
    question = await plans.harness.one(run)
    assert question.message.startswith("May plan_send be called again? Step ana has already made this call.")
    await plans.harness.answer(run, {"granted": answer}, question)
    output = await plans.harness.output(run)
    assert ([made["to"] for made in plans.calls()], output["status"]) == (sent, "completed")
