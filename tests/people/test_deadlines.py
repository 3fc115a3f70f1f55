"""Deadlines, on a server that skips time: three days pass in a moment."""

from __future__ import annotations

import asyncio
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client

from holdfast.protocol.answers import Answer, Refusal
from holdfast.protocol.events import QuestionClosed
from tests.conftest import Harness, until, worker_for

ASK = "{kind: hitl, name: ask, message: Go?, timeout: 3d, on_error: continue%s}"
BLUEPRINT = (
    "steps:\n  - %s\n  - {name: end, input: {output: '{{ steps.ask.output }}', error: '{{ steps.ask.error }}'}}\n"
)


async def start(later: Harness, more: str = "") -> str:
    return await later.start(BLUEPRINT % (ASK % more))


async def test_a_question_that_nobody_answers_fails_its_step(later: Harness) -> None:
    run = await start(later)
    outcome = await later.output(run)
    assert (outcome["output"], outcome["error"]["type"]) == (None, "question_expired")


async def test_a_default_is_taken_at_the_deadline_and_the_journal_says_so(later: Harness) -> None:
    run = await start(later, ", default: nobody")
    assert (await later.output(run))["output"] == "nobody"
    [expired] = [event for event in await later.runs.watch.events(run) if event.type == "question.expired"]
    assert expired.data.default == "nobody"


async def test_a_skipped_question_gives_null_without_an_error(later: Harness) -> None:
    run = await start(later, ", on_timeout: skip")
    assert await later.output(run) == {"output": None, "error": None}


SHORT = "steps: [{kind: hitl, name: ask, message: Go?, timeout: %s, default: nobody}, {name: end}%s]"
MORE = ", {kind: hitl, name: then, message: And?}"


@pytest.mark.slow
async def test_a_late_answer_is_told_that_the_question_has_expired(house: Harness) -> None:
    run = await house.start(SHORT % ("1s", MORE))

    async def expired() -> Any:
        return next((event for event in await house.runs.watch.events(run) if event.type == "question.expired"), None)

    first = await until(expired, "the deadline")
    with pytest.raises(Refusal) as late:
        await house.runs.answer(run, [Answer(question=first.data.id, content="me")])
    assert late.value.code == "expired"
    await house.answer(run, "end")


@pytest.mark.slow
@pytest.mark.first_row
@pytest.mark.parametrize("lead", [0.0, 0.005, 0.01, 0.02])
async def test_an_answer_and_a_deadline_in_the_same_moment_agree_on_who_won(house: Harness, lead: float) -> None:
    run = await house.start(SHORT % ("4s", ""))  # seconds enough to see the question, on a busy machine too
    question = await house.one(run)
    await asyncio.sleep(max((question.deadline - datetime.now(UTC)).total_seconds() - lead, 0))
    try:
        await house.runs.answer(run, [Answer(question=question.id, content="me")], key="k")
        told = "me"
    except Refusal as refusal:
        assert refusal.code in ("expired", "run_closed")
        told = "nobody"
    assert await house.output(run) == told
    closing = [one.type for one in await house.runs.watch.events(run) if isinstance(one.data, QuestionClosed)]
    assert closing == ["question.answered" if told == "me" else "question.expired"]


async def has(house: Harness, run: str, event: str) -> bool:
    """Whether an event of this kind is in the run's history."""
    history = await house.client.get_workflow_handle(run).fetch_history()
    return any(one.HasField(event) for one in history.events)


@pytest.mark.slow
async def test_a_deadline_runs_while_no_worker_is_there(temporal: Client, tmp_path: Path) -> None:
    queue = f"down-{uuid.uuid4().hex[:8]}"
    harness = Harness(temporal, queue, tmp_path)
    async with worker_for(temporal, queue):
        run = await harness.start(SHORT % ("2s", ""))
        await until(lambda: has(harness, run, "timer_started_event_attributes"), "the question")
    await until(lambda: has(harness, run, "timer_fired_event_attributes"), "the deadline")
    async with worker_for(temporal, queue):
        assert await harness.output(run) == "nobody"
        await harness.replay()
