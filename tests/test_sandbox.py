"""The sandbox that runs of the tests share forbids what production's forbids."""

from __future__ import annotations

import threading
import uuid

import pytest
from temporalio.client import Client, WorkflowFailureError
from temporalio.worker import Worker, WorkflowRunner

from tests.careless import MARK, Careless
from tests.sandbox import SANDBOX
from workflows import RUNNER

RUNNERS = {"production's": RUNNER, "the tests'": SANDBOX}
FORBIDDEN = {
    "clock": "time.time",
    "chance": "random.random",
    "file": "pathlib.Path.read_text",
    "input": "__builtins__.input",
}


async def careless(client: Client, runner: WorkflowRunner, *deeds: str) -> list[int]:
    queue = f"careless-{uuid.uuid4().hex[:8]}"
    async with Worker(client, task_queue=queue, workflows=[Careless], workflow_runner=runner):
        return [
            await client.execute_workflow(Careless.run, deed, id=f"{queue}-{n}", task_queue=queue)
            for n, deed in enumerate(deeds)
        ]


@pytest.mark.parametrize("runner", RUNNERS)
@pytest.mark.parametrize("deed", FORBIDDEN)
async def test_what_differs_on_replay_is_forbidden_in_both(temporal: Client, runner: str, deed: str) -> None:
    with pytest.raises(WorkflowFailureError) as caught:
        await careless(temporal, RUNNERS[runner], deed)
    assert f"Cannot access {FORBIDDEN[deed]}" in str(caught.value.cause)


async def test_it_is_loaded_once_and_is_not_what_the_tests_see(temporal: Client) -> None:
    first, second = await careless(temporal, SANDBOX, "nothing", "nothing")
    assert first == second != id(MARK)


def test_a_workflow_at_work_in_one_thread_opens_or_shuts_nothing_in_another() -> None:
    context, seen = SANDBOX.context, []
    context.is_runtime = True
    other = threading.Thread(target=lambda: seen.append(context.is_runtime))
    other.start()
    other.join()
    context.is_runtime = False
    assert seen == [False]
