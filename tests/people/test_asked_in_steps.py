"""The `assignees` of a step: who may answer what its tool, its graph, its agent or its clarification asks."""

from __future__ import annotations

import pytest

import tests.interrupting  # noqa: F401 registers the tools
from holdfast.blueprint.errors import BlueprintError
from holdfast.blueprint.load import loads
from holdfast.protocol.answers import Answer, Refusal
from holdfast.protocol.questions import Question
from tests.conftest import Harness

ANA = "assignees: [user:ana]"
TOOL = "steps: [{name: book, uses: book, input: {folder: '%s', flight: LH1}, %s}]"
GRAPH = "steps: [{name: graph, uses: \"tests.graphs:asking\", input: {folder: '%s', log: []}, %s}]"
AGENT = """
agents: {clerk: {model: "scripted:replies.yaml", human: [ask], tools: [imports.inner]}}
imports: {inner: inner.yaml}
steps: [{name: help, agent: clerk, input: Go, assignees: "{{ context.owners }}"}]
context: {owners: [user:ana, 'group:leads']}
"""
CLARIFY = """
steps:
  - {kind: clarify, name: brief, goal: A brief, confirm: true, assignees: ["user:{{ input }}"],
     schema: {type: object, required: [who], properties: {who: {type: string, description: "Who?"}}}}
"""
PLANNER = """
steps:
  - {kind: agentic_loop, name: direct, input: Go, assignees: [user:ana], planner: {model: "scripted:replies.yaml"},
     registry: [{name: book, approve: always}]}
"""
RUN_TOOL = "{name: run_agent, args: {agent: book, input: {folder: x, flight: LH1}}}"
REPLIES = "[{tool_calls: [{name: %s, args: %s}]}, done]"


async def asked(house: Harness, text: str) -> Question:
    return await house.one(await house.start(text))


@pytest.mark.slow
@pytest.mark.parametrize("text", [TOOL, GRAPH])
async def test_a_tool_and_a_graph_ask_those_whom_the_step_names(house: Harness, text: str) -> None:
    question = await asked(house, text % (house.folder, ANA))
    assert question.assignees == ["user:ana"]
    with pytest.raises(Refusal) as caught:
        await house.answer(question.run, "12A", question, by="user:bob")
    assert caught.value.code == "not_allowed"
    await house.answer(question.run, "12A", question, by="user:ana")
    await house.output(question.run)


async def test_what_an_agent_asks_goes_to_those_of_its_step(house: Harness) -> None:
    (house.folder / "inner.yaml").write_text("steps: [{kind: hitl, name: ask, message: Well?}]")
    house.script(REPLIES % ("request_user_info", '{question: "Which way?"}'))
    question = await asked(house, AGENT)
    assert (question.message, question.assignees) == ("Which way?", ["user:ana", "group:leads"])


async def test_a_clarification_asks_those_whom_it_names_and_has_them_confirm(house: Harness) -> None:
    run = await house.start(CLARIFY, "ana")
    question = await house.one(run)
    assert (question.message, question.assignees) == ("Who?", ["user:ana"])
    await house.answer(run, "editors", question, by="user:ana")
    confirmation = await house.one(run)
    assert (confirmation.kind, confirmation.assignees) == ("review", ["user:ana"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("reply", "kind"), [("{name: ask_human, args: {question: Well?}}", "clarification"), (RUN_TOOL, "permission")]
)
async def test_a_planner_asks_those_whom_its_step_names(house: Harness, reply: str, kind: str) -> None:
    house.script(f"[{{tool_calls: [{reply}]}}]")
    question = await asked(house, PLANNER)
    assert (question.kind, question.assignees) == (kind, ["user:ana"])


async def test_an_imported_blueprint_says_itself_whom_it_asks(house: Harness) -> None:
    (house.folder / "inner.yaml").write_text(TOOL % (house.folder, "retry: {attempts: 1}"))
    house.script(REPLIES % ("inner", "{input: x}"))
    question = await asked(house, AGENT)
    assert (question.message, question.assignees) == ("Which seat on LH1?", [])


@pytest.mark.parametrize(
    ("step", "problem"),
    [
        (f"{{name: a, {ANA}}}", "steps[0].assignees: conflict: 'assignees' belongs to steps that run an agent"),
        (f"{{name: a, uses: stringify, {ANA}}}", "steps[0].assignees: conflict"),
        ("{name: a, uses: search, assignees: [ana]}", "steps[0].assignees[0]: bad_value: 'ana' is neither a user"),
        ("{name: a, uses: search, assignees: user:ana}", "steps[0].assignees: bad_value: assignees must be a list"),
    ],
)
def test_a_list_that_names_nobody_is_found_before_the_start(step: str, problem: str) -> None:
    with pytest.raises(BlueprintError) as caught:
        loads(f"steps: [{step}]")
    [found] = caught.value.problems
    assert f"{found.path}: {found.code}: {found.message}".startswith(problem)


FAILING = "steps: [{name: a, uses: 'tests.language.functions:halved', input: 'x', on_error: ask, %s}]"
BUILT_IN = "steps: [{name: a, uses: stringify, input: '{{ 1 / 0 }}', on_error: ask, %s}]"
ABORT = {"action": "abort"}


@pytest.mark.parametrize("text", [FAILING, BUILT_IN])
async def test_what_to_do_about_a_failure_is_asked_of_those_of_the_step(house: Harness, text: str) -> None:
    question = await asked(house, text % ANA)
    assert (question.asked.kind, question.assignees) == ("judgement", ["user:ana"])
    with pytest.raises(Refusal, match="user:bob may not answer it"):
        await house.answer(question.run, ABORT, question, by="user:bob")
    await house.answer(question.run, {"action": "skip", "value": "7"}, question, by="user:ana")
    assert await house.output(question.run) == "7"


async def test_who_may_not_give_a_permission_may_not_skip_it_after_it_was_declined(house: Harness) -> None:
    rules = "assignees: [user:ana, user:bob, user:eve], not_by: [user:eve], quorum: 2"
    run = await house.start(f"steps: [{{kind: hitl, name: pay, message: Pay?, {rules}, on_error: ask}}]")
    first = await house.one(run)
    await house.runs.answer(run, [Answer(question=first.id, action="decline")], by="user:ana")
    question = await house.one(run)
    assert (question.assignees, question.not_by, question.quorum) == (first.assignees, first.not_by, 2)
    with pytest.raises(Refusal, match="user:eve may not answer it"):
        await house.answer(run, ABORT, question, by="user:eve")
    skip = {"action": "skip", "value": "yes"}
    assert (await house.answer(run, skip, question, by="user:ana")).status == "waiting_quorum"
    await house.answer(run, skip, question, by="user:bob")
    assert await house.output(run) == "yes"


async def test_nobody_is_asked_about_a_failure_where_those_who_may_decide_are_unknown(house: Harness) -> None:
    run = await house.start(FAILING % "assignees: '{{ input }}'", ["nobody"])
    error = (await house.result(run)).error
    assert error is not None
    assert (error.type, "question.asked" in await house.types(run)) == ("bad_assignees", False)


@pytest.mark.slow
async def test_a_default_that_came_out_as_no_answer_fails_the_step_before_anybody_is_asked(house: Harness) -> None:
    run = await house.start(
        "steps: [{kind: hitl, name: colour, message: Which?, ask: decision, options: [red, green], timeout: 9d, "
        "on_timeout: default, default: '{{ input }}'}]",
        "blue",
    )
    error = (await house.result(run)).error
    assert error is not None and error.type == "bad_default"
