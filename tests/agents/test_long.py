"""Agents that work for long: steering, short conversations, continue-as-new, agentic loops."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
import yaml
from temporalio.service import RPCError

from holdfast.client.case_recorder import CaseRecorder
from holdfast.protocol.agents import Message, ToolCall
from holdfast.protocol.events import AgentShortened
from holdfast.protocol.runs import HistoryLimits
from holdfast.runtime.errors import BadInput
from holdfast.workflows.agent import conversation as talk
from tests.agents.turns import DONE, agent, call, document, turn
from tests.conftest import Harness, until
from tests.tools import calls

LOOKED = "{% for m in messages if m.role == 'tool' %}{{ m.content }}|{% endfor %}"


def look(house: Harness, word: str) -> dict[str, Any]:
    return turn(call("look_up", folder=str(house.folder), word=word))


async def test_an_agent_is_told_something_for_its_next_turn(house: Harness) -> None:
    ask = turn(call("request_user_info", question="Go?"))
    said = "{% for m in messages if m.role == 'user' %}{{ m.content }}|{% endfor %}"
    run = await house.start(agent(house, [ask, said], human=["ask"]), "Start")
    question = await house.one(run)
    assert await house.runs.control.tell(run, "Use the train.", by="user:ana") == "pipeline:test;agent:boss"
    await house.answer(run, "yes", question)
    assert await house.output(run) == "Start|Use the train.|"
    recorded = await CaseRecorder(house.runs.tree, await house.runs.state(run)).record("told")
    assert [note.partition(": ")[2] for note in recorded.notes] == [
        "somebody told an agent something while it ran, which a test cannot do"
    ]


async def test_what_is_told_while_the_last_word_is_spoken_is_still_heard(house: Harness) -> None:
    """The tool waits until the agent was told; then the model ends, and has to go on."""
    turns = [turn(call("request_user_info", question="Go?")), "first", {"output": "second", "expect": "late"}]
    run = await house.start(agent(house, turns, human=["ask"]), "Start")
    question = await house.one(run)
    handle = house.client.get_workflow_handle(question.owner)
    await house.answer(run, "yes", question)
    with suppress(RPCError):  # the agent may have ended before
        await handle.signal("tell", {"text": "late"})
    assert await house.output(run) in ("first", "second")
    history = await handle.fetch_history()
    signalled = [e.event_id for e in history.events if e.HasField("workflow_execution_signaled_event_attributes")]
    ended = [e.event_id for e in history.events if e.HasField("workflow_execution_completed_event_attributes")]
    assert not signalled or signalled[0] < ended[0]


async def test_telling_where_no_agent_works_says_so(house: Harness) -> None:
    run = await house.start("steps: [{kind: hitl, name: ask, message: Go?}]")
    await house.one(run)
    with pytest.raises(BadInput, match="no agent in .* reads messages now .* at work: none"):
        await house.runs.control.tell(run, "hello")
    await house.answer(run, "yes")


async def test_an_agent_is_told_by_the_name_of_its_step_and_the_names_are_said(house: Harness) -> None:
    house.script(yaml.safe_dump({"work": [turn(call("request_user_info", question="Go?")), DONE]}))
    planner = {"model": "scripted:replies.yaml", "human": ["ask"]}
    document = {"agents": {"planner": planner}, "steps": [{"name": "work", "agent": "planner"}]}
    run = await house.start(yaml.safe_dump(document), "Start")
    await house.one(run)
    with pytest.raises(BadInput) as caught:
        await house.runs.control.tell(run, "hello", agent="planner")
    assert "no agent of a step 'planner'" in str(caught.value)
    assert "at work: pipeline:test;agent:work (work)" in str(caught.value)
    assert await house.runs.control.tell(run, "hello", agent="work") == "pipeline:test;agent:work"
    await house.answer(run, "yes")
    assert await house.output(run)


@pytest.mark.slow
async def test_an_agent_continues_as_new_and_keeps_its_counters(house: Harness) -> None:
    turns = [*(look(house, f"w{n}") for n in range(6)), turn(call("request_user_info", question="Enough?")), DONE]
    text = agent(house, turns, tools=["look_up"], human=["ask"], max_turns=99)
    run = await house.start(text, "Go", history_limits=HistoryLimits(rounds=3))
    question = await house.one(run)
    assert question.address == "pipeline:test;agent:boss;tool:request_user_info:7"
    await house.answer(run, "yes", question)
    assert await house.output(run) == "done: yes"
    assert (await house.runs.tree.view(f"{run}/agent:boss")).previous_run is not None
    assert (await house.runs.tree.view(run)).usage.requests == 8
    events = await house.runs.watch.events(run)
    assert [one.offset for one in events] == list(range(len(events)))
    assert sum(one.type == "tool.called" and "look_up" in one.address for one in events) == 6


@pytest.mark.slow
async def test_the_turn_limit_and_the_repeated_call_guard_survive_continue_as_new(house: Harness) -> None:
    turns = [*(look(house, f"w{n}") for n in range(3)), *(look(house, "same") for _ in range(9))]
    text = agent(house, turns, tools=["look_up"], max_turns=99)
    run = await house.start(text, "Go", history_limits=HistoryLimits(rounds=5))
    assert (await house.result(run)).error.type == "doom_loop"
    assert calls(house.folder, "look_up-same") == 2


# Short conversations


async def shortened(house: Harness, run: str) -> list[tuple[int, str, bool]]:
    """Return how many turns were left out each time, why, and whether they were summarised."""
    events = [event.data for event in await house.runs.watch.events(run)]
    return [(one.turns, one.reason, one.summarized) for one in events if isinstance(one, AgentShortened)]


def conversation(turns: int, size: int = 10) -> list[Message]:
    found = [Message(role="user", content="start")]
    for n in range(turns):
        found.append(Message(role="assistant", content=f"turn {n}"))
        found.append(Message(role="tool", call=str(n), tool="t", content="x" * size))
    return found


def test_a_conversation_is_cut_only_before_a_reply_of_the_model() -> None:
    for messages in (talk.halve(conversation(9)), talk.shorten_to_limit(conversation(300, 8_000))):
        assert messages is not None
        roles = [message.role for message in messages]
        assert roles[:2] == ["user", "assistant"]
        assert roles[1:] == ["assistant", "tool"] * (len(roles) // 2)


CALL = ToolCall(id="1", name="t", args={"text": "x" * 3_000_000})
LARGE = [
    conversation(3, 900_000),
    conversation(1, 5_000_000),
    conversation(400, 8_000),
    [Message(role="user", content="中" * 999_000), *conversation(2, 90_000)[1:]],
    [Message(role="user", content={"a": "x" * 3_000_000})],
    [
        Message(role="user"),
        Message(role="assistant", tool_calls=[CALL], raw="x" * 3_000_000),
        Message(role="tool", call="1"),
    ],
]


@pytest.mark.parametrize("messages", LARGE)
def test_no_conversation_is_too_large_to_be_sent(messages: list[Message]) -> None:
    assert talk.measure_size(talk.shorten_to_limit(messages)) <= talk.MOST_BYTES


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rule", "kept"),
    [
        ({"strategy": "truncate_turns", "max_turns": 2, "keep_turns": 2}, "w3 1|w4 1|"),
        ({"strategy": "summarize", "max_turns": 2, "keep_turns": 2}, "w3 1|w4 1|"),
    ],
)
async def test_old_turns_are_dropped_or_summarised(house: Harness, rule: dict[str, Any], kept: str) -> None:
    turns = [*(look(house, f"w{n}") for n in range(5)), LOOKED + "{{ messages[1].content }}"]
    house.script(yaml.safe_dump({"boss": turns, "boss-summary": ["SUMMARY of {{ messages[0].content[:9] }}"]}))
    text = document(boss={"model": "scripted:replies.yaml", "tools": ["look_up"], "history_management": rule})
    run = await house.start(text, "Go")
    output = await house.output(run)
    assert output.startswith(kept)
    summarised = rule["strategy"] == "summarize"
    assert ("What happened so far" in output and "SUMMARY of" in output) == summarised
    assert ("left out" in output) != summarised
    assert {one[1:] for one in await shortened(house, run)} == {("rule", summarised)}


async def test_old_results_are_shortened(house: Harness) -> None:
    rule = {"strategy": "truncate_results", "max_turns": 1, "keep_turns": 1}
    words = ["a" * 2_000, "b" * 2_000]
    turns = [*(turn(call("stringy", text=word)) for word in words), LOOKED]
    run = await house.start(agent(house, turns, tools=["stringy"], history_management=rule), "Go")
    first, second, _ = (await house.output(run)).split("|")
    assert first.endswith("(1500 characters left out)")
    assert second == words[1]


# Agentic loops

PLANNER = """
agents:
  planner: {model: "scripted:replies.yaml", instructions: Decide.}
  writer: {model: "scripted:replies.yaml", description: Writes.}
