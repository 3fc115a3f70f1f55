"""A text that is told to an agent while it continues as new reaches it once."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from temporalio.client import Client

from holdfast.protocol.answers import Answer
from tests.agents.turns import agent, call, turn
from tests.conftest import Harness, worker_for
from tests.progress import has_continued, limits

ROUNDS = 6
HEARD = "{% for m in messages if m.role == 'user' %}<{{ m.content }}>{% endfor %}"


def asking(house: Harness) -> str:
    """An agent that asks in each turn, and at its end repeats what it was told."""
    turns: list[Any] = [turn(call("request_user_info", question=f"{n}?")) for n in range(ROUNDS)]
    return agent(house, [*turns, HEARD], human=["ask"])


def texts(output: str) -> list[str]:
    return [text for text in output.strip("<>").split("><") if text.startswith("text ")]


@pytest.mark.parametrize("first", ["answer", "text", "at once"])
async def test_a_text_beside_the_answer_behind_which_the_agent_continues(house: Harness, first: str) -> None:
    run = await house.start(asking(house), "Go", history_limits=limits(rounds=1))
    for n in range(ROUNDS - 1):
        question = await house.one(run)
        answer = house.runs.answer(run, [Answer(question=question.id, content="ok")])
        told = house.runs.control.tell(run, f"text {n}")
        match first:
            case "answer":
                await answer
                await told
            case "text":
                await told
                await answer
            case _:
                await asyncio.gather(answer, told)
    await house.answered(run, "ok")  # without a text, which might come after the agent's end
    assert texts(await house.output(run)) == [f"text {n}" for n in range(ROUNDS - 1)]
    assert await has_continued(house, question.owner)


@pytest.mark.slow
async def test_texts_in_the_activation_that_continues_as_new_are_heard(temporal: Client, tmp_path: Path) -> None:
    """They come with the answer that ends the round, since all are sent while no worker is there."""
    away = Harness(temporal, f"test-{uuid4().hex[:8]}", tmp_path)
    async with worker_for(temporal, away.runs.task_queue):
        run = await away.start(asking(away), "Go", history_limits=limits(rounds=1))
        question = await away.one(run)
    owner = temporal.get_workflow_handle(question.owner)
    await owner.signal("answer", {"question": question.id, "content": "ok"})
    for n in range(3):
        await owner.signal("tell", {"text": f"text {n}"})
    async with worker_for(temporal, away.runs.task_queue):
        await away.answered(run, *["ok"] * (ROUNDS - 1))
        assert texts(await away.output(run)) == ["text 0", "text 1", "text 2"]
        assert [event.type for event in await away.runs.watch.events(run)].count("agent.told") == 3
    await away.replay()
