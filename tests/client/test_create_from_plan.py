"""`holdfast create --from`: a plan, or a list of texts, becomes a file that runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from holdfast.blueprint.core import expand
from holdfast.blueprint.kinds import Agent, Plan, PlanBody
from holdfast.blueprint.load import load, parse_file
from tests.client.command import Holdfast
from tests.repository import ROOT

PLAN = {
    "goal": "Tell the team: all of it",
    "agent": "scripted:replies.yaml",
    "steps": [
        {"id": 1, "instruction": "List them"},
        {"id": 2, "instruction": "Tell CURRENT_ITEM", "loopover": "RESULT_FROM_1"},
        {"id": 3, "instruction": "CONFIRM_ACTION: Done?\nReally?", "options": ["Yes", "No"], "dependencies": [2]},
    ],
}


@pytest.fixture
def create(tmp_path: Path) -> Holdfast:
    """Commands in a folder of its own: no server is needed."""
    command = Holdfast(tmp_path)
    command.write("tell.json", json.dumps(PLAN))
    return command


def plan_of(file: Path) -> PlanBody:
    [step] = load(file).steps
    assert isinstance(step, Plan)
    return step.plan


def test_a_plan_becomes_a_blueprint_in_core_form_that_says_the_same(create: Holdfast) -> None:
    made = create("create", "--from", "tell.json")
    assert (made.code, made.out) == (0, "holdfast run tell.yaml\n"), made
    file = create.folder / "tell.yaml"
    assert plan_of(file) == plan_of(create.folder / "tell.json")
    text = file.read_text()
    named, _, text = text.partition("\n")
    assert named == "# yaml-language-server: $schema=.holdfast-schemas/blueprint.json"
    assert text.startswith("# The plan of tell.json. What it will do: holdfast explain tell.yaml\nname: tell\n")
    assert "model: scripted:replies.yaml\n" in text
    assert parse_file(file).warnings == []
    assert text.partition("\n")[2] == expand(load(file)).replace(f"{create.folder}/", "")


def test_a_file_that_ends_in_json_gets_the_plan_itself(create: Holdfast) -> None:
    (create.folder / "below").mkdir()
    made = create("create", "below/copy.json", "--from", "tell.json", "--json")
    assert made.json == {"files": ["below/copy.json"], "command": "holdfast run below/copy.json"}
    file = create.folder / "below" / "copy.json"
    assert json.loads(file.read_text())["goal"] == PLAN["goal"]
    agent = plan_of(file).agent
    assert isinstance(agent, Agent)
    assert agent.model == f"scripted:{create.folder / 'replies.yaml'}"


@pytest.mark.slow
@pytest.mark.first_row
@pytest.mark.parametrize(
    "written", ["1. Draft a mail\n2. Send it\n", '["Draft a mail", "Send it"]', "* Draft a mail\n* Send it"]
)
def test_a_list_of_texts_becomes_a_blueprint_too(create: Holdfast, written: str) -> None:
    create.write("planned.txt", written)
    made = create("create", "--from", "planned.txt", "--goal", "My goal")
    assert (made.code, made.out) == (0, "holdfast run planned.yaml\n"), made
    assert "[models.default]" in made.err
    plan = plan_of(create.folder / "planned.yaml")
    assert (plan.goal, [step.dependencies for step in plan.steps]) == ("My goal", [[], ["1"]])
    assert "plan.agent: no model 'default'" in create("validate", "planned.yaml").err


@pytest.mark.slow
def test_a_plan_without_a_goal_gets_that_of_the_command(create: Holdfast) -> None:
    create.write("steps.json", '{"steps": [{"id": "1", "instruction": "Say it"}]}')
    assert create("create", "--from", "steps.json", "--goal", "My goal").code == 0
    assert plan_of(create.folder / "steps.yaml").goal == "My goal"


@pytest.mark.slow
def test_a_plan_is_piped_in(create: Holdfast) -> None:
    made = create("create", "--from", "-", typed=f"```json\n{json.dumps(PLAN, indent=1)}\n```\n")
    assert (made.code, made.out) == (0, "holdfast run plan.yaml\n"), made
    assert len(plan_of(create.folder / "plan.yaml").steps) == 3


def test_nothing_is_overwritten(create: Holdfast) -> None:
    create.write("mine.yaml", "mine")
    refused = create("create", "mine.yaml", "--from", "tell.json")
    assert (refused.code, "mine.yaml already exists" in refused.err) == (2, True)
    assert (create.folder / "mine.yaml").read_text() == "mine"


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ('{"goal": "x", "steps": [{"id": 1}]}', "standard input:1:25 steps[0].instruction: 'instruction' is empty"),
        ('{"goal": ', "standard input:1:10: invalid JSON"),
        ("Plan: look\n#E1 = Search[tea]", "it looks like a plan of ReWOO"),
        ('{"steps": [{"action": "send", "app": "mail"}]}', "it looks like an object with the keys steps"),
        ('[{"task": "a", "id": 0, "dep": [-1]}]', "it looks like a list of objects with the keys task, id, dep"),
        ("steps: [{name: a, uses: stringify}]", "is a blueprint, not a plan"),
        ("nonsense", "is not a plan: it looks like text; write"),
        ("- task: a\n- task: b\n", "is not a plan: it looks like text; write"),
        ("", "it looks like an empty text"),
    ],
)
def test_what_is_no_plan_is_told_and_nothing_is_written(create: Holdfast, typed: str, told: str) -> None:
    ran = create("create", "new.yaml", "--from", "-", typed=typed)
    assert (ran.code, told in ran.err) == (2, True), ran
    assert not (create.folder / "new.yaml").exists()


def test_problems_are_told_as_json_too(create: Holdfast) -> None:
    ran = create("create", "--from", "-", "--json", typed='{"goal": "x", "steps": [{"id": "1"}]}')
    assert ran.json["error"]["problems"][0]["line"] == 1
    assert ran.json["error"]["type"] == "blueprint_invalid"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--from", "nix.json"], "nix.json cannot be read"),
        (["--from", "tell.json", "--wizard"], "cannot be combined with --wizard"),
        (["--from", "tell.json", "--goal", "x"], "has a goal of its own"),
        (["no/x.yaml", "--from", "tell.json"], "there is no folder no"),
    ],
)
def test_what_cannot_be_done_is_told_with_exit_code_2(create: Holdfast, words: list[str], told: str) -> None:
    ran = create("create", *words)
    assert (ran.code, told in ran.err) == (2, True), ran


def test_the_page_about_it_shows_what_is_written(create: Holdfast) -> None:
    page = (ROOT / "docs" / "creating.md").read_text()
    text = page.partition("$ cat tea.txt\n")[2].partition("\n$ ")[0]
    create.write("tea.txt", text)
    assert create("create", "--from", "tea.txt", "--goal", "Where is the tea from?").code == 0
    assert (create.folder / "tea.yaml").read_text() in page


def test_an_entry_of_a_list_may_have_a_colon(create: Holdfast) -> None:
    ran = create("create", "new.yaml", "--from", "-", typed="- Find tea\n- Name it: the country\n")
    assert ran.code == 0 and "Name it: the country" in (create.folder / "new.yaml").read_text()
