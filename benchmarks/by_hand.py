"""The baseline of `benchmarks.iteration`: a workflow written by hand, with an activity and an answer by update."""

from __future__ import annotations

from datetime import timedelta

from pydantic import BaseModel, Field
from temporalio import activity, workflow
from temporalio.exceptions import ApplicationError


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
    async def run(self, iterations: int) -> str:
        text = "start"
        for self.iteration in range(1, iterations + 1):
            text = await workflow.execute_activity(
                think,
                text,
                start_to_close_timeout=timedelta(minutes=5),
                heartbeat_timeout=timedelta(seconds=10),
                summary=f"loop {self.iteration} · draft",
            )
            self.answer_text, self.waits = "", True
            workflow.set_current_details(f"Waiting: q{self.iteration}\n\n> {text}?")
            await workflow.wait_condition(lambda: bool(self.answer_text))
            text = self.answer_text
        await workflow.wait_condition(workflow.all_handlers_finished)
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
