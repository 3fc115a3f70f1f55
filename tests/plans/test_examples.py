"""The plans of the examples, in French and in English, run to their end, and give the same."""

from __future__ import annotations

from typing import Any

import pytest

import examples.plans.calendar_tools  # noqa: F401 (registers the tools)
from holdfast.blueprint.load import load
from tests.conftest import Harness
from tests.plans.conftest import statuses
from tests.repository import ROOT

FOLDER = ROOT / "examples" / "plans"
PLANS = sorted(FOLDER.glob("*.json"))
LANGUAGES = ("en", "fr")


async def start(house: Harness, name: str, language: str) -> str:
    run = await house.runs.start(load(FOLDER / f"{name}.{language}.json"), None)
    house.started.append(run)
    return run


def test_every_plan_is_there_in_both_languages() -> None:
    stems = {path.name.split(".")[0] for path in PLANS}
    assert {path.name for path in PLANS} == {f"{stem}.{language}.json" for stem in stems for language in LANGUAGES}


@pytest.mark.slow
@pytest.mark.parametrize("language", LANGUAGES)
async def test_the_loop_renames_each_event_and_tells_each_guest(house: Harness, language: str) -> None:
    output = await house.output(await start(house, "loop", language))
    assert output["status"] == "completed"
    items = output["loops"]["loop_events"]["iteration_results"]
    assert [one["steps"]["5"]["data"]["sent_to"] for one in items] == ["ana@example.org", "ben@example.org"]
    assert output["steps"]["6"]["response"] == "Two events were renamed, and two guests know."


@pytest.mark.slow
@pytest.mark.parametrize("language", LANGUAGES)
async def test_the_condition_chooses_a_branch_and_both_join(house: Harness, language: str) -> None:
    output = await house.output(await start(house, "condition", language))
    assert statuses(output) == {"1": "completed", "3": "completed", "4": "skipped", "5": "completed"}


@pytest.mark.first_row
@pytest.mark.parametrize(
    ("language", "yes", "no"), [("en", "Yes, send", "No, cancel"), ("fr", "Oui, envoyer", "Non, annuler")]
)
@pytest.mark.parametrize("agrees", [True, False])
async def test_the_invitations_are_sent_once_somebody_agrees(
    house: Harness, language: str, yes: str, no: str, agrees: bool
) -> None:
    run = await start(house, "invitations", language)
    await house.answer(run, "the team")
    question = await house.one(run)
    assert [option.id for option in question.options] == [yes, no]
    assert question.message.endswith("? Come to the demo on Friday.")
    await house.answer(run, yes if agrees else no, question)
    output = await house.output(run)
    assert statuses(output)["5"] == ("completed" if agrees else "skipped")


@pytest.mark.slow
@pytest.mark.parametrize("language", LANGUAGES)
async def test_the_reminders_are_sent_without_a_model(house: Harness, language: str) -> None:
    run = await start(house, "reminders", language)
    await house.answer(run, "See you on Friday")
    output = await house.output(run)
    assert [one["text"] for one in output["steps"]["2"]["data"]] == ["See you on Friday"] * 2


@pytest.mark.slow
async def test_a_goal_is_made_clear_planned_agreed_to_and_worked_off(house: Harness) -> None:
    run = await house.runs.start(
        load(ROOT / "examples" / "reach_goal" / "reach_goal.yaml"), "Invite Ana and Ben to the demo"
    )
    house.started.append(run)
    assert await house.answered(run, "Ana and Ben", "Friday") == ["Who is to be invited?", "On which day?"]
    question = await house.one(run)
    plan: dict[str, Any] = question.info["payload"]
    assert plan["goal"] == "Invite the guests"
    await house.answer(run, {"verdict": "unchanged"}, question)
    assert await house.answered(run, "Yes, send", "No") == [
        "Send an invitation to ana@example.org?",
        "Send an invitation to ben@example.org?",
    ]
    output = await house.output(run)
    items = output["loops"]["guests"]["iteration_results"]
    assert [one["steps"]["3"]["status"] for one in items] == ["completed", "skipped"]
