"""Records the histories that every later version must still replay: `python -m tests.replay.record [NAME …]`.

Names are those of the flows below, or of examples (`example.NAME`), whose own tests say what is answered.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import yaml
from temporalio.client import Client
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Worker

import tests.interrupting  # noqa: F401 registers the tools
from examples.invite_guests.workflow import Invitations
from holdfast.activities import McpServers, all_activities
from holdfast.client.history import histories
from holdfast.client.runs import Runs
from holdfast.client.states import Outcome, RunState
from holdfast.protocol.questions import Question
from holdfast.protocol.runs import HistoryLimits
from holdfast.runtime.config import load_config
from holdfast.runtime.converters import DATA_CONVERTER
from holdfast.runtime.embedded.server import find_temporal_binary
from holdfast.testkit.environment import TestEnvironment
from holdfast.testkit.files import read_cases
from holdfast.testkit.running import run_case
from holdfast.workflows import RUNNER
from tests.agents.asking_house import LAST, asking_server
from tests.agents.turns import agent as agent_with
from tests.agents.turns import call, turn
from tests.conftest import ATTRIBUTES, TOOLS, Harness, until, worker_for
from tests.flows import MORE_OR_STOP, NESTED
from tests.replay import recordings
from tests.replay.recordings import Recording
from tests.repository import ROOT

EXAMPLES = {
    f"example.{path.name.removesuffix('.test.yaml')}": path
    for path in sorted((ROOT / "examples").glob("*/*.test.yaml"))
}
QUEUE = "record"
SHORT = HistoryLimits(rounds=1, events=30)


class RecordedHouse(Harness):
    """A harness that keeps each run as it is whenever it waits for people, and at its end."""

    def __init__(self, client: Client, folder: Path, servers: McpServers) -> None:
        super().__init__(client, QUEUE, folder)
        self.servers = servers
        self.limits: HistoryLimits | None = None
        self.recording = Recording(str(folder))

    async def start(self, text: str, input: Any = None, **how: Any) -> str:
        limits = {} if self.limits is None else {"history_limits": self.limits}
        return await super().start(text, input, **{**how, **limits})

    async def asked(self, run: str, count: int = 1) -> list[Question]:
        questions = await super().asked(run, count)
        await self.observe(run)
        return questions

    async def result(self, run: str) -> Outcome:
        outcome = await super().result(run)
        await self.observe(run)
        return outcome

    async def observe(self, run: str) -> None:
        state = await self.runs.state(run)
        self.recording.observe(state, [history async for history in histories(self.client, run)])


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
TEAM_AGENT = """
agents: {boss: {from: "tests.team_agents:support", deps: "tests.team_agents:bank", model: "scripted:replies.yaml"}}
steps: [{name: boss, agent: boss}]
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


async def loop(house: RecordedHouse) -> None:
    run = await house.start(MORE_OR_STOP, "start")
    await house.answered(run, "more", "stop")
    await house.result(run)


async def continued(house: RecordedHouse) -> None:
    run = await house.start(MORE_OR_STOP.replace("max_loops: 5", "checkpoint_every: 2"), "start")
    await house.answered(run, "a", "b", "c", "stop")
    await house.result(run)


async def extended(house: RecordedHouse) -> None:
    run = await house.start(MORE_OR_STOP.replace("max_loops: 5", "max_loops: 1\n      on_max_loops: ask"), "start")
    await house.answered(run, "a", "yes", "stop")
    await house.result(run)


async def nested(house: RecordedHouse) -> None:
    run = await house.start(NESTED)
    await house.answered(run, "again", "next", "next")
    await house.result(run)


async def branches(house: RecordedHouse) -> None:
    run = await house.start(BRANCHES, "on")
    await house.answered(run, "go")
    await house.result(run)


async def deadline(house: RecordedHouse) -> None:
    await house.result(await house.start(DEADLINE))


async def fails(house: RecordedHouse) -> None:
    await house.result(await house.start(FAILS))


async def paused_and_cancelled(house: RecordedHouse) -> None:
    run = await house.start(MORE_OR_STOP, "start")
    await house.one(run)
    await house.runs.control.pause(run)
    await house.one(run)
    await house.answer(run, "more")
    await house.runs.control.resume(run)
    await house.one(run)
    await house.runs.control.cancel(run)
    await house.result(run)


