"""Results of queries, shared by all who look at the same workflow through one process, such as the pages of a server.

A workflow whose history has not grown answers a query as it did before, so it is not asked again, whoever looks; and
those who ask at the same time share a query. This is also for the workflow: of several queries some may be lost, see
`query_turns`, and one that comes with events makes its worker drop it from the cache. `Tree` asks here, if it has one.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from pydantic_core import to_json
from temporalio.client import Client, WorkflowExecutionDescription

from holdfast.runtime.workers import is_polled

MOST_KEPT = 2_000
"""Results that are kept; one has at most a page, of 12 KiB, or the context of a run."""
SURE_SECONDS = 5.0
"""How long a worker that answered counts as alive; later its task queue is asked: people are told if there is none."""

Place = tuple[str, int]
"""Temporal's run id, and the length of the history."""


@dataclass(frozen=True)
class QueryKey:
    """What a workflow is asked."""

    workflow: str
    run: str | None
    """Temporal's run id; None: the workflow's present one."""
    name: str
    argument: bytes
    type_: object
    """What the result is parsed as."""

    @classmethod
    def of(cls, workflow: str, run: str | None, name: str, argument: object, type_: object) -> QueryKey:
        """Return the key, with the argument as JSON."""
        return cls(workflow, run, name, to_json(argument), type_)


@dataclass(frozen=True)
class _KeptResult:
    value: Any
    place: Place
    """Before the query: what happened meanwhile may be in the value, and is asked once more."""
    sure: float
    """When a worker was known to be there, on the monotonic clock."""


class _Asking(NamedTuple):
    """A query under way, which those who ask the same at the same time share."""

    key: QueryKey
    place: Place
    unless_ended: bool


class QueryCache:
    """Keeps the results of queries for as long as the histories of their workflows do not grow.

    Args:
        client: The connection.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._kept: OrderedDict[QueryKey, _KeptResult] = OrderedDict()
        self._asking: dict[_Asking, asyncio.Future[Any]] = {}

    async def ask(
        self,
        key: QueryKey,
        described: WorkflowExecutionDescription,
        query: Callable[[], Awaitable[Any]],
        *,
        unless_ended: bool = False,
    ) -> Any:
        """Return the result of a query: a kept one, if nothing has happened since and a worker is there.

        Args:
            key: What is asked.
            described: The server's description of the workflow, from just now.
            query: Asks the workflow.
            unless_ended: Whether `query` fails where the workflow has ended since: it is shared with such queries only.

        Raises what `query` raises.
        """
        place = (described.run_id, described.history_length)
        kept = self._kept.get(key)
        if kept is not None and kept.place == place and await self._is_sure(key, kept, described.task_queue):
            return kept.value
        shared = _Asking(key, place, unless_ended)
        asking = self._asking.get(shared)
        if asking is None:
            asking = self._asking[shared] = asyncio.ensure_future(self._query(key, place, query))
            asking.add_done_callback(lambda ended: self._end(shared, ended))
        return await asyncio.shield(asking)  # who leaves does not take it from the others

    async def _query(self, key: QueryKey, place: Place, query: Callable[[], Awaitable[Any]]) -> Any:
        value = await query()
        self._keep(key, _KeptResult(value, place, time.monotonic()))
        return value

    def _end(self, shared: _Asking, asked: asyncio.Future[Any]) -> None:
        del self._asking[shared]
        if not asked.cancelled():
            asked.exception()  # perhaps nobody waits for it any more

    async def _is_sure(self, key: QueryKey, kept: _KeptResult, task_queue: str) -> bool:
        """Return whether a worker is there: without one the query says why there is none."""
        now = time.monotonic()
        if now - kept.sure < SURE_SECONDS:
            return True
        if not await is_polled(self._client, task_queue):
            return False
        self._keep(key, replace(kept, sure=now))
        return True

    def _keep(self, key: QueryKey, result: _KeptResult) -> None:
        self._kept[key] = result
        self._kept.move_to_end(key)
        while len(self._kept) > MOST_KEPT:
            self._kept.popitem(last=False)
