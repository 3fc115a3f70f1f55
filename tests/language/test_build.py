"""Blueprints from Python: the same documents, references, and mistakes that raise where they are written."""

from __future__ import annotations

import sys
from collections.abc import Callable
from inspect import signature
from typing import Any, get_type_hints

import pytest
from pydantic import BaseModel, field_validator

from holdfast import BlueprintError, load, loads
from holdfast.blueprint.build.blocks import ChoiceKeys, EachKeys, LoopKeys, ParallelKeys, SeveralKeys, StatesKeys
from holdfast.blueprint.build.pipeline import PipelineKeys
from holdfast.blueprint.build.references import StepResult, read_template, write_value
from holdfast.blueprint.build.steps import AskKeys, WorkKeys
from holdfast.blueprint.schema import language_schema
from holdfast.build import (
    Pipeline,
    ValueReference,
    add,
    agent,
    ask,
    block,
    choose,
    context,
    each,
    loop,
    output,
    parallel,
    states,
    step,
)
from tests.conftest import Harness
from tests.repository import ROOT

IN_PYTHON = sorted((ROOT / "examples" / "python").glob("*.py"))


@pytest.mark.parametrize("path", IN_PYTHON, ids=lambda path: path.stem)
def test_an_example_in_python_is_the_same_blueprint_and_so_is_its_yaml(path) -> None:
    built = load(f"examples.python.{path.stem}:{path.stem}")
    assert built == load(ROOT / "examples" / path.stem / f"{path.stem}.yaml")
    pipeline: Pipeline = vars(sys.modules[f"examples.python.{path.stem}"])[path.stem]
    assert loads(pipeline.to_yaml(), folder=path.parent) == built


def test_there_are_seven_examples_in_both_forms() -> None:
    assert len(IN_PYTHON) == 7


class Topic(BaseModel):
    title: str


async def test_an_agent_a_question_a_loop_and_its_exit_in_ten_lines(house: Harness) -> None:
    writer = agent("writer", model="echo")
    with Pipeline("feedback", inputs=Topic) as feedback:
        with loop("revise", max_loops=5) as revise:
            heard = revise.resume_input.or_("none yet")
            draft = step("draft", writer, f"{feedback.input.title}, feedback: {heard}")
            review = ask.clarification("review", draft.output, options={"stop": "It is good"})
            revise.until(review.output == "stop")
        feedback.gives(f"{revise.output} after {context.get('x', 'all')}")
    run = await house.runs.start(feedback, Topic(title="Tea"))
    house.started.append(run)
    assert await house.answered(run, "warmer", "stop") == ["Tea, feedback: none yet", "Tea, feedback: warmer"]
    assert await house.output(run) == "stop after all"


a, b = ValueReference("a"), ValueReference("b")


@pytest.mark.parametrize(
    ("reference", "text"),
    [
        ((a.x >= 8) & ~(b == "it's") | a.y.is_defined(), "a.x >= 8 and not b == 'it\\'s' or a.y is defined"),
        ((a | b) & a, "(a or b) and a"),
        ((a - (b - 1)) * 2, "(a - (b - 1)) * 2"),
        (1 + a / 2 - -b, "1 + a / 2 - -b"),
        (a.in_(["x", None, True]), "a in ['x', none, true]"),
        (a.contains(b), "b in a"),
        (a["odd key"][0]["name"][1:].strip(), "a['odd key'][0].name[1:].strip()"),
        ((a + b).filter("join", ", ").x, "((a + b) | join(', ')).x"),
        ((a.x > 1).then(a.y, b | 2) & True, "(a.y if a.x > 1 else b or 2) and true"),
        (a.then(a.then(1, 2), a.then(3, 4)), "(1 if a else 2) if a else 3 if a else 4"),
        (a.or_({"k": [b]}), "a | default({'k': [b]}, true)"),
    ],
)
def test_a_reference_is_an_expression(reference: ValueReference, text: str) -> None:
    assert write_value(reference) == text
    assert f"<{reference}>" == f"<{{{{ {text} }}}}>"


made = StepResult("pay")


