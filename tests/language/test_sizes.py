"""What leaves a workflow may be as large as a server takes: what is larger fails its step, and holds nothing up."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.activities import tool
from holdfast.blueprint.expressions.bounds import Bounds
from holdfast.protocol.address import Address
from holdfast.protocol.context import BadWrite, apply_operation
from holdfast.protocol.runs import HistoryLimits
from holdfast.runtime.errors import BadInput
from holdfast.workflows.sizes import weigh_write
from tests.conftest import Harness

LIMIT = 40_000
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
GROWING = {"name": "grow", "input": "{{ context.text }}{{ input }}", "sink_to": "context.text"}
STEPS: dict[str, tuple[list[Any], Any, str]] = {
    "a call": (
        [{"name": "say", "agent": {"model": "echo"}, "input": "{{ input }}{{ input }}{{ input }}"}],
        15_000,
        "the call (say)",
    ),
    "a child": (
        [{"kind": "map", "name": "each", "map": {"iterable_input": "input", "body": [{"name": "one"}]}}],
        [700] * 60,
        "what each starts with",
    ),
    "a history": (
        [{"kind": "loop", "name": "more", "loop": {"max_loops": 9, "checkpoint_every": 1, "body": [GROWING]}}],
        15_000,
        "the state of more",
    ),
    "a result": (
        [{"name": "twice", "input": ["{{ input }}", "{{ input }}", "{{ input }}"]}],
        15_000,
        "the result of test",
    ),
}
"""By what is too large: the steps, the characters of their input, and how it is named."""


@pytest.mark.parametrize("large", STEPS)
async def test_what_is_too_large_to_be_sent_fails(house: Harness, large: str) -> None:
    steps, size, name = STEPS[large]
    value = "x" * size if isinstance(size, int) else ["x" * one for one in size]
    document = {"context": {"text": ""}, "steps": steps}
    run = await house.start(json.dumps(document), value, history_limits=HistoryLimits(value=LIMIT))
    outcome = await house.result(run)
    assert outcome.error is not None
    assert (outcome.status, outcome.error.type) == ("failed", "too_large")
    assert outcome.error.message.startswith(f"{name} has ")
    assert "run.completed" not in await house.types(run)


@pytest.mark.slow
async def test_branches_that_double_their_input_in_a_loop_fail_before_they_hold_the_workflow_up(house: Harness) -> None:
    both = {"kind": "parallel", "name": "both", "branches": {"one": [{"name": "here"}], "other": [{"name": "there"}]}}
    document = {"steps": [{"kind": "loop", "name": "more", "loop": {"max_loops": 60, "body": [both]}}]}
    outcome = await house.result(await house.start(json.dumps(document), "x", history_limits=HistoryLimits(value=None)))
    assert outcome.error is not None
    told = (outcome.error.type, outcome.error.message)
    assert told == ("too_large", "the output of both has more than 8 MiB")


@pytest.mark.slow
async def test_a_context_that_grows_without_end_fails_before_it_holds_the_workflow_up(house: Harness) -> None:
    append = {"append": {"target": "context.log", "value": "{{ input }}"}}
    block = {"max_loops": 40, "checkpoint_every": 100, "state": [append], "body": [{"name": "one"}]}
    document = {"context": {"log": []}, "steps": [{"kind": "loop", "name": "more", "loop": block}]}
    outcome = await house.result(await house.start(json.dumps(document), "x" * 900_000))
    assert outcome.error is not None
    assert (outcome.error.type, outcome.error.message) == ("too_large", "the context has more than 32 MiB")


@pytest.mark.slow
@settings(max_examples=200)
@given(st.lists(st.tuples(st.sampled_from(["a", "b.c", "context.log"]), st.sampled_from(["set", "append"]), VALUES)))
def test_a_context_is_never_taken_for_lighter_than_it_is(writes: list[tuple[str, Any, Any]]) -> None:
    context, most, address = {"log": [1]}, Bounds().weigh({"log": [1]}), Address("pipeline:p")
    for path, verb, value in writes:
        with suppress(BadWrite):
            context = apply_operation(context, verb, path, value)
            most += weigh_write(path, value, verb, address)
            assert most >= Bounds().weigh(context)


async def test_an_input_that_no_server_takes_is_refused_before_the_start(house: Harness) -> None:
    with pytest.raises(BadInput, match=r"can be sent: store large values outside"):
        await house.start(json.dumps({"steps": [{"name": "one"}]}), "x" * 2_000_000)


@tool(name="sizes_fill", idempotent=True)
def fill(size: int, log: str) -> str:
    """Returns a text of so many characters."""
    with Path(log).open("a") as file:
        file.write("called\n")
    return "x" * size


@pytest.mark.slow
@pytest.mark.parametrize(("size", "status"), [(1_990_000, "completed"), (2_000_001, "failed")])
async def test_a_result_that_no_server_takes_fails_its_call_which_is_not_made_again(
    house: Harness, tmp_path: Path, size: int, status: str
) -> None:
    log = tmp_path / "log"
    steps = [{"name": "fill", "uses": "sizes_fill", "arguments": {"size": size, "log": str(log)}}]
    outcome = await house.result(await house.start(json.dumps({"steps": steps})))
    assert (outcome.status, log.read_text()) == (status, "called\n")
    assert status == "completed" or (outcome.error is not None and outcome.error.type == "too_large")
