"""Questions of one name: no two are open at one address."""

from __future__ import annotations

import uuid

from temporalio.client import Client
from temporalio.worker import Replayer, Worker

from holdfast.client.runs import Runs
from holdfast.protocol.answers import Answer
from holdfast.protocol.questions import Question
from holdfast.runtime.converters import DATA_CONVERTER
from holdfast.workflows import RUNNER
from tests.conftest import until
from tests.people.sides import Sides


async def test_questions_of_one_name_have_addresses_of_their_own_while_they_are_open(temporal: Client) -> None:
    queue = f"sides-{uuid.uuid4().hex[:8]}"
    runs = Runs(temporal, queue)

    async def asked(count: int) -> list[Question]:
        questions = await runs.questions(queue)
        return questions if len(questions) == count else []

    async with Worker(temporal, task_queue=queue, workflows=[Sides], workflow_runner=RUNNER):
        handle = await temporal.start_workflow(Sides.run, id=queue, task_queue=queue)
        open_ = await until(lambda: asked(3), "three questions")
        addresses = {question.message: question.address for question in open_}
        here = "pipeline:Sides;hitl:side"
        assert addresses == {"Left?": here, "Right?": f"{here}~2", "Up?": f"{here}~3"}
        for message in ("Right?", "Up?", "Left?"):
            await runs.answer(queue, [Answer(question=addresses[message], content=message)])
        [again] = await until(lambda: asked(1), "the next round")
        assert (again.address, again.round) == (here, 2)
        await runs.answer(queue, [Answer(question=again.id, content="no")])
        assert await handle.result() == ["Left?", "Right?", "Up?", "no"]
        replayer = Replayer(workflows=[Sides], workflow_runner=RUNNER, data_converter=DATA_CONVERTER)
        await replayer.replay_workflow(await handle.fetch_history())
