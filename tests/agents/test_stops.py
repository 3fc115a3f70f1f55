"""Static interrupts, holds, permissions and reviews as steps."""

from __future__ import annotations

from typing import Any

import pytest

import tests.interrupting  # noqa: F401 registers the tools
from holdfast.blueprint.changes import UnknownStep, with_model, with_stops
from holdfast.blueprint.load import loads
from holdfast.protocol.answers import Answer, Refusal
from holdfast.runtime.errors import BadInput
from tests.conftest import Harness

TWO = """
context: {n: 1}
context_schema: {type: object, required: [n], properties: {n: {type: integer}}}
steps:
  - {name: first, input: one, sink_to: said, interrupt_after: true}
  - {name: second, input: "{{ context.n + 1 }} {{ previous_step }}", interrupt_before: true}
"""


async def test_a_stop_after_one_step_and_before_the_next_is_one_question(house: Harness) -> None:
    run = await house.start(TWO)
    question = await house.one(run)
    assert (question.kind, question.address) == ("checkpoint", "pipeline:test")
    assert question.info == {"n": 1, "said": "one"}
    assert question.message == "Stopped before second."
    broken = await house.refused(run, {"n": "many"})
    assert (broken.code, "n: must be a whole number" in broken.message) == ("invalid_answer", True)
    for wrong in ("go", [], 1):
        assert (await house.refused(run, wrong)).code == "invalid_answer"
    await house.answer(run, {"n": 41})
    assert await house.output(run) == "42 one"
    assert (await house.result(run)).context == {"n": 41}


PAY = """
context: {amount: 150, state: open}
steps:
  - {name: ask, input: {iban: "AT61 `x`", to: Ana}}
  - name: payout
    when: context.state == 'open'
    input: {amount: "{{ context.amount }}", to: "{{ steps.ask.output.iban }}"}
    interrupt_before: true
  - {name: thank, input: done, interrupt_before: true}
  - {name: last, interrupt_before: true, input: "{{ steps.thank.output }}", when: "context.state != 'open'"}
"""


PATHS = """
context: {supplier: {iban: AT61}, scores: {ana: 1}}
context_schema: {type: object, properties: {level: {type: string}}}
steps:
  - {name: ask, input: x, interrupt_before: true}
  - {name: last, input: "{{ context.later.x or '' }}", sink_to: seen}
"""


async def test_a_stop_says_what_the_step_will_do_with_which_values_and_what_comes_next(house: Harness) -> None:
    run = await house.start(PAY)
    told = []
    for _ in range(3):
        told.append((await house.one(run)).parents[0]["info"])
        await house.answer(run, None)
    await house.output(run)
    assert told[0]["next"].startswith("payout returns amount")
    assert told[0]["with"] == {"amount": 150, "to": "AT61 `x`"} and told[0]["then"] == "thank"
    assert told[1] == {"next": 'thank returns "done".', "with": "done", "then": "last"}
    assert "will be skipped" in told[2]["but"] and "then" not in told[2]


async def test_a_stop_before_a_call_names_the_tool_and_its_arguments(house: Harness) -> None:
    call = "uses: fails_at_length, arguments: {length: '{{ context.n }}'}"
    run = await house.start(f"context: {{n: 30}}\nsteps: [{{name: it, {call}, interrupt_before: true}}]")
    [told] = [parent["info"] for parent in (await house.one(run)).parents]
    assert told["next"].startswith("it calls the tool fails_at_length with") and told["with"] == {"length": 30}


async def test_nothing_changes_where_nothing_is_given(house: Harness) -> None:
    run = await house.start(TWO)
    await house.answer(run, None)
    assert await house.output(run) == "2 one"


async def test_a_stop_that_is_declined_fails_the_run_whatever_on_error_says(house: Harness) -> None:
    run = await house.start(
        "steps: [{name: a, on_error: continue}, {name: b, interrupt_before: true, on_error: continue}]"
    )
    await house.decline(run, "enough")
    error = (await house.result(run)).error
    assert (error.type, error.address) == ("stopped", "pipeline:test")
    assert "enough" in error.message


async def test_a_stop_in_a_loop_is_the_loops_and_shows_its_context(house: Harness) -> None:
    body = "[{name: a, input: '{{ context.n + 1 }}', sink_to: n, interrupt_after: true}]"
    run = await house.start(
        f"context: {{n: 0}}\nsteps: [{{kind: loop, name: l, loop: {{max_loops: 2, body: {body}}}}}]"
    )
    first = await house.one(run)
    assert (first.address, first.info) == ("pipeline:test;loop:l:1", {"n": 1})
    await house.answer(run, {"n": 10}, first)
    second = await house.one(run)
    assert (second.address, second.info) == ("pipeline:test;loop:l:2", {"n": 11})
    await house.answer(run, None, second)
    assert await house.output(run) == 11


