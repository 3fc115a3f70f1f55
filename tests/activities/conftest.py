"""The provider of models that the tests of this folder call."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio

from tests.activities.provider import Provider


@pytest_asyncio.fixture
async def provider() -> AsyncIterator[Provider]:
    async with Provider() as provider:
        yield provider
