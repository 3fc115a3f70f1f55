"""Lists of visibility: rows as the server sends them, in pages as large as it makes quickly."""

from __future__ import annotations

from typing import cast

import pytest
from temporalio.api.workflow.v1 import WorkflowExecutionInfo
from temporalio.client import Client

from holdfast.client import visibility
from holdfast.client.visibility import ListedExecution, ListReader, list_executions


@pytest.mark.parametrize(("seconds", "sizes"), [(0.0, [100, 200, 400, 800, 1000, 1000]), (1.0, [100] * 26)])
async def test_pages_grow_where_the_server_makes_them_quickly(
    seconds: float, sizes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    rows, now = [ListedExecution(WorkflowExecutionInfo(), cast(Client, None))] * 2_600, [0.0]

    async def get_page(_client: Client, _query: str, size: int, place: bytes = b"") -> tuple[object, bytes | None]:
        asked.append(size)
        now[0] += seconds
        end = int(place or b"0") + size
        return rows[end - size : end], str(end).encode() if end < len(rows) else None

    monkeypatch.setattr(visibility, "get_page", get_page)
    monkeypatch.setattr(visibility.time, "monotonic", lambda: now[0])
    assert len([row async for row in list_executions(cast(Client, None), "")]) == len(rows)
    assert asked == sizes
    asked.clear()
    assert len([row async for row in list_executions(cast(Client, None), "", 150)]) == 150
    assert asked == [100, 50]


async def test_a_reader_goes_on_behind_what_it_has_read_after_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    places: list[bytes] = []

    async def get_page(_client: Client, _query: str, _size: int, place: bytes = b"") -> tuple[list[object], bytes]:
        places.append(place)
        if len(places) == 2:
            raise TimeoutError
        return [], str(len(places)).encode()

    monkeypatch.setattr(visibility, "get_page", get_page)
    reader = ListReader(cast(Client, None), "")
    await reader.read()
    with pytest.raises(TimeoutError):
        await reader.read()
    await reader.read()
    assert places == [b"", b"1", b"1"]
