"""A test runs its blueprint on a real server, answers, lets time pass, compares and replays."""

from __future__ import annotations

import re
from typing import Any

import pytest
from temporalio.client import WorkflowHistory

from holdfast.client.history import histories
from holdfast.testkit.expectations import (
    ERROR_KEYS,
    EVENT_KEYS,
    EXPECT_KEYS,
    HISTORY_KEYS,
    HISTORY_TYPES,
    QUESTION_KEYS,
    SPAN_KEYS,
    STATUSES,
)
from holdfast.testkit.files import ANSWER_KEYS, CASE_KEYS, FILE_KEYS
from holdfast.testkit.matching import CONTAINS, EQUALS, NOTHING
from holdfast.testkit.running import run_case
from tests.conftest import until
from tests.repository import ROOT
from tests.testkit.conftest import Desk

ASK = """
    context: {tries: 0}
    steps:
      - kind: hitl
        name: ask
        message: Which tone for {{ input }}?
        options: [warm, {id: cool, risk: Dull}]
        sink_to: tone
      - {name: told, input: "It is {{ steps.ask.output }}."}
"""
DEADLINES = """
    steps:
      - kind: parallel
        name: both
        merge_strategy: no_merge
        branches:
          slow: {kind: hitl, name: slow, message: Slow?, timeout: 30d, default: too slow}
          fast: {kind: hitl, name: fast, message: Fast?, timeout: 1d, default: too fast}
      - kind: loop
        name: again
        loop:
          max_loops: 2
          body: [{kind: hitl, name: more, message: "More {{ iteration }}?", timeout: 7d, on_timeout: skip}]
    output: {both: "{{ steps.both.output }}", more: "{{ steps.again.output }}"}
"""
AGENT = """
    agents: {writer: {model: echo, tools: [look_up]}}
    steps: [{name: write, agent: writer, on_error: fail}]
"""


async def test_a_test_that_is_met_has_no_differences(desk: Desk) -> None:
    await desk.passes(
        ASK,
        """
        input: a poem
        answers: [{question: ask, content: warm}]
        expect:
          status: completed
          output: It is warm.
          context: {tone: warm, tries: 0}
          questions: [{step: ask, message: Which tone for a poem?, options: [warm, {risk: Dull}], iteration: null}]
          trace: {ask: {status: completed, times: 1}, told: {output: It is warm.}, "*step:told": {times: 1}}
        """,
    )


@pytest.mark.first_row
@pytest.mark.parametrize(
    ("expect", "path", "expected", "was"),
    [
        ("output: It is cool.", "output", "It is cool.", "It is warm."),
        ("output: {contains: cool}", "output.contains", {"contains": "cool"}, "It is warm."),
        ("context: {tone: cool}", "context.tone", "cool", "warm"),
        ("context: {a.b: 1}", "context.a.b", 1, NOTHING),
        ("questions: [Which?]", "questions[0]", "Which?", "Which tone for null?"),
        ("questions: [{kind: decision}]", "questions[0].kind", "decision", "input"),
        ("questions: [{address: '*;hitl:asked'}]", "questions[0].address", "*;hitl:asked", "pipeline:flow;hitl:ask"),
        ("trace: {told: {times: 2}}", "trace.told.times", 2, 1),
        ("trace: {'*;hitl:x': {status: completed}}", "trace.*;hitl:x.status", "completed", "not reached"),
        ("trace: {told: {iterations: 2}}", "trace.told.iterations", 2, NOTHING),
        ("status: failed", "status", "failed", "completed"),
        ("error: {type: x}", "", "failed", "completed"),
        ("{}", "", None, None),
    ],
)
async def test_a_difference_is_told_with_what_was_expected_and_what_was_there(
    desk: Desk, expect: str, path: str, expected: Any, was: Any
) -> None:
    test = f"answers: [{{question: ask, content: warm}}]\nexpect: {{{expect}}}"
    found = await desk.differences(ASK, test.replace("{{}}", "{}"))
    if expect == "{}":
        assert found == []
        return
    [one] = found
    assert one.path == "tests[0].expect" + (f".{path}" if path else "")
    assert (one.expected, one.was) == (expected, was)
    assert one.place.source.file.endswith("flow.test.yaml")
    assert one.place.line in (2, 4)


