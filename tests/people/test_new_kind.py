"""Kinds of questions of an author's package: of one class each, known to every surface, and data to the workflow.

The classes are those of examples/connect_service: nothing of Holdfast names them.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from examples.connect_service.question_kinds import EnvVar, Rating
from holdfast.activities import Interrupt, resumed, tool
from holdfast.blueprint.errors import BlueprintError
from holdfast.blueprint.explain import explain
from holdfast.blueprint.load import loads
from holdfast.blueprint.questions import (
    QUESTION_KINDS,
    Asked,
    CustomQuestion,
    Draft,
    KindDefinition,
    QuestionKind,
    define_kind,
    question_kind,
)
from holdfast.blueprint.schema import language_schema
from holdfast.cli.prompts import AnswerFile, PipedAnswers
from holdfast.cli.render import answer_command, question_text
from holdfast.cli.tables import console
from holdfast.client.answer_files import Entry
from holdfast.client.reading import parse_content
from holdfast.protocol.answers import Answer, Refusal
from holdfast.protocol.questions import Question
from holdfast.runtime.secrets import SecretDirectory
from holdfast.server.mcp.elicitation import content_from, form_for
from tests.answering import answer_by
from tests.client.questions import question
from tests.conftest import Harness, until
from tests.terminals import Typing
from tests.terminals import typing as typing

RATE = """
steps:
  - {kind: hitl, name: score, ask: rating, stars: 3, reasons: [price, docs], message: How was it?}
  - {name: out, uses: passthrough, input: "{{ steps.score.output + 1 }}"}
