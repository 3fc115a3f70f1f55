"""A run becomes a test of its blueprint, which passes at once: tests of every example are runs to try it on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from temporalio.exceptions import ApplicationError

from holdfast import Interrupt, resumed, tool
from holdfast.blueprint.core import write_yaml
from holdfast.client.case_recorder import STAND_IN, CaseRecorder, RecordedCase
from holdfast.client.runs import Runs
from holdfast.client.states import RunState
from holdfast.runtime.config import load_config
from holdfast.testkit.environment import TestEnvironment
from holdfast.testkit.files import Case, CaseFile, read_cases
from holdfast.testkit.matching import Difference
from holdfast.testkit.running import run_case
from tests.repository import EXAMPLES
from tests.testkit.conftest import Desk

FILES = [path.with_name(f"{path.stem}.test.yaml") for path in EXAMPLES]


async def record(stage: TestEnvironment, file: CaseFile, case: Case) -> RecordedCase:
    """Run a test, and return its run as another one."""
    recorded: list[RecordedCase] = []

    async def observe(runs: Runs, state: RunState) -> None:
        if state.status != "running" or (case.status == "waiting" and [*state.questions, *state.events]):
            recorded.append(await CaseRecorder(runs.tree, state).record("as in the run"))

    assert (await run_case(stage, file, case, observer=observe)).passed
    return recorded[-1]


async def run_recorded(
    stage: TestEnvironment, file: CaseFile, recorded: RecordedCase, folder: Path
) -> list[Difference]:
    """Write a recorded run into a file beside the blueprint, and return what the test does not find."""
    written = folder / "written.test.yaml"
    named = {"blueprint": str(file.path.with_name(file.path.name.replace(".test.yaml", ".yaml")))}
    if not Path(named["blueprint"]).exists():
        named = {"blueprint": named["blueprint"].replace(".yaml", ".json")}
    written.write_text(write_yaml({**named, "tests": [recorded.case]}))
    again = read_cases(written, load_config(file.path.parent))
    result = await run_case(stage, replace(again, path=file.path), again.cases[0])
    return result.differences


@pytest.mark.slow
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name.removesuffix(".test.yaml"))
async def test_a_run_of_an_example_becomes_a_test_that_passes(
    stage: TestEnvironment, path: Path, tmp_path: Path
) -> None:
    file = read_cases(path, load_config(path.parent))
    # The last that ends in each way; the first that completes is recorded, and run again in parts, where it is forked.
    cases = {case.status: case for case in file.cases if case.status != "cancelled"}
    for case in cases.values():
        recorded = await record(stage, file, case)
        assert (case.name, await run_recorded(stage, file, recorded, tmp_path)) == (case.name, [])


DESK = """
agents: {writer: {model: "scripted:replies.yaml", instructions: Write.}}
steps:
  - kind: map
    name: each
    map: {iterable_input: "[1, 2]", max_concurrency: 2, body: [{name: write, agent: writer, input: "{{ item }}"}]}
  - {name: note, uses: shout, input: "{{ steps.each.output[0] }}"}
  - {kind: hitl, name: key, ask: secret, message: The key?}
  - {kind: hitl, name: ok, message: "Send {{ steps.note.output }}?", options: [send, drop], assignees: ["user:ana"]}
output: ["{{ steps.note.output }}", "{{ steps.ok.output }}"]
"""
DESK_TEST = """
tests:
  - name: a run
    model: {"*map:each:0*": ["one {{ '{{' }}"], write: [two]}
    tools: {shout: [{arguments: 'one {{', output: ONE}, other]}
    answers: [{question: key, content: hunter2}, {question: ok, content: send, by: user:ana}]
