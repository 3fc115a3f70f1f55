"""The questions of a plan: as ordinary steps, and which whole answers are a yes or a no, in every language."""

from __future__ import annotations

import unicodedata
from typing import Any

import pytest

from holdfast.blueprint.errors import BlueprintError
from holdfast.blueprint.expressions.evaluation import render
from holdfast.blueprint.kinds import PlanBody
from holdfast.blueprint.kinds.plan_body import PlanOption, PlanStep
from holdfast.blueprint.load import loads
from holdfast.blueprint.parts import Option
from holdfast.blueprint.plan.answers import list_options, means, read_plan_answer
from holdfast.blueprint.plan.compile import compile_plan
from holdfast.blueprint.plan.layout import StepUnit
from holdfast.blueprint.plan.questions import OutcomeQuestion, PlanQuestion, compile_question
from holdfast.blueprint.questions.agreement import TABLES, agrees, plainly, refuses


@pytest.mark.parametrize(
    "text",
    [
        *("yes", "Yes!", "ok", "OK.", "go ahead", "Go ahead!", "sure", "Yes, please", "of course", "\U0001f44d"),
        *("oui", "Oui, envoyer", "vas-y", "allez-y", "Allez-y !", "c'est bon", "C’est bon", "bien sûr", "parfait"),
        *(
            "d'accord",
            "ja",
            "perfekt",
            "ja gerne",
            "Ja, gerne!",
            "«Perfekt»",
            "sí",
            "¡Sí!",
            "claro que sí",
            "Sì, certo",
        ),
        *("va bene", "sim", "pode enviar", "ja, graag", "ga je gang", "akkoord"),
    ],
)
def test_a_whole_answer_that_stands_in_a_table_is_a_yes(text: str) -> None:
    assert agrees(text)
    assert agrees(unicodedata.normalize("NFD", text))


@pytest.mark.parametrize(
    "text",
    [
        *("yes but", "not ok", "sure, tomorrow", "oui mais pas lui", "ok mais pas avant lundi", "Yes, but wait"),
        *("OK, stop", "ok?", "oui ?", "yes no", "yes, cancel it", "I'd say yes", "not yes", "ja aber", "sí pero no"),
        *("", "  ", "...", "later", "It is confirmed", "unconfirmed", "Oui, annuler la fête", "no problem, later"),
    ],
)
def test_no_part_of_an_answer_is_a_yes(text: str) -> None:
    assert not agrees(text)


@pytest.mark.parametrize(
    "text", ["no", "Non, surtout pas", "No, not confirmed", "nein danke", "não", "nee", "stop!", "not ok", "don't"]
)
def test_a_no_may_be_followed_by_its_reason(text: str) -> None:
    assert refuses(text)


@pytest.mark.parametrize("text", ["no problem", "pas de problème", "kein problem", "no objection", "go on", "notok"])
def test_a_word_that_only_looks_like_a_no_is_none(text: str) -> None:
    assert not refuses(text)


def test_no_answer_is_a_yes_and_a_no() -> None:
    said = {one for words in TABLES.values() for entries in words[3:8] for one in entries.split("|")}
    assert [one for one in said if agrees(one) and refuses(one)] == []


@pytest.mark.parametrize("words", TABLES.values(), ids=TABLES)
def test_the_default_options_of_a_language_mean_what_they_say(words: tuple[str, ...]) -> None:
    accept, refuse, unclear = words[:3]
    assert (agrees(accept), means(accept)) == (True, 1)
    assert (refuses(refuse), means(refuse)) == (True, 0)
    assert unclear.format("x") != unclear
    assert all(one == plainly(one) or "-" in one for entries in words[3:8] for one in entries.split("|"))


@pytest.mark.parametrize(
    ("language", "options"),
    [(None, ["accept", "refuse"]), ("fr", ["accepter", "refuser"]), ("de", ["annehmen", "ablehnen"])],
)
def test_default_options_speak_the_language_of_the_plan(language: str | None, options: list[str]) -> None:
    asks = PlanStep(id="1", instruction="CONFIRM_ACTION: x")
    assert [option.text for option in list_options(asks, language)] == options  # type: ignore[arg-type]


@pytest.mark.parametrize(("text", "type_"), [("Ja, senden", 1), ("Nicht senden", 0), ("Si possible", 2), ("Später", 2)])
def test_options_in_other_languages_are_told_apart(text: str, type_: int) -> None:
    assert means(text) == type_