@pytest.mark.parametrize(
    ("use", "told"),
    [
        (lambda: bool(a), "use when="),
        (lambda: list(a), "has no items before the run"),
        (lambda: 1 in a, "has no items before the run"),
        (lambda: a == f"x {b}", "is a template, and cannot stand inside an expression"),
        (lambda: (a == 1) & (b == object()), "is no JSON value"),
        (lambda: f"{a:>10}", "has no value yet to format"),
        (lambda: f"{made}", "pay is a step, and no value: write pay.output"),
        (lambda: write_value([made]), "write pay.output"),
        (lambda: read_template({"a": [made]}), "write pay.output"),
        (lambda: made == "yes", "write pay.output"),
        (lambda: not made, "write pay.output"),
        (lambda: step("alone"), "inside `with Pipeline"),
    ],
)
def test_what_no_reference_can_be_raises(use: Callable[[], object], told: str) -> None:
    with pytest.raises((TypeError, RuntimeError), match=told):
        use()


def read_hidden_step() -> None:
    with loop("l", max_loops=2):
        inner = step("inner")
    step("y", input=inner.output)


def name_twice() -> None:
    step("x")
    step("x")


def misspell_key() -> None:
    step("x", on_eror="ask")  # type: ignore[call-arg]


def end_never() -> None:
    with loop("endless"):
        step("x")


def choose_nothing() -> None:
    with choose("c", context.x == 1):
        pass


def misread_permission() -> None:
    may = ask.permission("may", "Pay?")
    step("pay", when=may.output.granted)


def compare_with_no_option() -> None:
    which = ask.decision("which", "Red or green?", options=["red", "green"])
    step("x", when=which.output == "blue")


def use_two_of_a_name() -> None:
    step("x", agent("writer", model="echo"))
    step("y", agent("writer", model="echo", instructions="Briefly."))


@pytest.mark.parametrize(
    ("write", "line", "told"),
    [
        (read_hidden_step, 3, "the step 'inner' is not visible here"),
        (name_twice, 2, "'x'"),
        (misspell_key, 1, "unknown key 'on_eror' (did you mean 'on_error'?)"),
        (end_never, 1, "'max_loops' is missing"),
        (choose_nothing, 1, "'branches' is empty"),
        (misread_permission, 2, "granted"),
        (compare_with_no_option, 2, "is never 'blue'"),
        (use_two_of_a_name, 2, "two agents are called 'writer'"),
    ],
)
def test_a_mistake_raises_where_it_is_written(write: Callable[[], None], line: int, told: str) -> None:
    with pytest.raises(BlueprintError) as raised, Pipeline("wrong"):
        write()
    [problem] = raised.value.problems
    assert (problem.file, problem.line) == (__file__, write.__code__.co_firstlineno + line)
    assert told in str(problem)


@pytest.mark.parametrize(
    "use",
    [
        lambda ok: step("x", when=ok),
        lambda ok: step("x", input=ok),
        lambda ok: choose("c", ok).__enter__(),
        lambda ok: each("e", ok).__enter__(),
        lambda ok: loop("l", max_loops=2).__enter__().until(ok),
        lambda ok: parallel("p", until=ok).__enter__(),
    ],
)
def test_a_step_in_the_place_of_its_output_raises(use: Callable[[Any], object]) -> None:
    with pytest.raises(TypeError, match=r"ok is a step, and no value: write ok\.output"), Pipeline("wrong"):
        use(step("ok"))


def test_needs_takes_a_step() -> None:
    with Pipeline("order") as order, block("both", max_parallel=2):
        first = step("first")
        step("second", needs=first)
    assert order.to_yaml().count("- first") == 1


class Verdict(BaseModel):
    score: int
    about: Topic


def test_a_reference_to_a_model_has_its_fields() -> None:
    judge = agent("judge", model="echo", output=Verdict)
    with Pipeline("judging", inputs=Topic) as judging:
        judged = step("judge", judge, judging.input.title)
        form = ask.input("form", "What?", schema=Topic)
        step("end", input=f"{judged.output.about.title} {form.output['title']} {judging.input.get('more')}")
    told = [
        (lambda: judging.input.titel, "Topic has no field 'titel' .did you mean 'title'"),
        (lambda: judged.output.about["nam"], "Topic has no field 'nam'"),
        (lambda: form.output.score, "Topic has no field 'score'"),
    ]
    for wrong, text in told:
        with pytest.raises(AttributeError, match=text):
            wrong()


def test_an_agent_that_is_wrong_raises_where_it_is_made() -> None:
    with pytest.raises(BlueprintError, match="unknown key 'max_truns' .did you mean 'max_turns'"):
        agent("a", model="echo", max_truns=3)  # type: ignore[call-overload]


