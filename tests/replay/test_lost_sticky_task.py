"""A query brings a task that its worker gets late, or never: here a real server does so, each time.

A parent waits for two children and a person, on a worker that is away and has dropped it from its cache. A query waits
for that worker. A child ends on another worker, the person answers, and the parent's task is scheduled. The worker
comes back, and gets the query first, with the whole history: the SDK runs the workflow over what came, and then again
with the task; or with the next one, and the end of the second child, if that task is lost. Then two branches would go
on in another order than in replay. `test_activation` feeds the same by hand, and `test_storm` meets it by chance.
"""

from __future__ import annotations

import asyncio
import uuid
from datetime import timedelta
from pathlib import Path

import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.bridge.proto.workflow_activation import WorkflowActivation
from temporalio.bridge.proto.workflow_completion import WorkflowActivationCompletion
from temporalio.client import Client
from temporalio.worker import Worker

from holdfast.activities import all_activities
from holdfast.protocol.names import VIEW
from holdfast.protocol.questions import Question
from holdfast.workflows import WORKFLOWS
from holdfast.workflows.activation import OneJobInstance
from tests.conftest import RUNNERS, Harness, until, worker_for
from tests.replay.relay import Relay, relay_to
from tests.tools import calls

TEXT = """
steps:
  - kind: parallel
    name: p
    branches:
      one:
        - {{kind: loop, name: l, loop: {{max_loops: 1, body: [{{kind: hitl, name: ask, message: 1st?}}]}}}}
        - {{name: then, uses: counted, input: {{folder: "{folder}", name: one}}}}
      two:
        - {{kind: loop, name: l, loop: {{max_loops: 1, body: [{{kind: hitl, name: ask, message: 2nd?}}]}}}}
        - {{name: then, uses: counted, input: {{folder: "{folder}", name: two}}}}
      own:
        - {{kind: hitl, name: h, message: Own?}}
        - {{name: then, uses: counted, input: {{folder: "{folder}", name: own}}}}
"""
BROUGHT = {
    EventType.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_COMPLETED,
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED,
}
PAYS = "steps: [{{name: pay, uses: does_once_open, input: {{folder: '{folder}', what: x}}}}]"
TRIES = 5
"""Runs until the query was answered before the task came: it is sent first, but the server may take it last."""
AHEAD = 20
"""Calls that the server has answered since the query was sent: with one or two of them it took the query last."""


class Cache:
    """What the workers of this process have in their caches."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.instances: dict[str, OneJobInstance] = {}
        activate = OneJobInstance.activate

        def keep(instance: OneJobInstance, act: WorkflowActivation) -> WorkflowActivationCompletion:
            workflow = instance.get_info().workflow_id
            if any(job.HasField("remove_from_cache") for job in act.jobs):
                self.instances.pop(workflow, None)
            else:
                self.instances[workflow] = instance
            return activate(instance, act)

        patch.setattr(OneJobInstance, "activate", keep)

    async def evict(self, workflow: str) -> None:
        self.instances[workflow]._evict()

        async def is_gone() -> bool:
            return workflow not in self.instances

        await until(is_gone, "the eviction")


class Away(Harness):
    """A run whose parent is on a worker behind a relay, and whose child is on another one."""

    def worker_behind(self, client: Client) -> Worker:
        return Worker(
            client,
            task_queue=self.runs.task_queue,
            workflows=WORKFLOWS,
            activities=all_activities(["tests"], {}),
            sticky_queue_schedule_to_start_timeout=timedelta(hours=1),
            **RUNNERS,
        )

    async def is_at_rest(self, run: str) -> bool:
        described = await self.client.get_workflow_handle(run).describe()
        return not described.raw_description.HasField("pending_workflow_task")

    async def has_task(self, run: str) -> bool:
        """Whether the first child has ended and `h` is answered, and the task that tells the parent is scheduled."""
        history = await self.client.get_workflow_handle(run).fetch_history()
        types = {event.event_type for event in history.events}
        return types >= BROUGHT and not await self.is_at_rest(run)

    async def signal(self, question: Question) -> None:
        """Answer a question; by our client a query of the parent would go before."""
        owner = self.client.get_workflow_handle(question.owner)
        await owner.signal("answer", {"question": question.id, "content": "yes"})

    async def ask(self, run: str) -> asyncio.Task[object]:
        """Query a workflow whose worker is away, and give the server the time to take the query before what follows."""
        handle = self.client.get_workflow_handle(run)
        asking = asyncio.create_task(handle.query(VIEW, 0))
        for _ in range(AHEAD):  # on the same connection
            await handle.describe()
        return asking

    async def lose(self, relay: Relay, cache: Cache) -> str:
        """Start a run, and bring its first child's end and an answer by a query; return the run."""
        run = await self.start(TEXT.format(folder=self.folder))
        await until(relay.has_begun, "the parent's first task")
        async with worker_for(self.client, self.runs.task_queue):
            first, second, own = sorted(await self.asked(run, 3), key=lambda question: question.message)
            await until(lambda: self.is_at_rest(run), "the parent to rest")
            relay.leave()
            await cache.evict(run)
            asking = await self.ask(run)
            await self.signal(first)
            await self.signal(own)
            await until(lambda: self.has_task(run), "the parent's task")
        relay.come_back()
        await asking
        await self.signal(second)
        return run

    async def lose_cancel(self, relay: Relay, cache: Cache) -> str:
        """Start a run, and bring its cancel by a query, while its call goes on; return the run."""
        (self.folder / "shut-x").touch()
        run = await self.start(PAYS.format(folder=self.folder))
        handle = self.client.get_workflow_handle(run)

        async def is_begun() -> bool:
            return calls(self.folder, "begun-x") > 0 and await self.is_at_rest(run)

        async def has_task() -> bool:
            return not await self.is_at_rest(run)

        await until(is_begun, "the call")
        relay.leave()
        await cache.evict(run)
        asking = await self.ask(run)
        await handle.cancel()
        await until(has_task, "the task that tells the run")
        relay.come_back()
        await asking
        (self.folder / "shut-x").unlink()
        return run


@pytest.mark.parametrize("loses", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["late", "lost"])
async def test_a_query_brings_a_task_that_its_worker_gets_late_or_never(
    temporal: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, loses: bool
) -> None:
    cache = Cache(monkeypatch)
    for _ in range(TRIES):
        house = Away(temporal, f"lost-{uuid.uuid4().hex[:8]}", tmp_path)
        async with relay_to(temporal, loses=loses) as (relay, behind), house.worker_behind(behind):
            run = await house.lose(relay, cache)
            assert set(await house.output(run)) == {"one", "two", "own"}
        await house.replay()
        if relay.has_held:
            break
    assert relay.has_held


@pytest.mark.slow
async def test_no_task_fails_where_a_call_ends_after_a_query_has_brought_its_cancel(
    temporal: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = Cache(monkeypatch)
    for _ in range(TRIES):
        house = Away(temporal, f"lost-{uuid.uuid4().hex[:8]}", tmp_path)
        async with relay_to(temporal, loses=True) as (relay, behind), house.worker_behind(behind):
            run = await house.lose_cancel(relay, cache)
            assert (await house.result(run)).status == "cancelled"
            [history] = await house.histories(run)
            assert EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED not in {event.event_type for event in history.events}
        await house.replay()
        (tmp_path / "begun-x").unlink()
        if relay.has_held:
            break
    assert relay.has_held
