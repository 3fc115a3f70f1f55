"""Reducers of the context schema: how branches and items that both changed a property are joined."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tests.conftest import Harness

SCHEMA = {
    "properties": {
        "notes": {"type": "array", "reduce": "append"},
        "facts": {"type": "object", "reduce": "merge"},
        "total": {"type": "number", "reduce": "sum"},
        "deep": {"properties": {"best": {"reduce": "max"}, "worst": {"reduce": "min"}}},
    }
}
START: dict[str, Any] = {"notes": ["start"], "facts": {"a": 0}, "total": 1, "deep": {"best": 5, "worst": 5}}


def branched(key: str, one: str, other: str, start: dict[str, Any] = START, **more: Any) -> str:
    """Two branches that each write what their expression gives to a key."""
    branches = {
        name: [{"name": name, "input": f"{{{{ {expression} }}}}", "sink_to": key}]
        for name, expression in (("a", one), ("b", other))
    }
    step = {"kind": "parallel", "name": "p", "branches": branches, **more}
    return yaml.safe_dump({"context": start, "context_schema": SCHEMA, "steps": [step], "output": "{{ context }}"})


@pytest.mark.first_row
@pytest.mark.parametrize(
    ("key", "one", "other", "joined"),
    [
        ("notes", "context.notes + ['a', 'x']", "context.notes + ['b', 'x']", ["start", "a", "x", "b", "x"]),
        ("facts", "{'a': 1, 'b': 2}", "{'a': 3, 'c': 4}", {"a": 3, "b": 2, "c": 4}),
        ("total", "context.total + 2", "context.total + 0.5", 3.5),
        ("total", "context.total + 2", "context.total", 3),
        ("deep.best", "3", "4", 4),
        ("deep.worst", "7", "6", 6),
        ("deep.best", "3", "context.deep.best", 3),
    ],
)
@pytest.mark.parametrize("strategy", ["context_update", "overwrite", "error_on_conflict"])
async def test_branches_are_joined(house: Harness, key: str, one: str, other: str, joined: Any, strategy: str) -> None:
    value = await house.output(await house.start(branched(key, one, other, merge_strategy=strategy)))
    for name in key.split("."):
        value = value[name]
    assert value == joined


async def test_the_order_is_the_declared_one_and_nothing_needs_to_be_there_before(house: Harness) -> None:
    text = branched("notes", "['a']", "['b']", {})
    assert await house.output(await house.start(text)) == {"notes": ["a", "b"]}


async def test_a_branch_that_does_not_see_the_list_adds_to_it(house: Harness) -> None:
    text = branched("notes", "['a']", "['b']", context_include_keys=["total"])
    assert (await house.output(await house.start(text)))["notes"] == ["start", "a", "b"]


@pytest.mark.parametrize(
    ("key", "one", "other"),
    [
        ("notes", "['other']", "context.notes + ['b']"),
        ("notes", "context.notes + ['a']", "[]"),
        ("notes", "null", "['start', 'b']"),
        ("facts", "{'b': 1}", "3"),
        ("total", "2", "9223372036854775807 * 1.5"),
    ],
)
async def test_another_change_conflicts(house: Harness, key: str, one: str, other: str) -> None:
    document = yaml.safe_load(branched(key, one, other))
    for name in document["context_schema"]["properties"].values():
        name.pop("type", None)
    error = (await house.result(await house.start(yaml.safe_dump(document)))).error
    assert error.type == "context_conflict"


@pytest.mark.slow
@pytest.mark.parametrize("count", [7, 60, 120])
async def test_items_at_once_are_joined_in_their_order_over_pages(house: Harness, count: int) -> None:
    body = [
        {"name": "note", "input": "{{ context.notes + [item] }}", "sink_to": "notes"},
        {"name": "add", "input": "{{ context.total + item }}", "sink_to": "total"},
        {"name": "best", "input": "{{ item }}", "sink_to": "deep.best"},
        {"name": "fact", "uses": "context_set", "input": {"path": "facts.{{ item % 3 }}", "value": "{{ item }}"}},
    ]
    step = {"kind": "map", "name": "m", "map": {"iterable_input": "input", "body": body, "max_concurrency": 5}}
    document = {"context": START, "context_schema": SCHEMA, "steps": [step]}
    items = list(range(count))
    context = (await house.result(await house.start(yaml.safe_dump(document), items))).context
    assert context["notes"] == ["start", *items]
    assert (context["total"], context["deep"]["best"]) == (1 + sum(items), count - 1)
    assert context["facts"] == {"a": 0, **{str(n % 3): n for n in items}}


@pytest.mark.slow
async def test_a_map_in_a_branch_in_a_loop_is_joined_at_each_level(house: Harness) -> None:
    add = {"name": "add", "input": "{{ context.notes + [[iteration, item]] }}", "sink_to": "notes"}
    block = {"iterable_input": "[1, 2]", "body": [add], "max_concurrency": 2}
    branches = {name: [{"kind": "map", "name": name, "map": block}] for name in ("a", "b")}
    body = [{"kind": "parallel", "name": "p", "branches": branches}]
    step = {"kind": "loop", "name": "l", "loop": {"max_loops": 2, "body": body}}
    document = {"context": {"notes": []}, "context_schema": SCHEMA, "steps": [step], "output": "{{ context.notes }}"}
    once = [[1, 1], [1, 2], [1, 1], [1, 2]]
    assert await house.output(await house.start(yaml.safe_dump(document))) == [*once, *([2, n] for _, n in once)]
