"""Local calls: one event each, run inside the workflow task; what is no quick success is called again as ever."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from temporalio.api.enums.v1 import EventType

from holdfast.activities import tool
from holdfast.blueprint.errors import BlueprintError
from holdfast.blueprint.load import loads
from tests.agents.turns import agent, call, turn
from tests.conftest import Harness, until
from tests.tools import calls

LOCAL, ORDINARY = EventType.EVENT_TYPE_MARKER_RECORDED, EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED


async def count_calls(house: Harness, run: str) -> tuple[int, int]:
    """The local and the ordinary activities of a run and of all below it."""
    events = [event.event_type for history in await house.histories(run) for event in history.events]
    counted = Counter(events)
    return counted[LOCAL], counted[ORDINARY]


def step(uses: str, **more: Any) -> str:
    keys = "".join(f", {key}: {value}" for key, value in more.items())
    return f"{{name: work, uses: {uses}, input: {{folder: '{{{{ input }}}}', name: n}}{keys}}}"


def loop(body: str, rounds: int = 3, checkpoint: int = 50) -> str:
    settings = f"max_loops: {rounds}, checkpoint_every: {checkpoint}"
    return f"steps: [{{kind: loop, name: l, loop: {{{settings}, body: [{body}]}}}}]"


async def test_a_step_that_says_so_is_local(house: Harness, tmp_path: Path) -> None:
    run = await house.start(f"steps: [{step('quick', local='true')}]", str(tmp_path))
    assert await house.output(run) == "n 1"
    assert await count_calls(house, run) == (1, 0)


async def test_a_local_tool_is_known_from_its_first_result(house: Harness, tmp_path: Path) -> None:
    run = await house.start(loop(step("quick")), str(tmp_path))
    assert await house.output(run) == "n 3"
    assert await count_calls(house, run) == (2, 1)


async def test_a_blueprint_that_forbids_a_second_call_has_an_ordinary_one(house: Harness, tmp_path: Path) -> None:
    run = await house.start(loop(step("quick", idempotent="false")), str(tmp_path))
    assert await house.output(run) == "n 3"
    assert await count_calls(house, run) == (0, 3)


async def test_a_tool_that_is_not_declared_local_is_called_once_as_ever(house: Harness, tmp_path: Path) -> None:
    run = await house.start(loop(step("counted", local="true")), str(tmp_path))
    assert await house.output(run) == "n 3"
    assert await count_calls(house, run) == (1, 3)


async def test_the_tools_of_an_agent_are_local_from_the_first_call(house: Harness) -> None:
    again = turn(call("quick_text", text="go"))
    run = await house.start(agent(house, [again, again, "done"], tools=["quick_text"]))
    assert await house.output(run) == "done"
    assert await count_calls(house, run) == (3, 3)  # two calls and the tool's description; three requests


async def test_the_tools_of_an_agentic_loop_are_local(house: Harness) -> None:
    house.script(
        json.dumps(
            {
                "go": [
                    turn(call("run_agent", agent="quick_text", input={"text": "a"})),
                    turn(call("finish", output="done")),
                ]
            }
        )
    )
    loop = "{kind: agentic_loop, name: go, planner: p, registry: [quick_text], max_loops: 3}"
    text = f"agents: {{p: {{model: 'scripted:replies.yaml'}}}}\nsteps: [{loop}]"
    run = await house.start(text, "x")
    await house.output(run)
    assert await count_calls(house, run) == (2, 2)  # the call and the description; two requests


async def test_the_tools_of_a_plan_are_local(house: Harness) -> None:
    work = {"id": "1", "tools": ["quick_text"], "arguments": {"text": "go"}}
    run = await house.start(json.dumps({"goal": "All", "agent": "echo", "steps": [work]}))
    assert (await house.output(run))["steps"]["1"]["data"] == "go"
    assert await count_calls(house, run) == (2, 0)


async def test_arguments_by_name_are_local(house: Harness, tmp_path: Path) -> None:
    text = f"{{name: work, uses: quick, local: true, arguments: {{folder: '{tmp_path}', name: n}}}}"
    run = await house.start(f"steps: [{text}]")
    assert await house.output(run) == "n 1"
    assert await count_calls(house, run) == (1, 0)


async def test_an_iteration_with_a_local_tool_and_an_answer_has_few_events(house: Harness) -> None:
    ask = "{kind: hitl, name: ask, message: 'Go on?'}"
    body = f"{{name: work, uses: quick_text, local: true, input: 'round {{{{ iteration }}}}'}}, {ask}"
    run = await house.start(loop(body, rounds=4))
    await house.answered(run, "a", "b", "c", "d")
    await house.output(run)
    history = (await house.histories(run))[1]
    answers = [
        number
        for number, event in enumerate(history.events)
        if event.HasField("workflow_execution_update_accepted_event_attributes")
    ]
    upserts = [event.HasField("upsert_workflow_search_attributes_event_attributes") for event in history.events]
    # The task of three events, the call, the update of two.
    assert [after - before - sum(upserts[before:after]) for before, after in pairwise(answers)] == [6, 6, 6]


@pytest.mark.parametrize(("attempts", "error"), [(3, None), (2, "call 2")])
async def test_a_failed_local_call_is_an_attempt(
    house: Harness, tmp_path: Path, attempts: int, error: str | None
) -> None:
    text = f"{{name: work, uses: fails_at_first, local: true, retry: {{attempts: {attempts}, backoff: 0.01}}, "
    text += f"input: {{folder: '{tmp_path}', name: n, times: 2}}}}"
    outcome = await house.result(await house.start(f"steps: [{text}]"))
    assert calls(tmp_path, "n") == attempts
    assert outcome.output == (None if error else "n 3")
    assert (error or "") in str(outcome.error)


async def test_one_attempt_is_one_call(house: Harness, tmp_path: Path) -> None:
    text = "{name: work, uses: fails_at_first, local: true, retry: {attempts: 1}, "
    text += f"input: {{folder: '{tmp_path}', name: n, times: 1}}}}"
    run = await house.start(f"steps: [{text}]")
    assert (await house.result(run)).status == "failed"
    assert (calls(tmp_path, "n"), await count_calls(house, run)) == (1, (1, 0))


async def test_a_timeout_of_the_author_is_an_attempt_too(house: Harness, tmp_path: Path) -> None:
    run = await house.start(f"steps: [{step('not_quick', local='true', timeout='0.1s')}]", str(tmp_path))
    assert await house.output(run) == "n"
    assert (calls(tmp_path, "n"), await count_calls(house, run)) == (2, (1, 1))


@pytest.mark.slow
async def test_a_call_that_takes_too_long_for_a_task_is_no_attempt(house: Harness, tmp_path: Path) -> None:
    run = await house.start(f"steps: [{step('not_quick', local='true', retry='{attempts: 1}')}]", str(tmp_path))
    assert await house.output(run) == "n"
    assert await count_calls(house, run) == (1, 1)


async def test_a_large_result_comes_from_an_ordinary_call(house: Harness, tmp_path: Path) -> None:
    run = await house.start(loop(step("large_text", local="true")), str(tmp_path))
    assert await house.output(run) == "x" * 20_000
    assert (calls(tmp_path, "n"), await count_calls(house, run)) == (4, (1, 3))


async def test_a_local_tool_asks_and_runs_again_with_the_answer(house: Harness, tmp_path: Path) -> None:
    run = await house.start(f"steps: [{step('asks_locally', local='true')}]", str(tmp_path))
    assert await house.answered(run, "12A") == ["Which?"]
    assert await house.output(run) == "12A 2"
    assert await count_calls(house, run) == (2, 0)


async def test_calls_at_once_are_local(house: Harness, tmp_path: Path) -> None:
    body = "{name: work, uses: quick_text, local: true, input: 'item {{ item }}'}"
    text = f"steps: [{{kind: map, name: m, map: {{iterable_input: '[1, 2, 3, 4]', body: [{body}]}}}}]"
    run = await house.start(text)
    assert await house.output(run) == ["item 1", "item 2", "item 3", "item 4"]
    assert await count_calls(house, run) == (4, 0)


async def test_a_long_row_of_local_calls_ends_its_task(house: Harness) -> None:
    body = "{name: work, uses: quick_text, local: true, input: 'round {{ iteration }}'}"
    run = await house.start(loop(body, rounds=60, checkpoint=100))
    assert await house.output(run) == "round 60"
    assert await count_calls(house, run) == (59, 1)


async def test_over_continue_as_new(house: Harness, tmp_path: Path) -> None:
    run = await house.start(loop(step("quick", local="true"), rounds=6, checkpoint=2), str(tmp_path))
    assert await house.output(run) == "n 6"
    assert await count_calls(house, run) == (6, 0)


async def test_a_pause_holds_the_next_local_call(house: Harness, tmp_path: Path) -> None:
    ask = "{kind: hitl, name: ask, message: 'Go on?'}"
    run = await house.start(f"steps: [{ask}, {step('quick', local='true')}]", str(tmp_path))
    await house.one(run)
    await house.runs.control.pause(run)
    await house.answer(run, "yes")
    assert calls(tmp_path, "n") == 0
    await house.runs.control.resume(run)
    assert await house.output(run) == "n 1"


async def test_a_cancel_waits_for_a_local_call_that_is_under_way(house: Harness, tmp_path: Path) -> None:
    (tmp_path / "hang").touch()
    run = await house.start(loop(step("hangs_locally", local="true")), str(tmp_path))

    async def called() -> bool:
        return calls(tmp_path, "n") == 1

    await until(called, "the call")
    cancelling = asyncio.create_task(house.runs.control.cancel(run))
    await asyncio.sleep(0)
    (tmp_path / "hang").unlink()
    await cancelling
    assert (await house.result(run)).status == "cancelled"


def test_a_local_tool_that_may_not_run_twice_is_refused() -> None:
    with pytest.raises(ValueError, match=r"test_local_calls: the tool 'pay' is local.*write idempotent=True"):

        @tool(local=True)
        def pay() -> None: ...


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{name: s, local: true}", "'local' belongs to steps that call a tool"),
        ("{name: s, uses: stringify, local: true}", "'local' belongs to steps that call a tool"),
        ("{name: s, uses: 'mcp:files/read', local: true}", "a tool of an MCP server is never local"),
        ("{name: s, uses: t, local: true, idempotent: false}", "idempotent: false forbids that"),
    ],
)
def test_what_cannot_be_local_is_said(text: str, message: str) -> None:
    with pytest.raises(BlueprintError, match=message):
        loads(f"steps:\n  - {text}\n", name="test")


async def test_a_look_up_names_a_tool_that_is_not_declared_local(house: Harness) -> None:
    checked = await house.runs.look_up(house.load("steps: [{name: s, uses: counted, local: true}]"))
    [problem] = checked.problems
    assert (problem.code, problem.path) == ("not_local", "steps[0].uses")
    assert "@tool(idempotent=True, local=True)" in problem.message
