"""Direct queries on a real server: the id by which the runner knows them, and that an ordinary one drops no workflow.

`test_activation` feeds what drops a workflow from its worker's cache by hand.
"""

from __future__ import annotations

import pytest
from temporalio.bridge.proto.workflow_activation import WorkflowActivation
from temporalio.bridge.proto.workflow_completion import WorkflowActivationCompletion

from holdfast.workflows.activation import _DIRECT, OneJobInstance
from tests.conftest import Harness, until

TEXT = "steps: [{kind: hitl, name: one, message: First?}, {kind: hitl, name: two, message: Second?}]"


async def until_done(house: Harness, run: str, tasks: int) -> None:
    """Wait until so many workflow tasks of a run are done; no query is needed."""

    async def are_done() -> bool:
        history = await house.client.get_workflow_handle(run).fetch_history()
        return sum(event.HasField("workflow_task_completed_event_attributes") for event in history.events) >= tasks

    await until(are_done, f"{tasks} workflow tasks")


async def test_a_query_that_no_task_has_brought_is_known_by_its_id_and_drops_nothing(
    house: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids, evicted = list[str](), list[str]()
    answer, evict = OneJobInstance._answer, OneJobInstance._evict

    def note_query(instance: OneJobInstance, act: WorkflowActivation) -> WorkflowActivationCompletion:
        ids.extend(job.query_workflow.query_id for job in act.jobs)
        return answer(instance, act)

    def note_eviction(instance: OneJobInstance) -> None:
        evicted.append(instance.get_info().workflow_id)
        evict(instance)

    monkeypatch.setattr(OneJobInstance, "_answer", note_query)
    monkeypatch.setattr(OneJobInstance, "_evict", note_eviction)
    run = await house.start(TEXT)
    question = await house.one(run)
    await house.client.get_workflow_handle(run).signal("answer", {"question": question.id, "content": "yes"})
    await until_done(house, run, 2)
    ids.clear()
    assert (await house.one(run)).message == "Second?"
    assert set(ids) == {_DIRECT} and evicted == []
