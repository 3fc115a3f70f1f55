"""An author's own workflow that continues as new, or runs again under its id: no answer reaches another question."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
import pytest_asyncio
from temporalio.client import Client, WorkflowHandle
from temporalio.worker import Replayer, Worker

from holdfast.client.answering import Answering
from holdfast.client.history import answers_given, histories
from holdfast.client.runs import Runs
from holdfast.protocol.answers import Answer, Receipt, Refusal
from holdfast.protocol.questions import Question
from holdfast.runtime.converters import DATA_CONVERTER
from holdfast.server.record.recorder import Recorder
from holdfast.server.record.store import RecordStore
from holdfast.workflows import RUNNER
from tests.conftest import until
from tests.own import Gate, Payments
from tests.record.conftest import store  # noqa: F401
from tests.record.ground import KEY

OWN = [Payments, Gate]


@dataclass
class Own:
    """Workflows under one id, and what a client does with them."""

    client: Client
    id: str
    runs: Runs

    async def start(self, work: object, *args: object) -> WorkflowHandle:
        return await self.client.start_workflow(work, args=args, id=self.id, task_queue=self.id)

    async def asked(self, after: Question | None = None) -> Question:
        """The one open question, once it was asked after another."""

        async def newer() -> list[Question]:
            questions = await self.runs.questions(self.id)
            return [question for question in questions if after is None or question.asked_at > after.asked_at]

        [question] = await until(newer, "a question")
        return question

    async def answer(self, question: Question, key: str) -> Receipt:
        [receipt] = await self.runs.answer(self.id, [Answer(question=question.id, content="yes")], key=key)
        return receipt


@pytest_asyncio.fixture
async def own(temporal: Client) -> AsyncIterator[Own]:
    queue = f"own-{uuid.uuid4().hex[:8]}"
    async with Worker(temporal, task_queue=queue, workflows=OWN, workflow_runner=RUNNER):
        yield Own(temporal, queue, Runs(temporal, queue, Answering()))
        replayer = Replayer(workflows=OWN, workflow_runner=RUNNER, data_converter=DATA_CONVERTER)
        async for history in histories(temporal, queue):
            await replayer.replay_workflow(history)
        await temporal.get_workflow_handle(queue).terminate()


@pytest.mark.slow
async def test_an_answer_sent_again_behind_a_boundary_gets_its_receipt_and_no_other_question(own: Own) -> None:
    await own.start(Payments.run, 1, 9)
    first = await own.asked()
    receipt = await own.answer(first, "k")
    second = await own.asked(first)
    assert await own.answer(first, "k") == receipt
    with pytest.raises(Refusal, match="was answered"):
        await own.answer(first, "other")
    assert (await own.asked()).id == second.id
    assert [given.key for given in await answers_given(own.client, own.id)] == ["k"]


@pytest.mark.slow
async def test_a_workflow_is_listed_once_behind_a_boundary(own: Own) -> None:
    await own.start(Payments.run, 1, 9)
    await own.answer(await own.asked(), "k")

    async def is_continued() -> bool:
        ended = f"WorkflowId = '{own.id}' AND ExecutionStatus = 'ContinuedAsNew'"
        return [row async for row in own.client.list_workflows(ended)] != []

    await until(is_continued, "the history that has ended, in visibility")
    assert [row.run for row in await own.runs.lists.all(blueprint="Payments")].count(own.id) == 1


async def test_an_answer_to_an_earlier_run_of_the_same_id_reaches_no_later_one(own: Own) -> None:
    ended = await own.start(Payments.run, 1, 1)
    first = await own.asked()
    await own.answer(first, "k")
    await ended.result()
    await own.start(Payments.run, 1, 1)
    second = await own.asked(first)
    with pytest.raises(Refusal):
        await own.answer(first, "k")
    assert (await own.asked()).id == second.id


@pytest.mark.slow
async def test_a_pause_holds_behind_a_boundary(own: Own) -> None:
    handle = await own.start(Gate.run, "continue")
    await own.runs.control.pause(own.id)
    before = (await handle.describe()).run_id
    await handle.signal(Gate.let_through)

    async def has_continued() -> bool:
        return (await handle.describe()).run_id != before

    await until(has_continued, "a boundary")
    assert (await own.runs.state(own.id)).status == "paused"
    assert await own.runs.control.is_paused(own.id)
    await own.runs.control.resume(own.id)
    assert (await own.runs.state(own.id)).status == "running"


@pytest.mark.slow
async def test_a_paused_workflow_runs_no_other_until_it_is_resumed(own: Own) -> None:
    handle = await own.start(Gate.run, "run")
    await own.runs.control.pause(own.id)
    await handle.signal(Gate.let_through)
    [view] = await own.runs.tree.views(own.id)  # behind the signal
    assert (view.status, view.children) == ("paused", [])
    await own.runs.control.resume(own.id)
    assert (await own.asked()).owner == f"{own.id}/payments"


@pytest.mark.slow
async def test_events_are_numbered_and_recorded_over_boundaries(own: Own, store: RecordStore) -> None:  # noqa: F811
    recorder = Recorder(own.runs.tree, store, KEY, own.id)
    await own.start(Payments.run, 1, 9)
    first = await own.asked()
    await recorder.round()
    await own.answer(first, "a")
    second = await own.asked(first)
    await own.answer(second, "b")
    third = await own.asked(second)
    assert [event.offset for event in await own.runs.watch.events(own.id)] == [0, 1, 2, 3, 4]

    async def recorded() -> bool:
        await recorder.round()
        run = store.run(own.client.namespace, own.id)
        return run is not None and third.id in {entry.question for entry in store.entries(first_run=run.first_run)}

    await until(recorded, "the third question")
