"""SIGTERM of a worker: each row of the table in docs/deploying.md, "What happens to what is under way"."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from tests.activities.provider import Provider
from tests.conftest import Harness, until
from tests.crash.machines import Machines, asked
from tests.tools import calls

pytestmark = pytest.mark.slow

TOOLS = "tests.tools,tests.workers.tools"
CALLS = 'steps: [{{name: call, uses: {tool}, input: {{folder: "{folder}", seconds: {seconds}}}}}]'
FOR_EVER = 3600
LOST = "The result of {} was lost"


async def begun(machines: Machines, tool: str, seconds: float = FOR_EVER, grace: int = 0) -> tuple[Harness, str]:
    """A run whose tool is being called, and whose worker has been told to end."""
    house = await machines.house()
    machines.start_worker(HOLDFAST_IMPORTS=TOOLS, HOLDFAST_GRACE=str(grace))
    run = await house.start(CALLS.format(tool=tool, folder=machines.folder, seconds=seconds))

    async def is_called() -> bool:
        return calls(machines.folder, "begun") == 1

    await until(is_called, "the call")
    os.kill(machines.pid("worker"), signal.SIGTERM)
    return house, run


def resume(machines: Machines) -> None:
    machines.start_worker(HOLDFAST_IMPORTS=TOOLS)


async def test_a_call_that_ends_within_the_grace_is_kept(machines: Machines) -> None:
    house, run = await begun(machines, "sleeps", seconds=2, grace=100)
    assert await machines.ended("worker") == 0
    resume(machines)
    assert await house.output(run) == "slept"
    assert calls(machines.folder, "begun") == 1


async def test_a_call_in_a_thread_does_not_keep_the_worker_beyond_the_grace(machines: Machines) -> None:
    house, run = await begun(machines, "sleeps")
    assert await machines.ended("worker") == 0
    resume(machines)
    assert await asked(house, run, LOST.format("sleeps"))


async def test_an_idempotent_call_runs_again_on_the_next_worker(machines: Machines) -> None:
    house, run = await begun(machines, "sleeps_again")
    assert await machines.ended("worker") == 0
    resume(machines)
    assert await house.output(run) == "slept"
    assert calls(machines.folder, "begun") == 2


@pytest.mark.parametrize("tool", ["clings", "blocks"])
async def test_a_call_that_does_not_let_go_is_ended_by_the_limit(machines: Machines, tool: str) -> None:
    house, run = await begun(machines, tool)
    assert await machines.ended("worker") == 1
    assert "has not ended in 10 s: ends at once" in machines.log("worker")
    resume(machines)
    assert await asked(house, run, LOST.format(tool))


async def test_a_second_signal_ends_it_at_once(machines: Machines) -> None:
    await begun(machines, "sleeps", grace=FOR_EVER)

    async def is_told() -> bool:
        return "shutting down" in machines.log("worker")

    await until(is_told, "the shutdown")  # two signals of one kind at a time are one
    os.kill(machines.pid("worker"), signal.SIGTERM)
    assert await machines.ended("worker") == 128 + signal.SIGTERM


async def test_a_request_to_a_model_is_sent_again_by_the_next_worker(machines: Machines) -> None:
    async with Provider() as provider:
        provider.hang()
        provider.text("Hello")
        house = await machines.house()
        machines.start_worker(HOLDFAST_GRACE="0")
        agent = f'{{model: "openai-compatible:m@{provider.url}"}}'
        run = await house.start(f"agents: {{a: {agent}}}\nsteps: [{{name: ask, agent: a, input: Hi}}]")

        async def requested() -> bool:
            return len(provider.requests) == 1

        await until(requested, "the request")
        os.kill(machines.pid("worker"), signal.SIGTERM)
        assert await machines.ended("worker") == 0
        resume(machines)
        assert await house.output(run) == "Hello"


async def test_an_answer_that_meets_a_worker_that_leaves_is_taken_by_the_next(machines: Machines) -> None:
    house = await machines.house()
    machines.start_worker()
    run = await house.start("steps: [{kind: hitl, name: ask, message: Go?}]")
    question = await asked(house, run, "Go?")
    os.kill(machines.pid("worker"), signal.SIGTERM)
    answering = asyncio.create_task(house.answer(run, "yes", question))
    assert await machines.ended("worker") == 0
    resume(machines)
    assert (await answering).status == "answered"
    assert await house.output(run) == "yes"


async def test_tools_do_not_share_the_few_threads_of_the_event_loop(machines: Machines) -> None:
    others = 4 + (os.cpu_count() or 1) + 1  # one more than asyncio's own pool would run at a time
    house = await machines.house()
    machines.start_worker(HOLDFAST_IMPORTS=TOOLS)
    step = f'{{name: call, uses: meets, input: {{folder: "{machines.folder}", others: {others}}}}}'
    runs = [await house.start(f"steps: [{step}]") for _ in range(others)]
    assert [await house.output(run) for run in runs] == ["met"] * others
