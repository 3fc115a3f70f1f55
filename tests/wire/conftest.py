"""One fake for each test, of each API in turn."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.wire.apis import APIS
from tests.wire.fake import KEY_VARIABLE, Fake

KEY = "sk-wire-0123456789abcdef"


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv(KEY_VARIABLE, KEY)
    return KEY


@pytest_asyncio.fixture(params=list(APIS))
async def fake(request: pytest.FixtureRequest) -> AsyncIterator[Fake]:
    async with Fake(APIS[request.param]) as fake:
        yield fake
