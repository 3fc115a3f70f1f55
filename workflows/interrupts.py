"""Interrupts of a tool call: its questions are asked, and the tool runs again as soon as one of them is answered."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from temporalio import workflow

from protocol.address import Address
from protocol.agents import Given, Interrupted, Raised, ToolRequest
from protocol.questions import Asked
from workflows.failures import failure
from workflows.frame import Frame
from workflows.questions import Reply
from workflows.together import end


class Interrupts:
    """The questions that one tool call waits for, by the path within the tool."""

    def __init__(self, frame: Frame) -> None:
        self._frame = frame
        self._asked: dict[str, Asked] = {}
        self._waiting: dict[str, asyncio.Task[Reply]] = {}

    async def resolve(self, outcome: Interrupted, request: ToolRequest) -> ToolRequest:
        """Ask what is not yet asked, wait for an answer, and give the request that runs the tool again.

        A question that stays unanswered keeps its id while the tool runs again, and is closed if the tool no longer
        raises it. What was said at a path stands until that path interrupts again.
        """
        raised = {one.path: one for one in outcome.questions}
        await self._close([path for path in self._waiting if path not in raised])
        for path, one in raised.items():
            self._ask(path, one, raised)
        await workflow.wait(self._waiting.values(), return_when=asyncio.FIRST_COMPLETED)
        given = {path: said for path, said in request.given.items() if path not in raised}
        given |= {path: self._said(path) for path in list(self._waiting) if self._waiting[path].done()}
        before = dict.fromkeys([*request.interrupted, *_places(outcome)])
        return request.model_copy(update={"states": outcome.states, "given": given, "interrupted": list(before)})

    def drop(self) -> None:
        """Cancel the wait for every question; a failing call waits for nothing."""
        for task in self._waiting.values():
            task.cancel()
        self._waiting.clear()

    async def end(self) -> None:
        """Close every question that is still open."""
        await self._close(list(self._waiting))

    def _ask(self, path: str, one: Raised, raised: dict[str, Raised]) -> None:
        place = self._at(path)
        parents = [{"address": self._at(parent.path).address, "info": parent.info} for parent in one.parents]
        if path not in self._waiting:
            self._waiting[path] = asyncio.create_task(place.ask(one.asked, parents=parents))
        elif self._asked[path] != one.asked:
            place.host.change_question(place.address, one.asked, parents)
        self._asked[path] = one.asked

    def _said(self, path: str) -> Given:
        """The answer at a path; one that was declined ends the call, unless declining it is an answer of its own."""
        reply = self._waiting.pop(path).result()
        if reply.status == "answered":
            return Given(content=reply.content, by=reply.by)
        content = self._asked[path].when_declined(reply.comment)
        if content is not None:
            return Given(content=content, by=reply.by)
        who, why = reply.by or "somebody", f": {reply.comment}" if reply.comment else ""
        raise failure(f"question_{reply.status}", f"{who} {reply.status} the question{why}", self._at(path).address)

    def _at(self, path: str) -> Frame:
        if not path:
            return self._frame
        return replace(self._frame, address=Address(f"{self._frame.address};{path}"))

    async def _close(self, paths: list[str]) -> None:
        await end([self._waiting.pop(path) for path in paths])


def _places(outcome: Interrupted) -> list[str]:
    """Every path that interrupted: the root causes, and the composites above them."""
    causes = [path for one in outcome.questions for path in (one.path, *(parent.path for parent in one.parents))]
    return [*causes, *outcome.states]
