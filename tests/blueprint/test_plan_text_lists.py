"""Lists in what models and people wrote, and plans that are such lists; and what is told of all that is no plan."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast.blueprint.errors import BlueprintError
from holdfast.blueprint.expressions.lists import list_in, spoken_items
from holdfast.blueprint.kinds import Plan, PlanBody
from holdfast.blueprint.load import loads, parse
from holdfast.blueprint.load.plans import read_plan

LINE = [("1", "Draft a mail", []), ("2", "Send it", ["1"])]


def steps_of(plan: PlanBody) -> list[tuple[str, str, list[str]]]:
    return [(step.id, step.instruction, step.dependencies) for step in plan.steps]


def problems_of(value: Any) -> list[str]:
    with pytest.raises(BlueprintError) as caught:
        read_plan(value, PlanBody(), {}, by_model=True, goal="A goal")
    return [f"{problem.path}: {problem.message} | {problem.hint}" for problem in caught.value.problems]


@pytest.mark.parametrize(
    "written",
    [
        ["Draft a mail", "Send it"],
        {"steps": ["Draft a mail", "Send it"]},
        {"goal": "Mail", "steps": ["Draft a mail", "Send it"]},
        {"plan": ["Draft a mail", "Send it"]},
        "1. Draft a mail\n2. Send it",
        "The plan:\n- Draft a mail\n- Send it",
        '```json\n["Draft a mail", "Send it"]\n```',
    ],
)
def test_a_list_of_texts_is_a_plan_of_instructions_in_a_line(written: Any) -> None:
    plan = read_plan(written, PlanBody(), {}, by_model=True, goal="A goal")
    assert steps_of(plan) == LINE
    assert plan.goal == ("Mail" if "goal" in written else "A goal")


def test_a_file_may_hold_texts_for_steps() -> None:
    [step] = loads('{"steps": ["Draft a mail", "Send it"]}', file="plan.json").steps
    assert isinstance(step, Plan)
    assert steps_of(step.plan) == LINE
    assert step.plan.goal == "Do what the steps say"


def test_a_problem_of_a_text_is_shown_where_it_stands() -> None:
    [problem] = parse('{"steps": ["Draft a mail",\n "Send RESULT_FROM_9"]}', file="plan.json").problems
    assert (problem.line, problem.column, problem.path) == (2, 2, "steps[1].instruction")


@pytest.mark.parametrize(
    ("written", "looks"),
    [
        ("Plan: look\n#E1 = Search[tea]", "a plan of ReWOO"),
        ('1. search("tea")\n2. sum_up($1)', "a plan of calls, as LLMCompiler writes it"),
        ("I would first write to Ana.", "text"),
        (7, "a single value"),
        ([["Draft"]], "a list of something else than texts"),
    ],
)
def test_what_is_no_plan_is_refused_with_what_it_looks_like(written: Any, looks: str) -> None:
    [problem] = problems_of(written)
    assert looks in problem
    assert '"instruction"' in problem and "or a list of texts" in problem


def test_every_problem_is_told_at_once_and_none_that_is_not_there() -> None:
    tasks = [{"step": 1, "description": "Look", "tool": "x", "depends_on": []}, {"id": "b-1", "description": "Say"}]
    paths = [problem.partition(":")[0] for problem in problems_of({"goal": "g", "tasks": tasks})]
    ids = ["steps[0].id", "steps[1].id"]
    assert sorted(paths) == sorted(["steps[0].depends_on", "steps[0].tool", "steps[0].tools", "tasks", *ids])


def test_steps_without_ids_are_not_said_to_be_no_steps() -> None:
    problems = problems_of({"goal": "g", "steps": [{"instruction": "a"}, {"instruction": "b"}]})
    assert [problem.partition(":")[0] for problem in problems] == ["steps[0].id", "steps[1].id"]
    file = json.dumps({"goal": "g", "steps": [{"instruction": "a"}]})
    assert [problem.path for problem in parse(file, file="plan.json").problems] == ["steps[0].id"]


def test_a_plan_without_steps_is_told_so() -> None:
    assert problems_of({"goal": "g"}) == ["steps: 'steps' is empty | a plan has at least one step"]


TWO = ["Ana", "Ben"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('["Ana", "Ben"]', TWO),
        ('```json\n["Ana", "Ben"]\n```', TWO),
        ('Sure:\n```\n["Ana", "Ben"]\n```\nDone.', TWO),
        ('Here they are: ["Ana", "Ben"]', TWO),
        ('The guests\n["Ana", "Ben"]\nas asked', TWO),
        ("- Ana\n- Ben", TWO),
        ("* Ana\n\n* Ben\n", TWO),
        ("Here they are:\n1. Ana\n2. Ben", TWO),
        ("```\n- Ana\n- Ben\n```", TWO),
        ("• Ana", ["Ana"]),
        ('{"count": 2, "names": ["Ana", "Ben"]}', {"count": 2, "names": TWO}),
        ('The result: {"names": ["Ana"]}.', {"names": ["Ana"]}),
        ("[]", []),
    ],
)
def test_a_list_is_read_however_it_is_written(text: str, found: Any) -> None:
    assert list_in(text) == found


@pytest.mark.parametrize(
    "text",
    [
        "Ana",
        "Ana, Ben",
        "Ana\nBen",
        "Ana [1] and Ben [2]",
        "See [1]",
        "- Ana\n- Ben\nbut not Cleo",
        "- Ana\n  - Ben",
        "- Ana\n1. Ben",
        'Either: ["Ana"]\nor: ["Ben"]',
        "```\nAna\n```\n```\nBen\n```",
        '{"a": [1], "b": [2]}',
        '{"name": "Ana"}',
        "[Ana, Ben",
        "2024. was a good year - Ana",
    ],
)
def test_prose_is_no_list(text: str) -> None:
    assert list_in(text) is None


def test_what_a_person_says_in_a_word_is_one_item() -> None:
    assert (spoken_items("New York"), spoken_items("Ana\nBen"), spoken_items("Ana, Ben")) == (["New York"], TWO, None)