@pytest.mark.slow
async def test_questions_are_compared_in_the_order_of_asking_and_none_may_be_missing(desk: Desk) -> None:
    answers = "answers: [{question: ask, content: warm}]\n"
    [besides] = await desk.differences(ASK, answers + "expect: {questions: []}")
    assert (besides.note, besides.was["step"]) == ("this question was not expected", "ask")
    [missing] = await desk.differences(ASK, answers + "expect: {questions: [{step: ask}, More?]}")
    assert (missing.note, missing.expected) == ("this was not asked", "More?")
    await desk.passes(ASK, answers + "expect: {questions: {contains: [{contains: tone}]}}")
    [absent] = await desk.differences(ASK, answers + "expect: {questions: {contains: [{step: ask}, More?]}}")
    assert (absent.note, absent.expected) == ("this was not asked", "More?")


async def test_a_run_that_waits_says_who_asks_what(desk: Desk) -> None:
    [one] = await desk.differences(ASK, "input: x")
    assert (one.expected, one.was) == ("completed", "waiting")
    assert one.note == "it waits for a person, and no answer of the test fits: ask asks 'Which tone for x?'"
    await desk.passes(ASK, "expect: {status: waiting, context: {tries: 0}, trace: {ask: {status: running}}}")


@pytest.mark.slow
async def test_deadlines_pass_in_their_order_where_nobody_answers(desk: Desk) -> None:
    await desk.passes(
        DEADLINES,
        """
        answers: [{question: more, content: once}]
        expect:
          output: {both: {slow: too slow, fast: too fast}, more: null}
          questions: [{step: fast}, {step: slow}, {step: more, iteration: 1}, {step: more, iteration: 2}]
        """,
    )


@pytest.mark.slow
async def test_an_answer_comes_before_any_deadline(desk: Desk) -> None:
    await desk.passes(
        DEADLINES,
        """
        answers: [{question: slow, content: me}, {question: more, content: again, times: 2}]
        expect: {output: {both: {slow: me, fast: too fast}, more: again}}
        """,
    )


async def test_a_test_about_waiting_lets_no_time_pass(desk: Desk) -> None:
    await desk.passes(DEADLINES, "expect: {status: waiting, questions: [Fast?, Slow?]}")


async def test_a_deadline_that_fails_the_run_can_be_expected(desk: Desk) -> None:
    flow = "steps: [{kind: hitl, name: ask, message: Go?, timeout: 90d, on_timeout: fail}]"
    await desk.passes(flow, "expect: {error: {type: question_expired, address: '*;hitl:ask'}}")


async def test_an_answer_that_is_refused_or_never_used_is_told_at_its_line(desk: Desk) -> None:
    flow = "steps: [{kind: hitl, name: ask, message: Go?, ask: decision, options: [a, b]}]"
    test = """
        answers:
          - {question: ask, content: c}
          - {question: ask, content: b}
          - {question: other, content: 1}
        expect: {output: b}
    """
    refused, unused = await desk.differences(flow, test)
    assert (refused.path, refused.place.line) == ("tests[0].answers[0]", 4)
    assert "refused (invalid_answer)" in str(refused.note)
    assert str(refused.note).endswith("'c' is not one of the options: a, b")
    assert (unused.path, unused.note) == ("tests[0].answers[2]", "no question fits 'other'; asked: ask")


async def test_an_address_that_fits_no_question_is_told_with_the_addresses(desk: Desk) -> None:
    flow = "steps: [{kind: map, name: each, map: {iterable_input: input, body: {kind: hitl, name: ask, message: Go?}}}]"
    test = "input: [1]\nanswers: [{question: 'map:each:0;*', content: a}, {question: ask, content: b}]"
    [unused] = await desk.differences(flow, test)
    assert str(unused.note).endswith("asked: pipeline:flow;map:each:0;hitl:ask")


