"""The step kind `workflow`: workflows of somebody's own, on a worker of their own."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from temporalio.client import WorkflowExecutionStatus
from temporalio.service import RPCError
from temporalio.worker import Worker

from holdfast.protocol.children import Failure
from holdfast.workflows import RUNNER
from tests.conftest import Harness, until
from tests.own_workflows import Nothing, ShipOrder, Sum

START = "{kind: workflow, name: ship, workflow: {name: %s, task_queue: %s%s}%s}"
LOOP = "{kind: loop, name: each, loop: {max_loops: 3, checkpoint_every: 1, body: [%s]}}"


@pytest_asyncio.fixture
async def theirs(house: Harness) -> AsyncIterator[str]:
    """The task queue of a worker of theirs."""
    queue = f"theirs-{uuid.uuid4().hex[:8]}"
    async with Worker(house.client, task_queue=queue, workflows=[ShipOrder, Sum, Nothing], workflow_runner=RUNNER):
        yield queue


async def start(
    house: Harness, theirs: str, input: object, *, name: str = "ShipOrder", block: str = "", step: str = ""
) -> str:
    return await house.start(f"steps: [{START % (name, theirs, block, step)}]", input)


async def failed(house: Harness, run: str) -> Failure:
    outcome = await house.result(run)
    assert outcome.error is not None, outcome
    return outcome.error


async def test_its_result_is_the_output(house: Harness, theirs: str) -> None:
    run = await start(house, theirs, {"order": 17}, block=", input: '{{ input.order }}'")
    assert await house.output(run) == {"shipped": 17, "attempt": 1}
    [started] = [event for event in await house.runs.watch.events(run) if event.type == "workflow.started"]
    assert (started.data.workflow, started.data.name) == (f"{run}/workflow:ship", "ShipOrder")


@pytest.mark.parametrize(("name", "args", "output"), [("Sum", "[2, '{{ input }}']", 5), ("Nothing", "[]", "done")])
async def test_it_takes_several_arguments_or_none(
    house: Harness, theirs: str, name: str, args: str, output: object
) -> None:
    assert await house.output(await start(house, theirs, 3, name=name, block=f", args: {args}")) == output


async def test_its_failure_is_that_of_the_step_with_its_type_and_the_address(house: Harness, theirs: str) -> None:
    error = await failed(house, await start(house, theirs, {"fail": "OutOfStock"}))
    assert (error.type, error.address) == ("OutOfStock", "pipeline:test;workflow:ship")
    assert error.message.endswith("failed: no 17 left")


async def test_it_is_started_again_as_the_retry_says(house: Harness, theirs: str) -> None:
    run = await start(house, theirs, {"until": 3}, step=", retry: {attempts: 3, backoff: 10ms}")
    assert (await house.output(run))["attempt"] == 3


@pytest.mark.slow
@pytest.mark.parametrize(("order", "why"), [({"nodes": 100_001}, "100,000 values"), ("bytes", "binary/plain")])
async def test_a_result_that_cannot_be_used_fails_the_step(
    house: Harness, theirs: str, order: object, why: str
) -> None:
    error = await failed(house, await start(house, theirs, order))
    assert (error.type, why in error.message) == ("bad_result", True)


@pytest.mark.slow
async def test_a_second_one_of_an_id_that_runs_fails_the_step(house: Harness, theirs: str) -> None:
    id_ = f"ship-{theirs}"
    run = await start(house, theirs, "patient", block=f", id: {id_}")
    await until(lambda: running(house, id_), "the workflow")
    error = await failed(house, await start(house, theirs, "patient", block=f", id: {id_}"))
    assert (error.type, id_ in error.message) == ("workflow_already_started", True)
    await house.runs.control.cancel(run)


@pytest.mark.parametrize("input", ["", " ", "é" * 501])
async def test_an_id_that_the_server_would_not_take_fails_the_step(house: Harness, theirs: str, input: str) -> None:
    run = await start(house, theirs, input, block=", id: '{{ input }}'")
    assert (await failed(house, run)).type == "bad_workflow_id"


async def running(house: Harness, id_: str) -> bool:
    try:
        return (await house.client.get_workflow_handle(id_).describe()).status == WorkflowExecutionStatus.RUNNING
    except RPCError:  # not started yet
        return False


@pytest.mark.slow
@pytest.mark.parametrize("iteration", [1, 3])
async def test_a_cancel_of_the_run_ends_it_before_and_after_a_continue_as_new(
    house: Harness, theirs: str, iteration: int
) -> None:
    body = START % ("ShipOrder", theirs, f", input: '{{{{ \"patient\" if iteration == {iteration} else 1 }}}}'", "")
    run = await house.start(f"steps: [{LOOP % body}]")
    id_ = f"{run}/loop:each:{iteration};workflow:ship"
    await until(lambda: running(house, id_), "the workflow")
    await house.runs.control.cancel(run)
    assert (await house.result(run)).status == "cancelled"
    described = await house.client.get_workflow_handle(id_).describe()
    assert described.status == WorkflowExecutionStatus.CANCELED


async def test_one_that_somebody_else_cancels_fails_the_step_and_not_the_run(house: Harness, theirs: str) -> None:
    run = await start(house, theirs, "patient", step=", on_error: continue")
    id_ = f"{run}/workflow:ship"
    await until(lambda: running(house, id_), "the workflow")
    await house.client.get_workflow_handle(id_).cancel()
    assert await house.output(run) is None
    assert [event.data.error for event in await house.runs.watch.events(run) if event.type == "step.failed"] == [
        "workflow_cancelled"
    ]


@pytest.mark.slow
async def test_one_that_takes_too_long_fails_the_step(house: Harness, theirs: str) -> None:
    assert (await failed(house, await start(house, theirs, "patient", step=", timeout: 1s"))).type == "timeout"


async def test_a_signal_reaches_a_workflow_by_its_id(house: Harness, theirs: str) -> None:
    id_ = f"ship-{theirs}"
    handle = await house.client.start_workflow(ShipOrder.run, "paid", id=id_, task_queue=theirs)
    block = f"{{id: {id_}, signal: paid, input: '{{{{ input.amount }}}}'}}"
    run = await house.start(f"steps: [{{kind: workflow, name: pay, workflow: {block}}}]", {"amount": 12})
    assert await house.output(run) == {"amount": 12}
    assert await handle.result() == [12]
    assert "workflow.signalled" in await house.types(run)


async def test_a_signal_to_nobody_fails_the_step_with_the_id(house: Harness) -> None:
    run = await house.start("steps: [{kind: workflow, name: pay, workflow: {id: 'nobody-7', signal: paid}}]")
    error = await failed(house, run)
    assert (error.type, "'nobody-7'" in error.message) == ("workflow_not_found", True)


@pytest.mark.slow
async def test_while_the_run_is_paused_none_is_started_and_one_that_runs_goes_on(house: Harness, theirs: str) -> None:
    text = f"steps: [{{kind: hitl, name: ask, message: Go?}}, {START % ('ShipOrder', theirs, '', '')}]"
    run = await house.start(text)
    question = await house.one(run)
    await house.runs.control.pause(run)
    await house.answer(run, "yes", question)
    assert not await running(house, f"{run}/workflow:ship")
    await house.runs.control.resume(run)
    assert (await house.output(run))["shipped"] == "yes"


@pytest.mark.slow
async def test_the_look_up_knows_whether_a_worker_polls_the_queue(house: Harness, theirs: str) -> None:
    polled = house.load(f"steps: [{START % ('ShipOrder', theirs, '', '')}]")
    alone = house.load(f"steps: [{START % ('ShipOrder', 'nobody-polls-it', '', '')}]")

    async def nothing_is_missing() -> bool:
        return (await house.runs.look_up(polled)).problems == []

    await until(nothing_is_missing, "the first poll of the other worker")
    [problem] = (await house.runs.look_up(alone)).problems
    assert (problem.code, problem.path) == ("no_worker", "steps[0].workflow.task_queue")
