"""Where an author's code raises is told: file, line and function, wherever a failure is shown."""

import inspect

import pytest

from holdfast.cli.render import failure_text
from tests import graphs, tools
from tests.conftest import Harness

FAILED_NODE = "steps: [{name: g, uses: 'tests.graphs:failing', input: {folder: FOLDER, log: []}}]"
RAISING = {
    "a tool": ("fails_always", "steps: [{name: a, uses: 'tests.tools:fails_always'}]"),
    "a condition": (
        "never_decides",
        "steps: [{kind: conditional, name: a, condition: 'tests.tools:never_decides', branches: {true: []}}]",
    ),
    "a mapper, in a loop": (
        "never_decides",
        "steps: [{kind: loop, name: l, loop: {max_loops: 2, initial_input_mapper: 'tests.tools:never_decides', "
        "body: [{kind: step, name: b, uses: echo, input: x}]}}]",
    ),
}


@pytest.mark.first_row
@pytest.mark.parametrize("what", RAISING)
async def test_a_failure_names_file_line_and_function(house: Harness, what: str) -> None:
    name, text = RAISING[what]
    outcome = await house.result(await house.start(text))
    lines, first = inspect.getsourcelines(getattr(tools, name))
    assert outcome.error and outcome.error.raised_at == f"{tools.__file__}:{first + len(lines) - 1} in {name}"
    assert f"raised at tests/tools.py:{first + len(lines) - 1} in {name}" in failure_text("r", "failed", outcome.error)


async def test_a_node_of_a_graph_that_fails_is_named(house: Harness) -> None:
    outcome = await house.result(await house.start(FAILED_NODE.replace("FOLDER", f"'{house.folder}'")))
    assert outcome.error and outcome.error.raised_at
    assert outcome.error.raised_at.startswith(graphs.__file__) and outcome.error.raised_at.endswith(" in fails")


async def test_the_step_and_its_event_name_it_too_without_calls_of_the_frameworks(house: Harness) -> None:
    run = await house.start("steps: [{name: a, uses: 'tests.tools:fails_always'}]")
    await house.result(run)
    [step] = (await house.runs.watch.trace(await house.runs.state(run))).steps
    assert step.error and step.error.to_json()["raised_at"].endswith(" in fails_always")
    assert step.error.traceback and "temporalio" not in step.error.traceback and "holdfast" not in step.error.traceback


async def test_what_fails_in_no_authors_code_names_no_place(house: Harness) -> None:
    outcome = await house.result(await house.start("steps: [{kind: hitl, name: a, message: '{{ 1 / 0 }}'}]"))
    assert outcome.error and outcome.error.raised_at is None