@pytest.mark.parametrize("form", [str, list[str], 5])
def test_a_schema_that_is_none_raises_where_it_is_written(form: Any) -> None:
    for write in (lambda: Pipeline("p", inputs=form), lambda: agent("a", model="echo", output=form)):
        with pytest.raises(BlueprintError, match="a pydantic model or a JSON Schema") as raised:
            write()
        assert (raised.value.problems[0].file, raised.value.problems[0].code) == (__file__, "bad_schema")
    with pytest.raises(BlueprintError, match="'input_schema' must be an object"), Pipeline("q"):
        ask.input("one", "Who?", schema=form)


def test_a_step_that_was_refused_is_not_part_of_the_pipeline() -> None:
    with Pipeline("right") as right:
        with pytest.raises(BlueprintError):
            step("no name")
        step("name")
    assert [one.name for one in right.blueprint.steps] == ["name"]


def test_a_machine_and_a_race_are_written_as_they_stand() -> None:
    with Pipeline("claims") as claims:
        with states("claim", start="draft", ends=["paid", "refused"]) as claim:
            with claim.state("draft") as draft:
                step("write", input=claim.iteration)
                draft.goes_to("check")
            with claim.state("check", max_visits=5) as check:
                judged = ask.decision("judge", "Good?", options=["good", "bad", "unclear"])
                check.goes_to({"good": "paid", "bad": "refused"}, by=judged.output, otherwise="draft")
        with parallel("race", until=output.by_hand.is_defined() & (claim.output.end == "paid")) as race:
            with race.branch("by_hand"):
                ask.input("say", "Well?")
            with race.branch("late"):
                add("wait", kind="timer", until=claims.input)
    text = """
    name: claims
    steps:
    - kind: states
      name: claim
      start: draft
      ends: [paid, refused]
      states:
        draft: {steps: [{name: write, input: "{{ iteration }}"}], next: check}
        check:
          max_visits: 5
          steps: [{kind: hitl, name: judge, ask: decision, message: "Good?", options: [good, bad, unclear]}]
          next: {value: steps.judge.output, to: {good: paid, bad: refused}, else: draft}
    - kind: parallel
      name: race
      until: output.by_hand is defined and steps.claim.output.end == 'paid'
      branches:
        by_hand: {kind: hitl, name: say, message: "Well?"}
        late: {kind: timer, name: wait, until: "{{ input }}"}
    """
    assert claims.blueprint == loads(text)


def test_a_block_is_written_as_it_stands() -> None:
    with Pipeline("trips", deadline="30d") as trips:
        with block("booking", deadline=trips.input.patience, on_undo_error="continue") as booking:
            flight = step(
                "flight", "book", arguments={"to": trips.input.city}, undo={"uses": "drop", "input": output.id}
            )
            ask.permission("sure", f"Keep {flight.output}?", on_decline="fail")
            with booking.in_any_case() as last:
                step("tell", input=f"It was {last.error.then(last.error.type, 'done')}")
        step("told", input=booking.output)
    text = """
    name: trips
    deadline: 30d
    steps:
    - kind: block
      name: booking
      deadline: "{{ input.patience }}"
      on_undo_error: continue
      steps:
      - {name: flight, uses: book, arguments: {to: "{{ input.city }}"}, undo: {uses: drop, input: "{{ output.id }}"}}
      - {kind: hitl, name: sure, ask: permission, message: "Keep {{ steps.flight.output }}?", on_decline: fail}
      finally: [{name: tell, input: "It was {{ error.type if error else 'done' }}"}]
    - {name: told, input: "{{ steps.booking.output }}"}
    """
    assert trips.blueprint == loads(text)
    with pytest.raises(BlueprintError, match="flight"), Pipeline("bad"), block("b") as bad:
        step("flight", "book")
        with bad.in_any_case():
            step("tell", input="{{ steps.flight.output }}")


KEYS = {
    "PlainStep": (WorkKeys, step, {"agent", "uses"}),
    "Hitl": (AskKeys, ask.__call__, {"ask"}),
    "Loop": (LoopKeys, loop, {"loop"}),
    "LoopBlock": (LoopKeys, loop, {"body", "exit_expression", "output", "output_template"}),
    "Map": (EachKeys, each, {"map"}),
    "MapBlock": (EachKeys, each, {"body", "iterable_input", "finalize"}),
    "Parallel": (ParallelKeys, parallel, {"branches", "parallel"}),
    "Conditional": (ChoiceKeys, choose, {"branches", "condition", "condition_expression", "default_branch"}),
    "States": (StatesKeys, states, {"states"}),
    "BlockStep": (SeveralKeys, block, {"steps", "finally"}),
    "Blueprint": (PipelineKeys, Pipeline, {"agents", "imports", "steps", "output", "version"}),
}
"""What takes a kind's keys in Python, and those that are written in another way."""
NAMED = {"exit_condition", "stop_when", "initial_input_mapper", "iteration_input_mapper", "loop_output_mapper"}
"""Names of functions, and a short form: in Python an expression says it."""


