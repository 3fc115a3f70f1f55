"""Lists whose steps say what they need: what runs when, what each sees, what becomes of writes, failures and skips."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from holdfast.blueprint.core import expand
from holdfast.blueprint.errors import BlueprintError, Problem
from holdfast.blueprint.graph import graph
from holdfast.blueprint.load import loads
from tests.blueprint.flowchart import read_flowchart, unreached
from tests.conftest import Harness, until


def listed(*steps: dict[str, Any], **more: Any) -> str:
    return yaml.safe_dump({"steps": list(steps), **more}, sort_keys=False)


def ask(name: str, *needs: str, **more: Any) -> dict[str, Any]:
    return {"kind": "hitl", "name": name, "message": name, "needs": list(needs), **more}


def step(name: str, *needs: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "needs": list(needs), **more}


async def open_names(house: Harness, run: str, count: int) -> list[str]:
    return [question.message for question in await house.asked(run, count)]


async def answer_to(house: Harness, run: str, message: str, content: Any) -> None:
    async def found() -> Any:
        return [question for question in await house.runs.questions(run) if question.message == message]

    [question] = await until(found)
    await house.answer(run, content, question)


async def test_a_step_starts_when_what_it_needs_has_ended(house: Harness) -> None:
    text = listed(ask("a"), ask("b"), ask("c", "a"), step("d", "b", "c", input="{{ steps.b.output + steps.c.output }}"))
    run = await house.start(text)
    assert await open_names(house, run, 2) == ["a", "b"]
    await answer_to(house, run, "a", "1")
    assert sorted(await open_names(house, run, 2)) == ["b", "c"]
    await answer_to(house, run, "c", "3")
    await answer_to(house, run, "b", "2")
    assert await house.output(run) == "23"


async def test_at_most_so_many_are_under_way_in_written_order(house: Harness) -> None:
    run = await house.start(listed(ask("a"), ask("b"), ask("c"), ask("d", "a"), max_parallel=2))
    assert await open_names(house, run, 2) == ["a", "b"]
    await answer_to(house, run, "a", "1")
    assert sorted(await open_names(house, run, 2)) == ["b", "c"]
    await answer_to(house, run, "b", "2")
    assert sorted(await open_names(house, run, 2)) == ["c", "d"]
    await answer_to(house, run, "d", "4")
    await answer_to(house, run, "c", "3")
    assert await house.output(run) == "4"


async def test_a_step_sees_what_it_needs_however_far_and_the_lists_around(house: Harness) -> None:
    inner = [
        step("a", input="a of {{ steps.before.output }}"),
        step("b", "a", input="{{ previous_step }}, b"),
        step("c", "b", input={"all": "{{ steps }}", "far": "{{ steps.a.output }}"}),
        step("d", input="{{ steps }}"),
        step(
            "e",
            "c",
            "d",
            input=["{{ previous_step.far }}", "{{ previous_step.all.keys() }}", "{{ steps.d.output.keys() }}"],
        ),
    ]
    way = {"kind": "conditional", "name": "way", "condition_expression": "true", "branches": {"true": inner}}
    run = await house.start(listed({"name": "before", "input": "x"}, way))
    far, seen_by_c, seen_by_d = await house.output(run)
    assert far == "a of x"
    assert sorted(seen_by_c) == ["a", "b", "before"]
    assert sorted(seen_by_d) == ["before"]


# The context


async def test_writes_of_steps_under_way_together_are_joined_in_written_order(house: Harness) -> None:
    schema = {"properties": {"notes": {"type": "array", "reduce": "append"}}}
    text = listed(
        ask("a", sink_to="by.a"),
        step("n", "a", input="{{ context.notes + ['n'] }}", sink_to="notes"),
        ask("b", sink_to="by.b"),
        step("m", "b", input="{{ context.notes + ['m'] }}", sink_to="notes"),
        ask("slow"),
        step("end", "n", "m", "slow", input="{{ context }}"),
        context={"notes": ["start"]},
        context_schema=schema,
    )
    run = await house.start(text)
    for name in ("b", "a", "slow"):
        await answer_to(house, run, name, name)
    assert await house.output(run) == {"by": {"a": "a", "b": "b"}, "notes": ["start", "n", "m"]}


async def test_a_step_sees_the_writes_of_what_it_needs_while_others_are_under_way(house: Harness) -> None:
    text = listed(
        ask("slow", sink_to="slow"),
        step("a", input=1, sink_to="n"),
        step("b", "a", input="{{ context.n + 1 }}", sink_to="n"),
        ask("c", "b", message="{{ context.n }}", sink_to="c"),
        context={"n": 0},
    )
    run = await house.start(text)
    assert sorted(await open_names(house, run, 2)) == ["2", "slow"]
    await answer_to(house, run, "2", "y")
    await answer_to(house, run, "slow", "z")
    result = await house.result(run)
    assert (result.output, result.context) == ("y", {"n": 2, "c": "y", "slow": "z"})


async def test_two_that_may_run_at_once_and_change_one_path_are_an_error_that_names_both(house: Harness) -> None:
    run = await house.start(
        listed(step("a", input=1, sink_to="n"), step("b", input=2, sink_to="n"), step("c", "a", "b"))
    )
    error = (await house.result(run)).error
    assert error.type == "context_conflict"
    assert "steps a and b both change n" in error.message


@pytest.mark.slow
async def test_steps_one_at_a_time_share_the_context(house: Harness) -> None:
    steps = [step(name, input="{{ context.n + 1 }}", sink_to="n") for name in ("a", "b")]
    run = await house.start(listed(*steps, step("c", "a", input="{{ context.n }}"), context={"n": 0}, max_parallel=1))
    assert await house.output(run) == 2


@pytest.mark.slow
async def test_answers_are_heard_by_what_needs_them(house: Harness) -> None:
    text = listed(
        ask("a"),
        ask("b"),
        step("c", "a", input="{{ resume_input }}"),
        step("d", "b", "c", input=["{{ steps.c.output }}", "{{ resume_input }}"]),
    )
    run = await house.start(text)
    await answer_to(house, run, "a", "1")
    await answer_to(house, run, "b", "2")
    assert await house.output(run) == ["1", "2"]


# Failures and skips

BOOM = {"input": "{{ 1 / 0 }}"}


async def test_a_failure_ends_the_list_and_what_is_under_way(house: Harness) -> None:
    run = await house.start(listed(ask("a"), step("b", **BOOM), step("c", "b"), step("d", "a", "c")))
    result = await house.result(run)
    assert (result.status, result.error.address) == ("failed", "pipeline:test;step:b")
    assert await house.runs.questions(run) == []


async def test_what_needs_a_failed_step_is_skipped_and_others_go_on(house: Harness) -> None:
    text = listed(
        step("a", **BOOM, on_error="continue"),
        step("b", "a"),
        step("c", "b"),
        step("d", input="d"),
        step("e", "c", "d", input=["{{ steps.c.status }}", "{{ steps.c.output }}", "{{ steps.d.output }}"]),
        output=["{{ steps.a.error.type }}", "{{ steps.b.reason }}", "{{ steps.c.reason }}", "{{ steps.e.output }}"],
    )
    run = await house.start(text)
    told = ["expression_error", "dependency_failed", "dependency_skipped", ["skipped", None, "d"]]
    assert await house.output(run) == told
    skipped = [event.data.reason for event in await house.runs.watch.events(run) if event.type == "step.skipped"]
    assert skipped == ["dependency_failed", "dependency_skipped"]


async def test_branches_that_are_skipped_join_again(house: Harness) -> None:
    text = listed(
        ask("sure", ask="permission"),
        step("pay", "sure", when="steps.sure.output", input="paid"),
        step("drop", "sure", when="not steps.sure.output", input="dropped"),
        step(
            "end", "pay", "drop", input=["{{ steps.pay.reason }}", "{{ steps.drop.output }}", "{{ steps.drop.reason }}"]
        ),
    )
    run = await house.start(text)
    await house.answer(run, {"granted": False})
    assert await house.output(run) == ["condition_false", "dropped", None]


# In bodies and branches, and over continue-as-new


@pytest.mark.first_row
@pytest.mark.parametrize("kind", ["loop", "map", "parallel", "conditional", "import"])
async def test_every_list_may_have_needs(house: Harness, kind: str) -> None:
    body = [step("a", input=1), step("b", input=2), step("c", "a", "b", input="{{ steps.a.output + steps.b.output }}")]
    forms: dict[str, Any] = {
        "loop": {"loop": {"max_loops": 2, "body": body, "max_parallel": 1}},
        "map": {"map": {"iterable_input": [1, 2], "body": body, "max_parallel": 1}},
        "parallel": {"branches": {"x": body}, "reduce": "first", "max_parallel": 1},
        "conditional": {"condition_expression": "true", "branches": {"true": body}, "max_parallel": 1},
    }
    if kind == "import":
        (house.folder / "other.yaml").write_text(listed(*body, max_parallel=1))
        text = listed({"name": "s", "uses": "imports.other"}, imports={"other": "./other.yaml"})
    else:
        text = listed({"kind": kind, "name": "s", **forms[kind]})
    assert await house.output(await house.start(text)) == ([3, 3] if kind == "map" else 3)


@pytest.mark.slow
async def test_a_body_with_needs_goes_on_over_continue_as_new(house: Harness) -> None:
    body = [
        ask("a", message="a{{ iteration }}", sink_to="a"),
        ask("b", message="b{{ iteration }}"),
        step("c", "a", "b", input="{{ context.seen + [steps.a.output ~ steps.b.output] }}", sink_to="seen"),
    ]
    loop = {"kind": "loop", "name": "l", "loop": {"max_loops": 3, "body": body, "checkpoint_every": 1}}
    run = await house.start(listed(loop, context={"seen": []}))
    for number in (1, 2, 3):
        await answer_to(house, run, f"b{number}", f"y{number}")
        await answer_to(house, run, f"a{number}", f"x{number}")
    assert await house.output(run) == ["x1y1", "x2y2", "x3y3"]


@pytest.mark.slow
async def test_a_cancel_ends_what_is_under_way(house: Harness) -> None:
    run = await house.start(listed(ask("a"), ask("b"), ask("c", "a", "b")))
    await house.asked(run, 2)
    await house.runs.control.cancel(run)
    assert (await house.result(run)).status == "cancelled"


@pytest.mark.slow
async def test_nothing_starts_while_the_run_is_paused(house: Harness) -> None:
    run = await house.start(listed(ask("a"), ask("b"), ask("c", "a")))
    await house.asked(run, 2)
    await house.runs.control.pause(run)
    await answer_to(house, run, "a", "1")
    await house.asked(run, 1)
    await house.runs.control.resume(run)
    assert sorted(await open_names(house, run, 2)) == ["b", "c"]
    await answer_to(house, run, "b", "2")
    await answer_to(house, run, "c", "3")
    assert await house.output(run) == "3"


@pytest.mark.slow
async def test_a_person_at_a_stop_changes_what_the_step_and_those_behind_it_see(house: Harness) -> None:
    text = listed(
        ask("a"),
        step("b", input="{{ context.n }}", interrupt_before=True),
        step("c", "b", input="{{ context.n * 2 }}"),
        context={"n": 1},
    )
    run = await house.start(text)
    questions = await house.asked(run, 2)
    await house.answer(run, {"n": 5}, next(question for question in questions if question.message != "a"))
    await answer_to(house, run, "a", "x")
    assert await house.output(run) == 10


@pytest.mark.slow
async def test_two_stops_at_once_each_change_what_their_own_step_sees(house: Harness) -> None:
    text = listed(
        step("a", input="{{ context.a }}", interrupt_before=True),
        step("b", input="{{ context.b }}", interrupt_before=True),
        step("c", "a", "b", input=["{{ steps.a.output }}", "{{ steps.b.output }}", "{{ context }}"]),
        context={"a": 1, "b": 1},
    )
    run = await house.start(text)
    for question in await house.asked(run, 2):
        changed = "a" if "before a" in question.message else "b"
        await house.answer(run, {"a": 1, "b": 1, changed: 5}, question)
    assert await house.output(run) == [5, 5, {"a": 5, "b": 5}]


# For people


def test_the_drawing_leads_from_what_is_needed_to_what_needs_it() -> None:
    inner = [step("c"), step("d", "c", interrupt_before=True)]
    loop = {"kind": "loop", "name": "l", "needs": ["a"], "loop": {"max_loops": 2, "body": inner, "max_parallel": 1}}
    drawn = read_flowchart(graph(loads(listed(step("a"), step("b"), loop, step("last", "b", "l"), name="order"))))
    assert set(drawn.next("order")) == {"a", "b"}
    assert (set(drawn.next("a")), set(drawn.next("c"))) == ({"c"}, {"stop before d"})
    assert (set(drawn.next("b")), set(drawn.next("stop before d"))) == ({"last"}, {"d"})
    assert unreached(drawn) == set()


def test_the_core_form_keeps_needs() -> None:
    text = listed(step("a"), step("b", "a"), max_parallel=1, name="order")
    assert loads(expand(loads(text))) == loads(text)


# What is written wrong


def problems(text: str) -> list[Problem]:
    with pytest.raises(BlueprintError) as caught:
        loads(text)
    return caught.value.problems


@pytest.mark.parametrize(
    ("text", "path", "message"),
    [
        (listed(step("a", "b"), step("b")), "steps[0].needs[0]", "is written after 'a'"),
        (listed(step("a", "a")), "steps[0].needs[0]", "needs itself"),
        (listed(step("a"), step("b", "c", "a")), "steps[1].needs[0]", "no step 'c' in this list"),
        (listed(step("a"), step("b"), max_parallel=2), "max_parallel", "what they `need`"),
        (
            listed(step("a"), step("b", "a"), step("c", input="{{ steps.a.output }}")),
            "steps[2].input",
            "not needed here",
        ),
        (listed(step("a", on_error={"fallback": step("b", "a")})), "steps[0].on_error[0].needs[0]", "no step 'a' in"),
    ],
)
def test_needs_are_earlier_steps_of_the_list_and_what_is_read_is_needed(text: str, path: str, message: str) -> None:
    [problem] = problems(text)
    assert (problem.path, message in problem.message) == (path, True)


@pytest.mark.parametrize(
    ("step_", "path", "hint"),
    [
        (
            "{kind: parallel, name: p, branches: {x: {max_parallel: 2, steps: [{name: a}, {name: b, needs: [a]}]}}}",
            "branches.x.max_parallel",
            "beside branches",
        ),
        (
            "{kind: map, name: m, map: {iterable_input: input, max_parallel: 2, body: {name: a}}}",
            "map.max_parallel",
            "max_concurrency",
        ),
        ("{kind: parallel, name: p, branches: {x: {name: a}}, max_parallel: 2}", "max_parallel", "all run at once"),
    ],
)
def test_where_else_max_parallel_is_written_is_told_what_to_write(step_: str, path: str, hint: str) -> None:
    [problem] = problems(f"steps: [{step_}]")
    assert (problem.path, hint in str(problem.hint)) == (f"steps[0].{path}", True)


def test_a_consent_that_is_tested_the_wrong_way_is_found_behind_needs() -> None:
    review = {"kind": "hitl", "name": "look", "ask": "review", "message": "Fine?", "input": {"a": 1}}
    [problem] = problems(listed(review, step("b"), step("c", "look", "b", when="previous_step")))
    assert (problem.code, problem.path) == ("bad_consent", "steps[2].when")
