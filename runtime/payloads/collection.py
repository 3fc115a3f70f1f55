"""Garbage collection of stored payloads that no history refers to any more, for `holdfast gc`."""

from __future__ import annotations

import asyncio
import re
import shutil
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
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
from temporalio.service import RPCError

from holdfast.runtime.config import ConfigError
from holdfast.runtime.errors import is_missing
from holdfast.runtime.payloads.checkpoints import list_threads
from holdfast.runtime.payloads.directory import NAMESPACES, PayloadDirectory, mend, remove
from holdfast.runtime.payloads.driver import LARGEST_LIST, read_unencrypted

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
class CollectionResult:
    """The amounts that were removed and kept."""

    removed: StoredAmount
    kept: StoredAmount


async def collect_garbage(client: Client, folder: Path, age: float = SAFE_AGE) -> CollectionResult:
    """Remove payloads older than `age` seconds that nothing in the namespace refers to. Raises `ConfigError`."""
    await _check_namespaces(client, folder)
    before = time.time() - age
    directory = PayloadDirectory(folder)
    # Listed before the histories are read: what is stored from now on is in no list, and is kept.
    objects = {mend(path).name: stat for path, stat in directory.files()}
    old = {name for name, stat in objects.items() if stat.st_mtime < before}
    unused = await _find_unused(client, set(objects)) if old else set()
    inner = InnerReferences(directory)
    unused -= inner.list_below([name for name in objects if name not in old or name not in unused])
    removed = _remove(directory, unused & old, inner, before)
    done = CollectionResult(StoredAmount(), StoredAmount())
    for name, stat in objects.items():
        (done.removed if name in removed else done.kept).add(stat.st_size)
    await _clear_checkpoints(client, folder, before, done)
    return done


async def _clear_checkpoints(client: Client, folder: Path, before: float, done: CollectionResult) -> None:
    """Remove the checkpoints of graphs whose runs Temporal has forgotten: a retry of any other may go on from them."""
    for run_id, path in list_threads(folder):
        sizes = [file.stat().st_size for file in path.rglob("*") if file.is_file()]
        unused = path.stat().st_mtime < before and not await _is_known(client, run_id)
        if unused:
            await asyncio.to_thread(shutil.rmtree, path, ignore_errors=True)
        for size in sizes:
            (done.removed if unused else done.kept).add(size)


async def _is_known(client: Client, run_id: str) -> bool:
    """Return whether a workflow with this Temporal run id is running, or closed and kept."""
    listing = ListWorkflowExecutionsRequest(namespace=client.namespace, query=f"RunId = '{run_id}'", page_size=1)
    return bool((await client.workflow_service.list_workflow_executions(listing, retry=True)).executions)


def _remove(directory: PayloadDirectory, names: set[str], inner: InnerReferences, before: float) -> set[str]:
    """Remove these objects unless they were stored again meanwhile; return the names of those that were removed.

    Lists go before what they name: a process that finds a list does not look whether its parts are there.
    """
    removed: set[str] = set()
    kept: set[str] = set()
    for name in sorted(names, key=inner.measure_height, reverse=True):
        if name in kept:
            continue
        if remove(directory.path(name), before):
            removed.add(name)
        else:
            kept |= inner.list_below([name])
    return removed


class InnerReferences:
    """The references of the lists of a folder. Names say nothing about the content, so lists are never encrypted."""

    def __init__(self, directory: PayloadDirectory) -> None:
        self._directory = directory
        self._known: dict[str, list[str]] = {}

    def list_below(self, names: Iterable[str]) -> set[str]:
        """Return the names of all objects that these refer to, by whatever many lists, and of these themselves."""
        reached, todo = set[str](), list(names)
        while todo:
            name = todo.pop()
            if name not in reached:
                reached.add(name)
                todo += self._list_inside(name)
        return reached

    def measure_height(self, name: str) -> int:
        """Return how many lists lie on the way down from an object; 0 for a piece."""
        return 1 + max(map(self.measure_height, inside)) if (inside := self._list_inside(name)) else 0

    def _list_inside(self, name: str) -> list[str]:
        if name not in self._known:
            self._known[name] = _read_names(self._directory.path(name))
        return self._known[name]


def _read_names(path: Path) -> list[str]:
    """Return the names in a list; none for a piece, and for what is gone."""
    try:
        with path.open("rb") as file:
            stored = read_unencrypted(file.read(LARGEST_LIST))
    except FileNotFoundError:
        return []
    return stored.names if stored and stored.is_list else []


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


async def _find_unused(client: Client, names: set[str]) -> set[str]:
    """Return the names that occur nowhere in the namespace: in no history, running activity or schedule.

    Any 64 hex digits count as a reference, wherever they occur: better to keep a file too many.
    """
    unused = set(names)
    listing = ListWorkflowExecutionsRequest(namespace=client.namespace, page_size=AT_ONCE)
    async for page in _read_pages(client.workflow_service.list_workflow_executions, listing):
        used = await asyncio.gather(*(_read_workflow_digests(client, execution) for execution in page.executions))
        unused = unused.difference(*used)
    schedules = ListSchedulesRequest(namespace=client.namespace, maximum_page_size=AT_ONCE)
    async for page in _read_pages(client.workflow_service.list_schedules, schedules):
        used = await asyncio.gather(
            *(_read_schedule_digests(client, schedule.schedule_id) for schedule in page.schedules)
        )
        unused = unused.difference(*used)
    return unused


async def _read_workflow_digests(client: Client, info: WorkflowExecutionInfo) -> set[str]:
    """Return the digests in an execution's history and, while it is open, in its activities' heartbeats."""
    service = client.workflow_service
    history = GetWorkflowExecutionHistoryRequest(
        namespace=client.namespace, execution=info.execution, skip_archival=True
    )
    digests: set[str] = set()
    with _skip_deleted():
        async for page in _read_pages(service.get_workflow_execution_history, history):
            digests |= _find_digests(page)
        if not info.HasField("close_time"):
            about = DescribeWorkflowExecutionRequest(namespace=client.namespace, execution=info.execution)
            digests |= _find_digests(await service.describe_workflow_execution(about, retry=True))
    return digests


async def _read_schedule_digests(client: Client, schedule: str) -> set[str]:
    about = DescribeScheduleRequest(namespace=client.namespace, schedule_id=schedule)
    with _skip_deleted():
        return _find_digests(await client.workflow_service.describe_schedule(about, retry=True))
    return set()


@contextmanager
def _skip_deleted() -> Iterator[None]:
    """Skip what has been deleted since it was listed."""
    try:
        yield
    except RPCError as error:
        if not is_missing(error):
            raise


def _find_digests(reply: Message) -> set[str]:
    return {digest.decode() for digest in _DIGEST.findall(reply.SerializeToString())}


async def _read_pages(call: Callable[..., Any], request: Any) -> AsyncIterator[Any]:
    """Yield the pages of a listing."""
    while True:
        page = await call(request, retry=True)
        yield page
        if not page.next_page_token:
            return
        request.next_page_token = page.next_page_token
