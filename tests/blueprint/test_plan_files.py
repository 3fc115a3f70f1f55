"""Files that hold a plan: how they may be wrapped, and what is said of those that cannot be read."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast.blueprint.load import parse, parse_file

PLAN: dict[str, Any] = {"goal": "Tea", "steps": [{"id": "1", "instruction": "Boil"}]}


def told(value: Any) -> list[tuple[str, str, str | None]]:
    return [(one.path, one.code, one.hint) for one in parse(json.dumps(value), file="plan.json").problems]


def with_step(**keys: Any) -> dict[str, Any]:
    return {"goal": "Tea", "steps": [{"id": "step_1", "instruction": "Boil"}, {"id": "2", **keys}]}


@pytest.mark.parametrize(("key", "meant"), [("description", "instruction"), ("depends_on", "dependencies")])
def test_a_key_that_others_use_is_told_by_its_name_here(key: str, meant: str) -> None:
    value = ["step_1"] if meant == "dependencies" else "hello"
    assert told(with_step(**{key: value})) == [(f"steps[1].{key}", "unknown_key", f"did you mean {meant!r}?")]


def test_a_key_that_is_hardly_like_another_one_is_not_read_as_it() -> None:
    paths = [path for path, _, _ in told(with_step(instruction="Pour", status="completed", result="x"))]
    assert paths == ["steps[1].status", "steps[1].result"]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('{"goal": "Tea",\n "steps": [{"id": "1" "instruction": "Boil"}]}', (2, 23)),
        ('{"goal": "Tea",\n "steps": [', (2, 12)),
        ('{"goal": \'it\'s\',\n "steps": []}', (1, 10)),
    ],
)
def test_broken_json_is_told_as_json_at_its_place(text: str, place: tuple[int, int]) -> None:
    for file in ("plan.json", "<text>"):
        [problem] = parse(text, file=file).problems
        assert (problem.line, problem.column, problem.code) == (*place, "bad_yaml")
        assert problem.message.startswith("invalid JSON")


def test_a_flow_mapping_that_is_broken_is_still_yaml() -> None:
    [problem] = parse("{steps: [a, b", file="flow.yaml").problems
    assert problem.message.startswith("invalid YAML")


def test_broken_json_is_told_as_json() -> None:
    [problem] = parse('{"goal": "say", "id": 0 "dep": [-1]}', file="p.txt").problems
    assert (problem.line, problem.column) == (1, 25) and "invalid JSON" in problem.message


@pytest.mark.parametrize(
    "wrapped", ["```json\nPLAN\n```", '{"plan": PLAN}', '```\n{"note": "mine", "plan": {"plan": PLAN}}\n```\n']
)
def test_a_plan_in_a_fence_or_an_envelope_is_a_plan(wrapped: str, tmp_path: Any) -> None:
    file = tmp_path / "plan.json"
    file.write_text(wrapped.replace("PLAN", json.dumps(PLAN)))
    parsed = parse_file(file)
    assert (parsed.is_plan, parsed.problems) == (True, [])


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ({"instruction": "See RESULT_FROM_step-1"}, "write RESULT_FROM_step_1"),
        ({"instruction": "See", "dependencies": ["step-1"]}, "write step_1"),
        ({"instruction": "See", "condition": "RESULT_FROM_step-1 contains tea"}, "no hyphen"),
    ],
)
def test_an_id_with_a_hyphen_is_told_as_that(text: dict[str, Any], hint: str) -> None:
    [(_, _, given)] = told(with_step(**text))
    assert hint in str(given)


def test_max_revisions_that_nobody_uses_is_warned_of(tmp_path: Any) -> None:
    file = tmp_path / "flow.yaml"
    step = "{kind: plan, name: go, plan: {goal: x, max_revisions: 2, CONFIRM steps: [{id: a, instruction: b}]}}"
    for confirm, codes in (("", ["unused_revisions"]), ("confirm: true,", [])):
        file.write_text(f"steps: [{step.replace('CONFIRM', confirm)}]")
        assert [one.code for one in parse_file(file).warnings] == codes
