"""Why a workflow does not answer: nobody is there, a worker is busy, its task fails, its version is not current."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import cast

import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from temporalio import workflow
from temporalio.api.deployment.v1 import WorkerDeploymentOptions, WorkerDeploymentVersion
from temporalio.api.enums.v1 import WorkerVersioningMode
from temporalio.api.taskqueue.v1 import PollerInfo, TaskQueueVersioningInfo
from temporalio.api.workflowservice.v1 import DescribeTaskQueueResponse
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

import holdfast.client.__main__ as client_script
from holdfast.client import tree
from holdfast.client.answering import Answering
from holdfast.client.runs import Runs
from holdfast.protocol.answers import Answer, Refusal
from holdfast.protocol.names import PIPELINE_WORKFLOW
from holdfast.runtime import workers
from holdfast.runtime.config import WorkerSettings
from holdfast.runtime.errors import NothingSent
from holdfast.runtime.workers import (
    Busy,
    NoCurrentVersion,
    NoWorker,
    OtherVersion,
    Pin,
    TaskFailing,
    Unconfirmed,
    Version,
    describe_queue,
    explain_no_work,
    find_idle_version,
    make_current,
)
from tests.conftest import Harness, until, worker_for

VERSIONED = WorkerVersioningMode.WORKER_VERSIONING_MODE_VERSIONED
UNVERSIONED = WorkerVersioningMode.WORKER_VERSIONING_MODE_UNVERSIONED
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


@pytest.mark.slow
async def test_the_client_script_says_what_is_missing_in_each_of_its_uses(
    nobody: Harness, capsys: pytest.CaptureFixture[str]
) -> None:
    run = await nobody.start(ASKS)
    await client_script.send_signal(nobody.runs, run, "pause", "{}")
    told = capsys.readouterr()
    assert told.out == "sent\n" and "no worker answers" in told.err
    await client_script.list_questions(nobody.runs, None)
    assert "some questions cannot be listed: no worker answers" in capsys.readouterr().err
    with pytest.raises(NoWorker, match="no worker answers"):
        await client_script.list_questions(nobody.runs, run)
    with pytest.raises(Refusal, match=f"'ask' of {run} cannot be looked for: no worker answers"):
        await client_script.answer(nobody.runs, run, "ask", "yes", "ana")
    await nobody.client.get_workflow_handle(run).terminate()


async def test_a_run_that_has_ended_waits_for_no_worker(nobody: Harness) -> None:
    run = await nobody.start(ASKS)
    await nobody.client.get_workflow_handle(run).terminate(reason="it hung")
    silence = str(await nobody.runs.tree.silence(run))
    assert f"{run} has ended" in silence and "waits" not in silence
    assert silence.endswith(f"holdfast result {run}")
    outcome = await nobody.runs.result(run)
    assert outcome.error is not None and "it hung" in outcome.error.message


async def test_a_worker_that_polls_is_busy_and_not_absent(house: Harness) -> None:
    run = await house.start(ASKS)
    await house.one(run)
    silence = await house.runs.tree.silence(run)
    assert isinstance(silence, Busy) and silence.is_alive
    await house.answer(run, "yes")
    assert await house.output(run) == "yes"


@pytest.mark.slow
async def test_a_workflow_task_that_fails_is_told_with_its_failure(nobody: Harness) -> None:
    queue = nobody.runs.task_queue
    async with Worker(nobody.client, task_queue=queue, workflows=[Broken], workflow_runner=UnsandboxedWorkflowRunner()):
        run = await nobody.start(ASKS)

        async def failing() -> bool:
            silence = await nobody.runs.tree.silence(run)
            return isinstance(silence, TaskFailing) and "a bug of ours" in str(silence)

        await until(failing)
        with pytest.raises(TaskFailing, match="a bug of ours"):
            await nobody.runs.state(run)
        await nobody.client.get_workflow_handle(run).terminate()


@pytest.mark.slow
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


@pytest.mark.slow
async def test_a_worker_of_another_version_than_the_current_one_is_told(nobody: Harness, queue: str) -> None:
    settings = WorkerSettings(build_id="b1", deployment=queue)
    async with worker_for(nobody.client, queue, settings=settings):
        await make_current(nobody.client, queue, "b1")
    async with worker_for(nobody.client, queue, settings=settings.model_copy(update={"build_id": "b2"})):

        async def polled() -> DescribeTaskQueueResponse | None:
            reply = await describe_queue(nobody.client, queue)
            return reply if len(reply.pollers) > 1 else None

        reply: DescribeTaskQueueResponse = await until(polled)
    left = [poller for poller in reply.pollers if poller.deployment_options.build_id == "b1"]
    for poller in left:  # the server remembers it for minutes
        reply.pollers.remove(poller)
    silence = explain_no_work(queue, reply)
    assert isinstance(silence, OtherVersion)
    assert f"is of version {queue}/b2, but version {queue}/b1 is current" in str(silence)
    assert f"--deployment-name {queue} --build-id b2" in str(silence)


def of(*builds: str, current: str = "") -> DescribeTaskQueueResponse:
    """A queue that workers of these builds poll; "" for one without a version."""
    now = Timestamp()
    now.GetCurrentTime()
    version = WorkerDeploymentVersion(deployment_name="d", build_id=current)
    return DescribeTaskQueueResponse(
        pollers=[
            PollerInfo(
                last_access_time=now,
                deployment_options=WorkerDeploymentOptions(
                    deployment_name="d" if build else "",
                    build_id=build,
                    worker_versioning_mode=VERSIONED if build else UNVERSIONED,
                ),
            )
            for build in builds
        ],
        versioning_info=TaskQueueVersioningInfo(current_deployment_version=version if current else None),
    )


@pytest.mark.parametrize(
    ("builds", "current", "pin", "error"),
    [
        ([], "", None, NoWorker),
        ([""], "", None, type(None)),
        (["a"], "", None, NoCurrentVersion),
        (["a", ""], "", None, type(None)),
        (["a"], "a", None, type(None)),
        (["b"], "a", None, OtherVersion),
        (["b", "a"], "a", None, type(None)),
        ([""], "a", None, OtherVersion),
        (["b"], "b", Pin(Version("d", "a"), "run"), OtherVersion),
        (["a"], "b", Pin(Version("d", "a"), "run"), type(None)),
    ],
)
def test_who_gets_no_work(builds: list[str], current: str, pin: Pin | None, error: type) -> None:
    assert type(explain_no_work("q", of(*builds, current=current), pin)) is error


@pytest.mark.slow
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


@pytest.mark.slow
async def test_an_answer_that_no_worker_confirmed_is_not_called_unsent(
    nobody: Harness, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tree, "UPDATE_LIMIT", timedelta(seconds=1))
    monkeypatch.setattr(workers, "ALIVE_SECONDS", 0)  # a worker that is gone looks as if it were only busy
    async with worker_for(nobody.client, queue):
        run = await nobody.start(ASKS.replace("name: ask", "name: ask, assignees: ['user:ana']"))
        question = await nobody.one(run)
        walked = await nobody.runs.open_questions(run)
    answers = [Answer(question=question.id, content="yes")]
    with pytest.raises(Unconfirmed, match="may still count"):
        await nobody.runs.answer(run, answers, by="user:ana", key="k", open_questions=walked)
    async with worker_for(nobody.client, queue):
        assert await nobody.output(run) == "yes"  # the server had kept the update


@pytest.mark.parametrize("seconds", [2, 60])
def test_a_worker_that_polled_lately_may_have_stopped_since(seconds: float) -> None:
    said = str(Busy("queue", seconds, Version("", "")))
    assert f"polled {seconds} s ago, and is busy or has stopped since" in said
    assert said.endswith("start one with `holdfast worker`. The run waits for it.")


def test_a_worker_of_the_current_version_is_named_where_none_is_there() -> None:
    current = of(current="v7")
    assert "start one of version d/v7, which is current" in str(explain_no_work("q", current))
    assert "start one of version d/v7, which is current" in str(Busy("q", 60, Version("d", "v7")))


async def test_a_version_is_made_current_though_the_reply_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "VERSION_PAUSE", 0)
    replies = [RPCError("Timeout expired", RPCStatusCode.CANCELLED, b""), None]

    async def set_current(request: object, *, retry: bool) -> None:
        if (error := replies.pop(0)) is not None:
            raise error

    service = SimpleNamespace(set_worker_deployment_current_version=set_current)
    client = cast("Client", SimpleNamespace(namespace="default", workflow_service=service))
    await make_current(client, "d", "v7")
    assert replies == []
    replies.append(RPCError("you may not", RPCStatusCode.PERMISSION_DENIED, b""))
    with pytest.raises(RPCError, match="you may not"):
        await make_current(client, "d", "v7")


def test_of_two_versions_the_one_that_gets_no_work_is_named_with_the_way_to_give_it() -> None:
    said = str(Busy("queue", 5, Version("fleet", "v4"), Version("fleet", "v3")))
    assert (
        "give its work to the worker of version fleet/v3: run: temporal worker deployment set-current-version" in said
    )


@pytest.mark.parametrize(
    ("builds", "current", "idle"), [(["", "a"], "", "a"), (["a"], "a", None), (["b", "a"], "a", "b"), ([""], "", None)]
)
def test_the_version_that_polls_and_gets_no_work_is_found(builds: list[str], current: str, idle: str | None) -> None:
    """Also beside a worker without a version, which the server still lists after it has stopped."""
    assert find_idle_version(of(*builds, current=current)) == (None if idle is None else Version("d", idle))
