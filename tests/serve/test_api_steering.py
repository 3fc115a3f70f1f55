"""Runs steered over HTTP, by whoever may."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest
import pytest_asyncio

from tests.conftest import Harness
from tests.serve.ground import WHO, client_of, person, site_of_house

TITLE = "{name: brief, steps: [{kind: hitl, name: title, message: A title?}]}"
STOP = """
name: stop
context: {n: 1}
steps: [{name: out, uses: passthrough, interrupt_before: true, input: "{{ context.n }}"}]
"""


@pytest_asyncio.fixture
async def api(house: Harness) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(site_of_house(house), person("clerk", "read", "answer")) as client:
        yield client


async def test_a_run_is_paused_and_resumed(house: Harness, api: httpx.AsyncClient) -> None:
    run = await house.start(TITLE)
    await house.one(run)
    paused = await api.post(f"/api/v1/runs/{run}/pause")
    resumed = await api.post(f"/api/v1/runs/{run}/resume", json={})
    assert (paused.json(), resumed.json()) == (
        {"run": run, "status": "paused", "left": []},
        {"run": run, "status": "waiting", "left": []},
    )


@pytest.mark.slow
async def test_a_run_is_cancelled_and_then_takes_no_command(house: Harness, api: httpx.AsyncClient) -> None:
    run = await house.start(TITLE)
    await house.one(run)
    cancelled = await api.post(f"/api/v1/runs/{run}/cancel", json={"wait": 30})
    assert cancelled.json() == {"run": run, "status": "cancelled", "left": []}
    paused = await api.post(f"/api/v1/runs/{run}/pause")
    assert (paused.status_code, paused.json()["code"]) == (410, "run_closed")


async def test_the_context_is_edited_at_a_stop_that_was_seen(house: Harness, api: httpx.AsyncClient) -> None:
    run = await house.start(STOP)
    stop = await house.one(run)
    unseen = await api.post(f"/api/v1/runs/{run}/edit", json={"set": {"n": 2}, "digest": "0" * 16})
    seen = await api.post(f"/api/v1/runs/{run}/edit", json={"set": {"n": 2}, "digest": stop.digest})
    assert (unseen.status_code, unseen.json()["code"]) == (409, "question_changed")
    assert seen.json()[0]["by"] == "user:ana"
    assert await house.output(run) == 2


async def test_telling_a_run_without_an_agent_is_refused(house: Harness, api: httpx.AsyncClient) -> None:
    run = await house.start(TITLE)
    await house.one(run)
    told = await api.post(f"/api/v1/runs/{run}/tell", json={"text": "faster"})
    assert (told.status_code, told.json()["code"]) == (422, "input_invalid")


async def test_who_may_only_answer_steers_nothing(house: Harness, api: httpx.AsyncClient) -> None:
    run = await house.start(TITLE)
    await house.one(run)
    refused = await api.post(f"/api/v1/runs/{run}/cancel", headers={WHO: "clerk"})
    assert (refused.status_code, refused.json()["code"]) == (403, "not_allowed")
    assert (await house.runs.state(run)).status == "waiting"
