"""The store of the checkpoints of graphs: records in threads, appended, and read again by a later attempt."""

from __future__ import annotations

from typing import Protocol


class CheckpointStore(Protocol):
    """Records by thread, in the order in which they were appended. A thread is `<Temporal run id>/<digest>`."""

    problem: str
    """Why it cannot be used; empty: it can."""

    async def read(self, thread: str) -> list[bytes]:
        """Return the records of a thread; none if there is no such thread."""
        ...

    async def append(self, thread: str, number: int, record: bytes) -> None:
        """Keep a record under its number, which counts from 0 without a gap; it lasts once this returns.

        An empty record says that the thread begins anew.
        """
        ...


class MemoryCheckpoints:
    """A store that lasts as long as its process: for tests."""

    problem = ""

    def __init__(self) -> None:
        self._threads: dict[str, list[bytes]] = {}

    async def read(self, thread: str) -> list[bytes]:
        """See the protocol."""
        return list(self._threads.get(thread, ()))

    async def append(self, thread: str, number: int, record: bytes) -> None:
        """See the protocol."""
        self._threads.setdefault(thread, []).append(record)


class NoCheckpoints:
    """The store of a worker that has none: graphs that need it are refused."""

    problem = "this worker has no store for checkpoints: set external in [payloads] of holdfast.toml"

    async def read(self, thread: str) -> list[bytes]:
        """Raise: a graph that needs the store was refused before."""
        raise NotImplementedError(self.problem)

    async def append(self, thread: str, number: int, record: bytes) -> None:
        """See `read`."""
        raise NotImplementedError(self.problem)
