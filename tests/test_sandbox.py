"""Authors' workflow classes run in the sandbox, ours outside it."""

from __future__ import annotations

import importlib
import uuid

import pytest
from temporalio import workflow
from temporalio.client import Client, WorkflowFailureError
from temporalio.worker import Worker

from holdfast.workflows import PASSED_THROUGH, RUNNER, WORKFLOWS
from tests.careless import Careless, Sharing

FORBIDDEN = {
    "clock": "time.time",
    "chance": "random.random",
    "file": "pathlib.Path.read_text",
    "input": "__builtins__.input",
}


@pytest.mark.parametrize("deed", FORBIDDEN)
async def test_what_differs_on_replay_is_forbidden_to_authors(temporal: Client, deed: str) -> None:
    queue = f"careless-{uuid.uuid4().hex[:8]}"
    async with Worker(temporal, task_queue=queue, workflows=[Careless], workflow_runner=RUNNER):
        with pytest.raises(WorkflowFailureError) as caught:
            await temporal.execute_workflow(Careless.run, deed, id=queue, task_queue=queue)
    assert f"Cannot access {FORBIDDEN[deed]}" in str(caught.value.cause)


async def test_a_run_of_an_author_imports_none_of_the_shared_modules_anew(temporal: Client) -> None:
    imported = [importlib.import_module(name) for name in PASSED_THROUGH]
    queue = f"sharing-{uuid.uuid4().hex[:8]}"
    async with Worker(temporal, task_queue=queue, workflows=[Sharing], workflow_runner=RUNNER):
        shared = await temporal.execute_workflow(Sharing.run, list(PASSED_THROUGH), id=queue, task_queue=queue)
    assert shared == [id(module) for module in imported]


@pytest.mark.parametrize("ours", WORKFLOWS)
def test_ours_run_outside(ours: type) -> None:
    assert not workflow._Definition.must_from_class(ours).sandboxed
