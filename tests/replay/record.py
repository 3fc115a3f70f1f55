"""Records the histories that every later version must still replay: `python -m tests.replay.record [NAME …]`."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import os
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import yaml
from temporalio.testing import WorkflowEnvironment

import tests.interrupting  # noqa: F401 registers the tools
from holdfast.client.connection import DATA_CONVERTER
from holdfast.client.embedded.server import temporal_binary
from tests.agents.test_turns import call, turn
from tests.conftest import ATTRIBUTES, Harness, worker_for
from tests.loops.test_loops import MORE_OR_STOP, NESTED

HERE = Path(__file__).parent / "histories"

BRANCHES = """
agents: {echo: {model: echo}}
steps:
  - {name: seed, uses: context_set, input: {path: chosen, value: left}}
  - kind: conditional
    name: which
    condition_expression: context.chosen
    branches:
      left: {kind: hitl, name: ask, ask: decision, message: "{{ input }}?", options: [go, stop], sink_to: said}
  - {name: bad, input: "{{ 1 / 0 }}", on_error: {fallback: {name: instead, input: "{{ error.type }}"}}}
  - {name: last, agent: echo, input: "{{ context.said }} {{ steps.bad.output }}"}
"""
DEADLINE = "steps: [{kind: hitl, name: ask, message: Go?, timeout: 1s, default: nobody}]"
FAILS = "steps: [{kind: loop, name: l, loop: {max_loops: 2, exit_expression: output == 'x', body: [{name: a}]}}]"


AGENT = """
agents:
  boss:
    {model: "scripted:replies.yaml", tools: [{name: pay_out, approve: always}, research, agent:helper], human: [ask]}
  helper: {model: "scripted:replies.yaml", tools: [{name: look_up, review: true}]}
steps:
  - {name: boss, agent: boss, interrupt_before: true}
  - {kind: hitl, name: wait, ask: hold}
"""
PLANNER = """
agents: {planner: {model: "scripted:replies.yaml"}}
steps: [{kind: agentic_loop, name: plan, planner: planner, registry: [look_up]}]
"""

PEOPLE = """
steps:
  - kind: loop
    name: round
    loop:
      max_loops: 1
      body:
        - kind: hitl
          name: ask
          message: Go?
          assignees: ["user:ana", "user:bob", "user:eve"]
          not_by: [requester]
          quorum: 2
          remind_every: 1h
          on_timeout: escalate
          escalate: [{after: 2h, assignees: ["group:heads"]}]
  - {kind: hitl, name: end, message: Done?}
"""


async def loop(house: Harness) -> None:
    run = await house.start(MORE_OR_STOP, "start")
    await house.answered(run, "more", "stop")
    await house.result(run)


async def continued(house: Harness) -> None:
    run = await house.start(MORE_OR_STOP.replace("max_loops: 5", "checkpoint_every: 2"), "start")
    await house.answered(run, "a", "b", "c", "stop")
    await house.result(run)


async def nested(house: Harness) -> None:
    run = await house.start(NESTED)
    await house.answered(run, "again", "next", "next")
    await house.result(run)


async def branches(house: Harness) -> None:
    run = await house.start(BRANCHES, "on")
    await house.answered(run, "go")
    await house.result(run)


async def deadline(house: Harness) -> None:
    await house.result(await house.start(DEADLINE))


async def fails(house: Harness) -> None:
    await house.result(await house.start(FAILS))


async def paused_and_cancelled(house: Harness) -> None:
    run = await house.start(MORE_OR_STOP, "start")
    await house.one(run)
    await house.runs.pause(run)
    await house.answer(run, "more")
    await house.runs.resume(run)
    await house.one(run)
    await house.runs.cancel(run)
    await house.result(run)


async def agent(house: Harness) -> None:
    """Approval, review in a sub-agent, a question of the model, interrupts answered one by one, a stop, a hold."""
    folder = str(house.folder)
    boss = [
        turn(call("pay_out", folder=folder, payee="Ana", amount=3), call("research", folder=folder, topics=["a", "b"])),
        turn(call("helper", input="words"), call("request_user_info", question="Sure?")),
        "done",
    ]
    helper = [turn(call("look_up", folder=folder, word="w")), "found {{ messages[-1].content }}"]
    house.script(yaml.safe_dump({"boss": boss, "helper": helper}))
    run = await house.start(AGENT, "Go")
    await house.answer(run, None)
    pay, a, b = await house.asked(run, 3)
    await house.answer(run, {"granted": True}, pay)
    await house.answer(run, "here", a)
    [b] = await house.asked(run, 1)
    await house.answer(run, "there", b)
    review, sure = sorted(await house.asked(run, 2), key=lambda question: question.kind, reverse=True)
    await house.answer(run, {"verdict": "unchanged"}, review)
    await house.answer(run, "yes", sure)
    await house.answer(run, None)
    await house.result(run)


async def planner(house: Harness) -> None:
    look = call("run_agent", agent="look_up", input={"folder": str(house.folder), "word": "z"})
    turns = [turn(look), turn(call("ask_human", question="Good?")), turn(call("finish", output="end"))]
    house.script(yaml.safe_dump({"plan": turns}))
    run = await house.start(PLANNER, "Go")
    await house.answer(run, "yes")
    await house.result(run)


SEVERAL = """
context: {n: 1}
limits: {steps: 900}
agents: {echo: {model: echo}}
steps:
  - kind: parallel
    name: both
    reduce: values
    branches:
      one: [{kind: hitl, name: ask, message: "One?"}]
      two: [{name: say, agent: echo, input: two, sink_to: said}]
  - kind: map
    name: some
    map:
      iterable_input: "[1, 0, 2]"
      on_item_error: ask
      max_concurrency: 2
      body: [{name: divide, input: "{{ 10 / item }}"}]
  - kind: map
    name: many
    map: {iterable_input: "range(60)", body: [{name: add, input: "{{ context.n + 1 }}", sink_to: n}]}
  - {kind: cache, name: kept, wrapped_step: {name: say_it, agent: echo, input: again}}
  - {name: bad, input: "{{ 1 / 0 }}", on_error: ask}
