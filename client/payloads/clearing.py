"""Removes the stored payloads that no history refers to any longer: what `holdfast gc` does."""

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

from client.config import ConfigError
from client.payloads.directory import NAMESPACES, Directory, mend, remove

SAFE_AGE = 3600.0
"""Seconds that a payload is kept whatever the histories say: it is stored before its event is written."""
AT_ONCE = 20
"""Workflows whose histories are read at the same time."""
_DIGEST = re.compile(rb"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")


@dataclass
class Amount:
    """So many files, and their bytes together."""

    files: int = 0
    bytes: int = 0

    def add(self, size: int) -> None:
        self.files += 1
        self.bytes += size


@dataclass(frozen=True)
class Cleared:
    """What was removed, and what is still there."""

    removed: Amount
    kept: Amount


async def clear(client: Client, folder: Path, age: float = SAFE_AGE) -> Cleared:
    """Remove what is older than so many seconds, and what nothing in the namespace refers to. Raises ConfigError."""
    await _check_namespaces(client, folder)
    before = time.time() - age
    directory = Directory(folder)
    old = {mend(path).name for path, stat in directory.files() if stat.st_mtime < before}
    unused = await _unused(client, old) if old else old
    done = Cleared(Amount(), Amount())
    for path, stat in directory.files():
        gone = path.name in unused and remove(path, before)
        (done.removed if gone else done.kept).add(stat.st_size)
    return done


async def _check_namespaces(client: Client, folder: Path) -> None:
    """Refuse a folder that histories refer to which cannot be read from here."""
    request = DescribeNamespaceRequest(namespace=client.namespace)
    own = (await client.workflow_service.describe_namespace(request)).namespace_info.id
    for note in sorted((folder / NAMESPACES).glob("*")):
        if note.name != own:
            raise ConfigError(
                f"{folder} also holds payloads of namespace {note.read_text().strip()}, whose histories cannot be read "
                f"from here, so nothing is removed. If that server and its runs are gone for good, delete {note}; "
                "else give each namespace a folder of its own"
            )


async def _unused(client: Client, names: set[str]) -> set[str]:
    """Those that stand nowhere in the namespace: in no history, no activity under way, no schedule.

    Sixty-four hex digits count wherever they stand: rather a file too many kept than one too few.
    """
    unused = set(names)
    listing = ListWorkflowExecutionsRequest(namespace=client.namespace, page_size=AT_ONCE)
    async for page in _pages(client.workflow_service.list_workflow_executions, listing):
        found = await asyncio.gather(*(_in_workflow(client, one) for one in page.executions))
        unused = unused.difference(*found)
    schedules = ListSchedulesRequest(namespace=client.namespace, maximum_page_size=AT_ONCE)
    async for page in _pages(client.workflow_service.list_schedules, schedules):
        found = await asyncio.gather(*(_in_schedule(client, one.schedule_id) for one in page.schedules))
        unused = unused.difference(*found)
    return unused


async def _in_workflow(client: Client, info: WorkflowExecutionInfo) -> set[str]:
    """The digests in an execution's history and, while it is open, in its activities' heartbeats."""
    service = client.workflow_service
    history = GetWorkflowExecutionHistoryRequest(
        namespace=client.namespace, execution=info.execution, skip_archival=True
    )
    found: set[str] = set()
    with _unless_deleted():
        async for page in _pages(service.get_workflow_execution_history, history):
            found |= _digests(page)
        if not info.HasField("close_time"):
            about = DescribeWorkflowExecutionRequest(namespace=client.namespace, execution=info.execution)
            found |= _digests(await service.describe_workflow_execution(about, retry=True))
    return found


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
    return {found.decode() for found in _DIGEST.findall(reply.SerializeToString())}


async def _pages(call: Callable[..., Any], request: Any) -> AsyncIterator[Any]:
    """The pages of a reply, one after the other."""
    while True:
        page = await call(request, retry=True)
        yield page
        if not page.next_page_token:
            return
        request.next_page_token = page.next_page_token
