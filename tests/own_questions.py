"""A workflow of an author's own that asks what a test wants.

The sandbox executes this module anew for each run, so it has one workflow class.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, field_validator
from temporalio import workflow

from holdfast.workflows import HumanInTheLoop


class Trip(BaseModel):
    """A model with a rule that no JSON Schema says."""

    start: int
    end: int
    by: str = "train"

    @field_validator("end")
    @classmethod
    def _not_before_the_start(cls, end: int, info: Any) -> int:
        if end < info.data.get("start", end):
            raise ValueError("the end is before the start")
        return end


@workflow.defn
class Inquiry(HumanInTheLoop):
    """Asks one question, as its argument says; `trip` stands for the model as a schema, and as a payload."""

    @workflow.run
    async def run(self, question: dict[str, Any]) -> Any:
        more = {key: value for key, value in question.items() if key not in ("message", "schema")}
        if "schema" in question:
            more["schema"] = Trip if question["schema"] == "trip" else question["schema"]
        if question.get("payload") == "trip":
            more["payload"] = Trip(start=3, end=9)
        with_reply = more.pop("with_reply", False)
        answer = await self.human.ask(question["message"], **more)
        if with_reply:
            return [answer, self.human.replies["question-1"]]
        return f"{answer.start} to {answer.end}" if isinstance(answer, Trip) else answer
