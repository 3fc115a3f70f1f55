"""Blueprints written for Flujo: each spelling runs, or is refused at its place with the way to write it here."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from holdfast.blueprint.errors import BlueprintError, Problem
from holdfast.blueprint.load import loads
from tests.conftest import Harness


def problems(text: str) -> list[Problem]:
    with pytest.raises(BlueprintError) as caught:
        loads(text)
    return caught.value.problems


@pytest.mark.parametrize(
    ("step", "uses"),
    [
        ("agent: flujo.builtins.stringify", "stringify"),
        ("agent: 'my_tools:search'", "my_tools:search"),
        ("agent: 'pkg.mod:function'", "pkg.mod:function"),
        ("agent: {id: flujo.builtins.flatten, params: {}}", "flatten"),
    ],
)
def test_what_an_agent_names_may_be_a_function_or_a_built_in(step: str, uses: str) -> None:
    [read] = loads(f"steps: [{{name: s, {step}}}]").steps
    assert (read.uses, read.agent) == (uses, None)


def test_the_config_of_a_step_is_its_timeout_and_retry() -> None:
    config = "config: {timeout_s: 30, max_retries: 2}"
    [read] = loads(f"steps: [{{name: s, uses: 'pkg.mod:f', {config}}}]").steps
    assert (read.timeout, read.retry.attempts, read.config) == (30, 3, None)


async def test_outputs_of_an_import_may_be_a_list(house: Harness) -> None:
    (house.folder / "child.yaml").write_text("steps: [{name: a, input: yes, sink_to: said.word}]")
    outputs = [{"child": "said.word", "parent": "heard.word"}]
    step = {"name": "i", "uses": "imports.child", "config": {"outputs": outputs}}
    run = await house.start(yaml.safe_dump({"imports": {"child": "./child.yaml"}, "steps": [step]}))
    assert (await house.result(run)).context == {"heard": {"word": "yes"}}


@pytest.mark.parametrize("answer", ["yes", "no"])
async def test_a_built_in_may_be_a_condition(house: Harness, answer: str) -> None:
    step = {
        "kind": "conditional",
        "name": "c",
        "condition": "flujo.builtins.check_user_confirmation_sync",
        "branches": {"approved": [{"name": "a", "input": "did"}], "denied": [{"name": "d", "input": "left"}]},
    }
    run = await house.start(yaml.safe_dump({"steps": [step]}), answer)
    assert await house.output(run) == {"yes": "did", "no": "left"}[answer]


@pytest.mark.parametrize(
    ("uses", "value", "context"),
    [("context_set", 99, {"kept": {"n": 99}}), ("context_merge", {"a": 1}, {"kept": {"n": {"a": 1}}})],
)
async def test_a_built_in_that_writes_writes_once(
    house: Harness, uses: str, value: Any, context: dict[str, Any]
) -> None:
    agent, input_ = {"id": f"flujo.builtins.{uses}"}, {"path": "kept.n", "value": value}
    step = {"name": "s", "agent": agent, "input": input_, "updates_context": True}
    assert (await house.result(await house.start(yaml.safe_dump({"steps": [step]})))).context == context


@pytest.mark.parametrize(
    ("text", "path", "hint"),
    [
        ("steps: [{name: s, agent: {id: search, params: {n: 1}}}]", "steps[0].agent.params", "arguments:"),
        ("steps: [{name: s, uses: 'p:f', config: {max_retries: many}}]", "steps[0].config.max_retries", "retry:"),
        ("steps: [{name: s, uses: 'p:f', config: {temperature: 0}}]", "steps[0].config.temperature", "settings:"),
        ("steps: [{name: Two words}]", "steps[0].name", "'Two-words'"),
        ("name: A Test\nsteps: [{name: s}]", "name", "'A-Test'"),
    ],
)
def test_what_is_said_in_another_way_here_is_told(text: str, path: str, hint: str) -> None:
    [problem] = problems(text)
    assert (problem.path, hint in str(problem.hint)) == (path, True)
    assert problem.line > 0


@pytest.mark.parametrize(
    ("config", "path", "hint"),
    [
        ("{input_to: initial_prompt}", "input_to", "`input:`"),
        ("{outputs: [{child: a}]}", "outputs[0]", "outputs: {child.path: parent.path}"),
        ("{max_retries: 1}", "max_retries", "`retry`"),
    ],
)
def test_what_the_config_of_an_import_does_not_have_is_told(config: str, path: str, hint: str) -> None:
    child = "imports: {c: {steps: [{name: a}]}}"
    [problem] = problems(f"{child}\nsteps: [{{name: s, uses: imports.c, config: {config}}}]")
    assert (problem.path, hint in str(problem.hint)) == (f"steps[0].config.{path}", True)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("steps: [{name: s, meta: {x: 1}}]", "remove it"),
        ("steps: [{name: s, compensate: b}]", "undo: {uses: TOOL}"),
        ("steps: [{kind: StateMachine, name: m}]", "'states'"),
        ("steps: [{name: s, input: '{{#if x}}y{{/if}}'}]", "{% if"),
        ("steps:\n  - {name: s, input: 'x' y: z}", "commas separate values"),
    ],
)
def test_what_has_no_like_here_gets_a_way_out(text: str, hint: str) -> None:
    with pytest.raises(BlueprintError) as caught:
        loads(text)
    assert hint in str(caught.value.problems[0].hint)
