"""Asking workflows where the server or a worker loses what was asked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from temporalio.client import (
    Client,
    Interceptor,
    OutboundInterceptor,
    StartWorkflowUpdateInput,
    WorkflowUpdateHandle,
)
from temporalio.service import RPCError, RPCStatusCode

from holdfast.client.tree import Tree
from holdfast.runtime.workers import NoWorker


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