async def test_editing_changes_paths_of_the_context_and_goes_on(house: Harness) -> None:
    run = await house.start(TWO)
    await house.one(run)
    await house.runs.control.edit(run, {"n": 7, "said": "two"}, "user:ana")
    assert await house.output(run) == "8 one"
    assert (await house.result(run)).context == {"n": 7, "said": "two"}


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("suplier.iban", "did you mean 'supplier.iban'?"),
        ("supplier.ibn", "did you mean 'supplier.iban'?"),
        ("scores.cem", "to add a key to scores, set scores as a whole"),
        ("leval", "did you mean 'level'?"),
    ],
)
async def test_a_path_that_the_run_does_not_know_is_refused_with_those_near_it(
    house: Harness, path: str, told: str
) -> None:
    run = await house.start(PATHS)
    await house.one(run)
    with pytest.raises(BadInput, match=r"the context has no .*, and the blueprint names none") as refused:
        await house.runs.control.edit(run, {path: "DE77"})
    assert told in str(refused.value) and f"{path} cannot be set to 'DE77'" in str(refused.value)
    assert await house.one(run)


async def test_a_path_may_be_set_that_only_the_blueprint_names(house: Harness) -> None:
    run = await house.start(PATHS)
    await house.one(run)
    named = {"level": "high", "later.x": 1, "seen": 2, "scores": {"cem": 3}, "context.supplier.iban": "DE77"}
    await house.runs.control.edit(run, named)
    await house.output(run)
    context = (await house.result(run)).context
    assert (context["level"], context["later"], context["supplier"]) == ("high", {"x": 1}, {"iban": "DE77"})


async def test_editing_what_has_not_stopped_says_how_to_stop(house: Harness) -> None:
    run = await house.start("steps: [{kind: hitl, name: ask, message: Go?}]")
    await house.one(run)
    with pytest.raises(BadInput, match="interrupt-before"):
        await house.runs.control.edit(run, {"n": 1})
    await house.answer(run, "yes")


async def test_stops_can_be_asked_for_when_a_run_starts(house: Harness) -> None:
    blueprint = house.load(
        "steps: [{name: a}, {kind: conditional, name: c, condition_expression: 'true', branches: {true: {name: deep}}}]"
    )
    run = await house.runs.start(with_stops(blueprint, ["deep"], ["a"]), "x")
    house.started.append(run)
    assert await house.answered(run, None, None) == ["Stopped before c.", "Stopped before deep."]
    assert await house.output(run) == "x"
    with pytest.raises(UnknownStep, match="did you mean 'deep'"):
        with_stops(blueprint, ["dep"], [])


def test_every_agent_of_a_run_may_be_given_another_model() -> None:
    text = "agents: {a: {model: echo}}\nsteps: [{name: x, agent: a}, {name: y, agent: {model: echo}}]"
    changed = with_model(loads(text, name="t"), "openai:gpt-5.2")
    assert changed.agents["a"].model == changed.steps[1].agent.model == "openai:gpt-5.2"


# Holds


async def test_a_hold_waits_without_a_question_and_hands_its_input_on(house: Harness) -> None:
    run = await house.start("steps: [{name: a, input: data}, {kind: hitl, name: wait, ask: hold}, {name: b}]")
    question = await house.one(run)
    assert (question.kind, question.requestedSchema) == ("hold", {"type": "null"})
    assert (await house.refused(run, "go")).code == "invalid_answer"
    [resumed] = (await house.runs.control.resume(run)).answered or []
    assert resumed.id == question.id
    assert await house.output(run) == "data"


async def test_a_hold_as_the_last_step_of_a_body_begins_the_next_iteration(house: Harness) -> None:
    body = "[{name: a, input: '{{ iteration }}'}, {kind: hitl, name: wait, ask: hold}]"
    run = await house.start(f"steps: [{{kind: loop, name: l, loop: {{max_loops: 3, body: {body}}}}}]")
    for iteration in (1, 2, 3):
        question = await house.one(run)
        assert question.iteration == iteration
        await house.answer(run, None, question)
    assert await house.output(run) == 3


