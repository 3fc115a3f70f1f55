"""`holdfast create --wizard`: what is asked, what is written, and that it runs."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator
from importlib import resources
from pathlib import Path

import pytest

from holdfast.blueprint import expand, loads
from holdfast.blueprint.expressions import render
from holdfast.blueprint.jsonschemas import problems_of
from holdfast.blueprint.kinds import AnyStep, Clarify, Conditional, Hitl, Loop, Map
from holdfast.blueprint.load import examine
from holdfast.client.wizard import WizardAnswers, blueprint_text, questions, replies_text
from holdfast.client.wizard.texts import NEVER
from tests.client.command import ROOT, TONE, Holdfast, Screen

GOLDEN = Path(__file__).parent / "golden_wizard"
WANTED = {
    "clarify": WizardAnswers(name="trip", goal="Plan a trip", pattern="clarify", facts="place, number_of_days"),
    "feedback": WizardAnswers(
        name="tea",
        goal="A text about tea",
        pattern="feedback",
        model="scripted",
        question="Is this good?",
        deadline="2d",
        unanswered="keep",
    ),
    "approval": WizardAnswers(
        name="pay",
        goal="Pay the invoice",
        pattern="approval",
        question="Shall it be paid?",
        deadline="1h30m",
        unanswered="refuse",
    ),
    "conversation": WizardAnswers(
        name="brief",
        goal="Write a brief.",
        pattern="conversation",
        model="scripted",
        question="What do you want?",
        deadline="1d",
        unanswered="decide",
    ),
    "items": WizardAnswers(
        name="labels",
        goal="Write a label",
        pattern="items",
        items="tea, milk, on",
        model="scripted",
        question="Keep this?",
        deadline="2d",
        unanswered="drop",
    ),
    "no_deadline": WizardAnswers(
        name="open", goal="A text", pattern="feedback", model="openai:gpt-5.2", question="Good: or not?"
    ),
    "failing": WizardAnswers(
        name="strict", goal="Pay", pattern="approval", question="Pay?", deadline="30m", unanswered="fail"
    ),
}
NAMES = {"input": None, "context": {"draft": "a draft"}, "item": "tea", "steps": {"draft": {"output": "a label"}}}
TYPED = {
    "clarify": ["place, days"],
    "feedback": ["scripted", "Good?", "2d", "keep"],
    "approval": ["Pay?", "never"],
    "conversation": ["scripted", "What do you want?", "2d", "decide"],
    "items": ["tea, milk", "scripted", "Keep it?", "1h30m", "drop"],
}
ANSWERED = {
    "clarify": (["Rome", "3", '{"verdict": "unchanged"}'], '"place": "Rome"'),
    "feedback": (["warmer", "good"], "The next draft, changed as you said.\n"),
    "approval": (["approve"], "Done: A first try\n"),
    "conversation": (["A poem", "my team", "no rhymes"], "User: no rhymes"),
    "items": (["keep", "drop"], '"A text about tea."'),
}


def nested(steps: Iterable[AnyStep]) -> Iterator[AnyStep]:
    """The steps, and those inside of them."""
    for step in steps:
        yield step
        match step:
            case Conditional():
                yield from nested(inner for branch in step.branches.values() for inner in branch)
            case Loop():
                yield from nested(step.loop.body)
            case Map():
                yield from nested(step.map.body)


@pytest.mark.parametrize("name", WANTED)
def test_the_texts_are_as_in_the_golden_files(name: str) -> None:
    wanted = WANTED[name]
    written = {"yaml": blueprint_text(wanted, f"{name}.replies.yaml"), "replies.yaml": replies_text(wanted)}
    for ending, text in written.items():
        golden = GOLDEN / f"{name}.{ending}"
        if text is not None and os.environ.get("HOLDFAST_GOLDEN"):
            golden.write_text(text)
        assert text == (golden.read_text() if golden.exists() else None), "HOLDFAST_GOLDEN=1 writes it anew"


@pytest.mark.parametrize("name", WANTED)
def test_a_golden_file_has_no_problem_and_its_core_form_is_the_same_blueprint(name: str) -> None:
    parsed = examine(GOLDEN / f"{name}.yaml")
    assert (parsed.problems, parsed.warnings) == ([], [])
    assert parsed.blueprint is not None
    assert loads(expand(parsed.blueprint)) == parsed.blueprint


@pytest.mark.parametrize("pattern", TYPED)
@pytest.mark.parametrize("text", ["{{ input.x", '"a": \\ {% if %}\n# b', "- a", "{# c", "true", "ä 🎉 \x85 'x'", "{{{"])
def test_whatever_is_typed_is_meant_literally(pattern: str, text: str) -> None:
    wanted = WANTED[pattern].model_copy(update={"goal": text, "question": text, "items": text, "model": text})
    blueprint = loads(blueprint_text(wanted, "r.yaml"))
    assert blueprint.description == text
    for step in nested(blueprint.steps):
        if isinstance(step, Hitl) and step.name in ("review", "approve", "get_goal", "decide"):
            assert str(render(step.message, NAMES)).startswith(text)
        if isinstance(step, Clarify):
            assert render(step.goal, NAMES) == text
    for agent in blueprint.agents.values():
        assert str(render(agent.instructions, NAMES)).startswith(text)


def test_every_answer_of_the_wizard_has_its_place() -> None:
    asked = [name for step in nested(questions().steps) if isinstance(step, Clarify) for name in step.properties()]
    assert set(asked) == set(WizardAnswers.model_fields)


@pytest.mark.first_row
@pytest.mark.parametrize("pattern", TYPED)
def test_what_the_wizard_writes_runs_as_it_is(holdfast: Holdfast, pattern: str) -> None:
    typed = "\n".join(["A first try", pattern, *TYPED[pattern]])
    made = holdfast("create", f"my-{pattern}.yaml", "--wizard", typed=typed)
    assert (made.code, made.out) == (0, f"holdfast run my-{pattern}.yaml\n"), made
    answers, output = ANSWERED[pattern]
    ran = holdfast("run", f"my-{pattern}.yaml", typed="\n".join(answers))
    assert ran.code == 0, ran
    assert output in ran.out


@pytest.mark.slow
def test_the_name_is_asked_and_an_answer_that_does_not_fit_is_asked_again(holdfast: Holdfast) -> None:
    typed = "two words\nasked\nA try\napproval\nPay?\nsoon\n0d\n3d\nfail\n"
    made = holdfast("create", "--wizard", "--json", typed=typed)
    assert made.json["files"] == ["asked.yaml"]
    assert made.err.count("refused:") == 3
    assert "timeout: 3d" in (holdfast.folder / "asked.yaml").read_text()


@pytest.mark.slow
def test_answers_come_from_a_file_too(holdfast: Holdfast) -> None:
    facts = {"name": "filed", "goal": "A try", "pattern": "clarify", "facts": "place"}
    entries = "".join(f"- {{question: {name}, content: {text}}}\n" for name, text in facts.items())
    made = holdfast("create", "--wizard", "--answers", holdfast.write("wizard-answers.yaml", entries))
    assert made.out == "holdfast run filed.yaml\n"


@pytest.mark.slow
def test_nothing_is_overwritten_and_the_answers_are_kept(holdfast: Holdfast) -> None:
    holdfast.write("there.yaml", "mine")
    refused = holdfast("create", "there.yaml", "--wizard")
    assert (refused.code, refused.out) == (2, "")
    late = holdfast("create", "--wizard", typed="there\nA try\napproval\nPay?\nnever\n")
    assert late.code == 2
    assert (holdfast.folder / "there.yaml").read_text() == "mine"
    run = late.err.rsplit("--run ", 1)[1].strip()
    assert holdfast("create", "elsewhere.yaml", "--run", run).out == "holdfast run elsewhere.yaml\n"


@pytest.mark.slow
def test_replies_that_are_there_are_not_overwritten_either(holdfast: Holdfast) -> None:
    holdfast.write("half.replies.yaml", "mine")
    made = holdfast("create", "half.yaml", "--wizard", typed="A try\nfeedback\nscripted\nGood?\nnever\n")
    assert (made.code, "half.replies.yaml already exists" in made.err) == (2, True)
    assert not (holdfast.folder / "half.yaml").exists()


@pytest.mark.slow
def test_questions_that_nobody_answers_wait_and_are_gone_on_with(holdfast: Holdfast) -> None:
    parked = holdfast("create", "later.yaml", "--wizard", "--json", typed="A try\n")
    assert (parked.code, parked.json["status"]) == (3, "waiting")
    run = parked.json["run"]
    assert f"holdfast create later.yaml --run {run}" in parked.err
    made = holdfast("create", "later.yaml", "--run", run, typed="clarify\nplace\n")
    assert (made.code, made.out) == (0, "holdfast run later.yaml\n")


@pytest.mark.slow
def test_a_person_at_a_terminal_chooses_by_number_and_may_leave(
    holdfast: Holdfast, at_terminal: Callable[..., Screen]
) -> None:
    screen = at_terminal("create", "typed.yaml", "--wizard")
    for question, answer in [("What is it for?", "A try\r"), ("How does it work?", "3\r"), ("asked?", "\x03")]:
        screen.until(question)
        screen.until(">")
        screen.type(answer)
    screen.until("continue with: ")
    assert screen.leave() == 3
    run = screen.text[screen.seen :].split()[-1]
    back = at_terminal("create", "typed.yaml", "--run", run)
    for answer in ("Shall it be paid?\r", "never\r"):
        back.until(">")
        back.type(answer)
    back.until("holdfast run typed.yaml")
    assert back.leave() == 0


def test_only_a_run_of_the_wizard_is_gone_on_with(holdfast: Holdfast) -> None:
    other = holdfast.park(TONE)["run"]
    refused = holdfast("create", "other.yaml", "--run", other)
    assert (refused.code, "not of the wizard" in refused.err) == (2, True)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "holdfast create [FILE] --wizard"),
        (["--goal", "Tea"], "--goal needs --from"),
        (["no-folder/x.yaml", "--wizard"], "there is no folder no-folder"),
    ],
)
def test_what_cannot_be_created_is_told_with_exit_code_2(holdfast: Holdfast, words: list[str], told: str) -> None:
    ran = holdfast("create", *words)
    assert (ran.code, told in ran.err) == (2, True)


def test_without_a_deadline_nothing_is_asked_about_one() -> None:
    assert "timeout" not in blueprint_text(WANTED["feedback"].model_copy(update={"deadline": NEVER}), "r.yaml")


def test_the_page_about_it_shows_what_is_written() -> None:
    shown = (GOLDEN / "feedback.yaml").read_text().replace("scripted:feedback.", "scripted:tea.")
    assert shown in (ROOT / "docs" / "creating.md").read_text()


def test_a_pattern_of_the_wizards_questions_is_told_in_words() -> None:
    text = resources.files("holdfast.client.wizard").joinpath("questions.yaml").read_text(encoding="utf-8")
    patterns = re.findall(r'^ +pattern: "(.*)"$', text, re.MULTILINE)
    told = [problems_of({"type": "string", "pattern": json.loads(f'"{pattern}"')}, " ?") for pattern in patterns]
    assert len(told) == 4
    assert not any("pattern" in str(problem) for problem in told)
