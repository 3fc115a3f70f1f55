"""The events of a run as a stream over HTTP: whole, in order, and gone on with where a reader left off."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import pytest_asyncio

from tests.conftest import Harness
from tests.serve.ground import app_of, client_of, served, site_of_house

TWO = "{name: two, steps: [{kind: hitl, name: a, message: A?}, {kind: hitl, name: b, message: B?}]}"


@pytest_asyncio.fixture
async def api(house: Harness) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(site_of_house(house)) as client:
        yield client


async def blocks(response: httpx.Response) -> AsyncIterator[tuple[str, dict[str, Any]]]:
    """The id and the data of each event of a stream."""
    id_ = ""
    async for line in response.aiter_lines():
        if line.startswith("id: "):
            id_ = line.removeprefix("id: ")
        elif line.startswith("data: "):
            yield id_, json.loads(line.removeprefix("data: "))


async def ended(house: Harness) -> str:
    run = await house.start(TWO)
    await house.answered(run, "x", "y")
    await house.output(run)
    return run


@pytest.mark.slow
async def test_the_stream_of_a_run_that_has_ended_is_its_events(house: Harness, api: httpx.AsyncClient) -> None:
    run = await ended(house)
    async with api.stream("GET", f"/api/v1/runs/{run}/events") as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        events = [data async for _, data in blocks(response)]
    assert events == [event.to_json() for event in await house.runs.watch.events(run)]


@pytest.mark.slow
async def test_a_reader_who_reconnects_gets_the_rest_only(house: Harness, api: httpx.AsyncClient) -> None:
    run = await ended(house)
    async with api.stream("GET", f"/api/v1/runs/{run}/events") as response:
        whole = [block async for block in blocks(response)]
    headers = {"Last-Event-ID": whole[3][0]}
    async with api.stream("GET", f"/api/v1/runs/{run}/events", headers=headers) as response:
        assert [block async for block in blocks(response)] == whole[4:]


@pytest.mark.slow
async def test_behind_the_last_event_of_a_run_there_is_nothing(house: Harness, api: httpx.AsyncClient) -> None:
    run = await ended(house)
    async with api.stream("GET", f"/api/v1/runs/{run}/events") as response:
        *_, (last, _) = [block async for block in blocks(response)]
    assert (await api.get(f"/api/v1/runs/{run}/events", params={"after": last})).status_code == 204


async def test_a_cursor_of_another_run_is_refused(house: Harness, api: httpx.AsyncClient) -> None:
    run = await ended(house)
    response = await api.get(f"/api/v1/runs/{run}/events", headers={"Last-Event-ID": "nonsense"})
    assert (response.status_code, response.json()["code"]) == (422, "input_invalid")


@pytest.mark.slow
async def test_events_come_as_they_happen(house: Harness) -> None:
    run = await house.start(TWO)
    await house.one(run)
    seen = []
    async with (
        served(app_of(site_of_house(house))) as address,
        httpx.AsyncClient(base_url=address, timeout=60) as client,
        client.stream("GET", f"/api/v1/runs/{run}/events") as response,
    ):
        async for _, event in blocks(response):
            seen.append(event["type"])
            if event["type"] == "question.asked":
                await house.answer(run, "x", (await house.runs.questions(run))[0])
    assert (seen[0], seen[-1], seen.count("question.answered")) == ("run.started", "run.completed", 2)
