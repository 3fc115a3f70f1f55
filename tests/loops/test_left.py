"""What a run leaves that failed or was cancelled: the context where it ended, and the steps that it completed."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tests.conftest import Harness

ADD = {"name": "add", "input": "{{ context.log + [iteration] }}", "sink_to": "log"}
BOOM = {"name": "boom", "input": "{{ 1 / (3 - iteration) }}"}
ASK = {"kind": "hitl", "name": "ask", "message": "?"}


def loop(*body: Any, name: str = "l", **more: Any) -> dict[str, Any]:
    return {"kind": "loop", "name": name, "loop": {"max_loops": 5, "body": [*body], **more}}


def within(kind: str, inner: dict[str, Any]) -> dict[str, Any]:
    """The inner step inside another one; what stands beside it must not be lost."""
    seen = {"name": "seen", "input": "yes", "sink_to": "seen"}
    body = [seen, inner]
    return {
        "nothing": inner,
        "loop": loop(*body, name="outer"),
        "map": {"kind": "map", "name": "m", "map": {"iterable_input": "[1]", "body": body}},
        "long map": {"kind": "map", "name": "m", "map": {"iterable_input": "range(51)", "body": body}},
        "map at once": {
            "kind": "map",
            "name": "m",
            "map": {"iterable_input": "[1]", "body": body, "max_concurrency": 2},
        },
        "parallel": {
            "kind": "parallel",
            "name": "p",
            "branches": {"a": body, "b": [{"name": "other"}]},
            "context_include_keys": ["log"],
        },
        "conditional": {
            "kind": "conditional",
            "name": "c",
            "condition_expression": "true",
            "branches": {"true": body},
        },
    }[kind]


KINDS = ["nothing", "loop", "map", "long map", "map at once", "parallel", "conditional"]


@pytest.mark.first_row
@pytest.mark.parametrize("kind", KINDS)
async def test_a_failure_in_a_nested_loop_leaves_its_context(house: Harness, kind: str) -> None:
    step = within(kind, loop(ADD, BOOM, checkpoint_every=1))
    run = await house.start(yaml.safe_dump({"context": {"log": [], "kept": 1}, "steps": [step]}))
    outcome = await house.result(run)
    seen = {} if kind == "nothing" else {"seen": "yes"}
    assert (outcome.status, outcome.context) == ("failed", {"log": [1, 2, 3], "kept": 1, **seen})
    names = [one.name for one in await house.runs.watch.completed_steps(run) if one.name != "other"]
    assert names == [*(["seen"] * len(seen)), "add", "boom", "add", "boom", "add"]


@pytest.mark.slow
@pytest.mark.first_row
@pytest.mark.parametrize("kind", [*KINDS[:4], "conditional"])
async def test_a_cancelled_run_leaves_the_context_where_it_was(house: Harness, kind: str) -> None:
    step = within(kind, loop(ADD, ASK, checkpoint_every=1))
    run = await house.start(yaml.safe_dump({"context": {"log": [], "kept": 1}, "steps": [step]}))
    await house.answered(run, "a", "b")
    await house.one(run)
    await house.runs.control.cancel(run)
    outcome = await house.result(run)
    seen = {} if kind == "nothing" else {"seen": "yes"}
    assert (outcome.status, outcome.context) == ("cancelled", {"log": [1, 2, 3], "kept": 1, **seen})
    assert [one.output for one in await house.runs.watch.completed_steps(run) if one.name == "ask"] == ["a", "b"]


@pytest.mark.slow
async def test_a_run_that_is_cancelled_in_two_branches_leaves_the_context_around_them(house: Harness) -> None:
    branches = {name: [loop(ADD, ASK, name=name)] for name in ("a", "b")}
    steps = [{"name": "first", "input": 1, "sink_to": "first"}, {"kind": "parallel", "name": "p", "branches": branches}]
    run = await house.start(yaml.safe_dump({"context": {"log": []}, "steps": steps}))
    await house.asked(run, 2)
    await house.runs.control.cancel(run)
    assert (await house.result(run)).context == {"log": [], "first": 1}


async def test_the_context_of_an_import_is_not_taken_for_the_runs(house: Harness) -> None:
    child = {"context": {"log": [], "own": 1}, "steps": [loop(ADD, BOOM)]}
    (house.folder / "child.yaml").write_text(yaml.safe_dump(child))
    step = {"name": "i", "uses": "imports.child"}
    document = {"context": {"mine": 1}, "imports": {"child": "./child.yaml"}, "steps": [step]}
    assert (await house.result(await house.start(yaml.safe_dump(document)))).context == {"mine": 1}


@pytest.mark.slow
async def test_a_handled_failure_still_keeps_completed_iterations_only(house: Harness) -> None:
    step = {**loop(ADD, BOOM), "on_error": "continue"}
    end = {"name": "end", "input": "{{ context.log }}"}
    assert await house.output(await house.start(yaml.safe_dump({"context": {"log": []}, "steps": [step, end]}))) == [
        1,
        2,
    ]


@pytest.mark.slow
async def test_a_large_context_does_not_make_the_failure_of_nested_loops_too_large(house: Harness) -> None:
    context = {"log": [], **{f"text_{n}": "x" * 150_000 for n in range(4)}}
    nested = loop(loop(loop(ADD, BOOM), name="middle"), name="outer")
    outcome = await house.result(await house.start(yaml.safe_dump({"context": context, "steps": [nested]})))
    assert (outcome.status, outcome.context) == ("failed", {**context, "log": [1, 2, 3]})
