"""Starts workflows of the tests' own, and answers them."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from typing import Any

from temporalio.client import Client, WorkflowHandle

from holdfast import Answer, Question, Runs
from tests.conftest import until


@dataclass
class Desk:
    """Starts workflows of the tests' own, and answers them."""

    client: Client
    queue: str
    name: str = field(default_factory=lambda: f"own-{uuid.uuid4().hex[:8]}")
    started: list[str] = field(default_factory=list)

    @property
    def runs(self) -> Runs:
        return Runs(self.client, self.queue)

    async def start(self, workflow: Any, *args: Any) -> WorkflowHandle[Any, Any]:
        id_ = f"{self.name}-{len(self.started)}"
        self.started.append(id_)
        return await self.client.start_workflow(workflow, args=args, id=id_, task_queue=self.queue)

    async def question(self, handle: WorkflowHandle[Any, Any], message: str = "") -> Question:
        async def asked() -> list[Question]:
            return [open_ for open_ in await self.runs.questions(handle.id) if message in open_.message]

        [question] = await until(asked, "a question")
        return question

    async def answer(self, handle: WorkflowHandle[Any, Any], content: Any, by: str | None = None, **more: Any) -> None:
        question = await self.question(handle)
        await self.runs.answer(handle.id, [Answer(question=question.id, content=content, **more)], by=by)
