"""Interrupts of a tool call: its questions are asked, and the tool runs again as soon as one of them is answered."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from temporalio import workflow

from protocol.address import Address
from protocol.agents import Given, Interrupted, Raised, ToolRequest
from workflows.failures import failure
from workflows.frame import Frame
from workflows.questions import Reply
from workflows.together import end

WEIGHTY = ("permission", "review", "decision")
"""Kinds whose answer is a consent: it counts for what was shown, and for nothing else."""


class Ended(Exception):
    """The answer is the tool's result: it does not run again."""

    def __init__(self, result: Any) -> None:
        super().__init__()
        self.result = result


class Interrupts:
    """The questions that one tool call waits for, by the path within the tool."""

    def __init__(self, frame: Frame) -> None:
        self._frame = frame
        self._asked: dict[str, Raised] = {}
        self._waiting: dict[str, asyncio.Task[Reply]] = {}

    async def resolve(self, outcome: Interrupted, request: ToolRequest) -> ToolRequest:
        """Ask what is not yet asked, wait for an answer, and give the request that runs the tool again.

        A question that stays unanswered keeps its id while the tool runs again, and is closed if the tool no longer
        raises it. What was said at a path stands until that path interrupts again; so does what was kept there.
        """
        raised = {one.path: one for one in outcome.questions}
        given = {path: said for path, said in request.given.items() if path not in raised}
        given |= self._meanwhile(raised)
        await self._close([path for path in self._waiting if path not in raised])
        for path, one in raised.items():
            if path not in given:
                await self._ask(path, one)
        if not any(path in given for path in raised):
            await workflow.wait(self._waiting.values(), return_when=asyncio.FIRST_COMPLETED)
            given |= {path: self._said(path) for path in list(self._waiting) if self._waiting[path].done()}
        places = _places(outcome)
        states = {path: state for path, state in request.states.items() if path not in places} | outcome.states
        before = list(dict.fromkeys([*request.interrupted, *places]))
        return request.model_copy(update={"states": states, "given": given, "interrupted": before})

    def _meanwhile(self, raised: dict[str, Raised]) -> dict[str, Given]:
        """What was answered while the tool ran; an answer counts only for the very question that it was given to."""
        given: dict[str, Given] = {}
        for path in [path for path, task in self._waiting.items() if task.done()]:
            if path in raised and raised[path].asked != self._asked[path].asked:
                del self._waiting[path]  # the tool asks something else by now: a round of its own
            else:
                given[path] = self._said(path)
        return given

    def drop(self) -> None:
        """Cancel the wait for every question; a failing call waits for nothing."""
        for task in self._waiting.values():
            task.cancel()
        self._waiting.clear()

    async def end(self) -> None:
        """Close every question that is still open."""
        await self._close(list(self._waiting))

    async def _ask(self, path: str, one: Raised) -> None:
        place = self._at(path)
        parents = [{"address": self._at(parent.path).address, "info": parent.info} for parent in one.parents]
        if path in self._waiting and one.asked != self._asked[path].asked and one.asked.kind in WEIGHTY:
            await self._close([path])  # whoever answers the old form must not be taken to have answered this one
        if path not in self._waiting:
            self._waiting[path] = asyncio.create_task(place.ask(one.asked, parents=parents))
        elif one != self._asked[path]:
            place.host.change_question(place.address, one.asked, parents)
        self._asked[path] = one

    def _said(self, path: str) -> Given:
        """The answer at a path; one that was declined ends the call, unless declining it is an answer of its own."""
        reply, one = self._waiting.pop(path).result(), self._asked[path]
        content = reply.content if reply.status == "answered" else one.asked.when_declined(reply.comment)
        if reply.status != "answered" and content is None:
            who, why = reply.by or "somebody", f": {reply.comment}" if reply.comment else ""
            raise failure(f"question_{reply.status}", f"{who} {reply.status} the question{why}", self._at(path).address)
        if one.ends == "answered":
            raise Ended(content)
        if one.ends == "denied" and content["granted"] is not True:
            why = f": {content['reason']}" if content.get("reason") else ""
            raise failure("not_approved", f"not approved{why}", self._at(path).address)
        return Given(content=content, by=reply.by)

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