"""


async def test_replies_of_items_are_told_apart_and_secrets_are_not_written(desk: Desk, tmp_path: Path) -> None:
    file = desk.read(DESK_TEST, DESK)
    recorded = await record(desk.stage, file, file.cases[0])
    assert recorded.case["model"] == {
        "pipeline:flow;map:each:0;agent:write": ['one {{ "{{" }}'],
        "pipeline:flow;map:each:1;agent:write": ["two"],
    }
    assert recorded.case["answers"][0] == {"question": "key", "content": STAND_IN, "by": "user:tester"}
    assert recorded.case["expect"]["output"] == ["ONE", "send"]
    assert recorded.notes == ["key: the secret is not written, but 'not-the-secret' in its place"]
    assert "hunter2" not in str(recorded)
    assert await run_recorded(desk.stage, file, recorded, tmp_path) == []


@pytest.mark.slow
async def test_a_tool_that_fails_and_a_run_that_fails_are_found_again(desk: Desk, tmp_path: Path) -> None:
    blueprint = "steps: [{name: say, uses: shout, input: a}]"
    file = desk.read("tests: [{name: a run, tools: {shout: [{error: hoarse}]}, expect: {error: {}}}]", blueprint)
    recorded = await record(desk.stage, file, file.cases[0])
    assert recorded.case["tools"] == {"shout": [{"error": "hoarse"}]}
    assert recorded.case["expect"]["error"] == {"address": "pipeline:flow;step:say"}
    assert await run_recorded(desk.stage, file, recorded, tmp_path) == []


@pytest.mark.slow
async def test_a_call_that_was_lost_is_lost_in_the_test_too(desk: Desk, tmp_path: Path) -> None:
    lost = {"error": "its worker was lost", "type": "outcome_unknown"}
    tests = f"tests: [{{name: a run, tools: {{shout: [{lost}]}}, answers: [{{question: say, content: 'done: A'}}]}}]"
    file = desk.read(tests, "steps: [{name: say, uses: shout, input: a}]")
    recorded = await record(desk.stage, file, file.cases[0])
    assert recorded.case["tools"] == {"shout": [lost]}
    assert await run_recorded(desk.stage, file, recorded, tmp_path) == []


@tool
def ask_and_vanish() -> str:
    """Ask which seat, and be lost once that is known."""
    if not resumed(str).has_data:
        raise Interrupt("Which seat?")
    raise ApplicationError("its worker was lost", type="outcome_unknown", non_retryable=True)


@pytest.mark.slow
async def test_a_call_that_was_lost_after_it_had_asked_is_lost_in_the_test_too(desk: Desk, tmp_path: Path) -> None:
    answers = "[{question: sit, content: 4A}, {question: sit, content: 'done: 4A'}]"
    file = desk.read(f"tests: [{{name: a run, answers: {answers}}}]", "steps: [{name: sit, uses: ask_and_vanish}]")
    recorded = await record(desk.stage, file, file.cases[0])
    assert [answer["content"]["outcome"] for answer in recorded.case["answers"]] == ["done"]
    assert recorded.notes == ["sit: a tool asked people in the middle of its work; the test has only its result"]
    assert await run_recorded(desk.stage, file, recorded, tmp_path) == []


@pytest.mark.slow
async def test_steps_that_need_others_may_be_done_in_another_order(desk: Desk) -> None:
    """As in a run that went on from one that had failed in the first of them."""
    steps = "steps: [{name: a, uses: shout, input: a}, {name: b, uses: shout, input: b}, {name: c, needs: [a, b]}]"
    file = desk.read("tests: [{name: a run, tools: {shout: [A, B]}}]", f"max_parallel: 2\n{steps}")
    recorded = await record(desk.stage, file, file.cases[0])
    assert recorded.case["tools"]["shout"][0].keys() == {"arguments", "output"}
    assert recorded.case["expect"]["calls"] == {"shout": {"contains": ["a", "b"]}}


RACE = """
steps:
  - kind: parallel
    name: race
    until: first
    branches:
      ana: [{kind: hitl, name: ask_ana, message: Ana?}]
      bob: [{kind: hitl, name: ask_bob, message: Bob?}]
"""


async def test_an_acceptance_below_the_quorum_is_told(desk: Desk) -> None:
    text = "steps: [{kind: hitl, name: ask, message: Go?, quorum: 2}]"
    file = desk.read("tests: [{name: one, answers: [{question: ask, content: go}], expect: {status: waiting}}]", text)
    recorded = await record(desk.stage, file, file.cases[0])
    assert recorded.notes == ["ask: 1 of 2 have accepted, which the test leaves out"]


@pytest.mark.slow
async def test_what_the_losers_of_a_race_were_asked_is_told(desk: Desk) -> None:
    file = desk.read("tests: [{name: quick, answers: [{question: ask_ana, content: now}]}]", RACE)
    recorded = await record(desk.stage, file, file.cases[0])
    assert recorded.notes == ["ask_bob: its branch had lost a race, which a test may decide in another way"]
