"""Scripted replies are counted by step over iterations, turns, child workflows, restarts and continue-as-new."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

import tests.interrupting  # noqa: F401 registers the tools
from tests.conftest import Harness

MODEL = "scripted:replies.yaml"


def asks(question: str) -> dict[str, Any]:
    return {"tool_calls": [{"name": "request_user_info", "args": {"question": question}}]}


def hands_to(agent: str, count: int = 1) -> dict[str, Any]:
    return {"tool_calls": [{"name": agent, "args": {"input": "go"}}] * count}


def looped(rounds: int, *body: dict[str, Any], name: str = "l", **loop: Any) -> dict[str, Any]:
    output = "{{ context.said | join(' ') }}"
    block = {"max_loops": rounds, "body": list(body), "output_template": output, **loop}
    return {"kind": "loop", "name": name, "loop": block}


def keeps(step: str) -> dict[str, Any]:
    """A step that keeps what another gave."""
    return {"name": f"keep-{step}", "input": f"{{{{ context.said + [steps['{step}'].output] }}}}", "sink_to": "said"}


async def output(house: Harness, replies: dict[str, Any], agents: dict[str, Any], *steps: dict[str, Any]) -> Any:
    house.script(yaml.safe_dump(replies))
    known = {name: {"model": MODEL, **agent} for name, agent in agents.items()}
    text = yaml.safe_dump({"context": {"said": []}, "agents": known, "steps": list(steps)})
    return await house.output(await house.start(text, "Go"))


BOSS = {"name": "boss", "agent": "boss"}
TOOLS = {"tools": ["agent:helper"]}


@pytest.mark.slow
async def test_an_agent_with_tools_goes_on_in_the_next_iteration(house: Harness) -> None:
    replies = {"boss": [hands_to("helper"), "w1", "w2", hands_to("helper"), "w3"], "helper": ["h1", "h2"]}
    loop = looped(3, BOSS, keeps("boss"), checkpoint_every=1)
    assert await output(house, replies, {"boss": TOOLS, "helper": {}}, loop) == "w1 w2 w3"


@pytest.mark.slow
async def test_a_nested_agent_counts_on_over_iterations_and_calls(house: Harness) -> None:
    last = "{{ messages[-1].content }}"
    replies = {"boss": [hands_to("helper"), last] * 3, "helper": ["h1", "h2", "h3"]}
    loop = looped(3, BOSS, keeps("boss"), checkpoint_every=1)
    assert await output(house, replies, {"boss": TOOLS, "helper": {}}, loop) == "h1 h2 h3"


async def test_calls_of_one_turn_begin_with_the_same_reply(house: Harness) -> None:
    both = "{{ messages[-2].content }}{{ messages[-1].content }}"
    then = "{{ messages[-1].content }}"
    replies = {"boss": [hands_to("helper", 2), both, hands_to("helper"), then], "helper": ["h1", "h2", "h3"]}
    loop = looped(2, BOSS, keeps("boss"))
    assert await output(house, replies, {"boss": TOOLS, "helper": {}}, loop) == "h1h1 h2"


@pytest.mark.slow
async def test_the_run_counts_on_after_a_loop_and_in_the_next(house: Harness) -> None:
    replies = {"say": ["a", "b", "c", "d", "e"]}
    say = {"name": "say", "agent": "boss"}
    inner = looped(2, say, keeps("say"), name="inner")
    outer = looped(2, inner, name="outer", checkpoint_every=1)
    assert await output(house, replies, {"boss": {}}, outer) == "a b c d"


async def test_each_branch_counts_by_itself_and_over_iterations(house: Harness) -> None:
    say = {"name": "say", "agent": "boss"}
    sides = {"kind": "parallel", "name": "sides", "branches": {"left": say, "right": say}, "reduce": "values"}
    loop = looped(2, sides, keeps("sides"), output_template="{{ context.said }}", checkpoint_every=1)
    assert await output(house, {"say": ["a", "b"]}, {"boss": {}}, loop) == [["a", "a"], ["b", "b"]]


@pytest.mark.slow
async def test_each_item_counts_by_itself_in_pages_and_over_iterations(house: Harness) -> None:
    say = {"name": "say", "agent": "boss"}
    each = {"kind": "map", "name": "each", "map": {"iterable_input": "range(51)", "max_concurrency": 5, "body": [say]}}
    loop = looped(2, each, keeps("each"), output_template="{{ context.said }}", checkpoint_every=1)
    assert await output(house, {"say": ["a", "b"]}, {"boss": {}}, loop) == [["a"] * 51, ["b"] * 51]


@pytest.mark.slow
async def test_what_failed_is_counted_when_it_is_run_again(house: Harness) -> None:
    replies = {"boss": [{"expect": "never said"}, {"expect": "never said"}, "third"]}
    house.script(yaml.safe_dump(replies))
    step = {**BOSS, "on_error": "ask"}
    text = yaml.safe_dump({"agents": {"boss": {"model": MODEL, "human": ["ask"]}}, "steps": [step]})
    run = await house.start(text, "Go")
    await house.answered(run, {"action": "retry"}, {"action": "retry"})
    assert await house.output(run) == "third"


@pytest.mark.slow
async def test_an_import_counts_by_itself(house: Harness) -> None:
    house.script(yaml.safe_dump({"steps": [{"name": "say", "agent": {"model": MODEL}}]}), "inner.yaml")
    house.script(yaml.safe_dump({"say": ["a", "b", "c"]}))
    say = {"name": "say", "agent": {"model": MODEL}}
    inner = {"name": "again", "uses": "imports.inner"}
    steps = [say, looped(2, inner, keeps("again"))]
    text = yaml.safe_dump({"context": {"said": []}, "imports": {"inner": "inner.yaml"}, "steps": steps})
    assert await house.output(await house.start(text)) == "a b"
