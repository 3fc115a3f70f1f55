"""Interceptors of clients for a server that does not answer: `connect` uses them, and who reads the record alone."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from typing import Any, Never, TypeVar

from temporalio.client import (
    Client,
    CountWorkflowsInput,
    DescribeWorkflowInput,
    FetchWorkflowHistoryEventsInput,
    Interceptor,
    ListWorkflowsInput,
    OutboundInterceptor,
    WorkflowExecution,
)
from temporalio.service import RPCError, RPCStatusCode

READ_LIMIT = timedelta(seconds=10)
"""The SDK's own limit is 30 s, as long as a page waits for all of its calls."""

Read = TypeVar("Read", DescribeWorkflowInput, ListWorkflowsInput, CountWorkflowsInput, FetchWorkflowHistoryEventsInput)


class ReadLimits(Interceptor):
    """Ends reads that no worker answers after `READ_LIMIT`: a server that hangs is told as one that is away."""

    def intercept_client(self, next: OutboundInterceptor) -> OutboundInterceptor:
        """See base class."""
        return _LimitedReads(next)


class _LimitedReads(OutboundInterceptor):
    async def describe_workflow(self, input: DescribeWorkflowInput) -> Any:
        return await self.next.describe_workflow(_limit(input))

    async def count_workflows(self, input: CountWorkflowsInput) -> Any:
        return await self.next.count_workflows(_limit(input))

    def list_workflows(self, input: ListWorkflowsInput) -> Any:
        return self.next.list_workflows(_limit(input))

    def fetch_workflow_history_events(self, input: FetchWorkflowHistoryEventsInput) -> Any:
        # What waits for a new event may wait as long as the run.
        return self.next.fetch_workflow_history_events(input if input.wait_new_event else _limit(input))


def _limit(input: Read) -> Read:
    return replace(input, rpc_timeout=input.rpc_timeout or READ_LIMIT)


class NoWorkflows(Interceptor, OutboundInterceptor):
    """Answers in place of a server: it has no workflow."""

    def __init__(self) -> None: ...

    def intercept_client(self, next: OutboundInterceptor) -> OutboundInterceptor:
        """See base class."""
        return self

    async def describe_workflow(self, input: Any) -> Never:
        """See base class."""
        raise RPCError("only the record is read", RPCStatusCode.NOT_FOUND, b"")

    query_workflow = describe_workflow

    async def list_workflows(self, input: Any) -> AsyncIterator[WorkflowExecution]:  # type: ignore[override]
        """See base class."""
        found: tuple[WorkflowExecution, ...] = ()
        for execution in found:
            yield execution


def has_no_server(client: Client) -> bool:
    """Return whether `NoWorkflows` answers a client: what goes past the interceptors must not be sent."""
    return any(isinstance(interceptor, NoWorkflows) for interceptor in client.config()["interceptors"])
