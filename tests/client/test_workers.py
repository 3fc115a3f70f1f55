"""Why a workflow does not answer: nobody is there, a worker is busy, its task fails, its version is not current."""

from __future__ import annotations

import pytest
from temporalio import workflow
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from holdfast.client.answering import Answering
from holdfast.client.config import WorkerSettings
from holdfast.client.errors import NothingSent
from holdfast.client.runs import Runs
from holdfast.client.workers import Busy, NoCurrentVersion, NoWorker, TaskFailing, make_current
from holdfast.protocol.answers import Answer
from holdfast.protocol.runs import PIPELINE_WORKFLOW
from tests.conftest import Harness, until, worker_for

ASKS = "steps: [{kind: hitl, name: ask, message: Go on?}]"

pytestmark = pytest.mark.usefixtures("impatient")


@workflow.defn(name=PIPELINE_WORKFLOW)
class Broken:
    """A run whose code has a bug."""

    @workflow.run
    async def run(self, definition: object, state: object) -> None:
        raise RuntimeError("a bug of ours")


async def test_without_a_worker_the_workflows_own_queue_is_named(nobody: Harness) -> None:
    run = await nobody.start(ASKS)
    elsewhere = Runs(nobody.client, "another-queue")
    silence = await elsewhere.tree.silence(run)
    assert (type(silence), nobody.runs.task_queue in str(silence)) == (NoWorker, True)
    await nobody.client.get_workflow_handle(run).terminate()


async def test_a_worker_that_polls_is_busy_and_not_absent(house: Harness) -> None:
    run = await house.start(ASKS)
    await house.one(run)
    silence = await house.runs.tree.silence(run)
    assert isinstance(silence, Busy) and silence.is_alive
    await house.answer(run, "yes")
    assert await house.output(run) == "yes"


async def test_a_workflow_task_that_fails_is_told_with_its_failure(nobody: Harness) -> None:
    queue = nobody.runs.task_queue
    async with Worker(nobody.client, task_queue=queue, workflows=[Broken], workflow_runner=UnsandboxedWorkflowRunner()):
        run = await nobody.start(ASKS)

        async def failing() -> bool:
            silence = await nobody.runs.tree.silence(run)
            return isinstance(silence, TaskFailing) and "a bug of ours" in str(silence)

        await until(failing)
        with pytest.raises(TaskFailing, match="a bug of ours"):
            await nobody.runs.standing(run)
        await nobody.client.get_workflow_handle(run).terminate()


async def test_a_version_that_is_not_current_is_told_and_can_be_made_current(nobody: Harness, queue: str) -> None:
    settings = WorkerSettings(build_id="b1", deployment=queue)
    async with worker_for(nobody.client, queue, settings=settings):
        run = await nobody.start(ASKS)

        async def told() -> bool:
            silence = await nobody.runs.tree.silence(run)
            return isinstance(silence, NoCurrentVersion) and f"--deployment-name {queue} --build-id b1" in str(silence)

        await until(told)
        await make_current(nobody.client, queue, "b1")
        await nobody.answer(run, "yes")
        assert await nobody.output(run) == "yes"


async def test_owners_that_were_listed_are_remembered_without_a_file(nobody: Harness, queue: str) -> None:
    async with worker_for(nobody.client, queue):
        run = await nobody.start(ASKS)
        question = await nobody.one(run)
    answer = Answer(question=question.id, content="yes")
    with pytest.raises(NothingSent):
        await Runs(nobody.client, queue, Answering()).answer(run, [answer], signal=True)
    [sent] = await nobody.runs.answer(run, [answer], signal=True)
    assert sent.status == "sent"
    async with worker_for(nobody.client, queue):
        assert await nobody.output(run) == "yes"
