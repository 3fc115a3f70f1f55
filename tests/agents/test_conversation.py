"""Long conversations with large results: every payload can be sent, every history stays small, the run ends."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import yaml
from temporalio.client import Client, WorkflowHistory

from holdfast.activities import tool
from holdfast.protocol.runs import HistoryLimits
from holdfast.runtime.connection import make_converter
from holdfast.runtime.payloads import THRESHOLD
from holdfast.runtime.payloads.directory import PayloadDirectory
from tests.agents.turns import agent, call, turn
from tests.conftest import Harness, worker_for
from tests.payload_stores import replay, storing
from tests.tools import calls, count

MEGABYTE = 1_000_000
RESULT = 8_000


@tool
def read_page(folder: str, number: int) -> str:
    """Read a page."""
    return f"page {number}, read {count(folder, f'page-{number}')} times: ".ljust(RESULT, "x")


@asynccontextmanager
async def house_of(client: Client, folder: Path) -> AsyncIterator[Harness]:
    harness = Harness(client, f"test-{uuid.uuid4().hex[:8]}", folder)
    async with worker_for(client, harness.runs.task_queue):
        yield harness


async def converse(house: Harness, turns: int, limits: HistoryLimits) -> str:
    """A run whose agent has read so many pages, each in a turn, and has ended."""
    pages = [turn(call("read_page", folder=str(house.folder), number=n)) for n in range(turns)]
    text = agent(house, [*pages, "the end"], tools=["read_page"], max_turns=turns + 1)
    run = await house.start(text, "Read all the pages.", history_limits=limits)
    assert await house.output(run) == "the end"
    return run


def assert_read_once(folder: Path, turns: int) -> None:
    assert [calls(folder, f"page-{n}") for n in range(turns)] == [1] * turns


def sizes(history: WorkflowHistory) -> list[int]:
    """Of each event, in bytes."""
    return [event.ByteSize() for event in history.events]


@pytest.mark.parametrize(("turns", "rounds"), [(20, 8), pytest.param(200, 50, marks=pytest.mark.slow)])
async def test_turns_with_8_kb_results_leave_small_payloads_and_small_histories(
    temporal: Client, tmp_path: Path, turns: int, rounds: int
) -> None:
    folder = PayloadDirectory(tmp_path / "payloads")
    place = f"dir:{folder.folder}"
    async with house_of(storing(temporal, place), tmp_path) as house:
        run = await converse(house, turns, HistoryLimits(rounds=rounds))
        assert_read_once(tmp_path, turns)
        assert sum(stat.st_size for _, stat in folder.files()) < 1.5 * turns * RESULT
        histories = await house.histories(run)
        assert len(histories) > 2  # the run, and an agent that continued as new
        for history in histories:
            assert max(sizes(history)) < THRESHOLD
            assert sum(sizes(history)) < MEGABYTE
        await replay(house, run, make_converter(place, store=False))


TALKING = """
name: talking
agents:
  clerk: {model: "scripted:replies.yaml"}
steps:
  - kind: loop
    name: talk
    loop:
      conversation: true
      max_loops: 100
      checkpoint_every: 4
      exit_expression: output == 'the end'
      body:
        - {name: reply, agent: clerk}
        - {kind: hitl, name: more, message: "{{ previous_step[:20] }}"}
      output: {text: conversation_history}
"""


@pytest.mark.slow
async def test_a_loop_that_is_a_conversation_is_stored_about_once(temporal: Client, tmp_path: Path) -> None:
    turns, said = 12, 9_000
    folder = PayloadDirectory(tmp_path / "payloads")
    async with house_of(storing(temporal, f"dir:{folder.folder}"), tmp_path) as house:
        house.script(yaml.safe_dump({"reply": [f"reply {n} ".ljust(said, "r") for n in range(turns + 1)]}))
        run = await house.start(TALKING, "Begin.")
        await house.answered(run, *(f"answer {n} ".ljust(said, "a") for n in range(turns)), "the end")
        assert "answer 11" in str(await house.output(run))
        # As messages to the model, as entries of the context and as the output; each request whole would be 13 times.
        assert sum(stat.st_size for _, stat in folder.files()) < 4 * 2 * turns * said


@pytest.mark.slow
@pytest.mark.parametrize(("turns", "most"), [(18, 400_000), pytest.param(60, 4_000_000, marks=pytest.mark.slow)])
async def test_without_a_place_for_large_payloads_an_agent_continues_as_new_by_size(
    temporal: Client, tmp_path: Path, turns: int, most: int
) -> None:
    async with house_of(temporal, tmp_path) as house:
        run = await converse(house, turns, HistoryLimits(bytes=most))
        assert_read_once(tmp_path, turns)
        histories = await house.histories(run)
        assert len(histories) > 3  # more than its turns alone would make
        assert max(sum(sizes(history)) for history in histories) < 2.5 * most
        await house.replay()