"""
KEY = "steps: [{kind: hitl, name: key, ask: env_var, variable: TOKEN, message: The token?}]"


@tool
def rate(stars: int = 3) -> dict[str, Any]:
    """Ask for a rating."""
    rating = resumed(dict)
    if not rating.has_data:
        raise Interrupt(Rating(message="How was it?", stars=stars, info={"of": "the docs"}))
    return dict(rating.data)


def asked(kind: QuestionKind) -> Question:
    """The question as a client gets it."""
    sent = question(CustomQuestion.define(define_kind(kind), kind.message)).model_dump_json()
    return Question.model_validate_json(sent)


RATING = asked(Rating(message="How was it?", stars=4, reasons=["price", "docs"]))
ENV_VAR = asked(EnvVar(message="The token?", variable="TOKEN"))


async def test_a_step_asks_it_checks_it_and_gives_its_output(house: Harness) -> None:
    run = await house.start(RATE)
    open_ = await house.one(run)
    assert (open_.kind, open_.requestedSchema["properties"]["stars"]["maximum"]) == ("rating", 3)
    refused = [await house.refused(run, content) for content in ({"stars": 4}, {}, {"stars": 1, "reasons": ["x"]})]
    assert {refusal.code for refusal in refused} == {"invalid_answer"}
    await house.answer(run, {"stars": 2, "reasons": ["docs"]})
    assert await house.output(run) == 3


async def test_a_tool_raises_it(house: Harness) -> None:
    run = await house.start("steps: [{name: rate, uses: rate, input: {stars: 3}}]")
    open_ = await house.one(run)
    assert (open_.kind, open_.info) == ("rating", {"of": "the docs"})
    await house.answer(run, {"stars": 3})
    assert await house.output(run) == {"stars": 3}


async def test_a_run_that_waits_is_not_changed_by_a_changed_package(house: Harness, monkeypatch) -> None:
    """At its end the run is replayed as well, while the class is another one."""
    run = await house.start(RATE)
    await house.one(run)
    monkeypatch.delitem(QUESTION_KINDS, "rating")
    await house.answer(run, {"stars": 3})
    assert await house.output(run) == 4


async def test_a_secret_of_it_goes_to_the_store_and_the_rest_is_seen(house: Harness) -> None:
    answer_by(house.runs, replace(house.runs.answering, secrets=SecretDirectory(house.folder / "secrets")))
    run = await house.start(KEY)
    content = {"TOKEN": "crm-4711", "file_paths": ["a.py"], "urls": ["https://a.example"]}
    assert (await house.refused(run, {**content, "urls": ["nowhere"]})).code == "invalid_answer"
    await house.answer(run, content)
    output = await house.output(run)
    assert (output["TOKEN"].startswith("secret:"), output["urls"]) == (True, ["https://a.example"])


async def test_a_signal_answers_it_unless_its_trait_says_no(house: Harness) -> None:
    place = "{name: poll, answer: {type: integer}, takes_signal: %s}"
    text = "steps: [{kind: hitl, name: score, message: How?, ask: %s}]"
    runs = [await house.start(text % (place % takes)) for takes in ("true", "false")]
    for run in runs:
        answer = {"question": (await house.one(run)).id, "content": 3}
        await house.client.get_workflow_handle(run).signal("answer", answer)
    assert await house.output(runs[0]) == 3

    async def refused() -> list[str]:
        return [signal.message for signal in (await house.runs.tree.view(runs[1])).refused]

    [message] = await until(refused, "the refused signal")
    assert "an answer of kind poll cannot be sent by signal" in message


# Where it is shown


def test_a_terminal_shows_it_with_the_command_that_answers_it() -> None:
    assert "How was it?" in question_text(RATING).plain
    assert answer_command(RATING).endswith(f"""{RATING.id} --content '{{"stars": …}}'""")
    poll = KindDefinition(name="poll", answer={"type": "integer", "examples": [7]})
    assert answer_command(question(CustomQuestion.define(poll, "How many?"))).endswith("--content 7")
    assert answer_command(ENV_VAR) == "holdfast attach r"


def test_a_terminal_asks_for_its_fields_and_reads_typed_words_as_it_says(typing: Typing) -> None:
    assert typing.content(RATING, "9", "3", "price, docs", "") == {"stars": 3, "reasons": ["price", "docs"]}
    assert "stars: must be at most 4, not 9" in typing.shown.getvalue()
    assert typing(RATING, "*** fine") == Answer(
        question=RATING.id, content={"stars": 3, "why": "fine"}, digest=RATING.digest
    )
    assert (parse_content("**", RATING), RATING.find_problems({"stars": 5})) == (
        {"stars": 2},
        [("stars", "must be at most 4, not 5")],
    )


def test_words_that_its_class_raises_at_are_refused_and_asked_for_again(
    typing: Typing, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(_: Rating, text: str) -> dict[str, int]:
        return {"stars": int(text)}

    monkeypatch.setattr(Rating, "read", read)
    with pytest.raises(Refusal, match=r"cannot read 'so so': ValueError: .*test_new_kind.py:\d+ in read\)") as refused:
        parse_content("so so", RATING)
    assert (refused.value.code, refused.value.question) == ("invalid_answer", RATING.id)
    assert parse_content('{"stars": 1}', RATING) == {"stars": 1}
    assert typing.content(RATING, "so so", "3", "", "") == {"stars": 3}
    assert "cannot read 'so so'" in typing.shown.getvalue()
    lines = iter(["so so", "2"])
    monkeypatch.setattr("holdfast.cli.prompts._is_at_end", lambda: False)
    monkeypatch.setattr("holdfast.cli.prompts.read_line", lambda: next(lines, None))
    answer = asyncio.run(PipedAnswers(console(typing.shown)).answer(RATING))
    assert answer is not None and answer.content == {"stars": 2}
    written = AnswerFile([Entry("*", "so so"), Entry("*", "4")], console(typing.shown))
    answer = asyncio.run(written.answer(RATING))
    assert answer is not None and answer.content == {"stars": 4}


def test_words_for_a_class_that_has_changed_or_gone_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    before = define_kind(Rating(message="How was it?")).model_copy(update={"settings": {"points": 5}})
    with pytest.raises(Refusal, match="has changed since it was asked: give the content as JSON"):
        parse_content("***", question(CustomQuestion.define(before, "How was it?")))
    monkeypatch.delitem(QUESTION_KINDS, "rating")
    with pytest.raises(Refusal, match="no package here has it: give the content as JSON"):
        parse_content("***", RATING)
    assert parse_content('{"stars": 2}', RATING) == {"stars": 2}


def test_an_assistant_puts_it_before_a_person_as_a_form() -> None:
    form = form_for(RATING)
    assert {name: field["type"] for name, field in form["properties"].items()} == {
        "stars": "integer",
        "reasons": "string",
        "why": "string",
    }
    assert content_from(RATING, {"stars": 3, "reasons": '["docs"]', "why": ""}) == {"stars": 3, "reasons": ["docs"]}


def test_an_editor_knows_its_name_and_its_settings() -> None:
    schema = language_schema({"rating": Rating, "env_var": EnvVar})
    steps = {"stars": {"ask": "rating", "stars": 3}, "variable": {"ask": "env_var", "variable": "X"}}
    fits = {name: {"kind": "hitl", "name": "a", **step} for name, step in steps.items()}
    wrong = [{**fits["stars"], "stars": "3"}, {**fits["stars"], "ask": "input"}, {**fits["variable"], "variable": 1}]
    wrong += [{"kind": "hitl", "name": "a", "ask": "env_var"}]
    valid = [jsonschema_rs.is_valid(schema, {"steps": [step]}) for step in [*fits.values(), *wrong]]
    assert valid == [True, True, False, False, False, False]


# What an author may get wrong


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ("ask: ratings", "'ask' must be 'clarification'"),
        ("ask: rating, stars: many", "'stars' of ask: rating: input should be a valid integer"),
        ("ask: rating, starz: 3", "did you mean 'stars'?"),
        ("ask: env_var", "'variable' of ask: env_var: field required"),
        ("ask: rating, options: [a]", "what a rating takes is fixed"),
        ("ask: rating, input_schema: {type: integer}", "what a rating takes is fixed"),
        ("ask: rating, timeout: 1d, default: {stars: 9}", "the default is not a valid answer"),
        ("ask: {name: review, answer: {}}", "'review' is a kind of Holdfast's"),
        ("ask: {name: poll, answer: {type: numbr}}", "numbr"),
        ("ask: {nam: poll}", "'nam'"),
        ("ask: {name: poll, answer: {}, output: context.x}", "reads content only, not context"),
    ],
)
def test_a_step_that_asks_wrongly_is_refused_with_its_place(keys: str, problem: str) -> None:
    with pytest.raises(BlueprintError) as raised:
        loads(f"steps: [{{kind: hitl, name: a, message: Hm?, {keys}}}]")
    assert any(problem in str(one) and one.line == 1 and "steps[0]" in one.path for one in raised.value.problems)


@pytest.mark.parametrize(
    ("has_form", "problem"), [(True, "ZeroDivisionError: .*test_new_kind.py"), (False, "the class has none")]
)
def test_a_form_that_its_class_cannot_make_is_told_with_the_other_mistakes(
    has_form: bool, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if has_form:
        monkeypatch.setattr(Rating, "schema", lambda self: {"minimum": self.stars / 0})
    else:
        monkeypatch.delattr(Rating, "schema")
    with pytest.raises(BlueprintError) as raised:
        loads("steps: [{kind: hitl, name: a, message: Hm?, ask: rating}, {name: b, uses: nothing_here, inputs: 1}]")
    first, *others = raised.value.problems
    assert first.path == "steps[0].ask" and re.search(
        f"the kind 'rating' cannot be used: Rating.schema.* raises .*{problem}", first.message
    )
    assert others


GONE = """
steps:
  - {kind: hitl, name: a, ask: criteria, top: 5, message: Hm?, timeout: 1d, default: {speed: 1}}
  - {name: b, uses: passthrough, input: "{{ steps.a.output.speed }}"}
