"""The baseline of `benchmarks.iteration` and `.parked`: a workflow written by hand, with answers by update."""

from __future__ import annotations

from datetime import timedelta
from typing import Literal

from pydantic import BaseModel, Field
from temporalio import activity, workflow
from temporalio.exceptions import ApplicationError


class Work(BaseModel):
    iterations: int
    thinks: Literal["activity", "local", "no"] = "activity"
    """What an iteration does before it asks."""


class Answer(BaseModel):
    question: str
    text: str = Field(min_length=1)


@activity.defn
async def think(prompt: str) -> str:
    return prompt


@workflow.defn
class ByHand:
    """A baseline as a careful engineer would write it: validator, summary, current details."""

    def __init__(self) -> None:
        self.iteration, self.answer_text, self.waits = 0, "", False

    @workflow.run
    async def run(self, work: Work) -> str:
        text = "start"
        for self.iteration in range(1, work.iterations + 1):
            text = await self._think(text, work)
            self.answer_text, self.waits = "", True
            workflow.set_current_details(f"Waiting: q{self.iteration}\n\n> {text}?")
            await workflow.wait_condition(lambda: bool(self.answer_text))
            text = self.answer_text
        await workflow.wait_condition(workflow.all_handlers_finished)
        return text

    async def _think(self, text: str, work: Work) -> str:
        summary, patience = f"loop {self.iteration} · draft", timedelta(minutes=5)
        match work.thinks:
            case "activity":
                beat = timedelta(seconds=10)
                return await workflow.execute_activity(
                    think, text, start_to_close_timeout=patience, heartbeat_timeout=beat, summary=summary
                )
            case "local":
                return await workflow.execute_local_activity(
                    think, text, start_to_close_timeout=patience, summary=summary
                )
            case "no":
                return text

    @workflow.update
    def answer(self, answer: Answer) -> str:
        self.answer_text, self.waits = answer.text, False
        return workflow.now().isoformat()

    @answer.validator
    def _check(self, answer: Answer) -> None:
        if not self.waits or answer.question != f"q{self.iteration}":
            raise ApplicationError(f"question {answer.question} is not open", type="NotOpen")

    @workflow.query
    def waiting(self) -> str | None:
        return f"q{self.iteration}" if self.waits else None
