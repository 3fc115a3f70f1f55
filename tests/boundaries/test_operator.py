"""What an operator does with Temporal's own tools, terminate and reset: nothing is lost, and lists tell the truth."""

from __future__ import annotations

import uuid

import pytest
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import EventType
from temporalio.api.workflowservice.v1 import ResetWorkflowExecutionRequest

from holdfast.protocol.answers import Refusal
from holdfast.protocol.questions import Question
from tests.conftest import Harness, until
from tests.flows import ASK, repeat, written
from tests.progress import still_running


@pytest.mark.slow
@pytest.mark.parametrize("steps", [ASK, repeat(ASK)], ids=["in the run", "in a child"])
async def test_a_run_that_was_terminated_shows_no_open_question(house: Harness, steps: dict[str, object]) -> None:
    run = await house.start(written(steps))
    question = await house.one(run)
    await house.client.get_workflow_handle(run).terminate()
    await until(lambda: _has_ended(house, run), "the end of the tree")
    assert (await house.runs.state(run)).status == "failed"
    assert await house.runs.questions(run) == []
    with pytest.raises(Refusal, match="no open question"):
        await house.runs.lists.find_question(question.id)
    assert await house.runs.reader.read(question.owner) == []
    with pytest.raises(Refusal, match="has ended"):
        await house.answer(run, "yes", question)


async def _has_ended(house: Harness, run: str) -> bool:
    return not await still_running(house, run)


async def test_a_reset_keeps_the_answers_and_the_ids_of_the_questions(house: Harness) -> None:
    run = await house.start(written(ASK, {**ASK, "name": "then"}))
    first = await house.one(run)
    await house.answer(run, "1", first, key="k")
    second = await _next(house, run, first)
    await _reset(house, run)
    assert (await house.one(run)).id == second.id
    again = await house.answer(run, "1", first, key="k")
    assert (again.question, again.status) == (first.id, "answered")
    await house.answer(run, "2", second)
    assert await house.output(run) == "2"


async def _next(house: Harness, run: str, before: Question) -> Question:
    async def asked() -> list[Question]:
        return [question for question in await house.runs.questions(run) if question.id != before.id]

    [question] = await until(asked, "the next question")
    return question


async def _reset(house: Harness, run: str) -> None:
    """Reset a workflow to its last workflow task."""
    history = await house.client.get_workflow_handle(run).fetch_history()
    done = [e.event_id for e in history.events if e.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED]
    request = ResetWorkflowExecutionRequest(
        namespace=house.client.namespace,
        workflow_execution=WorkflowExecution(workflow_id=run),
        reason="a test",
        workflow_task_finish_event_id=done[-1],
        request_id=uuid.uuid4().hex,
    )
    await house.client.workflow_service.reset_workflow_execution(request, retry=True)
