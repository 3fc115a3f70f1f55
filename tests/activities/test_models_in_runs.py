"""Models in runs: what Temporal makes of their failures, on a real server."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio

from tests.activities.provider import Provider
from tests.conftest import Harness


@pytest_asyncio.fixture
async def provider() -> AsyncIterator[Provider]:
    async with Provider() as provider:
        yield provider


def blueprint(provider: Provider) -> str:
    return f"""
agents: {{drafter: {{model: "openai-compatible:small@{provider.url}", instructions: Be brief.}}}}
steps:
  - {{name: draft, agent: drafter, input: fish}}
output: "{{{{ steps.draft.output }}}}"
"""


async def test_a_rate_limit_is_waited_out_and_the_run_completes(house: Harness, provider: Provider) -> None:
    provider.status(429, "slow down", headers={"Retry-After": "1"})
    provider.status(503, "busy")
    provider.text("a poem")
    run = await house.start(blueprint(provider))
    assert await house.output(run) == "a poem"
    assert len(provider.requests) == 3


async def test_a_rejected_request_fails_the_run_at_once_with_its_type(house: Harness, provider: Provider) -> None:
    provider.status(400, "strange", "context_length_exceeded")
    outcome = await house.result(await house.start(blueprint(provider)))
    assert outcome.status == "failed" and outcome.error
    assert outcome.error.type == "context_overflow"
    assert len(provider.requests) == 1


async def test_cancelling_a_run_ends_its_request(house: Harness, provider: Provider) -> None:
    provider.hang()
    run = await house.start(blueprint(provider))
    await provider.asked()
    await house.runs.cancel(run)
    await provider.left()
    assert (await house.result(run)).status == "cancelled"
