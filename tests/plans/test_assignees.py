"""Who is asked by a plan: the assignees of the plan, and those of a step, under both drivers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast.blueprint.errors import BlueprintError
from holdfast.blueprint.kinds import PlanBody
from holdfast.blueprint.load import loads
from holdfast.blueprint.load.plans import read_plan
from holdfast.protocol.answers import Refusal
from tests.plans import plan_tools  # noqa: F401 (registers the tools)
from tests.plans.conftest import DRIVERS, Plans, advance, ask, begin, call, finish, loop, says, step

Json = dict[str, Any]
SALES, ANA, BOB = {"assignees": ["group:sales"]}, {"assignees": ["user:ana"]}, {"assignees": ["user:bob"]}
PAYER = {"model": "scripted:replies.yaml", "human": ["approve"]}


def read(steps: list[Json], author: PlanBody, **how: Any) -> PlanBody:
    return read_plan({"goal": "x", "steps": steps}, author, {}, **how)


def written(*steps: Json) -> PlanBody:
    return PlanBody.model_validate({"goal": "x", "steps": list(steps)})


@pytest.mark.slow
@pytest.mark.parametrize("driver", DRIVERS)
async def test_a_question_goes_to_those_of_its_step_else_of_the_plan(plans: Plans, driver: str) -> None:
    steps = [step("1", "ASK_INFO: One?", **ANA), step("2", "ASK_INFO: Two?", dependencies=["1"])]
    script = {"plan": [ask("One?"), finish("1"), ask("Two?"), finish("2")]}
    run = await plans.start({**SALES, "steps": steps, "driver": driver}, script)
    question = await plans.harness.one(run)
    assert question.assignees == ["user:ana"]
    with pytest.raises(Refusal, match="user:bob may not answer it"):
        await plans.harness.answer(run, "yes", question, by="user:bob")
    await plans.harness.answer(run, "yes", question, by="user:ana")
    assert (await plans.harness.one(run)).assignees == ["group:sales"]


@pytest.mark.slow
@pytest.mark.parametrize("driver", DRIVERS)
async def test_in_a_loop_they_are_the_same(plans: Plans, driver: str) -> None:
    blocks = {"all": loop(["a"], "1", "2")}
    steps = [step("1", "ASK_INFO: One?"), step("2", "ASK_INFO: Two?", dependencies=["1"], **ANA)]
    script = {"plan": [begin("all"), ask("One?"), finish("1"), ask("Two?"), finish("2"), advance("all")]}
    run = await plans.start({**BOB, "steps": steps, "loop_blocks": blocks, "driver": driver}, script)
    question = await plans.harness.one(run)
    assert question.assignees == ["user:bob"]
    await plans.harness.answer(run, "yes", question, by="user:bob")
    assert (await plans.harness.one(run)).assignees == ["user:ana"]


@pytest.mark.parametrize("driver", DRIVERS)
async def test_the_approval_of_a_tool_goes_to_those_of_its_step(plans: Plans, driver: str) -> None:
    steps = [step("1", "Send", tools=["plan_send"], agent=PAYER, **ANA)]
    script = {"plan": [plans.runs("1", "plan_send", to="a"), finish("1")], "1": plans.wants("plan_send", to="a")}
    question = await plans.harness.one(await plans.start({**SALES, "steps": steps, "driver": driver}, script))
    assert (question.kind, question.assignees) == ("permission", ["user:ana"])


@pytest.mark.slow
async def test_an_agent_of_a_step_asks_those_of_the_step(plans: Plans) -> None:
    steps = [step("1", "Find out", agent={"model": "scripted:replies.yaml", "human": ["ask"]}, **ANA)]
    script = {"1": [ask("Which way?"), "done"]}
    question = await plans.harness.one(await plans.start({**SALES, "steps": steps}, script))
    assert (question.message, question.assignees) == ("Which way?", ["user:ana"])


@pytest.mark.slow
async def test_the_approval_of_a_plan_goes_to_those_of_the_step_that_runs_it(plans: Plans) -> None:
    plan = {"from": "{{ input.plan }}", "confirm": True, "agent": "clerk"}
    step_ = {"kind": "plan", "name": "work", "assignees": "{{ input.owners }}", "plan": plan}
    text = json.dumps({"agents": {"clerk": {"model": "echo"}}, "steps": [step_]})
    given = {"owners": ["user:ana"], "plan": {"goal": "x", "steps": [step("1", "ASK_INFO: Who?")]}}
    run = await plans.harness.start(text, given)
    review = await plans.harness.one(run)
    assert (review.kind, review.assignees) == ("review", ["user:ana"])
    await plans.harness.answer(run, {"verdict": "unchanged"}, review, by="user:ana")
    assert (await plans.harness.one(run)).assignees == ["user:ana"]


@pytest.mark.slow
async def test_an_agent_that_leaves_the_assignees_out_of_its_change_keeps_them(plans: Plans) -> None:
    first, second = step("1"), step("2", "Send", tools=["plan_send"], agent=PAYER, dependencies=["1"])
    changed = {"goal": "A test", "steps": [first, {**second, "title": "Mail"}, step("3")]}
    turns = [call("update_plan", new_plan=changed, reason="more"), finish("1"), plans.runs("2", "plan_send", to="a")]
    run = await plans.start({"steps": [first, {**second, **ANA}], "driver": "agent"}, {"plan": turns, **says("1")})
    question = await plans.harness.one(run)
    assert (question.kind, question.assignees) == ("permission", ["user:ana"])


def test_who_is_asked_stays_as_the_author_wrote_it() -> None:
    author = written(step("1", **ANA))
    assert read([step("1", "Something else")], author).steps[0].assignees == ["user:ana"]
    with pytest.raises(BlueprintError, match=r"steps\[0\].assignees: the blueprint decides who is asked"):
        read([step("1", **BOB)], author)


def test_a_person_may_say_who_is_asked_where_the_author_did_not_but_a_model_may_not() -> None:
    author = PlanBody(source="{{ input }}")
    plan = read([step("1", **BOB)], author)
    assert plan.steps[0].assignees == ["user:bob"]
    for current in (None, plan):
        with pytest.raises(BlueprintError, match=r"steps\[0\].assignees: .* decides who is asked"):
            read([step("1", **ANA)], author, by_model=True, current=current)
    assert read([step("1")], author, by_model=True, current=plan).steps == plan.steps


def test_a_plan_that_is_read_does_not_say_whom_all_of_it_asks() -> None:
    with pytest.raises(BlueprintError, match="'assignees' belongs in the blueprint"):
        read_plan({"goal": "x", "steps": [step("1")], **ANA}, PlanBody(source="{{ input }}"), {})


@pytest.mark.parametrize(
    ("more", "path", "message"),
    [
        ({"assignees": ["ana"]}, "steps[0].assignees[0]", "'ana' is neither a user nor a group"),
        ({"assignees": ["user:CURRENT_ITEM"]}, "steps[0].assignees[0]", "in which nothing is filled in"),
        ({"assignees": ["user:{{ input }}"]}, "steps[0].assignees[0]", "in which nothing is filled in"),
    ],
)
def test_what_names_nobody_is_found_before_the_start(more: Json, path: str, message: str) -> None:
    with pytest.raises(BlueprintError) as caught:
        loads(json.dumps({"goal": "x", "steps": [step("1", **more)]}))
    [found] = caught.value.problems
    assert (found.path, message in found.message) == (path, True)


@pytest.mark.slow
def test_a_mistake_in_those_of_the_plan_is_found_at_its_place_in_the_file() -> None:
    with pytest.raises(BlueprintError) as caught:
        loads(json.dumps({"goal": "x", "assignees": ["ana"], "steps": [step("1")]}))
    assert [found.path for found in caught.value.problems] == ["assignees[0]"]
