"""The machines of a crash test, stopped at its end."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from uuid import uuid4

import pytest
import pytest_asyncio
from temporalio.client import Client

from tests.conftest import end_all
from tests.crash.machines import Machines
from tests.server import NAME


@pytest_asyncio.fixture
async def machines(server: str, temporal: Client, tmp_path: Path) -> AsyncIterator[Machines]:
    """A worker that can be killed, on the server of the test run."""
    made = Machines(tmp_path)
    made.address, made.namespace, made.task_queue = server, NAME, f"machines-{uuid4().hex[:8]}"
    yield made
    made.stop()
    await end_all(temporal, made.task_queue)


@pytest.fixture
def with_server(tmp_path: Path) -> Iterator[Machines]:
    """A worker, and a server of its own that can be killed, too."""
    made = Machines(tmp_path)
    made.start_server()
    yield made
    made.stop()