async def test_a_failure_that_was_not_expected_is_told_with_its_place(desk: Desk) -> None:
    [one] = await desk.differences("steps: [{name: bad, uses: fails_always}]", "expect: {output: 1}")
    assert (one.expected, one.was) == ("completed", "failed")
    assert "broken for good" in str(one.note)
    assert re.search(r" at pipeline:flow;step:bad; raised at tests/tools\.py:\d+ in fails_always$", str(one.note))


async def test_a_failure_can_be_expected_with_a_part_of_its_message(desk: Desk) -> None:
    flow = "steps: [{name: bad, uses: fails_always}]"
    await desk.passes(flow, "expect: {error: {type: tool_error, message: {contains: broken}}, output: null}")


@pytest.mark.slow
async def test_a_model_gives_the_replies_of_the_test(desk: Desk) -> None:
    await desk.passes(
        AGENT,
        """
        input: tea
        model:
          write:
            - tool_calls: [{name: look_up, args: {folder: ., word: tea}}]
            - "Found {{ messages[-1].content }}"
        tools: {look_up: [a leaf]}
        expect:
          output: Found a leaf
          calls: {look_up: [{folder: ., word: tea}]}
          trace: {look_up: {times: 1}}
        """,
    )


async def test_a_reply_that_is_missing_is_told_with_the_line_of_the_replies(desk: Desk) -> None:
    flow = "steps: [{name: write, agent: {model: echo}}, {name: other, agent: {model: echo}}]"
    [one] = await desk.differences(flow, "model: {write: [a]}")
    assert "flow.test.yaml:3: no replies for 'other'" in str(one.note)


async def test_replies_can_be_in_a_file_beside_the_tests(desk: Desk) -> None:
    desk.write("replies.yaml", "write: [from the file]")
    await desk.passes(AGENT, "model: ./replies.yaml\nexpect: {output: from the file}")


@pytest.mark.slow
async def test_a_tool_that_is_stood_in_for_gives_its_replies_in_order_and_the_last_again(desk: Desk) -> None:
    flow = """
        steps:
          - {name: first, uses: pay_out, input: {folder: x, payee: ana, amount: 1}}
          - {name: second, uses: pay_out, input: {folder: x, payee: bo, amount: 2}, on_error: continue}
          - {name: third, uses: pay_out, input: {folder: x, payee: cy, amount: 3}, on_error: continue}
        output: ["{{ steps.first.output }}", "{{ steps.second.error.message }}", "{{ steps.third.error.type }}"]
    """
    test = """
        tools: {pay_out: [{output: {ok: 1}}, {error: no money}]}
        expect:
          output: [{ok: 1}, {contains: no money}, tool_error]
          calls: {pay_out: [{contains: {payee: ana}}, {contains: {payee: bo}}, {contains: {payee: cy}}]}
    """
    await desk.passes(flow, test)


async def test_a_tool_that_is_not_stood_in_for_is_really_called(desk: Desk) -> None:
    folder = str(desk.folder)
    flow = f"steps: [{{name: s, uses: counted, input: {{folder: '{folder}', name: real}}}}]"
    expect = f"{{output: real 1, calls: {{counted: [{{folder: '{folder}', name: real}}]}}}}"
    await desk.passes(flow, f"expect: {expect}")


@pytest.mark.slow
async def test_no_test_finds_what_another_one_kept_in_a_cache(desk: Desk) -> None:
    step = "{kind: cache, name: kept, key: k, wrapped_step: {name: look, uses: stringy, input: {text: t}}}"
    flow = f"steps: [{{kind: loop, name: twice, loop: {{max_loops: 2, body: [{step}]}}}}]"
    test = "{name: %s, tools: {stringy: [%s]}, expect: {output: %s, calls: {stringy: [{text: t}]}}}"
    verdicts = await desk.verdicts(flow, f"tests: [{test % ('a', 1, 1)}, {test % ('b', 2, 2)}]")
    assert [one.differences for one in verdicts] == [[], []]


