"""What counts as a yes and as a no where a plan asks a person: whole answers, in every language."""

import unicodedata

import pytest

from holdfast.blueprint.errors import BlueprintError
from holdfast.blueprint.kinds.plan_body import PlanOption, PlanStep
from holdfast.blueprint.load import loads
from holdfast.blueprint.plan.answers import list_options, means, read_plan_answer
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
