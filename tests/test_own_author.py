"""Agents and loops of an author's own workflow: typed, paused, cancelled, killed, and over continue-as-new."""

from __future__ import annotations

import sys
import uuid
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowFailureError
from temporalio.exceptions import CancelledError
from temporalio.worker import Worker

from holdfast import Answer
from holdfast.activities import all_activities
from holdfast.client.history import histories
from holdfast.workflows import RUNNER, WORKFLOWS
from tests.conftest import RUNNERS, Replays, until
from tests.crash.conftest import machines
from tests.crash.machines import Machines, asked
from tests.own_author import Correspondence
from tests.own_desk import Desk
from tests.progress import has_continued

__all__ = ["machines"]

CLASSES = [*WORKFLOWS, Correspondence]


@pytest_asyncio.fixture(scope="module")
async def author_queue(temporal: Client) -> AsyncIterator[str]:
    queue, activities = f"own-{uuid.uuid4().hex[:8]}", all_activities(["tests"], {})
    async with Worker(temporal, task_queue=queue, workflows=CLASSES, activities=activities, **RUNNERS):
        yield queue


@pytest_asyncio.fixture(scope="module")
async def author_replays() -> AsyncIterator[Replays]:
    replays = Replays(CLASSES, RUNNER)
    yield replays
    if failures := await replays.failures():
        pytest.fail("\n".join(failures), pytrace=False)


@pytest_asyncio.fixture
async def desk(
    temporal: Client, author_queue: str, author_replays: Replays, request: pytest.FixtureRequest
) -> AsyncIterator[Desk]:
    made = Desk(temporal, author_queue)
    yield made
    for id_ in made.started:
        author_replays.add(request.node.nodeid, [history async for history in histories(temporal, id_)])


async def test_an_agent_gives_an_instance_and_is_counted(desk: Desk) -> None:
    handle = await desk.start(Correspondence.run, "Ana", ["write"])
    assert await handle.result() == ["Dear Ana", "1"]
    events = await desk.runs.watch.events(handle.id)
    assert "pipeline:Correspondence;child:writer;agent:writer" in {event.address for event in events}


async def test_an_output_that_breaks_a_rule_of_its_model_fails_the_call(desk: Desk) -> None:
    handle = await desk.start(Correspondence.run, "Bob", ["shout"])
    with pytest.raises(WorkflowFailureError) as failed:
        await handle.result()
    assert "the output is no Letter: text: it shouts" in str(failed.value.cause)


@pytest.mark.slow
async def test_a_call_of_an_agents_tool_waits_for_its_approval(desk: Desk) -> None:
    handle = await desk.start(Correspondence.run, "Ana", ["send"])
    question = await desk.question(handle)
    assert question.address.startswith("pipeline:Correspondence;child:post;agent:post;tool:stringy")
    await desk.answer(handle, "yes")
    assert await handle.result() == ["sent", "2"]


@pytest.mark.slow
async def test_a_loop_asks_in_each_round_and_gives_an_instance(desk: Desk) -> None:
    handle = await desk.start(Correspondence.run, "Ana", ["ask"])
    await desk.answer(handle, "no")
    question = await desk.question(handle, "(2)")
    assert question.address == "pipeline:Correspondence;child:revise;loop:revise:2;hitl:ask"
    await desk.answer(handle, "yes")
    assert await handle.result() == ["2 yes", "0"]


async def test_a_loop_without_an_end_is_refused(desk: Desk) -> None:
    handle = await desk.start(Correspondence.run, "Ana", ["endless"])
    with pytest.raises(WorkflowFailureError) as failed:
        await handle.result()
    assert "the loop 'endless' has no end" in str(failed.value.cause)


@pytest.mark.slow
async def test_a_loop_is_paused_and_resumed_behind_a_boundary(desk: Desk) -> None:
    handle = await desk.start(Correspondence.run, "Ana", ["ask"])
    await desk.answer(handle, "no")
    await until(lambda: has_continued(desk, f"{handle.id}/child:revise;loop:revise"), "a boundary")
    await desk.question(handle, "(2)")
    assert (await desk.runs.control.pause(handle.id)).left == []
    await desk.answer(handle, "yes")
    assert (await desk.runs.state(handle.id)).status == "paused"
    assert (await desk.runs.control.resume(handle.id)).left == []
    assert await handle.result() == ["2 yes", "0"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("part", "below"), [("ask", "child:revise;loop:revise"), ("send", "child:post")], ids=["loop", "agent"]
)
async def test_a_cancel_ends_what_the_workflow_runs(desk: Desk, part: str, below: str) -> None:
    handle = await desk.start(Correspondence.run, "Ana", [part])
    if part == "ask":
        await desk.answer(handle, "no")
    await desk.question(handle, "(2)" if part == "ask" else "")
    await handle.cancel()
    with pytest.raises(WorkflowFailureError) as ended:
        await handle.result()
    assert isinstance(ended.value.cause, CancelledError)
    described = await desk.client.get_workflow_handle(f"{handle.id}/{below}").describe()
    assert described.status != WorkflowExecutionStatus.RUNNING


@pytest.mark.slow
async def test_a_killed_worker_writes_and_sends_nothing_twice(machines: Machines) -> None:
    house = await machines.house()

    def restart() -> None:
        machines.start_program("worker", sys.executable, "-m", "tests.own_author_worker")

    restart()
    parts = ["write", "send", "ask"]
    run = f"own-{house.unique}"
    await house.client.start_workflow(Correspondence.run, args=["Ana", parts], id=run, task_queue=machines.task_queue)
    for message, content in (
        ("May stringy be called?", "yes"),
        ("Is Ana content (1)", "no"),
        ("Is Ana content (2)", "yes"),
    ):
        await asked(house, run, message)
        machines.kill("worker")
        restart()
        question = await asked(house, run, message)
        await house.runs.answer(run, [Answer(question=question.id, content=content)])
    handle = house.client.get_workflow_handle(run)
    assert await handle.result() == ["Dear Ana", "sent", "2 yes", "3"]
