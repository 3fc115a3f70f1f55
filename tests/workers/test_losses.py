"""A lost worker is no attempt: failures count, losses do not. Here workers end in this process, without grace."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
import pytest_asyncio
from temporalio.client import Client
from temporalio.worker import Worker

import tests.workers.tools  # noqa: F401 registers the tools
from holdfast.activities import all_activities
from holdfast.activities.aliases import ModelAlias
from holdfast.cli.doctor.runs import check_runs
from holdfast.cli.doctor.server import Deployment
from holdfast.protocol.runs import LossPolicy
from holdfast.runtime.config import WorkerSettings, load_config
from holdfast.server.record.entries import STUCK
from holdfast.server.record.recorder import Recorder
from holdfast.server.record.store import RecordStore
from tests.activities.provider import Provider
from tests.conftest import Harness, Replays, until, worker_for
from tests.record.conftest import store
from tests.tools import calls

__all__ = ["store"]

QUICK = LossPolicy(backoff=0.05, factor=1)
STEP = 'steps: [{{name: call, uses: {tool}, input: {{folder: "{folder}", name: call}}{more}}}]'


class Crew(Harness):
    """A harness without a worker: each test starts and loses its own."""

    provider: Provider

    def worker(self) -> AbstractAsyncContextManager[Worker]:
        names = ("first", "second")
        models = {name: ModelAlias(f"openai-compatible:{name}@{self.provider.url}") for name in names}
        activities = all_activities(["tests"], models)
        settings = WorkerSettings(grace=0)
        return worker_for(self.client, self.runs.task_queue, activities=activities, settings=settings)

    async def step(self, tool: str, more: str = "") -> str:
        text = STEP.format(tool=tool, folder=self.folder, more=f", {more}" if more else "")
        return await self.start(text, loss_policy=QUICK)

    @property
    def hang(self) -> Path:
        return self.folder / "hang"

    async def called(self, times: int) -> None:
        async def is_called() -> bool:
            return calls(self.folder, "call") >= times

        await until(is_called, f"call {times}")

    async def beaten(self, run: str) -> None:
        """Wait for a beat of the attempt that is under way."""

        async def has_beaten() -> bool:
            description = await self.client.get_workflow_handle(run).describe()
            [call] = description.raw_description.pending_activities
            return call.last_heartbeat_time.ToDatetime() > call.last_started_time.ToDatetime()

        await until(has_beaten, "a beat")

    async def lose(self, times: int) -> None:
        """Lose so many workers in the middle of the call."""
        self.hang.touch()
        before = calls(self.folder, "call")
        for n in range(times):
            async with self.worker():
                await self.called(before + n + 1)
        self.hang.unlink()


@pytest_asyncio.fixture
async def crew(
    temporal: Client, replays: Replays, tmp_path: Path, request: pytest.FixtureRequest
) -> AsyncIterator[Crew]:
    crew = Crew(temporal, f"test-losses-{tmp_path.name}", tmp_path)
    async with Provider() as crew.provider:
        yield crew
    await crew.close(replays, request.node.nodeid)


async def test_a_call_is_tried_as_often_as_its_author_says(crew: Crew) -> None:
    async with crew.worker():
        run = await crew.step("fails_or_hangs", "retry: {attempts: 3, backoff: 10ms}")
        assert (await crew.result(run)).error.message == "fails_or_hangs: ValueError: broken"
    assert calls(crew.folder, "call") == 3


async def test_a_lost_worker_is_no_attempt_of_a_call_that_may_run_twice(crew: Crew) -> None:
    run = await crew.step("hangs", "retry: {attempts: 1}")
    await crew.lose(3)
    async with crew.worker():
        assert await crew.output(run) == "call is done"
    assert calls(crew.folder, "call") == 4


@pytest.mark.slow
async def test_failures_are_counted_through_losses(crew: Crew) -> None:
    text = STEP.format(tool="fails_or_hangs", folder=crew.folder, more=", retry: {attempts: 3, backoff: 1s, factor: 1}")
    run = await crew.start(text, loss_policy=LossPolicy(heartbeat=4, backoff=0.05, factor=1))
    for _ in range(2):
        async with crew.worker():
            await crew.called(calls(crew.folder, "call") + 1)
            crew.hang.touch()  # the next attempt hangs
            await crew.called(calls(crew.folder, "call") + 1)
            await crew.beaten(run)
        await crew.lose(2)
    async with crew.worker():
        await crew.result(run)
    assert calls(crew.folder, "failed") == 3


@pytest.mark.parametrize("attempts", [1, 5])
async def test_a_call_that_may_not_run_twice_is_for_a_person_to_judge_when_its_worker_is_lost(
    crew: Crew, attempts: int
) -> None:
    run = await crew.step("hangs_with_effect", f"retry: {{attempts: {attempts}}}")
    await crew.lose(1)
    async with crew.worker():
        question = await crew.one(run)
        assert question.message.startswith("The result of hangs_with_effect was lost")
        await crew.answer(run, {"outcome": "done", "result": "seen"}, question)
        assert await crew.output(run) == "seen"
    assert calls(crew.folder, "call") == 1


async def test_a_call_that_may_not_run_twice_is_not_retried_whatever_its_error_says(crew: Crew) -> None:
    async with crew.worker():
        run = await crew.step("asks_for_a_retry", "retry: {attempts: 5, backoff: 10ms}")
        assert (await crew.result(run)).error.type == "no_seat"
    assert calls(crew.folder, "call") == 1


@pytest.mark.slow
async def test_a_lost_worker_does_not_change_the_model(crew: Crew) -> None:
    text = "agents: {a: {model: [first, second], retry: {attempts: 1}}}\nsteps: [{name: a, agent: a}]"
    run = await crew.start(text, "Go", loss_policy=QUICK)
    for n in range(3):
        crew.provider.hang()
        async with crew.worker():
            await crew.provider.asked(n + 1)
    crew.provider.text("told")
    async with crew.worker():
        assert await crew.output(run) == "told"
    assert {request.body["model"] for request in crew.provider.requests} == {"first"}


async def test_a_call_that_may_run_twice_fails_by_its_own_timeout(crew: Crew) -> None:
    crew.hang.touch()
    async with crew.worker():
        run = await crew.step("hangs", "timeout: 100ms, retry: {attempts: 2, backoff: 10ms}")
        error = (await crew.result(run)).error
    assert (error.type, error.message) == ("timeout", "hangs: no result within 0.1 s")
    assert calls(crew.folder, "call") == 2


async def test_a_call_that_may_not_run_twice_is_for_a_person_to_judge_after_its_timeout(crew: Crew) -> None:
    crew.hang.touch()
    async with crew.worker():
        run = await crew.step("hangs_with_effect", "timeout: 100ms, retry: {attempts: 5, backoff: 10ms}")
        question = await crew.one(run)
        assert "no result within 0.1 s" in question.message
        await crew.answer(run, {"outcome": "fail"}, question)
        assert (await crew.result(run)).error.type == "outcome_unknown"
    assert calls(crew.folder, "call") == 1


@pytest.mark.slow
async def test_a_cancel_reaches_a_call_that_waits_for_its_next_attempt(crew: Crew) -> None:
    async with crew.worker():
        run = await crew.step("fails_or_hangs", "retry: {attempts: 2, backoff: 1h}")
        await crew.called(1)
        assert (await crew.runs.control.cancel(run)).left == []
        assert (await crew.result(run)).status == "cancelled"


@pytest.mark.slow
async def test_from_its_fifth_loss_a_call_is_named(crew: Crew, store: RecordStore) -> None:
    run = await crew.step("hangs")
    recorder = Recorder(crew.runs.tree, store, task_queue=crew.runs.task_queue)
    await crew.lose(4)
    await recorder.round()
    assert list(store.entries(types=[STUCK])) == []
    await crew.lose(1)
    recorder = Recorder(crew.runs.tree, store, task_queue=crew.runs.task_queue)
    await recorder.round()
    await recorder.round()
    [entry] = store.entries(types=[STUCK])
    assert "the call 'call' (call_tool) has lost its worker 5 times" in entry.data["message"]
    crew.hang.touch()
    async with crew.worker():
        await crew.called(6)
        report = (await crew.runs.watch.view(run)).to_json()
        assert [one["type"] for one in report["stuck"]] == ["workers_lost"]
        deployment = Deployment(crew.client, load_config(), embedded=False)
        assert any(finding.message.startswith(f"{run}: ") for finding in await check_runs(deployment))
        crew.hang.unlink()
        await crew.output(run)
        assert (await crew.runs.watch.view(run)).to_json()["stuck"] == []


@pytest.mark.slow
async def test_a_cancel_reaches_a_call_whose_workers_are_lost(crew: Crew) -> None:
    text = STEP.format(tool="hangs", folder=crew.folder, more="")
    run = await crew.start(text, loss_policy=LossPolicy(backoff=3600, longest=3600))
    await crew.lose(1)
    async with crew.worker():
        assert (await crew.runs.control.cancel(run)).left == []
        assert (await crew.result(run)).status == "cancelled"
    assert calls(crew.folder, "call") == 1
