"""Runs under workers that come and go, queries without pause, updates and signals: none is stuck, and each replays.

A query that waits for a worker brings events before their task: `test_groupings` does so by hand, here a server does.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from random import Random
from uuid import uuid4

import pytest
from temporalio.client import Client
from temporalio.service import RPCError

import tests.interrupting  # noqa: F401 registers the tools
from holdfast.client.tree import UnknownRun
from holdfast.protocol.answers import Answer, Refusal
from holdfast.runtime.workers import NoWorker
from tests.conftest import Harness, worker_for

TEXT = """
agents: {a: {model: echo}}
context: {said: []}
steps:
  - kind: parallel
    name: p
    branches:
      plain: [{name: one, agent: a}, {kind: hitl, name: h, message: Plain?}, {name: two, agent: a}]
      late: [{kind: timer, name: t, for: 1s}, {kind: hitl, name: h, message: Late?}, {name: two, agent: a}]
      rounds:
        - kind: loop
          name: l
          loop:
            max_loops: 4
            checkpoint_every: 2
            body: [{name: d, agent: a}, {kind: hitl, name: h, message: "Round {{ iteration }}?"}, {name: e, agent: a}]
      items:
        - kind: map
          name: m
          map:
            iterable_input: "[1, 2, 3]"
            body: [{kind: hitl, name: h, message: "Item {{ item }}?"}, {name: e, agent: a}]
"""
EXCHANGES = """
steps:
  - kind: parallel
    name: p
    branches:
      %s
"""
EXCHANGE = """{name}:
        - kind: loop
          name: l
          loop:
            max_loops: 2
            checkpoint_every: 1
            body:
              - name: t
                uses: exchange
                retry: {{attempts: 1}}
                input: {{folder: "{folder}", key: "{name} {{{{ iteration }}}}"}}
"""
EXPECTED = {
    "plain": "yes, Plain?",
    "late": "yes, Late?",
    "rounds": "yes, Round 4?",
    "items": [f"yes, Item {number}?" for number in (1, 2, 3)],
}
PATIENCE = 240.0
TROUBLES = (NoWorker, RPCError, Refusal, UnknownRun, TimeoutError)


class Storm:
    """One run and what happens to it, by the numbers of a seed."""

    def __init__(self, harness: Harness, run: str, seed: int) -> None:
        self.harness, self.run, self.random = harness, run, Random(seed)
        self.over = asyncio.Event()

    async def pass_by(self) -> None:
        """Let it all happen until the run has ended."""
        tasks = [asyncio.create_task(work()) for work in (self.look, self.look, self.answer, self.come_and_go)]
        try:
            handle = self.harness.client.get_workflow_handle(self.run)
            await asyncio.wait_for(handle.result(), PATIENCE)
        finally:
            self.over.set()
            await asyncio.gather(*tasks)

    async def look(self) -> None:
        while not self.over.is_set():
            with suppress(*TROUBLES):
                await self.harness.runs.state(self.run)

    async def answer(self) -> None:
        """Answer what is open, in any order, by update or by signal, with its own text."""
        while not self.over.is_set():
            await asyncio.sleep(self.random.random() * 0.2)
            with suppress(*TROUBLES):
                questions = (await self.harness.runs.state(self.run)).questions
                for question in self.random.sample(questions, len(questions)):
                    reply = Answer(question=question.id, content=f"yes, {question.message}", digest=question.digest)
                    if self.random.random() < 0.5:
                        owner = self.harness.client.get_workflow_handle(question.owner)
                        await owner.signal("answer", reply.model_dump(mode="json"))
                    else:
                        await self.harness.runs.answer(self.run, [reply])

    async def come_and_go(self) -> None:
        while not self.over.is_set():
            async with worker_for(self.harness.client, self.harness.runs.task_queue):
                with suppress(TimeoutError):
                    await asyncio.wait_for(self.over.wait(), 0.3 + self.random.random())
            await asyncio.sleep(0.1 + self.random.random() * 0.3)


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))])
async def test_a_run_in_a_storm_ends_as_on_a_quiet_day(seed: int, temporal: Client, tmp_path: Path) -> None:
    storm = Harness(temporal, f"storm-{uuid4().hex[:8]}", tmp_path)
    run = await storm.start(TEXT, "x")
    await Storm(storm, run, seed).pass_by()
    assert await storm.output(run) == EXPECTED
    await storm.replay()


@pytest.mark.slow
async def test_a_tool_that_asks_ever_other_questions_hears_no_answer_to_another_one(
    temporal: Client, tmp_path: Path
) -> None:
    storm = Harness(temporal, f"storm-{uuid4().hex[:8]}", tmp_path)
    branches = "      ".join(EXCHANGE.format(name=name, folder=tmp_path) for name in ("one", "two"))
    run = await storm.start(EXCHANGES % branches, "x")
    await Storm(storm, run, 0).pass_by()
    assert await storm.output(run) == {"one": "heard", "two": "heard"}
    await storm.replay()
