"""What several modules of this folder start with."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest_asyncio
from temporalio import workflow
from temporalio.client import Client

from tests.conftest import Harness


@workflow.defn(name="Loop", sandboxed=False)
class BrokenLoop:
    """Its workflow task fails, again and again."""

    @workflow.run
    async def run(self, definition: Any, state: Any) -> None:
        raise RuntimeError("a bug")


@pytest_asyncio.fixture
async def away(temporal: Client, tmp_path: Path) -> AsyncIterator[Harness]:
    """A harness whose worker the test brings."""
    yield Harness(temporal, f"test-{uuid4().hex[:8]}", tmp_path)
