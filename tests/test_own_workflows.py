"""Workflows of an author's own that ask people."""

from __future__ import annotations

import gc
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
import pytest_asyncio
from temporalio import workflow
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowHandle
from temporalio.converter import DataConverter
from temporalio.worker import Replayer, Worker

from examples.invite_guests.workflow import Invitations
from holdfast import HumanInTheLoop
from holdfast.client.runs import Runs
from holdfast.protocol.answers import Answer
from holdfast.runtime.converters import DATA_CONVERTER
from holdfast.workflows import RUNNER
from holdfast.workflows.handlers import Host
from holdfast.workflows.handlers.forwarders import list_handlers
from holdfast.workflows.run import RunWorkflow
from tests.conftest import until
from tests.own import Approvals, Office
from tests.own_names import Diary


class Party:
    def __init__(self, runs: Runs, handle: WorkflowHandle) -> None:
        self.runs, self.handle = runs, handle

    async def answer(self, content: object) -> str:
        """Answer the one open question; what it said."""
        [question] = await until(lambda: self.runs.questions(self.handle.id), "a question")
        await self.runs.answer(self.handle.id, [Answer(question=question.id, content=content)])
        return question.message


@pytest_asyncio.fixture
async def party(temporal: Client) -> AsyncIterator[Party]:
    queue = f"own-{uuid.uuid4().hex[:8]}"
    async with Worker(temporal, task_queue=queue, workflows=[Invitations], workflow_runner=RUNNER):
        handle = await temporal.start_workflow(Invitations.run, ["Ana", "Bob"], id=queue, task_queue=queue)
        yield Party(Runs(temporal, queue), handle)
        replayer = Replayer(workflows=[Invitations], workflow_runner=RUNNER, data_converter=DATA_CONVERTER)
        await replayer.replay_workflow(await handle.fetch_history())


async def test_an_own_workflow_is_answered_like_any_run(party: Party) -> None:
    assert await party.answer("yes") == "Send the invitations to Ana, Bob?"
    assert await party.handle.result() == "sent to 2"


async def test_an_own_workflow_asks_again_and_takes_a_form(party: Party) -> None:
    await party.answer("change")
    assert await party.answer(["Eve"]) == "Who is invited?"
    assert await party.answer("yes") == "Send the invitations to Eve?"
    assert await party.handle.result() == "sent to 1"


async def test_an_own_workflow_tells_its_outcome_through_the_client(party: Party) -> None:
    await party.answer("no")
    outcome = await party.runs.result(party.handle.id)
    assert (outcome.status, outcome.output) == ("completed", "not sent")


@pytest.mark.slow
async def test_a_workflow_that_is_thrown_away_while_it_asks_leaves_no_error_behind(temporal: Client) -> None:
    queue = f"own-{uuid.uuid4().hex[:8]}"
    async with Worker(temporal, task_queue=queue, workflows=[Approvals], workflow_runner=RUNNER):
        handle = await temporal.start_workflow(Approvals.run, 1, id=queue, task_queue=queue)
        await until(lambda: Runs(temporal, queue).questions(queue), "a question")
        await handle.terminate()
    gc.collect()  # what a destructor raises fails the test


@pytest.mark.slow
async def test_a_child_of_an_own_workflow_is_paused_and_cancelled_behind_a_boundary(temporal: Client) -> None:
    queue = f"own-{uuid.uuid4().hex[:8]}"
    runs = Runs(temporal, queue)
    async with Worker(temporal, task_queue=queue, workflows=[Office, Approvals], workflow_runner=RUNNER):
        handle = await temporal.start_workflow(Office.run, id=queue, task_queue=queue)
        party = Party(runs, handle)
        assert [await party.answer("yes"), await party.answer("yes")] == ["Approve 1?", "Approve 2?"]
        await until(lambda: runs.questions(queue), "the third question")
        assert (await runs.control.pause(queue)).left == []
        assert [view.status for view in await runs.tree.views(queue)] == ["paused", "paused"]
        await handle.cancel()  # without our client: each workflow passes it on
        await until(lambda: _has_ended(temporal, f"{queue}/approvals"), "the child's end")
        await until(lambda: _has_ended(temporal, queue), "the end")