async def test_an_input_that_the_blueprint_does_not_take_is_told(desk: Desk) -> None:
    [one] = await desk.differences("inputs: {type: string}\nsteps: [{name: s}]", "input: 3")
    assert one.path == "tests[0].input"
    assert "the input does not fit" in str(one.note)


@pytest.mark.slow
async def test_different_people_may_answer(desk: Desk) -> None:
    who = "quorum: 2, assignees: [group:bosses]"
    flow = f"steps: [{{kind: hitl, name: ok, message: Go?, ask: decision, options: [a], {who}}}]"
    two = "answers: [{question: ok, content: a, by: user:ana}, {question: ok, content: a, by: user:bo}]"
    await desk.passes(flow, f"{two}\nexpect: {{output: a, questions: [{{quorum: 2}}]}}")
    [refused, parked] = await desk.differences(flow, "answers: [{question: ok, content: a, by: user:cy}]")
    assert "not_allowed" in str(refused.note)
    assert parked.was == "waiting"


async def test_whom_a_test_names_counts_as_signed_in(desk: Desk) -> None:
    flow = "steps: [{kind: hitl, name: ok, message: Ok?, proof: person}]"
    await desk.passes(flow, "answers: [{question: ok, content: a, by: user:ana}]")
    await desk.passes(flow, "answers: [{question: ok, content: a}]")


@pytest.mark.slow
async def test_large_values_and_many_questions_are_no_trouble(desk: Desk) -> None:
    flow = """
        steps:
          - kind: loop
            name: l
            loop: {max_loops: 60, body: [{kind: hitl, name: q, message: "{{ iteration }}"}]}
          - {name: large, input: "{{ input }}"}
    """
    await desk.passes(
        flow,
        f"""
        input: {"x" * 50_000}
        answers: [{{question: q, content: go, times: 60}}]
        expect: {{output: {{contains: xxx}}, trace: {{l: {{iterations: 60, exit: max_loops}}, q: {{times: 60}}}}}}
        """,
    )


async def test_a_history_that_is_not_followed_fails_and_the_next_one_is_replayed_all_the_same(desk: Desk) -> None:
    file = desk.read("tests: [{name: a}]", "steps: [{name: s}]")
    verdict = await run_case(desk.stage, file, file.cases[0])
    assert verdict.passed
    house = await desk.stage.house(desk.config())
    run = await house.runs.start(file.blueprint)
    await house.runs.result(run)
    [recorded] = [one async for one in histories(house.runs.client, run)]
    changed = recorded.to_json().replace("WORKFLOW_EXECUTION_COMPLETED", "WORKFLOW_EXECUTION_CANCELED")
    changed = changed.replace("workflowExecutionCompletedEventAttributes", "workflowExecutionCanceledEventAttributes")
    assert await desk.stage.replay(WorkflowHistory.from_json(run, changed)) is not None
    assert await desk.stage.replay(recorded) is None


async def test_nothing_goes_on_when_a_test_has_ended(desk: Desk) -> None:
    await desk.passes(DEADLINES, "expect: {status: waiting}")
    house = await desk.stage.house(desk.config())

    async def nothing_runs() -> bool:
        return not [one async for one in house.runs.client.list_workflows("ExecutionStatus = 'Running'")]

    await until(nothing_runs, "the end of every run")


@pytest.mark.slow
async def test_the_page_about_testing_shows_a_test_that_passes(desk: Desk) -> None:
    page = (ROOT / "docs" / "testing.md").read_text()
    flow, tests, _ = re.findall(r"```yaml\n(.*?)```", page, re.S)
    assert [one.differences for one in await desk.verdicts(flow, tests)] == [[], []]


