"""Another model where one fails, over each wire: what was paid stays paid, and the conversation goes on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from temporalio.client import Client

import tests.tools  # noqa: F401 registers the tools
from holdfast.activities import all_activities
from holdfast.client.events import all_events
from holdfast.protocol.events import ModelRequested
from holdfast.worker import create_worker
from tests.conftest import TOOLS, Harness, Replays
from tests.wire.apis import APIS
from tests.wire.fake import Fake

AGENT = """
agents: {{clerk: {{model: [first, second], retry: {{attempts: 1}}, tools: [{tools}]}}}}
steps: [{{name: clerk, agent: clerk}}]
"""


@pytest_asyncio.fixture
async def second() -> AsyncIterator[Fake]:
    async with Fake(APIS["anthropic"]) as fake:
        yield fake


@pytest_asyncio.fixture
async def wired(
    temporal: Client, replays: Replays, tmp_path: Path, fake: Fake, second: Fake, request: pytest.FixtureRequest
) -> AsyncIterator[Harness]:
    harness = Harness(temporal, f"test-fallback-{tmp_path.name}-{fake.api.name}", tmp_path)
    activities = all_activities([TOOLS], {"first": fake.alias, "second": second.alias})
    async with create_worker(temporal, task_queue=harness.runs.task_queue, activities=activities):
        yield harness
        await harness.close(replays, request.node.nodeid)


async def models(house: Harness, run: str) -> list[str]:
    events = await all_events(house.runs.tree, run)
    return [event.data.model for event in events if isinstance(event.data, ModelRequested)]


@pytest.mark.first_row
async def test_the_next_model_answers_where_the_first_fails(wired: Harness, fake: Fake, second: Fake) -> None:
    fake.fail(401, "no such key")
    second.text("Done.")
    run = await wired.start(AGENT.format(tools=""))
    assert await wired.output(run) == "Done."
    assert await models(wired, run) == ["first", "second"]


@pytest.mark.slow
@pytest.mark.first_row
async def test_a_conversation_goes_on_with_the_other_model_and_pays_nothing_twice(
    wired: Harness, fake: Fake, second: Fake, tmp_path: Path
) -> None:
    fake.calls(("pay_out", {"folder": str(tmp_path), "payee": "Ana", "amount": 12}))
    fake.fail(500, "down")
    second.text("Paid.")
    run = await wired.start(AGENT.format(tools="pay_out"))
    assert await wired.output(run) == "Paid."
    assert (tests.tools.calls(tmp_path, "pay"), fake.refused, second.refused) == (1, [], [])
    assert await models(wired, run) == ["first", "first", "second"]


@pytest.mark.slow
async def test_the_last_failure_counts_where_every_model_fails(wired: Harness, fake: Fake, second: Fake) -> None:
    fake.fail(500, "down")
    second.fail(401, "no such key")
    outcome = await wired.result(await wired.start(AGENT.format(tools="")))
    assert outcome.error is not None and outcome.error.type == "model_auth"
