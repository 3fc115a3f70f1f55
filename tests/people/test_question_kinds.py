"""A question carries its kind: every kind crosses a process whole, and its schema once."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import Any

import pytest

from holdfast.blueprint.json_values import JSON
from holdfast.blueprint.kinds.plan_body import PlanBody
from holdfast.blueprint.parts import Option
from holdfast.blueprint.questions import (
    QUESTION_KINDS,
    ActionReview,
    Asked,
    AwaitedEvent,
    Checkpoint,
    Choice,
    Clarification,
    Confirmation,
    CustomQuestion,
    Decision,
    Elicitation,
    Extension,
    Fact,
    Hold,
    Input,
    InvalidAnswer,
    Judgement,
    KindDefinition,
    LostCall,
    OpenLink,
    PayloadConfirmation,
    Permission,
    Review,
    Secret,
    question_kind,
)
from holdfast.protocol.address import Address
from holdfast.protocol.agents import RaisedInterrupt
from holdfast.protocol.plans import PlanReview
from holdfast.protocol.questions import Question, QuestionRequest, open_question
from holdfast.server.web.pages.answer_form import new_form

FORM: dict[str, Any] = {
    "type": "object",
    "required": ["who"],
    "properties": {"who": {"$ref": "#/$defs/name"}, "n": {"type": "integer", "default": 1}},
    "$defs": {"name": {"type": "string", "title": "Who is it for?"}},
}
POINTED = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"$ref": "#/properties/a"}}}
NAMES = {"type": "object", "required": ["KEY"], "properties": {"KEY": {"type": "string", "title": "Key"}}}
OPTIONS = [Option(id="a", label="Alpha"), Option(id="b", risk="high", recommended=True)]
ACTIONS = {"type": "object", "properties": {"action": {"enum": ["retry", "edit"]}, "input": {}}}
QUESTIONS: list[Asked] = [
    Input(message="?"),
    Input(message="?", form={"type": "string"}, default="x"),
    Input(message="?", form={}, info=0),
    Input(message="?", form=FORM, info={"a": None}),
    Input(message="?", optional=True, info={"a": [1]}),
    Judgement(message="?", form=ACTIONS, info={"input": {}}),
    LostCall(message="?", info={"tool": "pay"}),
    Clarification(message="?", options=OPTIONS),
    Clarification(message="?", allow_custom=False, default="a", options=OPTIONS),
    Decision(message="?", options=OPTIONS, max_selections=2, by_index=True),
    Choice(message="?", options=OPTIONS),
    Extension(message="?", options=OPTIONS),
    Elicitation(message="?", form=FORM, info={"server": "files"}),
    OpenLink(message="?", info={"server": "files", "host": "a.example", "url": "https://a.example/"}),
    Permission(message="?", info={"tool": "pay"}),
    Permission(message="?", info={"action": "pay", "risk": "high", "details": {"to": "ana"}}),
    Review(message="?", payload=None),
    Review(message="?", payload={"who": "ana"}, payload_schema=FORM, revisable=True),
    Review(message="?", payload=[1], payload_schema=POINTED, info="about it"),
    ActionReview(message="?", payload={"who": "ana"}, payload_schema=FORM, info={"action": "greet"}),
    Confirmation(message="?", info={"action": "pay", "args": {"to": "bob"}}),
    PayloadConfirmation(message="?", payload={"days": 3}, info={"action": "book"}),
    ActionReview(message="?", payload={"n": 1}, editable=False, answerable=True),
    Secret(message="?"),
    Secret(message="?", form=NAMES),
    Checkpoint(message="?", info={"draft": 1}),
    Checkpoint(message="?", info={"draft": 1}, context_schema=FORM),
    Hold(message="?"),
    CustomQuestion.define(KindDefinition(name="vote", answer=FORM, output="content.who", settings={"weight": 2}), "?"),
    CustomQuestion.define(KindDefinition(name="env_var", answer=NAMES, hidden=True), "?", info={"a": 1}),
    Fact(message="?", name="who", facts=FORM),
    AwaitedEvent(message="?", name="paid", key="7"),
    AwaitedEvent(message="?", name="paid", key="7", payload=FORM, default={"a": 1}),
]


def question(asked: Asked) -> Question:
    at = datetime(2026, 11, 20, tzinfo=UTC)
    return open_question(
        QuestionRequest(asked, Address("pipeline:p;hitl:h")), owner="r", history="h", run="r", round_=1, at=at
    )


def asked_id(asked: Asked) -> str:
    return f"{asked.kind}-{QUESTIONS.index(asked)}"


@pytest.mark.parametrize("as_stored", [True, False], ids=["as stored", "as printed"])
@pytest.mark.parametrize("asked", QUESTIONS, ids=asked_id)
def test_a_question_on_the_wire_comes_back_as_its_own_kind(asked: Asked, as_stored: bool) -> None:
    asks = question(asked)
    text = asks.model_dump_json(exclude_defaults=as_stored)
    assert Question.model_validate_json(text) == asks
    assert type(asks.asked) is type(asked)


@pytest.mark.parametrize("asked", QUESTIONS, ids=asked_id)
def test_the_kind_that_a_client_gets_takes_what_the_owner_takes(asked: Asked) -> None:
    mine, own = Question.model_validate_json(question(asked).model_dump_json()).asked, asked
    assert (mine.schema(), mine.shown_info, list(mine.choices)) == (
        own.schema(),
        own.shown_info,
        list(own.choices),
    )
    assert (mine.value_schema, dict(mine.fields), mine.example) == (own.value_schema, dict(own.fields), own.example)


@pytest.mark.parametrize("asked", QUESTIONS, ids=asked_id)
def test_what_the_fields_of_a_question_show_stands_on_the_wire_once(asked: Asked) -> None:
    own = json.loads(question(asked).model_dump_json())["asked"]
    assert own["kind"] == asked.kind
    assert not own.keys() & {"message", "default", "info", "options", "payload", "facts"}
    # A schema of text tells a form from none; one that points into itself cannot stand inside another.
    schemas = [own[key] for key in ("form", "payload_schema", "context_schema") if key in own]
    assert all(schema in ({"type": "string"}, {}, POINTED) for schema in schemas)


def test_every_kind_is_among_these() -> None:
    ours = {name for name, kind in QUESTION_KINDS.items() if kind.__module__.startswith("holdfast.")}
    assert {asked.kind for asked in QUESTIONS} == ours


def test_a_client_of_before_takes_a_kind_that_it_does_not_know_as_its_schema_says() -> None:
    sent = json.loads(question(Input(message="?", form=FORM)).model_dump_json())
    newer = Question.model_validate({**sent, "kind": "vote", "asked": {"kind": "vote", "weight": 2}})
    assert newer.accept({"who": "ana"}) == {"who": "ana"}


def test_a_question_of_a_tool_of_a_kind_that_nobody_knows_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown kind of question 'vote'; known: .*permission"):
        RaisedInterrupt.model_validate({"path": "", "asked": {"kind": "vote", "message": "?"}})


def test_a_review_of_a_plan_reaches_clients_without_what_only_its_workflow_checks() -> None:
    review = PlanReview(message="?", payload={"goal": "g"}, author=PlanBody(), revisable=True)
    shown = question(review).asked
    assert (type(shown), shown.verdicts, "author" in question(review).model_dump_json()) == (
        Review,
        review.verdicts,
        False,
    )


def test_two_kinds_of_one_name_are_refused() -> None:
    with pytest.raises(TypeError, match="two question kinds are named 'hold': .*Pause, and one of Holdfast's"):

        @question_kind
        class Pause(Asked):
            kind = "hold"


@pytest.mark.parametrize(
    ("content", "accepted"),
    [
        ("done", {"outcome": "done"}),
        (" Retry ", {"outcome": "retry"}),
        ("done: 42", {"outcome": "done", "result": 42}),
        ("done: paid twice", {"outcome": "done", "result": "paid twice"}),
        ({"outcome": "done", "result": None}, {"outcome": "done", "result": None}),
    ],
)
def test_the_end_of_a_lost_call_is_told_in_words_or_as_a_form(content: JSON, accepted: JSON) -> None:
    assert LostCall(message="?").accept(content) == accepted


@pytest.mark.parametrize(
    "content", ["donee", "", None, "done:", {"outcome": "gone"}, {"result": 1}, {"outcome": 1, "result": 1}]
)
def test_another_word_for_the_end_of_a_lost_call_is_refused(content: JSON) -> None:
    with pytest.raises(InvalidAnswer):
        LostCall(message="?").accept(content)


def test_the_refusal_of_a_misspelt_outcome_names_the_words() -> None:
    with pytest.raises(InvalidAnswer, match='say done, retry, fail; with a result: "done: <result>"'):
        LostCall(message="?").accept("donee")


JUDGED = {"properties": {"action": {"enum": ["retry", "edit", "skip", "abort"]}, "input": {}, "value": {}}}


def test_the_input_that_failed_stands_in_the_form_and_is_no_edit_of_its_own() -> None:
    asked = Judgement(message="?", form={"type": "object", **JUDGED}, info={"input": {"to": "Ana"}})
    assert json.loads(new_form(question(asked)).filled.text("f:input")) == {"to": "Ana"}
    assert asked.accept({"action": "retry", "input": {"to": "Ana"}}) == {"action": "retry"}


@pytest.mark.parametrize(
    ("asked", "content", "place"),
    [
        (
            Judgement(message="?", form=JUDGED, info={"input": {}}),
            {"action": "retry", "input": {"to": "Ben"}},
            "input",
        ),
        (Judgement(message="?", form=JUDGED, info={"input": {}}), {"action": "edit", "input": 1, "value": 0}, "value"),
        (LostCall(message="?"), {"outcome": "retry", "result": 42}, "result"),
        (
            Review(message="?", payload=1, revisable=True),
            {"verdict": "revise", "reason": "no", "payload": 2},
            "payload",
        ),
        (Review(message="?", payload=1), {"verdict": "rejected", "payload": 2}, "payload"),
    ],
)
def test_nothing_that_a_person_gives_is_without_effect(asked: Asked, content: JSON, place: str) -> None:
    with pytest.raises(InvalidAnswer) as refused:
        asked.accept(content)
    assert [path for path, _ in refused.value.problems] == [place]


def test_a_changed_payload_is_not_dropped_because_the_verdict_says_unchanged() -> None:
    review = Review(message="?", payload={"title": "Tea"})
    with pytest.raises(InvalidAnswer) as refused:
        review.accept({"verdict": "unchanged", "payload": {"title": "Coffee"}})
    assert [path for path, _ in refused.value.problems] == ["payload"]
    assert review.accept({"verdict": "unchanged", "payload": {"title": "Tea"}})["payload"] == {"title": "Tea"}


def test_a_review_takes_corrections_alone_wherever_it_is_answered() -> None:
    review = Review(message="?", payload={"who": "all", "n": 1})
    assert review.accept({"n": 2}) == {"verdict": "edited", "payload": {"who": "all", "n": 2}}
    fixed = ActionReview(message="?", payload={"n": 1}, editable=False)
    for asked, content in ((review, {}), (review, {"other": 1}), (fixed, {"n": 2}), (Review(message="?"), {"n": 2})):
        with pytest.raises(InvalidAnswer, match="verdict"):
            asked.accept(content)


@pytest.mark.parametrize(
    ("payload", "way"),
    [({"fee": 3}, "an object of what is right"), ("a letter", '{"verdict": "edited", "payload": …}')],
)
def test_a_review_says_how_it_is_answered_to_who_types_something_else(payload: JSON, way: str) -> None:
    with pytest.raises(InvalidAnswer, match=re.escape(f"or as JSON {way}, not '31.12.'")):
        Review(message="?", payload=payload).accept("31.12.")