"""


def test_of_a_kind_that_there_is_not_only_that_is_told() -> None:
    with pytest.raises(BlueprintError) as raised:
        loads(GONE)
    assert [(one.path, one.code) for one in raised.value.problems] == [("steps[0].ask", "bad_value")]


def test_of_a_package_that_cannot_be_imported_no_kind_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "from holdfast.blueprint.questions import QuestionKind, question_kind\n"
    text += "@question_kind\nclass Criteria(QuestionKind):\n    kind = 'criteria'\nimport nothing_here\n"
    (tmp_path / "half_a_package.py").write_text(text)
    (tmp_path / "holdfast.toml").write_text('[worker]\nimports = ["half_a_package"]\n')
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        with pytest.raises(BlueprintError, match="half_a_package cannot be imported: ModuleNotFoundError"):
            loads(GONE)
    assert "criteria" not in QUESTION_KINDS


def test_what_reads_its_output_is_checked_before_the_run() -> None:
    with pytest.raises(BlueprintError, match="title"):
        loads(RATE.replace("steps.score.output + 1", "steps.score.output.title"))


def test_a_class_that_cannot_be_a_kind_is_refused() -> None:
    class Review(Rating):
        kind = "review"

    class Nameless(QuestionKind): ...

    class Another(QuestionKind):
        kind = "rating"

    class Awaited(QuestionKind):
        kind = "awaited"

        async def read(self, text: str) -> dict[str, str]:  # type: ignore[override]
            return {"text": text}

    taken = r"two question kinds are named 'rating': tests\.people\.test_new_kind\..*Another, and examples\..*Rating"
    wrong = ((Review, "Holdfast's"), (Nameless, "`kind`"), (Another, taken), (Awaited, "Awaited.read is a coroutine"))
    for cls, problem in wrong:
        with pytest.raises(TypeError, match=problem):
            question_kind(cls)


def test_its_data_holds_nothing_of_the_class_but_what_a_workflow_needs() -> None:
    data = json.loads(define_kind(EnvVar(variable="X")).model_dump_json(exclude_defaults=True))
    assert data.keys() == {"name", "answer", "hidden", "settings"}
    assert KindDefinition.model_validate(data).settings == {"variable": "X"}


# A kind of ours is one class, too


class Receipt(Asked):
    """That a person has read a text."""

    kind = "receipt"
    in_steps = "that it was read"
    request = "asks {who} to say that it was read: {message}"
    declining = "Declining is no receipt."

    @classmethod
    def of(cls, draft: Draft) -> Asked:
        return cls(message=draft.message)

    def schema(self) -> dict[str, Any]:
        return {"const": "read", "x-hint": "a tick"}

    def read(self, text: str) -> Any:
        return "read" if text == "v" else None


@pytest.fixture
def receipt() -> Iterator[None]:
    question_kind(Receipt)
    yield
    del QUESTION_KINDS["receipt"]


@pytest.mark.slow
def test_a_kind_of_ours_is_known_everywhere_from_its_class(receipt: None) -> None:
    text = "steps: [{kind: hitl, name: note, ask: receipt, message: The bridge is closed.}]"
    assert "asks a person to say that it was read" in explain(loads(text)).text
    assert "receipt" in language_schema()["$defs"]["Hitl"]["properties"]["ask"]["anyOf"][0]["enum"]
    with pytest.raises(BlueprintError, match="what a receipt takes is fixed"):
        loads(text.replace("message", "options: [a], message"))
    sent = Question.model_validate_json(question(Receipt(message="Closed.")).model_dump_json())
    assert (sent.kind, sent.asked.hint, parse_content("v", sent)) == ("receipt", "a tick", "read")
    assert sent.find_problems("no") == [("", "must be 'read', not 'no'")]
