"""A run that goes on from another one becomes a test of its blueprint, with what it met."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import yaml

from holdfast.blueprint.core import write_yaml
from holdfast.blueprint.json_values import JSONObject
from holdfast.client.case_recorder import CaseRecorder
from holdfast.runtime.config import load_config
from holdfast.runtime.errors import BadInput
from holdfast.testkit.environment import TestEnvironment
from holdfast.testkit.files import read_cases
from holdfast.testkit.running import run_case
from tests.conftest import Harness
from tests.past.runs import ASK, mend, pay, retry
from tests.testkit.conftest import stage

__all__ = ["stage"]


def write(house: Harness, rounds: int) -> str:
    """Return a blueprint with an agent, a question and a payment in each of so many rounds, and a step that fails."""
    called = {"tool_calls": [{"name": "look_up", "args": {"folder": str(house.folder), "word": "tea"}}]}
    house.script(yaml.safe_dump({"boss": [called, "done"]}))
    tell: dict[str, Any] = {"name": "tell", "agent": "boss", "input": "Go."}
    inner = [{**ASK, "message": "Pay round {{ iteration }}?"}, pay(house.folder, "ana"), tell]
    loop = {"kind": "loop", "name": "l", "loop": {"max_loops": rounds, "body": inner, "checkpoint_every": 2}}
    boss = {"model": "scripted:replies.yaml", "tools": ["look_up"]}
    last = pay(house.folder, "eve", "last")
    return yaml.safe_dump(
        {"agents": {"boss": boss}, "steps": [{**ASK, "name": "first"}, loop, mend(house.folder), last]}
    )


async def check(house: Harness, stage: TestEnvironment, run: str, text: str) -> JSONObject:
    """Record a run, check that the test passes, and return it."""
    (house.folder / "written.yaml").write_text(text)
    recorded = await CaseRecorder(house.runs.tree, await house.runs.state(run)).record("as in the run")
    file = house.folder / "written.test.yaml"
    file.write_text(write_yaml({"blueprint": "written.yaml", "tests": [recorded.case]}))
    cases = read_cases(file, load_config(house.folder))
    assert (await run_case(stage, replace(cases, path=file), cases.cases[0])).differences == []
    return recorded.case


@pytest.mark.slow
@pytest.mark.parametrize("rounds", [1, 3])
async def test_a_retry_and_its_fork_become_tests(house: Harness, stage: TestEnvironment, rounds: int) -> None:
    """With three rounds the loop has continued as new: the retry begins with its state."""
    (house.folder / "broken").touch()
    text = write(house, rounds)
    run = await house.start(text)
    await house.answered(run, *[{"granted": True}] * (rounds + 1))
    assert (await house.result(run)).status == "failed"
    retried = await retry(house, run)
    await house.output(retried)
    case = await check(house, stage, retried, text)
    assert len(case["answers"]) == len(case["expect"]["questions"]) == rounds + 1
    forked = await house.runs.fork(retried, "last")
    house.started.append(forked.run)
    await house.output(forked.run)
    again = await check(house, stage, forked.run, text)
    assert {**again, "name": ""} == {**case, "name": ""}


async def test_a_fork_with_changed_values_becomes_no_test(house: Harness) -> None:
    run = await house.start("context: {tone: warm}\nsteps: [{name: a}, {name: b, input: '{{ context }}'}]")
    await house.output(run)
    forked = await house.runs.fork(run, "b", changes={"tone": "dry"})
    house.started.append(forked.run)
    await house.output(forked.run)
    with pytest.raises(BadInput, match="values changed at"):
        await CaseRecorder(house.runs.tree, await house.runs.state(forked.run)).record("x")


@pytest.mark.slow
async def test_what_was_called_in_the_workflow_s_own_task_is_recorded(house: Harness, stage: TestEnvironment) -> None:
    """Of such calls the history has no request."""
    kept = {"kind": "cache", "name": "kept", "ttl": "1d", "wrapped_step": {"name": "inner", "input": "x"}}
    say = {"name": "say", "agent": {"model": "echo"}, "input": "{{ iteration }}"}
    loop = {"kind": "loop", "name": "l", "loop": {"max_loops": 2, "body": [say]}}
    text = yaml.safe_dump({"steps": [kept, loop]})
    run = await house.start(text)
    await house.output(run)
    assert (await check(house, stage, run, text))["model"] == {"say": [{"output": 1}, {"output": 2}]}
