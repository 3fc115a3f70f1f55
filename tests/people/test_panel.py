"""Assignees and a quorum in a workflow of an author's own."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from temporalio.client import Client, WorkflowFailureError, WorkflowHandle
from temporalio.exceptions import ApplicationError
from temporalio.worker import Replayer, Worker

from holdfast.client.runs import Runs
from holdfast.protocol.answers import Answer, Refusal
from holdfast.runtime.converters import DATA_CONVERTER
from holdfast.workflows import RUNNER
from tests.conftest import until
from tests.people.panel import Panel

PEOPLE = ["user:ana", "user:bob"]


class Office:
    def __init__(self, client: Client, queue: str) -> None:
        self.client, self.queue, self.runs = client, queue, Runs(client, queue)
        self.handles: list[WorkflowHandle] = []

    async def start(self, people: list[str], minutes: int = 15) -> WorkflowHandle:
        id_ = f"panel-{uuid.uuid4().hex[:8]}"
        handle = await self.client.start_workflow(Panel.run, args=[people, minutes], id=id_, task_queue=self.queue)
        self.handles.append(handle)
        return handle


@pytest_asyncio.fixture
async def office(temporal: Client) -> AsyncIterator[Office]:
    queue = f"office-{uuid.uuid4().hex[:8]}"
    async with Worker(temporal, task_queue=queue, workflows=[Panel], workflow_runner=RUNNER):
        office = Office(temporal, queue)
        yield office
        replayer = Replayer(workflows=[Panel], workflow_runner=RUNNER, data_converter=DATA_CONVERTER)
        for handle in office.handles:
            await replayer.replay_workflow(await handle.fetch_history())


async def test_two_of_a_panel_decide(office: Office) -> None:
    handle = await office.start(PEOPLE)
    [question] = await until(lambda: office.runs.questions(handle.id), "the question")
    assert (question.assignees, question.quorum) == (PEOPLE, 2)
    yes = [Answer(question=question.id, content="yes")]
    with pytest.raises(Refusal) as refusal:
        await office.runs.answer(handle.id, yes, by="user:eve")
    assert refusal.value.code == "not_allowed"
    for by in PEOPLE:
        await office.runs.answer(handle.id, yes, by=by)
    assert await handle.result() == "yes"


@pytest.mark.parametrize(("people", "minutes", "type_"), [(["ana"], 15, "bad_assignees"), (PEOPLE, 14, "bad_reminder")])
async def test_what_no_panel_can_be_asked_fails_the_workflow(
    office: Office, people: list[str], minutes: int, type_: str
) -> None:
    handle = await office.start(people, minutes)
    with pytest.raises(WorkflowFailureError) as failed:
        await handle.result()
    assert isinstance(failed.value.cause, ApplicationError)
    assert failed.value.cause.type == type_