"""
CLARIFY = """
steps:
  - kind: clarify
    name: brief
    goal: "{{ input }}"
    confirm: true
    schema: {type: object, properties: {who: {type: string}, words: {type: integer}}}
"""


async def several(house: Harness) -> None:
    run = await house.start(SEVERAL)
    await house.answered(run, "here", {"action": "edit", "input": 5}, {"action": "skip", "value": "end"})
    await house.result(run)


async def clarified(house: Harness) -> None:
    run = await house.start(CLARIFY, "A brief")
    await house.answered(run, "all", 100, {"verdict": "unchanged"})
    await house.result(run)


async def people(house: Harness) -> None:
    """In a loop: assignees, reminders and rungs that are waited for, a quorum of two, then a plain question."""
    run = await house.start(PEOPLE, "start", started_by="user:max")
    for person in ("ana", "bob"):
        await house.answer(run, "go", by=f"user:{person}")
    await house.answered(run, "end")
    await house.result(run)


PLAN: dict[str, Any] = {
    "goal": "Tell everybody",
    "agent": "scripted:replies.yaml",
    "steps": [
        {"id": "1", "instruction": "CONFIRM_ACTION: Go on?"},
        {"id": "2", "instruction": "Look up CURRENT_ITEM", "tools": ["look_up"], "dependencies": ["1"]},
        {"id": "3", "instruction": "Ask of CURRENT_ITEM", "pause_for_response": True, "condition": "LOOP_INDEX > 0"},
        {"id": "4", "instruction": "Sum up RESULT_FROM_2", "condition": "RESULT_FROM_1 contains confirmed"},
    ],
    "loop_blocks": {"all": {"over": ["a", "b"], "steps": ["2", "3"]}},
}


async def plan(house: Harness) -> None:
    house.script(
        json.dumps(
            {
                "2": [
                    turn(call("look_up", folder=str(house.folder), word="a")),
                    turn(call("look_up", folder=str(house.folder), word="b")),
                ],
                "4": "all",
            }
        )
    )
    run = await house.start(json.dumps(PLAN))
    await house.answered(run, "accept", "fine")
    await house.result(run)


async def driven(house: Harness) -> None:
    turns = [
        turn(call("request_user_info", question="Go on?")),
        turn(call("finish_step", step_id="1", result_summary="")),
    ]
    turns += [turn(call("start_loop", loop_id="all"))]
    for item in ("a", "b"):
        parameters = {"folder": str(house.folder), "word": item}
        turns += [turn(call("execute_step_tool", step_id="2", tool_name="look_up", parameters=parameters))]
        turns += [turn(call("finish_step", step_id="2", result_summary="seen"))]
        if item == "b":
            turns += [turn(call("request_user_info", question="Well?"))]
            turns += [turn(call("finish_step", step_id="3", result_summary=""))]
        turns += [turn(call("advance_loop", loop_id="all"))]
    turns += [turn(call("finish_step", step_id="4", result_summary="all"))]
    house.script(json.dumps({"plan": turns}))
    run = await house.start(json.dumps({**PLAN, "driver": "agent"}))
    await house.answered(run, "accept", "fine")
    await house.result(run)


FLOWS: list[Callable[[Harness], Awaitable[None]]] = [
    loop,
    continued,
    nested,
    branches,
    deadline,
    fails,
    paused_and_cancelled,
    agent,
    planner,
    several,
    clarified,
    people,
    plan,
    driven,
]


async def record(names: list[str]) -> None:
    HERE.mkdir(exist_ok=True)
    async with await WorkflowEnvironment.start_local(
        dev_server_existing_path=temporal_binary(), data_converter=DATA_CONVERTER, search_attributes=ATTRIBUTES
    ) as server:
        with tempfile.TemporaryDirectory() as folder:
            house = Harness(server.client, "record", Path(folder))
            async with worker_for(server.client, "record"):
                for flow in FLOWS:
                    if not names or flow.__name__ in names:
                        await _record(house, flow)


async def _record(house: Harness, flow: Callable[[Harness], Awaitable[None]]) -> None:
    house.started.clear()
    await flow(house)
    for number, history in enumerate(await house.histories(house.started[0])):
        text = json.dumps(_without_places(json.loads(history.to_json()), str(house.folder)))
        # Compressed, as nobody reviews them line by line; without a time, so that the same history is the same file.
        (HERE / f"{flow.__name__}-{number}.json.gz").write_bytes(gzip.compress(text.encode(), mtime=0))


def _without_places(value: Any, folder: str) -> Any:
    """Without stack traces, identities and folders: they name the machine, and replay does not need them."""
    match value:
        case {"metadata": _, "data": str(data)}:
            plain = base64.b64decode(data).replace(folder.encode(), b"/project")
            return {**value, "data": base64.b64encode(plain).decode()}
        case dict():
            kept = {key: part for key, part in value.items() if key not in ("stackTrace", "identity")}
            return {key: _without_places(part, folder) for key, part in kept.items()}
        case list():
            return [_without_places(part, folder) for part in value]
    return value


if __name__ == "__main__":
    asyncio.run(record(sys.argv[1:]))
    sys.stdout.flush()
    os._exit(0)  # the SDK sometimes aborts at the interpreter's exit