async def agent(house: RecordedHouse) -> None:
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


async def team_agent(house: RecordedHouse) -> None:
    """An agent object: a retry, an approval, a result from elsewhere, an output checked twice; new histories."""
    turns = [
        turn(call("guess", number=1)),
        turn(call("guess", number=7), call("refund", amount=5)),
        turn(call("appraise", item="ring")),
        {"output": {"advice": "bad", "block_card": False}},
        {"output": {"advice": "Block it.", "block_card": True}},
    ]
    house.script(yaml.safe_dump({"boss": turns}))
    run = await house.start(TEAM_AGENT, f"{house.folder} Ana", history_limits=HistoryLimits(rounds=2))
    await house.answered(run, {"granted": True}, 900)
    await house.result(run)


async def planner(house: RecordedHouse) -> None:
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


async def several(house: RecordedHouse) -> None:
    run = await house.start(SEVERAL)
    await house.answered(run, "here", {"action": "edit", "input": 5}, {"action": "skip", "value": "end"})
    await house.result(run)


async def clarified(house: RecordedHouse) -> None:
    run = await house.start(CLARIFY, "A brief")
    await house.answered(run, "all", 100, {"verdict": "unchanged"})
    await house.result(run)


async def people(house: RecordedHouse) -> None:
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


async def plan(house: RecordedHouse) -> None:
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
    last = {"id": "5", "instruction": "CONFIRM_ACTION: Send it?", "dependencies": ["4"]}
    run = await house.start(json.dumps({**PLAN, "steps": [*PLAN["steps"], last]}))
    await house.answered(run, "accept", "fine", "accept")
    await house.result(run)


async def driven(house: RecordedHouse) -> None:
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


CHOICE = "steps: [{name: choose, uses: chooses}]"
LATE = """
steps:
  - kind: map
    name: many
    map:
      iterable_input: "range(52)"
      body:
        - kind: conditional
          name: last
          condition_expression: "item > 50"
          branches: {true: {kind: hitl, name: ask, message: "{{ item }}?"}, false: {name: same}}
  - {kind: timer, name: pause, for: 1s}
  - {kind: wait, name: paid, for: payment.received, key: A-1}
"""


async def choice(house: RecordedHouse) -> None:
    """A tool that lets somebody choose."""
    run = await house.start(CHOICE)
    await house.answered(run, "b")
    await house.result(run)


async def late(house: RecordedHouse) -> None:
    """A question on the second page of a map, a timer, an event."""
    run = await house.start(LATE)
    await house.answer(run, "here")
    await until(lambda: _has_timer(house, run), "a timer")
    await house.observe(run)
    await until(lambda: _has_event(house, run), "an event")
    await house.observe(run)
    await house.runs.control.cancel(run)
    await house.result(run)


async def _has_timer(house: RecordedHouse, run: str) -> bool:
    return bool((await house.runs.state(run)).timers)


async def _has_event(house: RecordedHouse, run: str) -> bool:
    return bool((await house.runs.state(run)).events)


async def elicited(house: RecordedHouse) -> None:
    """An MCP server asks for a form, and sends somebody to a page."""
    folder = str(house.folder)
    calls = [call("asking_order", item="shirt", folder=folder), call("asking_pay", url="https://pay.example/1")]
    run = await house.start(agent_with(house, [turn(*calls), LAST], tools=["mcp:asking"]), "Go")
    [form, page] = sorted(await house.asked(run, 2), key=lambda question: question.asked.kind)
    await house.answer(run, {"size": 3}, form)
    await house.asked(run, 1)
    await house.answer(run, "yes", page)
    await house.result(run)


BOOKED = {"days": "{days: 3}", "seat": "null"}
"""The value that each step of a host of Google's ADK has confirmed."""


async def actions(house: RecordedHouse) -> None:
    """Actions that other libraries ask about, and what a person says of each."""
    graph = f'{{name: act, uses: "tests.graphs:inbox", input: {{folder: "{house.folder}", log: []}}}}'
    book = [f"{{name: {name}, uses: hosts_adk, input: {{payload: {value}}}}}" for name, value in BOOKED.items()]
    run = await house.start(f"steps: [{', '.join([graph, *book])}]")
    ask, plan, write = sorted(await house.asked(run, 3), key=lambda question: question.message)
    await house.answer(run, "now", ask)
    await house.answer(run, {"verdict": "respond", "reason": "on Monday"}, plan)
    await house.answer(run, {"verdict": "unchanged"}, write)
    await until(lambda: _asks_other(house, run, write), "the question of the second step")
    days = await house.one(run)
    await house.answer(run, {"verdict": "edited", "payload": {"days": 2}}, days)
    await until(lambda: _asks_other(house, run, days), "the question of the third step")
    await house.answer(run, "yes")
    await house.result(run)