async def _has_ended(temporal: Client, id_: str) -> bool:
    return (await temporal.get_workflow_handle(id_).describe()).status == WorkflowExecutionStatus.CANCELED


NAMES = ["questions", "children", "journal", "paused", "iteration", "ended", "permits", "display", "address", "run_id"]


@pytest_asyncio.fixture
async def diary(temporal: Client) -> AsyncIterator[Callable[..., Awaitable[Party]]]:
    queue = f"own-{uuid.uuid4().hex[:8]}"

    async def begun(*names: str) -> Party:
        handle = await temporal.start_workflow(Diary.run, list(names), id=queue, task_queue=queue)
        await handle.signal(Diary.note, "rain")
        return Party(Runs(temporal, queue), handle)

    async with Worker(temporal, task_queue=queue, workflows=[Diary], workflow_runner=RUNNER):
        yield begun


@pytest.mark.slow
async def test_an_author_may_use_every_name_that_we_use_inside(diary: Callable[..., Awaitable[Party]]) -> None:
    names = [*NAMES, *(name for name in dir(Host) if not name.startswith("__") and name not in dir(Diary))]
    party = await diary(*names)
    await until(lambda: party.runs.questions(party.handle.id), "a question")
    assert (await party.runs.control.pause(party.handle.id)).left == []
    assert [view.status for view in await party.runs.tree.views(party.handle.id)] == ["paused"]
    await party.runs.control.resume(party.handle.id)
    assert await party.handle.query(Diary.count) == 1
    assert await party.answer("sun") == "What else?"
    assert await party.handle.result() == ["rain", "sun", "1", *["mine"] * len(names)]


@pytest.mark.parametrize("name", ["human", "usage", "run_human"])
async def test_an_attribute_that_replaces_one_of_ours_fails_the_run(
    diary: Callable[..., Awaitable[Party]], name: str
) -> None:
    party = await diary(name)
    outcome = await party.runs.result(party.handle.id)
    assert (outcome.status, outcome.error.type) == ("failed", "reserved_name")
    assert outcome.error.message == f"Diary sets self.{name}, which HumanInTheLoop has itself: rename it"


def test_a_name_that_replaces_one_of_ours_is_refused() -> None:
    with pytest.raises(TypeError, match="Notes defines usage, which HumanInTheLoop has itself"):

        class Notes(HumanInTheLoop):
            usage: dict[str, int] = {}  # type: ignore[assignment]


def test_a_handler_that_replaces_one_of_ours_is_refused() -> None:
    with pytest.raises(TypeError, match="Notes.take takes the update 'answer', which HumanInTheLoop has itself"):

        class Notes(HumanInTheLoop):
            @workflow.update(name="answer")
            def take(self, text: str) -> None: ...


def test_every_handler_of_a_run_is_one_of_an_own_workflow() -> None:
    own = {(handler.takes, handler.definition.description) for handler in list_handlers(Diary)}
    assert own >= {(handler.takes, handler.definition.description) for handler in list_handlers(RunWorkflow)}


async def test_a_worker_without_the_plugin_fails_the_tasks_and_says_why(temporal: Client) -> None:
    config = temporal.config()
    plain = Client(**{**config, "data_converter": DataConverter.default, "plugins": []})
    queue = f"own-{uuid.uuid4().hex[:8]}"
    handle = await temporal.start_workflow(Invitations.run, ["Ana"], id=queue, task_queue=queue)

    async def failure() -> str:
        events = (await handle.fetch_history()).events
        failed = [event.workflow_task_failed_event_attributes for event in events]
        return next((task.failure.message for task in failed if task.failure.message), "")

    async with Worker(plain, task_queue=queue, workflows=[Invitations], workflow_runner=RUNNER):
        assert "Invitations asks people by Holdfast" in await until(failure, "a failed task")
    async with Worker(temporal, task_queue=queue, workflows=[Invitations], workflow_runner=RUNNER):
        assert await Party(Runs(temporal, queue), handle).answer("yes") == "Send the invitations to Ana?"