steps:
  - kind: agentic_loop
    name: plan
    planner: planner
    registry: [agent:writer, look_up]
    max_loops: 6
    output_template: "{{ output }} after {{ log | length }}"
"""


def planned(house: Harness, *turns: Any) -> str:
    house.script(yaml.safe_dump({"plan": list(turns), "writer": ["a poem about {{ messages[-1].content }}"]}))
    return PLANNER


@pytest.mark.slow
async def test_the_log_of_an_agentic_loop_has_one_entry_a_command(house: Harness) -> None:
    text = planned(
        house,
        turn(call("run_agent", agent="writer", input="tea")),
        turn(call("ask_human", question="Good?")),
        turn(call("run_agent", agent="look_up", input={"folder": str(house.folder), "word": "w"})),
        turn(call("finish", output="{{ messages[-1].content }}!")),
    )
    run = await house.start(text, "Go")
    question = await house.one(run)
    assert question.address == "pipeline:test;agent:plan;tool:ask_human:2"
    live = await house.runs.tree.query(question.owner, "context", None, dict)
    assert [entry["command"] for entry in live["command_log"]] == ["run_agent"]
    await house.answer(run, "yes", question)
    assert await house.output(run) == "w 1! after 4"
    log = (await house.result(run)).context["command_log"]
    assert [(entry["turn"], entry["command"]) for entry in log] == [
        (1, "run_agent"),
        (2, "ask_human"),
        (3, "run_agent"),
        (4, "finish"),
    ]
    assert [entry["result"] for entry in log] == ["a poem about tea", "yes", "w 1", "w 1!"]


async def test_a_planner_is_told_what_it_may_run_and_an_unknown_command_is_no_entry(house: Harness) -> None:
    text = planned(
        house, turn(call("run_agent", agent="nobody", input="x"), call("dance")), turn(call("finish", output="end"))
    )
    run = await house.start(text, "Go")
    assert await house.output(run) == "end after 1"


@pytest.mark.slow
async def test_what_a_planner_runs_is_told_by_one_name_at_one_place_whatever_becomes_of_it(house: Harness) -> None:
    text = planned(
        house,
        turn(call("run_agent", agent="writer", input="tea"), call("run_agent", agent="look_up", input={"word": "w"})),
        turn(call("finish", output="end")),
    ).replace('writer: {model: "scripted:replies.yaml"', 'writer: {model: "scripted:nowhere.yaml"')
    run = await house.start(text, "Go")
    await house.output(run)
    events = [event for event in await house.runs.watch.events(run) if event.type.startswith("tool.")]
    told = [(event.type, event.address.rpartition(";")[2], event.data.tool) for event in events]
    assert told == [
        ("tool.called", "tool:writer:1", "agent:writer"),
        ("tool.failed", "tool:writer:1", "agent:writer"),
        ("tool.failed", "tool:look_up:2", "look_up"),
    ]


@pytest.mark.slow
async def test_a_planner_that_never_finishes_stops_at_max_loops(house: Harness) -> None:
    text = planned(house, *(turn(call("run_agent", agent="writer", input=f"{n}")) for n in range(9)))
    run = await house.start(text, "Go")
    assert (await house.result(run)).error.type == "max_turns"


async def test_commands_behind_finish_are_not_done(house: Harness) -> None:
    word = {"folder": str(house.folder), "word": "late"}
    text = planned(house, turn(call("finish", output="end"), call("run_agent", agent="look_up", input=word)))
    assert await house.output(await house.start(text, "Go")) == "end after 1"
    assert calls(house.folder, "look_up-late") == 0


@pytest.mark.slow
async def test_pausing_a_run_pauses_its_agents(house: Harness) -> None:
    turns = [turn(call("request_user_info", question="Go?")), look(house, "w"), DONE]
    run = await house.start(agent(house, turns, tools=["look_up"], human=["ask"]), "Go")
    question = await house.one(run)
    await house.runs.control.pause(run)

    async def paused() -> bool:
        return (await house.runs.tree.view(question.owner)).status == "paused"

    await until(paused)
    await house.answer(run, "yes", question)
    assert calls(house.folder, "look_up-w") == 0
    await house.runs.control.resume(run)
    assert await house.output(run) == "done: w 1"


@pytest.mark.slow
async def test_what_is_told_before_finish_is_heard(house: Harness) -> None:
    asks = turn(call("ask_human", question="Go?"), call("finish", output="first"))
    again = turn(call("finish", output="{{ messages[-1].content }}"))
    run = await house.start(planned(house, asks, again), "Go")
    question = await house.one(run)
    await house.runs.control.tell(run, "Use the train.")
    await house.answer(run, "yes", question)
    assert await house.output(run) == "Use the train. after 2"


@pytest.mark.slow
async def test_what_people_said_stays_when_old_turns_are_dropped(house: Harness) -> None:
    rule = {"strategy": "truncate_turns", "max_turns": 1, "keep_turns": 1}
    ask = turn(call("request_user_info", question="Go?"))
    said = "{% for m in messages if m.role == 'user' %}{{ m.content }}|{% endfor %}"
    turns = [ask, look(house, "a"), look(house, "b"), said]
    text = agent(house, turns, tools=["look_up"], human=["ask"], history_management=rule)
    run = await house.start(text, "Go")
    question = await house.one(run)
    await house.runs.control.tell(run, "NEVER use the expensive one.")
    await house.answer(run, "yes", question)
    left_out = "(2 earlier turns of this conversation were left out, as it had become too long.)"
    assert await house.output(run) == f"Go|NEVER use the expensive one.|{left_out}|"
    assert await shortened(house, run) == [(1, "rule", False), (1, "rule", False)]


@pytest.mark.slow
@pytest.mark.parametrize("content", ["x" * 3_000_000, {"lines": ['"quoted"'] * 300_000}, "é" * 3_000_000])
def test_one_huge_result_is_cut_before_a_turn_is_dropped(content: Any) -> None:
    before = conversation(4)
    huge = Message(role="tool", tool="web", content=content)
    kept = talk.shorten_to_limit([*before, Message(role="assistant", content="look"), huge])
    assert kept[: len(before)] == before
    assert 700_000 < talk.measure_size(kept) <= talk.MOST_BYTES