@pytest.mark.slow
async def test_resuming_answers_what_takes_no_data_and_never_an_approval(house: Harness) -> None:
    run = await house.start("steps: [{kind: hitl, name: may, ask: permission, message: May I?}]")
    await house.one(run)
    assert (await house.runs.control.resume(run)).answered == []
    await house.decline(run)
    assert await house.output(run) is False
    run = await house.start(f"steps: [{{name: b, uses: book, input: {{folder: '{house.folder}', flight: F}}}}]")
    await house.one(run)
    [again] = (await house.runs.control.resume(run)).answered or []  # answered with nothing: the tool asks again
    second = await house.one(run)
    assert (again.round, second.round) == (1, 2)
    await house.answer(run, "1A")
    assert await house.output(run) == "F 1A 40"


async def test_a_hold_that_is_declined_fails_the_run(house: Harness) -> None:
    run = await house.start("steps: [{kind: hitl, name: wait, ask: hold, on_error: continue}]")
    await house.decline(run)
    assert (await house.result(run)).error.type == "stopped"


# Permissions and reviews as steps


@pytest.mark.first_row
@pytest.mark.parametrize("wrong", [None, {}, "yes but", {"granted": "yes"}, {"granted": True, "more": 1}])
async def test_a_permission_takes_nothing_but_an_explicit_word(house: Harness, wrong: Any) -> None:
    run = await house.start(
        "steps: [{name: a, input: {cost: 3}}, {kind: hitl, name: may, ask: permission, message: May I?}]"
    )
    question = await house.one(run)
    assert question.info == {"cost": 3}
    assert (await house.refused(run, wrong)).code == "invalid_answer"
    await house.answer(run, {"granted": True, "reason": "fine"})
    assert await house.output(run) is True


async def test_a_review_gives_the_payload_that_counts(house: Harness) -> None:
    text = """
steps:
  - {name: draft, input: {text: hello}}
  - kind: hitl
    name: look
    ask: review
    message: Good?
    input_schema: {type: object, required: [text], properties: {text: {type: string, minLength: 2}}}
"""
    run = await house.start(text)
    await house.answer(run, {"verdict": "unchanged"})
    assert await house.output(run) == {"text": "hello"}
    run = await house.start(text)
    assert "payload.text" in (await house.refused(run, {"verdict": "edited", "payload": {"text": ""}})).message
    await house.answer(run, {"verdict": "edited", "payload": {"text": "bye"}})
    assert await house.output(run) == {"text": "bye"}
    run = await house.start(text)
    await house.decline(run, "bad")
    assert await house.output(run) is None


# A batch over several workflows


NESTED = """
steps:
  - kind: loop
    name: outer
    loop:
      max_loops: 1
      body:
        - {{name: three, uses: research, input: {{folder: "{folder}", topics: [a, b]}}}}
"""


async def test_one_bad_answer_refuses_its_batch_and_leaves_everything_open(house: Harness) -> None:
    run = await house.start(NESTED.format(folder=house.folder))
    a, b = await house.asked(run, 2)
    with pytest.raises(Refusal) as caught:
        await house.runs.answer(run, [Answer(question=a.id, content="x"), Answer(question="nope", content="y")])
    assert caught.value.code == "unknown_question"
    assert len(await house.asked(run, 2)) == 2
    await house.runs.answer(
        run, [Answer(question=a.address, content="x"), Answer(question=b.address, content="y")], by="user:z"
    )
    assert await house.output(run) == {"a": "x by user:z", "b": "y by user:z"}


def test_an_authors_own_values_are_not_taken_for_steps_or_agents() -> None:
    text = """
inputs: {type: object, properties: {kind: {type: string}, model: {type: string}}}
context: {item: {kind: step, name: chair}, car: {model: T}}
agents: {a: {model: echo}}
steps: [{name: x, agent: a, input: {model: keep}}]
"""
    blueprint = loads(text, name="t")
    changed = with_model(with_stops(blueprint, ["x"], []), "openai:gpt-5.2")
    assert (changed.inputs, changed.context) == (blueprint.inputs, blueprint.context)
    assert changed.steps[0].input == {"model": "keep"}
    assert changed.steps[0].interrupt_before


@pytest.mark.slow
async def test_declining_a_permission_may_end_the_run(house: Harness) -> None:
    run = await house.start(
        "steps: [{kind: hitl, name: may, ask: permission, message: May I?, on_decline: abort, on_error: continue}]"
    )
    await house.decline(run, "never")
    assert (await house.result(run)).error.type == "aborted"
