"""The baseline of `benchmarks.agents`: an agent written by hand, with turns, tool calls and a question to a person."""

from __future__ import annotations

from datetime import timedelta

from pydantic import BaseModel, Field
from temporalio import activity, workflow
from temporalio.exceptions import ApplicationError

PATIENCE = timedelta(minutes=10)
BEAT = timedelta(seconds=10)


class Call(BaseModel):
    id: str
    tool: str
    text: str


class Message(BaseModel):
    role: str
    content: str | None = None
    call: Call | None = None


class Request(BaseModel):
    instructions: str
    messages: list[Message]


class AnswerText(BaseModel):
    text: str = Field(min_length=1)


@activity.defn
async def request_model(request: Request) -> Message:
    """Return a tool call for the next page, or a question after the last one."""
    read = sum(message.role == "tool" for message in request.messages)
    pages = int(request.messages[0].content or 0)
    tool = "look_up" if read < pages else "ask"
    return Message(role="assistant", call=Call(id=f"{read + 1}", tool=tool, text=f"page {read}"))


@activity.defn
async def look_up(text: str) -> str:
    return text


@workflow.defn
class AgentByHand:
    """A baseline as a careful engineer would write it: conversation, summaries, validated update, details."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.answer_text, self.question = "", ""

    @workflow.run
    async def run(self, pages: int) -> str:
        self.messages.append(Message(role="user", content=f"{pages}"))
        while True:
            reply = await self._turn()
            if reply.call is None:
                return reply.content or ""
            result = await self._result(reply.call)
            self.messages += [reply, Message(role="tool", content=result, call=reply.call)]

    async def _turn(self) -> Message:
        return await workflow.execute_activity(
            request_model,
            Request(instructions="Read all the pages.", messages=self.messages),
            start_to_close_timeout=PATIENCE,
            heartbeat_timeout=BEAT,
            summary=f"turn {len(self.messages) // 2 + 1}",
        )

    async def _result(self, call: Call) -> str:
        if call.tool == "ask":
            return await self._answer(call.text)
        return await workflow.execute_activity(
            look_up, call.text, start_to_close_timeout=PATIENCE, heartbeat_timeout=BEAT, summary=call.tool
        )

    async def _answer(self, question: str) -> str:
        self.answer_text, self.question = "", question
        workflow.set_current_details(f"Waiting: {question}?")
        await workflow.wait_condition(lambda: bool(self.answer_text))
        return self.answer_text

    @workflow.update
    def answer(self, message: AnswerText) -> str:
        self.answer_text, self.question = message.text, ""
        return workflow.now().isoformat()

    @answer.validator
    def _check(self, message: AnswerText) -> None:
        if not self.question:
            raise ApplicationError("no question is open", type="NotOpen")