def test_what_was_said_stays_as_it_was_said() -> None:
    told = read_plan_answer("Vas-y !", [PlanOption(text="accepter", type=1)], by_words=True)
    assert told == {"response": "Vas-y !", "outcome": "confirmed", "option_index": None, "option_type": None}


def test_a_language_without_a_table_is_refused() -> None:
    with pytest.raises(BlueprintError, match="language"):
        loads('{"goal": "x", "language": "sv", "steps": [{"id": "1", "instruction": "y"}]}', file="p.json")


def test_a_default_answer_is_one_of_the_options_in_the_language_of_the_plan() -> None:
    asks = '{"id": "1", "instruction": "CONFIRM_ACTION: y", "timeout": "1h", "on_timeout": "default", "default": "%s"}'
    loads('{"goal": "x", "language": "fr", "steps": [%s]}' % asks % "refuser", file="p.json")  # noqa: UP031
    with pytest.raises(BlueprintError, match="not one of the options"):
        loads('{"goal": "x", "language": "fr", "steps": [%s]}' % asks % "refuse", file="p.json")  # noqa: UP031


def compiled(instruction: str, *more_steps: dict[str, Any], note: str = "", **more: Any) -> PlanQuestion:
    asking = {"id": "1", "instruction": instruction, **more}
    plan = PlanBody.model_validate({"goal": "A {{ goal }}", "steps": [asking, *more_steps]})
    layout, faults = compile_plan(plan)
    unit = layout.units_by_id["1"]
    assert isinstance(unit, StepUnit) and not faults
    return compile_question(unit, plan, layout, note=note, suggestions=["Soon"])


def made(step: PlanQuestion, **names: Any) -> OutcomeQuestion:
    """The question as the interpreter makes it of the step."""
    assert not isinstance(step.options, str)
    options = [Option(id=option.id, label=render(option.label, names) or "") for option in step.options]
    details = {"details": render(step.details, names)}
    question = step.make_question(str(render(step.message, names)), render(step.default, names), options, None, details)
    assert isinstance(question, OutcomeQuestion)
    return question


def test_what_a_plan_says_is_no_template_and_a_value_is_not_searched_again() -> None:
    step = compiled("CONFIRM_ACTION: Send {{ 1 + 1 }}, RESULT_FROM_2?", {"id": "2", "instruction": "Find it"})
    asked = made(step, steps={"2": {"output": "{{ 3 }} RESULT_FROM_1"}})
    assert asked.message == "Send {{ 1 + 1 }}, {{ 3 }} RESULT_FROM_1?"
    assert asked.info == {"goal": "A {{ goal }}"}


def test_options_that_are_blank_or_appear_twice_are_left_out() -> None:
    options = ["RESULT_FROM_2", "RESULT_FROM_3", "Later"]
    others = [{"id": id_, "instruction": "Find it"} for id_ in "23"]
    step = compiled("ASK_INFO: When?", *others, options=[{"text": text} for text in options])
    assert [option.id for option in made(step, steps={"2": {"output": "later"}, "3": {"output": None}}).choices] == [
        "later"
    ]


def test_words_that_are_neither_a_yes_nor_a_no_are_asked_about_once_and_then_are_a_no() -> None:
    asked = made(compiled("CONFIRM_ACTION: Send?"))
    again = asked.ask_again("yes, but")
    assert again is not None and again.message.startswith("Send?\n\n“yes, but”")
    assert again.ask_again("yes, but") is None
    assert again.read_output("yes, but")["outcome"] == "cancelled"
    assert (asked.ask_again("yes"), asked.read_output("yes")["outcome"]) == (None, "confirmed")


def test_a_model_suggests_answers_only_where_no_yes_is_needed() -> None:
    asked = made(compiled("ASK_INFO: When?", note="It is urgent."))
    assert (asked.message, [option.id for option in asked.choices]) == ("When?\n\nIt is urgent.", ["Soon"])
    confirming = made(compiled("CONFIRM_ACTION: Send?", note="It is urgent."))
    assert (confirming.message, confirming.info["agent_says"]) == ("Send?", "It is urgent.")
    assert [option.id for option in confirming.choices] == ["accept", "refuse"]


def test_people_and_clients_see_an_ordinary_question() -> None:
    kinds = [made(compiled(text)).for_clients().shown_kind for text in ("CONFIRM_ACTION: Send?", "ASK_INFO: When?")]
    assert kinds == ["decision", "input"]
