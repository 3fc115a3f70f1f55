"""Garbage collection of stored payloads that no history refers to any more, for `holdfast gc`."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from google.protobuf.message import Message
from temporalio.api.workflow.v1 import WorkflowExecutionInfo
from temporalio.api.workflowservice.v1 import (
    DescribeNamespaceRequest,
    DescribeScheduleRequest,
    DescribeWorkflowExecutionRequest,
    GetWorkflowExecutionHistoryRequest,
    ListSchedulesRequest,
    ListWorkflowExecutionsRequest,
)
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from holdfast.client.config import ConfigError
from holdfast.client.payloads.directory import NAMESPACES, PayloadDirectory, mend, remove

SAFE_AGE = 3600.0
"""Seconds that every payload is kept: it is stored before the event that refers to it is written."""
AT_ONCE = 20
"""Workflows whose histories are read at the same time."""
_DIGEST = re.compile(rb"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")


@dataclass
class StoredAmount:
    """A number of files and their total size."""

    files: int = 0
    bytes: int = 0

    def add(self, size: int) -> None:
        """Count one file of this size."""
        self.files += 1
        self.bytes += size


@dataclass(frozen=True)
class Collected:
    """The amounts that were removed and kept."""

    removed: StoredAmount
    kept: StoredAmount


async def clear(client: Client, folder: Path, age: float = SAFE_AGE) -> Collected:
    """Remove payloads older than `age` seconds that nothing in the namespace refers to. Raises `ConfigError`."""
    await _check_namespaces(client, folder)
    before = time.time() - age
    directory = PayloadDirectory(folder)
    old = {mend(path).name for path, stat in directory.files() if stat.st_mtime < before}
    unused = await _unused(client, old) if old else old
    done = Collected(StoredAmount(), StoredAmount())
    for path, stat in directory.files():
        is_removed = path.name in unused and remove(path, before)
        (done.removed if is_removed else done.kept).add(stat.st_size)
    return done


async def _check_namespaces(client: Client, folder: Path) -> None:
    """Raise `ConfigError` if the folder also holds payloads of another namespace, whose histories we cannot read."""
    request = DescribeNamespaceRequest(namespace=client.namespace)
    own = (await client.workflow_service.describe_namespace(request, retry=True)).namespace_info.id
    for note in sorted((folder / NAMESPACES).glob("*")):
        if note.name != own:
            raise ConfigError(
                f"{folder} also holds payloads of namespace {note.read_text().strip()}, whose histories cannot be read "
                f"from here, so nothing is removed. If that server and its runs are gone for good, delete {note}; "
                "else give each namespace a folder of its own"
            )


async def _unused(client: Client, names: set[str]) -> set[str]:
    """Return the names that occur nowhere in the namespace: in no history, running activity or schedule.

    Any 64 hex digits count as a reference, wherever they occur: better to keep a file too many.
    """
    unused = set(names)
    listing = ListWorkflowExecutionsRequest(namespace=client.namespace, page_size=AT_ONCE)
    async for page in _pages(client.workflow_service.list_workflow_executions, listing):
        used = await asyncio.gather(*(_in_workflow(client, execution) for execution in page.executions))
        unused = unused.difference(*used)
    schedules = ListSchedulesRequest(namespace=client.namespace, maximum_page_size=AT_ONCE)
    async for page in _pages(client.workflow_service.list_schedules, schedules):
        used = await asyncio.gather(*(_in_schedule(client, schedule.schedule_id) for schedule in page.schedules))
        unused = unused.difference(*used)
    return unused


async def _in_workflow(client: Client, info: WorkflowExecutionInfo) -> set[str]:
    """Return the digests in an execution's history and, while it is open, in its activities' heartbeats."""
    service = client.workflow_service
    history = GetWorkflowExecutionHistoryRequest(
        namespace=client.namespace, execution=info.execution, skip_archival=True
    )
    digests: set[str] = set()
    with _unless_deleted():
        async for page in _pages(service.get_workflow_execution_history, history):
            digests |= _digests(page)
        if not info.HasField("close_time"):
            about = DescribeWorkflowExecutionRequest(namespace=client.namespace, execution=info.execution)
            digests |= _digests(await service.describe_workflow_execution(about, retry=True))
    return digests


async def _in_schedule(client: Client, schedule: str) -> set[str]:
    about = DescribeScheduleRequest(namespace=client.namespace, schedule_id=schedule)
    with _unless_deleted():
        return _digests(await client.workflow_service.describe_schedule(about, retry=True))
    return set()


@contextmanager
def _unless_deleted() -> Iterator[None]:
    """Skip what has been deleted since it was listed."""
    try:
        yield
    except RPCError as error:
        if error.status != RPCStatusCode.NOT_FOUND:
            raise


def _digests(reply: Message) -> set[str]:
    return {digest.decode() for digest in _DIGEST.findall(reply.SerializeToString())}


async def _pages(call: Callable[..., Any], request: Any) -> AsyncIterator[Any]:
    """Yield the pages of a listing."""
    while True:
        page = await call(request, retry=True)
        yield page
        if not page.next_page_token:
            return
        request.next_page_token = page.next_page_token