def test_the_page_about_testing_names_every_key() -> None:
    page = (ROOT / "docs" / "testing.md").read_text()
    asked = (*QUESTION_KEYS, *EVENT_KEYS, *HISTORY_KEYS, *HISTORY_TYPES.values())
    keys = (*FILE_KEYS, *CASE_KEYS, *ANSWER_KEYS, *EXPECT_KEYS, *asked, *SPAN_KEYS, *ERROR_KEYS, *STATUSES)
    assert [key for key in (*keys, CONTAINS, EQUALS) if f"`{key}`" not in page and f"`{{{key}:" not in page] == []


LADDER = """
    steps:
      - kind: hitl
        name: ok
        message: Go?
        ask: decision
        options: [a, b]
        assignees: [user:cy]
        on_timeout: escalate
        escalate: [{after: 2d, assignees: ["user:bo"]}, {after: 5d, assignees: ["group:bosses"]}]
"""


@pytest.mark.slow
async def test_who_is_asked_later_answers_later(desk: Desk) -> None:
    answers = "answers: [{question: ok, content: a, by: user:ana}]"
    await desk.passes(LADDER, f"{answers}\nexpect: {{output: a, questions: [{{assignees: [user:cy]}}]}}")
    first = "answers: [{question: ok, content: b, by: user:cy}]"
    await desk.passes(LADDER, f"{first}\nexpect: {{output: b}}")


RELEASE = """
    steps:
      - kind: hitl
        name: ok
        message: Go?
        ask: permission
        risk: "{{ 'high' if input > 10 else 'low' }}"
        assignees: [user:cy]
        not_by: [requester]
        proof: person
        remind_every: 1d
        on_timeout: escalate
        escalate: [{after: 2d, assignees: ["user:bo"]}]
        timeout: 9d
        default: no
"""


@pytest.mark.slow
async def test_what_happens_to_a_question_has_its_time(desk: Desk) -> None:
    test = """
        input: 20
        answers:
          - {question: ok, content: yes, by: user:bo, after: 1d, refused: not_allowed}
          - {question: ok, content: yes, by: user:bo, after: 3d}
        expect:
          output: true
          questions:
            - assignees: [user:cy]
              not_by: [user:tester]
              proof: person
              risk: high
              timeout: 216h
              remind_every: 1d
              history:
                - {type: reminded, after: 1d}
                - {type: escalated, after: 2d, assignees: [user:bo]}
                - reminded
                - reminded
                - {type: answered, after: 3d, by: user:bo, content: {granted: true}}
    """
    await desk.passes(RELEASE, test)


async def test_a_test_that_waits_may_give_an_answer_later(desk: Desk) -> None:
    early = "answers: [{question: ok, content: yes, by: user:bo, after: 25h, refused: not_allowed}]"
    history = "[{history: {contains: {type: reminded, after: 1d}}}]"
    await desk.passes(RELEASE, f"input: 1\n{early}\nexpect: {{status: waiting, questions: {history}}}")


async def test_times_and_refusals_that_differ_are_told(desk: Desk) -> None:
    test = """
        input: 20
        answers:
          - {question: ok, content: no, by: user:cy, refused: not_allowed}
          - {question: ok, content: no, by: user:cy, after: 10d}
        expect: {questions: [{timeout: 2d, history: [{type: answered, after: 1h}, expired]}]}
    """
    found = await desk.differences(RELEASE, test)
    assert [(one.path.removeprefix("tests[0]."), one.was, one.note) for one in found] == [
        ("answers[0]", NOTHING, "the answer to ok was not refused (not_allowed)"),
        ("expect.questions[0].timeout", "9 days", None),
        ("expect.questions[0].history[0].after", "0 seconds", None),
        ("expect.questions[0].history[1]", NOTHING, "this did not happen"),
        ("answers[1]", NOTHING, "no question fits 'ok' and is open 10 days after it was asked; asked: ok"),
    ]


