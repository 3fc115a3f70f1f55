"""A server that skips time: three days pass in a moment."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from temporalio.testing import TimeSkippingConfig, WorkflowEnvironment

from holdfast.runtime.converters import DATA_CONVERTER
from holdfast.runtime.embedded.server import find_temporal_binary
from holdfast.testkit.environment import SERVER_OPTIONS
from tests.conftest import ATTRIBUTES, Harness, Replays, worker_for


@pytest_asyncio.fixture(scope="session")
async def skipping() -> AsyncIterator[WorkflowEnvironment]:
    async with await WorkflowEnvironment.start_time_skipping_v2(
        dev_server_existing_path=find_temporal_binary(),
        data_converter=DATA_CONVERTER,
        search_attributes=ATTRIBUTES,
        ts_config=TimeSkippingConfig(max_session_skip_count=1000),
        dev_server_extra_args=SERVER_OPTIONS,
    ) as environment:
        yield environment


@pytest_asyncio.fixture
async def later(
    skipping: WorkflowEnvironment, replays: Replays, tmp_path: Path, request: pytest.FixtureRequest
) -> AsyncIterator[Harness]:
    queue = f"later-{uuid.uuid4().hex[:8]}"
    harness = Harness(skipping.client, queue, tmp_path)
    async with worker_for(skipping.client, queue):
        yield harness
        await harness.close(replays, request.node.nodeid)
