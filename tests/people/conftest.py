"""A server that skips time: three days pass in a moment."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio
from temporalio.testing import TimeSkippingConfig, WorkflowEnvironment

from holdfast.client.connection import DATA_CONVERTER
from tests.conftest import ATTRIBUTES, Harness, temporal_binary, worker_for


@pytest_asyncio.fixture(scope="module")
async def skipping() -> AsyncIterator[WorkflowEnvironment]:
    async with await WorkflowEnvironment.start_time_skipping_v2(
        dev_server_existing_path=temporal_binary(),
        data_converter=DATA_CONVERTER,
        search_attributes=ATTRIBUTES,
        ts_config=TimeSkippingConfig(max_session_skip_count=1000),
        dev_server_extra_args=["--dynamic-config-value", "frontend.WorkflowTimeSkippingEnabled=true"],
    ) as environment:
        yield environment


@pytest_asyncio.fixture
async def later(skipping: WorkflowEnvironment, tmp_path: Path) -> AsyncIterator[Harness]:
    queue = f"later-{uuid.uuid4().hex[:8]}"
    harness = Harness(skipping.client, queue, tmp_path)
    async with worker_for(skipping.client, queue):
        yield harness
        await harness.replay()
