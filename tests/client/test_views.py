"""The steps of a run as people see them: what terminal and pages lay out is derived once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from holdfast.blueprint.questions import Input
from holdfast.client.states import Outcome, RunState
from holdfast.client.trace import Repetition, Span
from holdfast.client.trace import view as view_span
from holdfast.client.views import ItemCount, Spending, StepView
from holdfast.client.views.questions import QuestionView
from holdfast.client.views.runs import RunView
from holdfast.client.views.steps import StepAnswer
from holdfast.protocol.address import Address
from holdfast.protocol.events import QuestionAccepted, QuestionAnswered, QuestionExpired, QuestionReplied
from holdfast.protocol.questions import Question
from tests.client.questions import question

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
LOOP = "pipeline:p;loop:l"


def span(n: int, status: str = "completed", **fields: object) -> Span:
    return Span("ask", "hitl", f"{LOOP};hitl:ask:{n}", status, **fields)  # type: ignore[arg-type]


def loop(*iterations: Repetition, status: str = "running") -> Span:
    return Span("l", "loop", LOOP, status, iterations=list(iterations), workflow="p/loop:l")


def view(shown: Span, *asked: str) -> StepView:
    questions = [Question.model_construct(id=address, address=Address(address)) for address in asked]
    return view_span(shown, questions, NOON)


@pytest.mark.parametrize(
    ("last", "people"),
    [
        (QuestionAnswered(id="q", by="user:eve", content={"granted": True}), ["user:ana", "user:eve"]),
        (QuestionAnswered(id="q", by="user:eve", content={"granted": False}), ["user:eve"]),
        (QuestionAnswered(id="q2", by="user:eve", content={"granted": True}), ["user:eve"]),
        (QuestionExpired(id="q"), []),
    ],
)
def test_who_agreed_is_named_together(last: QuestionReplied, people: list[str]) -> None:
    first = QuestionAccepted(id="q", by="user:ana", content={"granted": True}, so_far=1, quorum=2)
    asked = span(1, answers=[StepAnswer(NOON, first), StepAnswer(NOON, last)])
    assert view(asked).last_people == people


def test_a_step_waits_where_a_question_is_open_in_it_and_nothing_else_goes_on() -> None:
    waiting, busy = span(2, "running"), Span("other", "step", f"{LOOP};step:other:2", "running")
    asks = view(loop(Repetition(1, [span(1)]), Repetition(2, [waiting])), waiting.address)
    assert (asks.mark, [group.mark for group in asks.groups]) == ("waiting", ["completed", "waiting"])
    assert view(loop(Repetition(2, [waiting, busy])), waiting.address).mark == "running"
    assert view(loop(Repetition(2, [waiting]))).mark == "running"


@pytest.mark.parametrize("status", ["completed", "failed", "cancelled", "skipped", "denied"])
def test_what_is_over_has_its_own_mark_whatever_is_inside(status: str) -> None:
    assert view(loop(Repetition(1, [span(1, "running")]), status=status)).mark == status


def test_a_running_step_is_measured_up_to_now_and_one_that_has_ended_no_longer() -> None:
    began, ended = NOON - timedelta(seconds=9), NOON - timedelta(seconds=4)
    assert view(span(1, "running", started=began)).seconds == 9
    assert view(span(1, started=began, ended=ended)).seconds == 5
    assert view(span(1)).seconds is None


def test_of_what_was_not_read_nothing_is_added_up_and_the_rest_is_counted() -> None:
    spent = Spending(1, 10, 0.1)
    whole = view(loop(*(Repetition(n, [span(n, spent=spent)]) for n in (1, 2))))
    part = view(loop(*(Repetition(n, [span(n, spent=spent)]) for n in (7, 8))))
    assert (whole.earlier, whole.spent.tokens) == (0, 20)
    assert (part.earlier, part.spent.tokens, part.groups[0].spent.tokens) == (6, 0, 10)


def test_the_items_of_a_map_are_counted_with_those_that_were_left_out() -> None:
    items = [Repetition(n, [], ended=NOON) for n in (3, 4)]
    mapped = Span("m", "map", "pipeline:p;map:m", "running", items=items, items_left_out=3, items_done=4, total=9)
    assert view(mapped).items == ItemCount(begun=5, done=4, total=9)
    assert view(mapped).earlier == 3


def test_a_page_of_iterations_ends_before_the_last_ones() -> None:
    long = loop(*(Repetition(n, [span(n)]) for n in range(1, 11)))
    page = view(long).cut_repetitions(back=3, size=4)
    assert ([group.n for group in page.repetitions], page.earlier) == ([4, 5, 6, 7], 3)


def test_a_question_stands_at_the_nearest_step_above_it() -> None:
    run = Span("p", "pipeline", "pipeline:p", "waiting", steps=[loop(Repetition(1, [span(1)]))])
    seen = view(run, f"{LOOP};hitl:ask:1;tool:pay;hitl:confirm", f"{LOOP}:7;hitl:ask")
    [asking] = seen.steps
    assert [question.address for question in asking.questions] == [f"{LOOP}:7;hitl:ask"]
    assert len(asking.iterations[0].steps[0].questions) == 1 and len(seen.open_questions) == 2


def test_a_run_names_the_loops_in_its_branches_and_items_as_children() -> None:
    both = Span("b", "parallel", "pipeline:p;parallel:b", "completed")
    at = "pipeline:p;parallel:b;branch:left;loop:l"
    both.branches = {"left": [Span("l", "loop", at, "completed")]}
    root = view(Span("p", "pipeline", "pipeline:p", "completed", steps=[both]))
    seen = RunView(RunState("r", "completed", "p", []), Outcome("r", "completed"), root)
    assert [child["status"] for child in seen.list_children()] == ["completed"]


@pytest.mark.parametrize(
    ("address", "asker"),
    [
        ("pipeline:p;agent:go;tool:old_book:call_1;elicitation:1", "old_book"),
        ("pipeline:p;step:book;elicitation:1", "book"),
        ("pipeline:p;step:send;level:owner-approval", "owner-approval"),
    ],
)
def test_a_question_of_a_server_is_listed_under_the_call_in_which_it_asks(address: str, asker: str) -> None:
    assert QuestionView(question(Input(message="?"), address)).step == asker