async def test_an_event_that_is_waited_for_is_expected_with_its_key(desk: Desk) -> None:
    flow = 'steps: [{kind: wait, name: paid, for: payment, key: "order-{{ input }}", timeout: 3d, on_timeout: skip}]'
    expected = "questions: [], events: [{name: payment, key: order-7, timeout: 3d, history: [expired]}]"
    await desk.passes(flow, f"input: 7\nexpect: {{{expected}}}")


@pytest.mark.slow
async def test_an_escalation_to_the_same_people_passes(desk: Desk) -> None:
    same = LADDER.replace("user:bo", "user:cy").replace("[a, b]", "[a, b]\n        default: b")
    await desk.passes(same.replace("escalate\n", "escalate\n        timeout: 9d\n", 1), "expect: {output: b}")


async def test_who_starts_the_run_may_be_said(desk: Desk) -> None:
    text = "steps: [{kind: hitl, name: ok, message: Go?, not_by: [requester]}]"
    [refused, *_] = await desk.differences(text, "by: user:ana\nanswers: [{question: ok, content: a, by: user:ana}]")
    assert "user:ana may not answer it" in str(refused.note)


@pytest.mark.slow
async def test_who_is_never_asked_is_refused_and_time_passes_no_further_than_the_ladder(desk: Desk) -> None:
    refused, parked = await desk.differences(LADDER, "answers: [{question: ok, content: a, by: user:dan}]")
    assert "user:dan may not answer it" in str(refused.note)
    assert parked.was == "waiting"


async def test_a_secret_is_kept_for_as_long_as_the_tests_are(desk: Desk) -> None:
    await desk.passes(
        """
        steps: [{kind: hitl, name: key, ask: secret, message: Key?}]
        output: "{{ steps.key.output[:11] }}"
        """,
        """
        answers: [{question: key, content: a value of a test}]
        expect: {output: "secret:dir/"}
        """,
    )


AROUND = {
    "a loop": (
        "kind: loop, name: w, loop: {deadline: 3d, on_deadline: finish, max_loops: 9, body: [%s]}",
        "{kind: hitl, name: ask, message: More?}",
    ),
    "a block around a loop": (
        "kind: block, name: w, deadline: 3d, on_deadline: finish, steps: [{kind: loop, name: l, loop: {max_loops: 9, "
        "body: [%s]}}]",
        "{kind: hitl, name: ask, message: More?}",
    ),
    "a block around a clarify": (
        "kind: block, name: w, deadline: 3d, on_deadline: finish, steps: [%s]",
        "{kind: clarify, name: ask, goal: g, schema: {type: object, properties: {a: {type: string}}}}",
    ),
    "a block around a map": (
        "kind: block, name: w, deadline: 3d, on_deadline: finish, steps: [{kind: map, name: m, map: {iterable_input: "
        "[1, 2], max_concurrency: 2, body: [{kind: loop, name: l, loop: {max_loops: 2, body: [%s]}}]}}]",
        "{kind: hitl, name: ask, message: More?}",
    ),
    "a loop around a loop": (
        "kind: loop, name: o, loop: {max_loops: 1, body: [{kind: loop, name: w, loop: {deadline: 3d, on_deadline: "
        "finish, max_loops: 9, body: [%s]}}]}",
        "{kind: hitl, name: ask, message: More?}",
    ),
}


@pytest.mark.slow
@pytest.mark.first_row
@pytest.mark.parametrize("around", AROUND)
async def test_a_deadline_around_a_child_passes(desk: Desk, around: str) -> None:
    outer, ask = AROUND[around]
    flow = f"""
    steps:
      - {{{outer % ask}}}
      - {{kind: timer, name: rest, for: 2d}}
      - {{kind: hitl, name: late, message: Late?, timeout: 1d, default: too late}}
    """
    await desk.passes(flow, "expect: {status: completed, output: too late, trace: {w: {status: completed}}}")
