"""A relay between a worker and its server: it keeps the worker from work, and then hands a query on before its task."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest
from temporalio.api.enums.v1 import TaskQueueKind
from temporalio.api.workflowservice.v1 import PollWorkflowTaskQueueRequest, PollWorkflowTaskQueueResponse
from temporalio.client import Client

grpc = pytest.importorskip("grpc", reason="the relay needs grpcio, of the extra dev: make test installs it")
SERVICE = "/temporal.api.workflowservice.v1.WorkflowService/"
POLL, ANSWER = f"{SERVICE}PollWorkflowTaskQueue", f"{SERVICE}RespondQueryTaskCompleted"
Call = grpc.aio.UnaryUnaryCall
Context = grpc.aio.ServicerContext


class Relay(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Hands on each call as it came, but for polls for workflow tasks.

    After its first task the worker gets tasks of workflows in its cache only. While it is away it gets none. Once it is
    back it gets the query that has waited, and no task until it has answered that: the server has started one by then.
    From then on it gets all.

    Args:
        channel: The way to the server.
        loses: The task that the server has started meanwhile is lost.
    """

    def __init__(self, channel: grpc.aio.Channel, *, loses: bool) -> None:
        self._channel, self._loses = channel, loses
        self._polls: set[Call] = set()
        self._dropped: set[Call] = set()
        self._held: list[bytes] = []
        self._here, self._for_all, self._may_work = asyncio.Event(), asyncio.Event(), True
        self._here.set()
        self._for_all.set()
        self.has_task = False
        self.has_held = False
        """True if the server had started a task when the query was answered."""

    async def has_begun(self) -> bool:
        """Return whether the worker has had its first task."""
        return self.has_task

    def leave(self) -> None:
        """Keep the worker from all work."""
        self._here.clear()
        self._may_work = False
        self._drop_polls()

    def come_back(self) -> None:
        """Let the worker have the query; its tasks follow the answer."""
        self._here.set()

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        """See grpc."""
        method = details.method

        async def answer(request: bytes, context: Context) -> bytes:
            try:
                return await (self._poll(request, context) if method == POLL else self._pass(method, request, context))
            except grpc.aio.AioRpcError as error:
                with suppress(ValueError):
                    context.set_trailing_metadata(error.trailing_metadata())
                await context.abort(error.code(), error.details())
                raise

        return grpc.unary_unary_rpc_method_handler(answer)

    async def _pass(self, method: str, request: bytes, context: Context) -> bytes:
        reply: bytes = await self._channel.unary_unary(method)(request, timeout=context.time_remaining())
        if method == ANSWER and not self._may_work:
            self.has_held = bool(self._held)
            if self._loses:
                self._held.clear()
            self._let_work()
        return reply

    def _let_work(self) -> None:
        self._may_work = True
        self._for_all.set()
        self._drop_polls()

    async def _poll(self, request: bytes, context: Context) -> bytes:
        """Return the next task that the worker may have; after a poll that was dropped the server is asked anew."""
        kind = PollWorkflowTaskQueueRequest.FromString(request).task_queue.kind
        while True:
            await self._here.wait()
            if kind != TaskQueueKind.TASK_QUEUE_KIND_STICKY:
                await self._for_all.wait()
            if self._may_work and self._held:
                return self._held.pop()
            call = self._channel.unary_unary(POLL)(request, timeout=context.time_remaining())
            self._polls.add(call)
            try:
                reply: bytes = await call
            except asyncio.CancelledError:
                if call in self._dropped:
                    continue
                call.cancel()
                raise
            finally:
                self._polls.discard(call)
            if not self._is_held(reply):
                return reply

    def _is_held(self, reply: bytes) -> bool:
        """Keep a task that the worker may not have yet; one that brings the query is handed on, as are all after it."""
        task = PollWorkflowTaskQueueResponse.FromString(reply)
        if task.task_token and not self.has_task:
            self.has_task = True
            self._for_all.clear()
            self._drop_polls()
        is_early = bool(task.task_token) and not task.HasField("query") and not task.queries and not self._may_work
        self._held += [reply] if is_early else []
        if task.queries and not self._may_work:
            self._let_work()
        return is_early

    def _drop_polls(self) -> None:
        self._dropped |= self._polls
        for call in self._polls:
            call.cancel()


@asynccontextmanager
async def relay_to(client: Client, *, loses: bool) -> AsyncIterator[tuple[Relay, Client]]:
    """A relay to the server of a client, and a client that reaches it that way alone."""
    channel = grpc.aio.insecure_channel(client.service_client.config.target_host)
    relay, server = Relay(channel, loses=loses), grpc.aio.server()
    server.add_generic_rpc_handlers((relay,))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        address = f"127.0.0.1:{port}"
        yield relay, await Client.connect(address, namespace=client.namespace, data_converter=client.data_converter)
    finally:
        await server.stop(None)
        await channel.close()
