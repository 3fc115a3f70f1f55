"""A record for the runs of a test, and a recorder that is asked for a round at a time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
from temporalio.client import Client

from holdfast.server.record.recorder import Recorder
from holdfast.server.record.store import RecordStore, open_store
from tests.conftest import Harness, polled_queue
from tests.record.ground import KEY, Recording


@pytest_asyncio.fixture
async def worker_queue(temporal: Client) -> AsyncIterator[str]:
    """The task queue of a worker for one test: a recorder records every run on its queue."""
    async with polled_queue(temporal) as queue:
        yield queue


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RecordStore]:
    store = open_store(f"sqlite:{tmp_path / 'record.sqlite'}")
    yield store
    store.close()


@pytest_asyncio.fixture
async def recording(house: Harness, store: RecordStore) -> AsyncIterator[Recording]:
    yield Recording(house, store, Recorder(house.runs.tree, store, KEY, house.runs.task_queue))
