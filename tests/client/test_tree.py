"""Asking workflows where the server or a worker loses what was asked."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from temporalio.client import (
    Client,
    Interceptor,
    OutboundInterceptor,
    QueryWorkflowInput,
    StartWorkflowUpdateInput,
    WorkflowUpdateHandle,
)
from temporalio.service import RPCError, RPCStatusCode

from holdfast.client import query_turns
from holdfast.client.query_cache import QueryCache
from holdfast.client.query_turns import take_turn
from holdfast.client.tree import Tree, UnknownRun
from holdfast.protocol.names import VIEW
from holdfast.protocol.views import WorkflowView
from holdfast.runtime.workers import NoWorker
from tests.conftest import Harness


@pytest.fixture
def tree(temporal: Client) -> Tree:
    return Tree(temporal, "nowhere")


@pytest.fixture
def loses(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Lets queries end so, one after the other, and answers those behind them."""

    def lose(*statuses: RPCStatusCode) -> None:
        ends = list(statuses)

        async def query(*_: object) -> Any:
            if ends:
                raise RPCError("lost", ends.pop(0), b"")
            return "found"

        monkeypatch.setattr(tree, "_query", query)

    return lose


@pytest.mark.parametrize(
    "lost",
    [
        [RPCStatusCode.DEADLINE_EXCEEDED],
        [RPCStatusCode.UNAVAILABLE] * 3,
        [RPCStatusCode.RESOURCE_EXHAUSTED] * 3,
        [RPCStatusCode.UNAVAILABLE, RPCStatusCode.DEADLINE_EXCEEDED],
    ],
)
async def test_a_query_that_was_lost_is_asked_again(
    tree: Tree, loses: Callable[..., None], lost: list[RPCStatusCode]
) -> None:
    loses(*lost)
    assert await tree.query("run", "view", None, str) == "found"


@pytest.mark.parametrize(
    "lost",
    [
        [RPCStatusCode.DEADLINE_EXCEEDED] * 2,
        [RPCStatusCode.RESOURCE_EXHAUSTED] * 4,
        [RPCStatusCode.CANCELLED],
        [RPCStatusCode.FAILED_PRECONDITION],
    ],
)
async def test_where_nobody_answers_twice_there_is_no_worker(
    tree: Tree, loses: Callable[..., None], lost: list[RPCStatusCode]
) -> None:
    loses(*lost)
    with pytest.raises(NoWorker, match="nowhere"):
        await tree.query("run", "view", None, str)


async def test_a_server_that_goes_on_dropping_queries_is_not_taken_for_a_missing_worker(
    tree: Tree, loses: Callable[..., None]
) -> None:
    loses(*[RPCStatusCode.UNAVAILABLE] * 4)
    with pytest.raises(RPCError, match="lost"):
        await tree.query("run", "view", None, str)


class Noticing(Interceptor):
    """Tells when an update is sent."""

    def __init__(self) -> None:
        self.sent = asyncio.Event()

    def intercept_client(self, next: OutboundInterceptor) -> OutboundInterceptor:
        sent = self.sent

        class Outbound(OutboundInterceptor):
            async def start_workflow_update(self, input: StartWorkflowUpdateInput) -> WorkflowUpdateHandle[Any]:
                sent.set()
                return await super().start_workflow_update(input)

        return Outbound(next)


class Dropping(Interceptor):
    """Drops each update, as a server does that loses the workflow task which would bring it."""

    def intercept_client(self, next: OutboundInterceptor) -> OutboundInterceptor:
        class Outbound(OutboundInterceptor):
            async def start_workflow_update(self, input: StartWorkflowUpdateInput) -> WorkflowUpdateHandle[Any]:
                raise RPCError("workflow update was aborted", RPCStatusCode.UNAVAILABLE, b"")

        return Outbound(next)


@pytest.mark.slow
async def test_where_the_server_goes_on_dropping_an_update_no_worker_takes_it(temporal: Client) -> None:
    client = Client(**{**temporal.config(), "interceptors": [Dropping()]})
    handle = await client.start_workflow("Unserved", id="dropped", task_queue="nowhere")
    with pytest.raises(NoWorker, match="nowhere"):
        await Tree(client, "nowhere").update(handle.id, "pause", None, str, id="update")
    await handle.terminate()


async def test_cancelling_an_update_under_way_ends_it(temporal: Client) -> None:
    noticing = Noticing()
    client = Client(**{**temporal.config(), "interceptors": [noticing]})
    handle = await client.start_workflow("Unserved", id="unserved", task_queue="nowhere")
    update = asyncio.create_task(Tree(client, "nowhere").update(handle.id, "pause", None, str, id="update"))
    await noticing.sent.wait()
    update.cancel()
    with pytest.raises(asyncio.CancelledError):
        await update
    await handle.terminate()


class Counting(Interceptor):
    """Answers each query itself, and counts those that are under way at a time."""

    def __init__(self) -> None:
        self.under_way: Counter[str] = Counter()
        self.most = 0

    def intercept_client(self, next: OutboundInterceptor) -> OutboundInterceptor:
        counts = self

        class Outbound(OutboundInterceptor):
            async def query_workflow(self, input: QueryWorkflowInput) -> Any:
                counts.under_way[input.id] += 1
                counts.most = max(counts.most, counts.under_way[input.id])
                await asyncio.sleep(0)
                counts.under_way[input.id] -= 1
                return "found"

        return Outbound(next)


async def test_one_query_at_a_time_is_under_way_to_a_workflow(temporal: Client) -> None:
    """A worker that drops the workflow from its cache would lose all but one of those that wait."""
    counting = Counting()
    client = Client(temporal.service_client, namespace=temporal.namespace, interceptors=[counting])
    trees = [Tree(client, "nowhere") for _ in range(20)]
    assert await asyncio.gather(*(tree.query("run", "view", None, str) for tree in trees)) == ["found"] * 20
    assert counting.most == 1


async def test_queries_to_other_workflows_do_not_wait(temporal: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query_turns, "PATIENCE_SECONDS", 3600)
    async with take_turn(temporal, "run"), take_turn(temporal, "other"):
        pass


async def test_a_query_that_is_never_answered_does_not_hold_up_the_next(
    temporal: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(query_turns, "PATIENCE_SECONDS", 0.01)
    async with take_turn(temporal, "run"), take_turn(temporal, "run"):
        pass


async def test_a_query_of_open_workflows_only_is_not_shared_with_who_reads_ended_ones(house: Harness) -> None:
    tree = Tree(house.client, house.runs.tree.task_queue, cache=QueryCache(house.client))
    run = await house.start("{name: go, steps: [{kind: hitl, name: ask, message: Go?}]}")
    question = await house.one(run)
    seen = await tree.describe(run)  # as two readers see it who look just before it ends
    await house.answer(run, "yes", question)
    await house.result(run)
    if_open, always = await asyncio.gather(
        tree.query(run, VIEW, 0, WorkflowView, unless_ended=True, described=seen),
        tree.query(run, VIEW, 0, WorkflowView, described=seen),
        return_exceptions=True,
    )
    assert isinstance(if_open, UnknownRun)
    assert isinstance(always, WorkflowView) and always.status == "completed"
