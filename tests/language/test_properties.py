"""Any blueprint that loads runs to an end or parks; its trace nests; its core form is the same blueprint."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.blueprint.core import expand
from holdfast.blueprint.load import loads
from holdfast.client.states import STATUSES
from tests.conftest import Harness, until

INPUTS = st.sampled_from(
    ["text", "{{ previous_step }}", "{{ input }}", "{{ context.n + 1 }}", "{{ 1 / 0 }}", "{{ steps | length }}"]
)
SINKS = st.sampled_from([None, "n", "a.b", "list"])
ON_ERROR = st.sampled_from([None, "continue"])


def named(step: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {**step, **{key: value for key, value in more.items() if value is not None}}


def plain() -> st.SearchStrategy[Any]:
    return st.builds(
        lambda input, sink, error: named({"input": input}, sink_to=sink, on_error=error), INPUTS, SINKS, ON_ERROR
    )


def asks() -> st.SearchStrategy[Any]:
    timeout = st.sampled_from([{}, {"timeout": "1s", "default": "none"}, {"timeout": "1s", "on_timeout": "skip"}])
    return st.builds(lambda more: {"kind": "hitl", "message": "?", **more}, timeout)


def composite(steps: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    loops = st.builds(
        lambda body, most: {"kind": "loop", "loop": {"body": body, "max_loops": most}}, steps, st.integers(1, 3)
    )
    maps = st.builds(
        lambda body, many, rule: {
            "kind": "map",
            "map": {"iterable_input": "[1, 2]", "body": body, "max_concurrency": many, "on_item_error": rule},
        },
        steps,
        st.integers(1, 2),
        st.sampled_from(["fail", "continue"]),
    )
    parallels = st.builds(
        lambda one, two, join, rule: {
            "kind": "parallel",
            "branches": {"one": one, "two": two},
            "merge_strategy": join,
            "on_branch_failure": rule,
        },
        steps,
        steps,
        st.sampled_from(["context_update", "overwrite", "no_merge"]),
        st.sampled_from(["propagate", "ignore"]),
    )
    choices = st.builds(
        lambda one, two: {
            "kind": "conditional",
            "condition_expression": "context.n > 1",
            "branches": {"true": one, "false": two},
        },
        steps,
        steps,
    )
    return st.lists(st.one_of(plain(), asks(), loops, maps, parallels, choices), min_size=1, max_size=2)


LISTS = st.recursive(st.lists(st.one_of(plain(), asks()), min_size=1, max_size=3), composite, max_leaves=8)


def with_names(value: Any, counter: list[int]) -> Any:
    """The steps with a name each."""
    if isinstance(value, list):
        return [with_names(one, counter) for one in value]
    if not isinstance(value, dict):
        return value
    inner = {key: with_names(one, counter) for key, one in value.items()}
    if "kind" not in value and "input" not in value:
        return inner
    counter[0] += 1
    return {"name": f"s{counter[0]}", **inner}


def document(steps: Any) -> str:
    return yaml.safe_dump({"context": {"n": 1}, "steps": with_names(steps, [0])}, sort_keys=False)


@pytest.mark.slow
@given(LISTS)
@settings(max_examples=150)
def test_the_core_form_of_any_blueprint_is_the_same_blueprint(steps: Any) -> None:
    blueprint = loads(document(steps), name="any")
    assert loads(expand(blueprint), name="any") == blueprint


@pytest.mark.slow
@given(LISTS)
@settings(max_examples=12, suppress_health_check=list(HealthCheck))
async def test_any_blueprint_runs_to_an_end_or_parks_and_its_trace_nests(house: Harness, steps: Any) -> None:
    run = await house.start(document(steps), "x")

    async def rests() -> bool:
        return (await house.runs.state(run)).status in (*STATUSES.values(), "waiting")

    await until(rests, "an end or a question")
    standing = await house.runs.state(run)
    _check((await house.runs.watch.trace(standing)).to_json())
    if standing.status not in STATUSES.values():
        await house.runs.control.cancel(run)
        await house.result(run)


def _check(span: dict[str, Any]) -> None:
    """What stands inside a span has an address inside the span's."""
    repeated = [*span.get("iterations", []), *span.get("items", [])]
    lists = [span.get("steps", []), *(one["steps"] for one in repeated), *span.get("branches", {}).values()]
    for step in [step for steps in lists for step in steps]:
        assert step["address"].startswith(span["address"])
        _check(step)
