"""Runs over each wire: what was done stays done, whatever the provider does next; and nothing keeps the key."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from temporalio.client import Client

import tests.tools  # noqa: F401 registers the tools
from holdfast.activities import all_activities
from holdfast.worker import create_worker
from tests.activities.provider import Reply
from tests.conftest import TOOLS, Harness, Replays
from tests.wire.apis import APIS
from tests.wire.fake import Fake

AGENT = """
agents: {clerk: {model: fast, instructions: Pay., tools: [pay_out], retry: {attempts: 5, backoff: 50ms, factor: 1}}}
steps: [{name: clerk, agent: clerk}]
"""
TROUBLES = {
    "rate limit": Reply(status=429, headers={"Retry-After": "0"}, body={}),
    "server error": Reply(status=500, body={}),
    "reset": Reply(resets=True),
    "cut": Reply(text="Paid, and all is well.", cut=0.6),
    "empty": Reply(text=""),
    "cut off": Reply(text="Pa", finish="length"),
}


@pytest_asyncio.fixture
async def wired(
    temporal: Client, replays: Replays, tmp_path: Path, fake: Fake, request: pytest.FixtureRequest
) -> AsyncIterator[Harness]:
    queue = f"test-wire-{tmp_path.name}-{fake.api.name}"
    harness = Harness(temporal, queue, tmp_path)
    activities = all_activities([TOOLS], {"fast": fake.alias})
    async with create_worker(temporal, task_queue=queue, activities=activities):
        yield harness
        await harness.close(replays, request.node.nodeid)


@pytest.mark.parametrize(
    ("fake", "trouble"),
    [
        pytest.param(api, trouble, marks=pytest.mark.slow if n % len(APIS) != m else ())
        for n, trouble in enumerate(TROUBLES)
        for m, api in enumerate(APIS)
    ],
    indirect=["fake"],
)
async def test_a_tool_that_was_paid_is_not_paid_again(wired: Harness, fake: Fake, tmp_path: Path, trouble: str) -> None:
    args = {"folder": str(tmp_path), "payee": "Ana", "amount": 12}
    fake.calls(("pay_out", args))
    fake.reply(TROUBLES[trouble], Reply(text="Paid."))
    assert await wired.output(await wired.start(AGENT)) == "Paid."
    assert (tests.tools.calls(tmp_path, "pay"), fake.refused, len(fake.requests)) == (1, [], 3)


@pytest.mark.slow
@pytest.mark.first_row
async def test_the_key_is_nowhere(wired: Harness, fake: Fake, key: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    fake.reply(Reply(status=500, body=fake.api.error(500, f"upstream said {key}")))
    fake.fail(401, f"Incorrect API key provided: {key}")
    run = await wired.start(AGENT)
    outcome = await wired.result(run)
    assert outcome.error is not None and outcome.error.type == "model_auth"
    kept = [str(outcome), str(await wired.runs.watch.events(run)), caplog.text]
    kept += [history.to_json() for history in await wired.histories(run)]
    assert key in str([request.headers for request in fake.requests])
    assert not any(key in text for text in kept)
