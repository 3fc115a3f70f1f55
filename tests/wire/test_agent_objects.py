"""An agent of pydantic-ai that a team has, over each wire: every API takes what it sends, and nothing is paid twice."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from temporalio.client import Client

import tests.team_agents  # noqa: F401 registers what its agents use
from holdfast.activities import all_activities
from holdfast.protocol.runs import HistoryLimits
from holdfast.worker import create_worker
from tests.activities.provider import Reply
from tests.conftest import TOOLS, Harness
from tests.tools import calls
from tests.wire.fake import Fake
from tests.wire.thoughts import signature

AGENT = """
agents:
  clerk:
    from: "tests.team_agents:support"
    deps: "tests.team_agents:bank"
    model: fast
    retry: {attempts: 5, backoff: 50ms, factor: 1}
steps: [{name: clerk, agent: clerk}]
"""
ADVICE = {"advice": "Block it.", "block_card": True}
BUDGET = ", settings: {anthropic_thinking: {type: enabled, budget_tokens: 2048}}"
LIMITED = Reply(status=429, headers={"Retry-After": "0"}, body={})


@pytest_asyncio.fixture
async def wired(temporal: Client, tmp_path: Path, fake: Fake) -> AsyncIterator[Harness]:
    queue = f"objects-{tmp_path.name}-{fake.api.name}"
    harness = Harness(temporal, queue, tmp_path)
    activities = all_activities([TOOLS], {"fast": fake.alias})
    async with create_worker(temporal, task_queue=queue, activities=activities):
        yield harness
        await harness.replay()


@pytest.mark.slow
async def test_a_whole_conversation_is_taken_by_every_api(wired: Harness, fake: Fake, tmp_path: Path) -> None:
    fake.calls(("balance", {"pending": True}), ("guess", {"number": 1}))
    fake.reply(LIMITED)
    fake.calls(("guess", {"number": 7}), ("refund", {"amount": 5}), ("appraise", {"item": "ring"}))
    fake.reply(Reply(resets=True))
    fake.calls(("final_result", {"advice": "bad", "block_card": False}))
    fake.calls(("final_result", ADVICE))
    run = await wired.start(AGENT, f"{tmp_path} Ana", history_limits=HistoryLimits(rounds=1))
    questions = {question.info["tool"]: question for question in await wired.asked(run, 2)}
    await wired.answer(run, 900, questions["appraise"])
    await wired.answer(run, {"granted": True}, questions["refund"])
    assert await wired.output(run) == ADVICE
    assert (fake.refused, len(fake.requests)) == ([], 6)
    made = {name: calls(tmp_path, name) for name in ("balance", "refund", "appraise", "greet", "careful")}
    assert made == {"balance": 1, "refund": 1, "appraise": 1, "greet": 1, "careful": 2}


@pytest.mark.slow
@pytest.mark.parametrize("fake", ["chat"], indirect=True)
async def test_its_own_model_is_asked_and_its_key_and_address_are_told_to_nobody(
    wired: Harness, fake: Fake, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider = OpenAIProvider(base_url=fake.alias.base_url, api_key=key)
    monkeypatch.setattr(tests.team_agents.bare, "model", OpenAIChatModel("gpt-5", provider=provider))
    text = "agents: {a: {from: 'tests.team_agents:bare'}}\nsteps: [{name: s, agent: a}]"
    fake.reply(Reply(text="Well."))
    assert await wired.output(await wired.start(text, "How?")) == "Well."
    fake.fail(401, f"Incorrect API key provided: {key} at {fake.url}")
    error = (await wired.result(await wired.start(text, "How?"))).error
    assert error is not None and error.type == "model_auth"
    assert (key in error.message, fake.url in error.message, len(fake.requests)) == (False, False, 2)


def alone(name: str, more: str = "") -> str:
    """A blueprint of one agent of the team that needs nothing, whose model is the fake."""
    return f"agents: {{a: {{from: 'tests.team_agents:{name}', model: fast{more}}}}}\nsteps: [{{name: s, agent: a}}]"


@pytest.mark.first_row
@pytest.mark.parametrize(
    ("fake", "more"),
    [("responses", ""), ("google", ""), ("anthropic", ""), ("anthropic", BUDGET)],
    indirect=["fake"],
)
async def test_thoughts_go_back_with_their_signatures(wired: Harness, fake: Fake, more: str) -> None:
    fake.calls(("plain_add", {"a": 1, "b": 2}), reasoning="First 1 and 2.")
    fake.calls(("plain_add", {"a": 3, "b": 3}, "call_2"), reasoning="Then 3.")
    fake.text("6", reasoning="Done.")
    run = await wired.start(alone("thinker", more), "1 + 2 + 3?", history_limits=HistoryLimits(rounds=1))
    await wired.answered(run, {"granted": True}, {"granted": True})
    assert (await wired.output(run), fake.refused) == ("6", [])
    sent = [json.dumps(request.body) for request in fake.requests]
    thoughts = [signature("First 1 and 2."), signature("Then 3.")]
    assert [[thought in body for thought in thoughts] for body in sent] == [[False] * 2, [True, False], [True] * 2]
    assert not any("First 1 and 2." in event.model_dump_json() for event in await wired.runs.watch.events(run))
    asks = {"responses": "reasoning", "anthropic": "thinking", "google": "thinkingConfig"}[fake.api.name]
    assert all(f'"{asks}": {{' in body for body in sent)


@pytest.mark.slow
@pytest.mark.first_row
async def test_tools_are_prepared_for_each_request(wired: Harness, fake: Fake) -> None:
    fake.calls(("admin_reset", {"reason": "new"}))
    fake.calls(("admin_reset", {"reason": "again"}, "call_2"))
    fake.text("Well.")
    assert await wired.output(await wired.start(alone("prepared"), "Go")) == "Well."
    offered = [sorted(fake.api.offered(request)) for request in fake.requests]
    assert offered == [["admin_reset", "plain_add"], ["plain_add"], ["plain_add"]]
    last = json.dumps(fake.requests[-1].body)
    assert ("reset: new" in last, "reset: again" in last) == (True, False)


@pytest.mark.parametrize("fake", ["chat"], indirect=True)
async def test_a_prepared_toolset_changes_its_tools_for_each_request(wired: Harness, fake: Fake) -> None:
    fake.calls(("plain_add", {"a": 1, "b": 2}))
    fake.text("3")
    assert await wired.output(await wired.start(alone("prepared_toolset"), "Go")) == "3"
    told = [tool["function"]["description"] for request in fake.requests for tool in request.body["tools"]]
    assert told == ["For step 1."] * 2 + ["For step 2."] * 2
