"""Kill -9 of the worker at every tenth event of a plan: the same result, and no tool run twice."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from holdfast.protocol.answers import Answer, Refusal
from holdfast.protocol.questions import Question
from holdfast.runtime.errors import NothingSent
from holdfast.runtime.workers import NoWorker
from tests.conftest import PATIENCE, Harness
from tests.crash.machines import Machines

pytestmark = pytest.mark.slow

ITEMS = ["a", "b", "c"]
LOST = "The result of plan_update was lost"
ANSWERS = {"Go on?": "yes", "Is it right?": "no"}


def plan_of(machines: Machines) -> dict[str, Any]:
    update = [
        {"tool_calls": [{"name": "plan_update", "args": {"log": str(machines.folder / "calls"), "event": item}}]}
        for item in ITEMS
    ]
    (machines.folder / "replies.yaml").write_text(json.dumps({"1": update, "2": ["told a", "told b", "told c"]}))
    return {
        "goal": "Update all",
        "agent": "scripted:replies.yaml",
        "steps": [
            {"id": "0", "instruction": "CONFIRM_ACTION: Go on?", "options": ["yes", "no"]},
            {"id": "1", "instruction": "Update CURRENT_ITEM", "tools": ["plan_update"], "dependencies": ["0"]},
            {"id": "2", "instruction": "Tell of RESULT_FROM_1"},
            {
                "id": "3",
                "instruction": "CONFIRM_ACTION: Is it right?",
                "options": ["yes", "no"],
                "dependencies": ["all"],
            },
        ],
        "loop_blocks": {"all": {"over": ITEMS, "steps": ["1", "2"]}},
    }


def updated(machines: Machines) -> list[str]:
    path = machines.folder / "calls"
    return [json.loads(line)["event"] for line in path.read_text().splitlines()] if path.exists() else []


def verdict(question: Question, machines: Machines) -> Any:
    """What a person says; of a call that was lost, what can be seen of it."""
    if not question.message.startswith(LOST):
        return ANSWERS[question.message]
    event = question.info["input"]["event"]
    return {"outcome": "done", "result": {"updated": event}} if event in updated(machines) else {"outcome": "retry"}


async def events_of(house: Harness, run: str) -> int:
    return sum(len(history.events) for history in await house.histories(run))


async def test_a_plan_survives_a_kill_at_every_tenth_event(machines: Machines) -> None:
    house = await machines.house()
    machines.start_worker()
    run = await house.start(json.dumps(plan_of(machines)))
    kills = 0
    for _ in range(30 * PATIENCE):
        if await events_of(house, run) // 10 > kills:
            kills += 1
            machines.restart_worker()
        description = await house.client.get_workflow_handle(run).describe()
        if description.close_time is not None:
            break
        try:
            for question in await house.runs.questions(run):
                answer = Answer(question=question.id, content=verdict(question, machines))
                await house.runs.answer(run, [answer])
        except (NoWorker, NothingSent, Refusal):
            await asyncio.sleep(0.05)  # the worker is just being killed, or what was asked is answered by now
    output = await house.output(run)
    assert kills >= 3  # on a busy machine a worker does more than ten events between two looks
    assert output["status"] == "completed"
    assert updated(machines) == ITEMS
    assert [one["item"] for one in output["loops"]["all"]["iteration_results"]] == ITEMS
    assert output["steps"]["2"]["data"] == ["told a", "told b", "told c"]
    assert [output["steps"][id_]["response"] for id_ in ("0", "3")] == ["yes", "no"]
    await house.replay()