async def lost(house: RecordedHouse) -> None:
    """A call is lost in its middle, and a person says what became of it."""
    order = turn(call("older_order", item="shirt", folder=str(house.folder)))
    run = await house.start(agent_with(house, [order, LAST], tools=["mcp:older"]), "Go")
    first = await house.one(run)
    await house.servers.close()
    await until(lambda: _asks_other(house, run, first), "the question of the lost call")
    await house.answer(run, "fail")
    await house.result(run)


async def _asks_other(house: RecordedHouse, run: str, first: Question) -> bool:
    return any(question.id != first.id for question in await house.runs.questions(run))


async def invitations(house: RecordedHouse) -> None:
    """The workflow of an example's author."""
    queue = "record-own"
    async with Worker(house.client, task_queue=queue, workflows=[Invitations], workflow_runner=RUNNER):
        await house.client.start_workflow(Invitations.run, ["Ana", "Bob"], id="invitations", task_queue=queue)
        await house.answered("invitations", "change", ["Eve"], "yes")
        await house.result("invitations")


Flow = Callable[[RecordedHouse], Awaitable[None]]
FLOWS: list[Flow] = [
    loop,
    continued,
    extended,
    nested,
    branches,
    deadline,
    fails,
    paused_and_cancelled,
    agent,
    team_agent,
    planner,
    several,
    clarified,
    people,
    plan,
    driven,
    choice,
    late,
    elicited,
    actions,
]
ONCE: list[Flow] = [invitations, lost]
"""Flows that are not recorded a second time with short histories: one has none of ours, one ends the servers."""


async def record(names: list[str]) -> None:
    recordings.FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        async with recorded_house(Path(folder)) as house:
            for flow in [*FLOWS, *ONCE]:
                if not names or flow.__name__ in names:
                    await _record(house, flow)
    await _record_examples([name for name in EXAMPLES if not names or name in names])


@asynccontextmanager
async def recorded_house(folder: Path) -> AsyncIterator[RecordedHouse]:
    async with (
        await WorkflowEnvironment.start_local(
            dev_server_existing_path=find_temporal_binary(), data_converter=DATA_CONVERTER, search_attributes=ATTRIBUTES
        ) as server,
        asking_server("stdio") as asking,
        asking_server("stdio-old") as older,
    ):
        servers = McpServers({"asking": asking, "older": older})
        async with worker_for(server.client, QUEUE, activities=all_activities([TOOLS], {}, servers)):
            yield RecordedHouse(server.client, folder, servers)
            await servers.close()


async def _record(house: RecordedHouse, flow: Flow) -> None:
    """Record a flow as it is, and with a continue-as-new wherever one is possible."""
    runs = []
    for limits in [None] if flow in ONCE else [None, SHORT]:
        house.limits, house.recording = limits, Recording(str(house.folder))
        await flow(house)
        runs.append(house.recording)
    recordings.write(flow.__name__, runs)


async def _record_examples(names: list[str]) -> None:
    environment = await TestEnvironment.open()
    try:
        for name in names:
            await _record_example(environment, name)
    finally:
        await environment.close()


async def _record_example(environment: TestEnvironment, name: str) -> None:
    file, runs = read_cases(EXAMPLES[name], load_config(EXAMPLES[name].parent)), []
    for case in file.cases:
        recording = Recording(str(environment.folder))

        async def observer(of: Runs, state: RunState, recording: Recording = recording) -> None:
            recording.observe(state, [history async for history in histories(of.client, state.run)])

        result = await run_case(environment, file, case, observer=observer)
        if not result.passed:
            raise AssertionError(f"{name}: {case.name}: {result.differences}")
        runs.append(recording)
    recordings.write(name, runs)


if __name__ == "__main__":
    asyncio.run(record(sys.argv[1:]))
    sys.stdout.flush()
    os._exit(0)  # the SDK sometimes aborts at the interpreter's exit
