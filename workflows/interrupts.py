"""Interrupts of a tool call: its questions are asked, and the tool runs again as soon as one is answered."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from temporalio import workflow

from holdfast.blueprint.questions import Asked
from holdfast.protocol.address import Address
from holdfast.protocol.agents import InterruptAnswer, Interrupted, RaisedInterrupt, ToolRequest
from holdfast.protocol.elicitations import Elicited
from holdfast.protocol.events import QuestionReturned
from holdfast.protocol.usage import Usage
from holdfast.workflows.concurrency import end
from holdfast.workflows.failures import failure
from holdfast.workflows.frame import Frame
from holdfast.workflows.replies import Reply

ASKS_OTHERWISE = "it was answered while the tool was at work, which asks something else by now"
"""Why an answer is not given to a tool: its question is asked in another round, in other words."""


class AnsweredResult(Exception):
    """Raised to end the call: the answer is the tool's result, and the tool does not run again."""

    def __init__(self, result: object) -> None:
        super().__init__()
        self.result = result


class Interrupts:
    """The questions that one tool call waits for, by their path within the tool."""

    def __init__(self, frame: Frame) -> None:
        self.frame = frame
        self._asked: dict[str, RaisedInterrupt] = {}
        self._waiting: dict[str, asyncio.Task[Reply]] = {}
        self._answered: dict[str, str] = {}
        """By path: the id of the question whose answer the tool has."""
        self._elicited: dict[str, InterruptAnswer] = {}
        """The answers to questions in the middle of the call, by path."""
        self._parked_since: datetime | None = None
        self._parked = 0

    async def resolve(self, outcome: Interrupted, request: ToolRequest) -> ToolRequest:
        """Ask what is not yet asked, wait for an answer, and return the request that runs the tool again.

        A question that stays unanswered keeps its id while the tool runs again, and is closed if the tool no longer
        raises it. An answer at a path holds until that path interrupts again; so does the state kept there. An answer
        that the tool gives back is noted, and its question asked again with the reason. Where an earlier run is met,
        the tool gets those answers together that it got together there.
        """
        raised = {interrupt.path: interrupt for interrupt in outcome.questions}
        raised |= {path: self._asked[path] for path in outcome.returned if path not in raised}
        for path, reason in outcome.returned.items():
            self._at(path).note(QuestionReturned(id=self._answered[path], reason=reason))
        answers = {path: answer for path, answer in request.given.items() if path not in raised}
        met = self.frame.host.activities.list_met_answers(self.frame.address)
        answers |= self._collect_answers(raised, met)
        await self._withdraw([path for path in self._waiting if path not in raised])
        for path, interrupt in raised.items():
            if path not in answers:
                await self._ask(path, interrupt, outcome.returned.get(path, ""))
        if met or outcome.together or not any(path in answers for path in raised):
            waiting = {path: task for path, task in self._waiting.items() if not met or path in met}
            when = asyncio.ALL_COMPLETED if met or outcome.together else asyncio.FIRST_COMPLETED
            if waiting:
                await workflow.wait(waiting.values(), return_when=when)
            answers |= {path: self._answer_at(path) for path, task in waiting.items() if task.done()}
        places = _list_places(outcome)
        states = {path: state for path, state in request.states.items() if path not in places} | outcome.states
        before = list(dict.fromkeys([*request.interrupted, *places]))
        fresh = sorted(path for path, answer in answers.items() if request.given.get(path) is not answer)
        update = {"states": states, "given": answers, "fresh": fresh, "interrupted": before}
        return request.model_copy(update=update)

    def _collect_answers(self, raised: dict[str, RaisedInterrupt], met: Sequence[str]) -> dict[str, InterruptAnswer]:
        """Return what was answered while the tool ran; an answer holds only for the very question it was given to.

        Args:
            raised: What the tool asks by now, by path.
            met: The paths whose answers its next run was given in an earlier run, where all answers are there at once.
        """
        answers: dict[str, InterruptAnswer] = {}
        ready = [path for path, task in self._waiting.items() if task.done() and (not met or path in met)]
        for path in ready:
            if not met and path in raised and raised[path].asked != self._asked[path].asked:
                unused = self._waiting.pop(path).result()
                self._at(path).note(QuestionReturned(id=unused.question, reason=ASKS_OTHERWISE))
            else:
                answers[path] = self._answer_at(path)
        return answers

    def put(self, path: str, asked: Asked, seconds: float) -> None:
        """Ask a question in the middle of the call; another attempt of the call may ask the same once more."""
        interrupt = RaisedInterrupt(path=path, asked=asked)
        if self._asked.get(path) == interrupt and (path in self._waiting or path in self._elicited):
            return
        if (earlier := self._waiting.pop(path, None)) is not None:
            earlier.cancel()
        self._elicited.pop(path, None)
        self._asked[path] = interrupt
        self._waiting[path] = asyncio.create_task(self._ask_meanwhile(path, asked, seconds))

    async def _ask_meanwhile(self, path: str, asked: Asked, seconds: float) -> Reply:
        """Ask while the call stands still: its time until then is no working time."""
        activities = self.frame.host.activities
        if self._parked == 0:
            self._parked_since = workflow.now()
            activities.parked += 1
        self._parked += 1
        try:
            reply = await self._at(path).ask(asked, seconds)
            self._elicited[path] = _read_action(reply)
            return reply
        finally:
            self._parked -= 1
            if self._parked == 0 and self._parked_since is not None:
                activities.parked -= 1
                waited = (workflow.now() - self._parked_since).total_seconds()
                self.frame.meter.count(Usage(seconds=-waited))

    def find_elicited(self, path: str) -> Elicited:
        """Return where a question in the middle of the call stands."""
        if path in self._elicited:
            return Elicited(status="answered", answer=self._elicited[path])
        return Elicited(status="open" if path in self._waiting and not self._waiting[path].done() else "unknown")

    def drop(self) -> None:
        """Cancel the wait for every question, without waiting for it: the call has failed."""
        for task in self._waiting.values():
            task.cancel()
        self._waiting.clear()

    async def end(self) -> None:
        """Close every question that is still open."""
        await self._withdraw(list(self._waiting))

    async def _ask(self, path: str, interrupt: RaisedInterrupt, problem: str) -> None:
        place = self._at(path)
        parents = [{"address": self._at(parent.path).address, "info": parent.info} for parent in interrupt.parents]
        if path in self._waiting and interrupt.asked != self._asked[path].asked and interrupt.asked.consents:
            await self._withdraw([path])  # an answer to the old form must not count as consent to this one
        if path not in self._waiting:
            asked = interrupt.asked.give_back(problem) if problem else interrupt.asked
            self._waiting[path] = asyncio.create_task(place.ask(asked, parents=parents))
        elif interrupt != self._asked[path]:
            place.host.change_question(place.address, interrupt.asked, parents)
        self._asked[path] = interrupt

    def _answer_at(self, path: str) -> InterruptAnswer:
        """Return the answer at a path; declining ends the call, unless it is an answer of its own to this question."""
        reply, interrupt = self._waiting.pop(path).result(), self._asked[path]
        self._answered[path] = reply.question
        if interrupt.asked.tells_refusals:
            return _read_action(reply)
        content = reply.content if reply.status == "answered" else interrupt.asked.when_declined(reply.comment)
        if reply.status != "answered" and content is None:
            person, reason = reply.by or "somebody", f": {reply.comment}" if reply.comment else ""
            text = f"{person} {reply.status} the question{reason}"
            raise failure(f"question_{reply.status}", text, self._at(path).address)
        if interrupt.ends == "answered":
            raise AnsweredResult(content)
        if interrupt.ends == "denied" and content["granted"] is not True:
            reason = f": {content['reason']}" if content.get("reason") else ""
            raise failure("not_approved", f"not approved{reason}", self._at(path).address)
        if interrupt.permit and content.get("scope") in ("run", "always"):
            self.frame.host.permit(interrupt.permit)
        return InterruptAnswer(content=interrupt.asked.for_tool(content), by=reply.by)

    def _at(self, path: str) -> Frame:
        if not path:
            return self.frame
        return replace(self.frame, address=Address(f"{self.frame.address};{path}"))

    async def _withdraw(self, paths: list[str]) -> None:
        await end([self._waiting.pop(path) for path in paths])


def _read_action(reply: Reply) -> InterruptAnswer:
    """Return the answer to a question that tells refusals; one that expired was cancelled by nobody's doing."""
    match reply.status:
        case "answered":
            return InterruptAnswer(content=reply.content, by=reply.by)
        case "declined":
            return InterruptAnswer(action="decline", by=reply.by)
    return InterruptAnswer(action="cancel", by=reply.by)


def _list_places(outcome: Interrupted) -> list[str]:
    """Return every path that interrupted: the root causes, and the composites above them."""
    causes = [
        path
        for interrupt in outcome.questions
        for path in (interrupt.path, *(parent.path for parent in interrupt.parents))
    ]
    return [*causes, *outcome.states]