@pytest.mark.parametrize("kind", KEYS)
def test_python_has_every_key_of_the_language(kind: str) -> None:
    typed, function, otherwise = KEYS[kind]
    taken = {*get_type_hints(typed), *signature(function).parameters}
    assert set(language_schema()["$defs"][kind]["properties"]) - taken - otherwise - NAMED - {"kind"} == set()


def test_what_is_of_another_folder_keeps_its_own_paths(tmp_path) -> None:
    (tmp_path / "away").mkdir()
    source = """
from holdfast.build import Pipeline, agent, step
editor = agent("editor", model="scripted:replies.yaml")
with Pipeline("inner") as inner:
    step("edit", editor)
"""
    (tmp_path / "away" / "inner.py").write_text(source)
    names: dict[str, Any] = {}
    exec(compile(source, str(tmp_path / "away" / "inner.py"), "exec"), names)
    with Pipeline("outer") as outer:
        step("one", names["inner"])
        step("two", names["editor"])
    replies = f"scripted:{tmp_path}/away/replies.yaml"
    assert outer.blueprint.imports["inner"].agents["editor"].model == replies
    assert outer.blueprint.agents["editor"].model == replies
    assert loads(outer.to_yaml()) == outer.blueprint


def test_blocks_imports_and_other_kinds_are_written_as_they_stand() -> None:
    with Pipeline("inner") as inner:
        step("same")
    with Pipeline("outer", context={"names": []}) as outer:
        with parallel("both", reduce="values") as both:
            with both.branch("a"):
                step("one", inner, {"n": 1})
            with both.branch("b"):
                add("later", kind="timer", **{"for": "1h"})
        with each("names", context.names, max_concurrency=2) as names:
            step("greet", "stringify", f"{names.index}: {names.item}")
            names.gives(output.filter("join", ", "))
        with choose("any", names.output == "") as choice:
            with choice.branch(True):
                step("none")
            with choice.otherwise():
                ask.review("look", "Right?", input=names.output)
    text = """
    name: outer
    context: {names: []}
    imports: {inner: {name: inner, steps: [{name: same}]}}
    steps:
    - kind: parallel
      name: both
      reduce: values
      branches:
        a: {name: one, uses: imports.inner, input: {n: 1}}
        b: {kind: timer, name: later, for: 1h}
    - kind: map
      name: names
      map:
        iterable_input: context.names
        max_concurrency: 2
        body: {name: greet, uses: stringify, input: "{{ index }}: {{ item }}"}
        finalize: {output_template: "{{ output | join(', ') }}"}
    - kind: conditional
      name: any
      condition_expression: steps.names.output == ''
      branches: {true: {name: none}}
      default_branch: {kind: hitl, name: look, ask: review, message: Right?, input: "{{ steps.names.output }}"}
    """
    assert outer.blueprint == loads(text)


class Even(BaseModel):
    score: int

    @field_validator("score")
    @classmethod
    def _is_even(cls, score: int) -> int:
        if score % 2:
            raise ValueError("only even scores")
        return score


class Judgement(BaseModel):
    rows: list[Even | None]


@pytest.mark.parametrize("model", [Even, Judgement])
def test_validators_that_a_blueprint_cannot_keep_are_told_at_the_authors_line(model: type[BaseModel]) -> None:
    with Pipeline("judge"), pytest.warns(UserWarning, match="the JSON Schema of Even, and not its validators") as told:
        ask.input("verdict", "Judge it", schema=model)
    assert told[0].filename == __file__


def test_people_may_be_references_among_names() -> None:
    with Pipeline("eyes") as eyes:
        first = ask.permission("first", "Pay?", proof="person")
        ask.permission("second", "And you?", not_by=[first.reply.by], assignees=["user:ana", first.reply.by])
    text = """
    name: eyes
    steps:
    - {kind: hitl, name: first, ask: permission, message: Pay?, proof: person}
    - kind: hitl
      name: second
      ask: permission
      message: And you?
      not_by: ["{{ steps.first.reply.by }}"]
      assignees: ["user:ana", "{{ steps.first.reply.by }}"]
    """
    assert eyes.blueprint == loads(text)
