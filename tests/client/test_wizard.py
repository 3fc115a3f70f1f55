"""`holdfast create --wizard`: what is asked, what is written, and that it runs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from holdfast.blueprint.core import expand
from holdfast.blueprint.expressions.evaluation import render
from holdfast.blueprint.jsonschemas import list_misfits
from holdfast.blueprint.kinds import AnyStep, Clarify, Conditional, Hitl, Loop, Map
from holdfast.blueprint.load import loads, parse_file
from holdfast.cli.wizard import WizardAnswers, WizardQuestion, blueprint_text, next_question, replies_text
from holdfast.cli.wizard.questions import NEVER, PATTERNS
from tests.client.command import Holdfast, Screen
from tests.repository import ROOT

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
    parsed = parse_file(GOLDEN / f"{name}.yaml")
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


def questions_about(pattern: str) -> list[WizardQuestion]:
    """Every question about a pattern, with a deadline where it asks for one."""
    answers, asked = {}, []
    while (question := next_question(answers)) is not None:
        asked.append(question)
        answers[question.name] = {"pattern": pattern, "deadline": "2d"}.get(question.name, "x")
    return asked


def test_every_answer_of_the_wizard_has_its_place() -> None:
    asked = {question.name for pattern in PATTERNS for question in questions_about(pattern)}
    assert asked == set(WizardAnswers.model_fields)


@pytest.mark.slow
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


def test_it_asks_where_no_server_runs_and_starts_none(tmp_path: Path) -> None:
    typed = "two words\nasked\nA try\napproval\nPay?\nsoon\n0d\n3d\nfail\n"
    made = Holdfast(tmp_path, HOLDFAST_HOME="")("create", "--wizard", "--json", typed=typed)
    assert made.json == {"files": ["asked.yaml"], "command": "holdfast run asked.yaml"}
    assert made.err.count("refused:") == 3
    assert "timeout: 3d" in (tmp_path / "asked.yaml").read_text()
    assert sorted(path.name for path in tmp_path.iterdir()) == [".holdfast-schemas", "asked.yaml"]


def test_answers_come_from_a_file_too(holdfast: Holdfast) -> None:
    facts = {"name": "filed", "goal": "A try", "pattern": "clarify", "facts": "place"}
    entries = "".join(f"- {{question: {name}, content: {text}}}\n" for name, text in facts.items())
    made = holdfast("create", "--wizard", "--answers", holdfast.write("wizard-answers.yaml", entries))
    assert made.out == "holdfast run filed.yaml\n"


def test_an_answer_of_a_file_that_does_not_fit_is_told(holdfast: Holdfast) -> None:
    entries = "- {question: goal, content: A try}\n- {question: pattern, content: guess}\n"
    made = holdfast("create", "x.yaml", "--wizard", "--answers", holdfast.write("wizard-answers.yaml", entries))
    assert (made.code, "the answer to pattern must be one of" in made.err) == (2, True)


def test_nothing_is_overwritten_and_a_name_that_is_taken_is_asked_again(holdfast: Holdfast) -> None:
    holdfast.write("there.yaml", "mine")
    refused = holdfast("create", "there.yaml", "--wizard")
    assert (refused.code, refused.out) == (2, "")
    late = holdfast("create", "--wizard", typed="there\nfree\nA try\napproval\nPay?\nnever\n")
    assert (late.out, "refused: there.yaml already exists" in late.err) == ("holdfast run free.yaml\n", True)
    assert (holdfast.folder / "there.yaml").read_text() == "mine"


def test_replies_that_are_there_are_not_overwritten_either(holdfast: Holdfast) -> None:
    holdfast.write("half.replies.yaml", "mine")
    made = holdfast("create", "half.yaml", "--wizard", typed="A try\nfeedback\nscripted\nGood?\nnever\n")
    assert (made.code, "half.replies.yaml already exists" in made.err) == (2, True)
    assert not (holdfast.folder / "half.yaml").exists()


def test_without_all_answers_nothing_is_written(holdfast: Holdfast) -> None:
    ended = holdfast("create", "later.yaml", "--wizard", typed="A try\n")
    assert (ended.code, ended.out) == (2, "")
    assert "nothing was written: no answer to pattern; type it, pipe in a line, or give --answers" in ended.err
    assert not (holdfast.folder / "later.yaml").exists()


@pytest.mark.slow
def test_a_person_at_a_terminal_chooses_by_the_beginning_of_a_word_and_may_leave(
    at_terminal: Callable[..., Screen],
) -> None:
    typed = [("What is it for?", "A try\r"), ("How does it work?", "appr\r"), ("asked?", "Shall it be paid?\r")]
    screen = at_terminal("create", "typed.yaml", "--wizard")
    for question, answer in [*typed, ("By when", "never\r")]:
        screen.until(question)
        screen.until(">")
        screen.type(answer)
    screen.until("holdfast run typed.yaml")
    assert screen.leave() == 0
    left = at_terminal("create", "left.yaml", "--wizard")
    left.until(">")
    left.type("\x03")
    assert left.leave() == 130


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


def test_the_page_about_it_shows_what_is_asked() -> None:
    page = (ROOT / "docs" / "creating.md").read_text()
    assert all(question.message in page for question in questions_about("feedback"))


def test_a_pattern_of_the_wizards_questions_is_told_in_words() -> None:
    asked = [question for pattern in PATTERNS for question in questions_about(pattern) if "pattern" in question.schema]
    told = [list_misfits(question.schema, " ?") for question in asked]
    assert asked and not any("pattern" in str(problem) for problem in told)
