"""Machines: from state to state until an end, each visit an iteration of one loop."""

from __future__ import annotations

import pytest

from holdfast.blueprint.errors import BlueprintError
from holdfast.blueprint.load import loads
from tests.conftest import Harness
from tests.progress import ends, has_continued

CLAIM = """
name: claim
steps:
  - kind: states
    name: claim
    start: draft
    ends: [paid, refused]
    checkpoint_every: 1
    states:
      draft:
        steps: [{kind: hitl, name: text, message: What happened?}]
        next: check
      check:
        steps:
          - {kind: hitl, name: judge, message: "{{ previous_step }}?", options: [good, bad, unclear]}
        next: {value: steps.judge.output, to: {good: paid, bad: refused}, else: draft}
        max_visits: 2
"""


@pytest.mark.parametrize(("verdict", "end"), [("good", "paid"), ("bad", "refused")])
async def test_a_value_chooses_the_state_or_the_end_that_follows(house: Harness, verdict: str, end: str) -> None:
    run = await house.start(CLAIM)
    asked = await house.answered(run, "fire", "unclear", "water", verdict)
    assert asked == ["What happened?", "fire?", "What happened?", "water?"]
    assert await house.output(run) == {"end": end, "output": verdict}
    left = [event.data for event in await house.runs.watch.events(run) if event.type == "state.left"]
    assert [(one.state, one.next) for one in left] == [
        ("draft", "check"),
        ("check", "draft"),
        ("draft", "check"),
        ("check", end),
    ]
    assert await has_continued(house, f"{run}/loop:claim")


@pytest.mark.slow
async def test_one_visit_too_many_fails_the_step(house: Harness) -> None:
    run = await house.start(CLAIM)
    await house.answered(run, "fire", "unclear", "water", "unclear", "hail")
    error = (await house.result(run)).error
    assert error is not None
    assert (error.type, "check after 2 visits" in error.message) == ("max_visits", True)


async def test_a_value_for_which_nothing_follows_fails_the_step(house: Harness) -> None:
    run = await house.start(
        CLAIM.replace("steps.judge.output,", "context.verdict | default('unclear'),").replace(", else: draft", "")
    )
    await house.answered(run, "fire", "unclear")
    error = (await house.result(run)).error
    assert error is not None
    assert (error.type, "'unclear'" in error.message) == ("no_transition", True)


@pytest.mark.slow
async def test_a_cancel_ends_it_after_a_boundary(house: Harness) -> None:
    run = await house.start(CLAIM)
    await house.answered(run, "fire")
    await house.one(run)
    await ends(house, run)


async def test_a_pause_holds_it_between_two_states(house: Harness) -> None:
    run = await house.start(CLAIM)
    question = await house.one(run)
    await house.runs.control.pause(run)
    await house.answer(run, "fire", question)
    assert await house.runs.questions(run) == []
    await house.runs.control.resume(run)
    await house.answered(run, "good")
    assert await house.output(run) == {"end": "paid", "output": "good"}


async def test_a_machine_that_goes_round_and_asks_nobody_fails(house: Harness) -> None:
    states = "{a: {steps: [{name: s}], next: {value: output, to: {stop: z}, else: a}}}"
    run = await house.start(f"steps: [{{kind: states, name: m, start: a, ends: [z], states: {states}}}]")
    error = (await house.result(run)).error
    assert error is not None
    assert (error.type, error.reason, error.address) == ("no_progress", "no_progress", "pipeline:test;loop:m")


MACHINE = "steps: [{kind: states, name: m, start: a, ends: [z], states: {%s}}]"
STEPS = "steps: [{name: s}]"


@pytest.mark.parametrize(
    ("states", "code", "path"),
    [
        (f"b: {{{STEPS}, next: z}}", "unknown_name", "steps[0].start"),
        (f"a: {{{STEPS}, next: y}}", "unknown_name", "steps[0].states.a.next"),
        (
            f"a: {{{STEPS}, next: {{value: input, to: {{x: y}}, else: z}}}}",
            "unknown_name",
            "steps[0].states.a.next.to.x",
        ),
        (f"a: {{{STEPS}, next: z}}, b: {{{STEPS}, next: z}}", "unreachable_state", "steps[0].states.b"),
        (f"a: {{{STEPS}, next: a}}", "unreachable_state", "steps[0].ends[0]"),
        (f"a: {{{STEPS}, next: a}}", "endless_states", "steps[0].states.a"),
        (f"a: {{{STEPS}, next: z}}, z: {{{STEPS}, next: a}}", "conflict", "steps[0].states.z"),
        (f"a: {{{STEPS}, nxt: z}}", "unknown_key", "steps[0].states.a.nxt"),
        (f"a: {{{STEPS}}}", "missing_key", "steps[0].states.a.next"),
        (f"a: {{{STEPS}, next: {{value: nothing, to: {{x: z}}}}}}", "unknown_name", "steps[0].states.a.next.value"),
    ],
)
def test_a_machine_that_cannot_work_is_refused_at_its_place(states: str, code: str, path: str) -> None:
    with pytest.raises(BlueprintError) as caught:
        loads(MACHINE % states)
    assert (code, path) in {(problem.code, problem.path) for problem in caught.value.problems}
