"""Visibility's lists of workflows, row by row as the server sends them.

The SDK decodes every search attribute of every row, and twice: that was nine tenths of what a page of a list cost, and
of most rows two or three attributes are read. And it asks for rows by pages of one size, where a production server
takes ten calls a second of a namespace, and the embedded one answers nobody else while it makes a large page.
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeVar

from temporalio.api.workflow.v1 import WorkflowExecutionInfo
from temporalio.api.workflowservice.v1 import ListWorkflowExecutionsRequest
from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.converter import WorkflowSerializationContext

from holdfast.runtime.outage import READ_LIMIT, has_no_server

T = TypeVar("T")
FIRST_PAGE = 100
"""Rows that are asked for first where all are wanted."""
LARGEST_PAGE = 1_000
"""Rows that the server gives at most."""
QUICK_SECONDS = 0.1
"""A page that took less is followed by one of twice its size, one that took longer by half."""


@dataclass(frozen=True, slots=True)
class ListedExecution:
    """A workflow as visibility lists it."""

    info: WorkflowExecutionInfo
    client: Client

    @property
    def id(self) -> str:
        """Return the workflow's id."""
        return self.info.execution.workflow_id

    @property
    def run_id(self) -> str:
        """Return Temporal's id of this execution of it."""
        return self.info.execution.run_id

    @property
    def root(self) -> str:
        """Return the id of the outermost workflow above it: its own if there is none."""
        return self.info.root_execution.workflow_id or self.id

    @property
    def status(self) -> WorkflowExecutionStatus | None:
        """Return Temporal's status; None if the server does not know it."""
        return WorkflowExecutionStatus(self.info.status) if self.info.status else None

    @property
    def start_time(self) -> datetime:
        """Return when it was started."""
        return self.info.start_time.ToDatetime(UTC)

    @property
    def close_time(self) -> datetime | None:
        """Return when it ended; None if it has not."""
        return self.info.close_time.ToDatetime(UTC) if self.info.HasField("close_time") else None

    def read_word(self, attribute: str) -> str | None:
        """Return a search attribute that is a word or a text; None if it is not set."""
        value = self._read(attribute)
        return None if value is None else str(value)

    def read_words(self, attribute: str) -> list[str]:
        """Return a search attribute that is a list of words; none if it is not set."""
        value = self._read(attribute)
        if value is None:
            return []
        return [str(word) for word in value] if isinstance(value, list) else [str(value)]

    def read_time(self, attribute: str) -> datetime | None:
        """Return a search attribute that is a time; None if it is not set."""
        value = self._read(attribute)
        return None if value is None else datetime.fromisoformat(str(value))

    def _read(self, attribute: str) -> object:
        fields = self.info.search_attributes.indexed_fields
        return json.loads(fields[attribute].data or b"null") if attribute in fields else None

    def has_memo(self, key: str) -> bool:
        """Return whether something stands in its memo under this key."""
        return key in self.info.memo.fields

    async def memo_value(self, key: str, default: T, *, type_hint: type[T]) -> T:
        """Return what stands in its memo; what the client's converter raises if it cannot be read."""
        if not self.has_memo(key):
            return default
        context = WorkflowSerializationContext(namespace=self.client.namespace, workflow_id=self.id)
        converter = self.client.data_converter.with_context(context)
        value: T = (await converter.decode([self.info.memo.fields[key]], [type_hint]))[0]
        return value


async def get_page(
    client: Client, query: str, size: int, place: bytes = b""
) -> tuple[list[ListedExecution], bytes | None]:
    """Return so many rows of a list, newest first, and the place behind them; None where no row comes after.

    Args:
        client: The client.
        query: Which workflows, in the language of visibility.
        size: How many rows, at most `LARGEST_PAGE`.
        place: The place behind which they are; the beginning if it is not given.

    Raises:
        RPCError: The server refuses, or has not answered after `READ_LIMIT`.
    """
    if has_no_server(client):
        return [], None
    wanted = ListWorkflowExecutionsRequest(
        namespace=client.namespace, page_size=size, query=query, next_page_token=place
    )
    page = await client.workflow_service.list_workflow_executions(wanted, retry=True, timeout=READ_LIMIT)
    return [ListedExecution(info, client) for info in page.executions], page.next_page_token or None


@dataclass
class ListReader:
    """Reads a list part by part, and goes on where it was, after a failure too."""

    client: Client
    query: str
    place: bytes | None = b""
    """The place behind what was read; None at the end."""
    size: int = FIRST_PAGE

    async def read(self, most: int = LARGEST_PAGE) -> list[ListedExecution]:
        """Return the next rows, at most so many; none at the end. Raises as `get_page`."""
        if self.place is None:
            return []
        began = time.monotonic()
        rows, self.place = await get_page(self.client, self.query, min(self.size, most), self.place)
        is_quick = time.monotonic() - began < QUICK_SECONDS
        self.size = min(self.size * 2, LARGEST_PAGE) if is_quick else max(self.size // 2, FIRST_PAGE)
        return rows


async def list_executions(client: Client, query: str, limit: int | None = None) -> AsyncIterator[ListedExecution]:
    """Yield the workflows of a list, newest first, all or so many. Raises as `get_page`."""
    reader, left = ListReader(client, query), limit
    while reader.place is not None and left != 0:
        rows = await reader.read(LARGEST_PAGE if left is None else min(left, LARGEST_PAGE))
        left = None if left is None else left - len(rows)
        for row in rows:
            yield row
