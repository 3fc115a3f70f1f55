"""For authors of their own workflows: `await self.human.ask(...)`, answered like any question of a run."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from temporalio import workflow

from blueprint.grammar import Option
from blueprint.people import is_person
from protocol.address import Address, root, within
from protocol.people import People
from protocol.questions import Asked, Choice, Clarification, Decision, Input
from workflows.failures import failure
from workflows.host import Host
from workflows.questions import Reply
from workflows.timetable import SHORTEST_REMINDER

_UNSET: Any = object()
KINDS: dict[str, type[Choice | Clarification | Decision]] = {
    "input": Choice,
    "clarification": Clarification,
    "decision": Decision,
}


class Human:
    """The people behind a workflow."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._asked = 0

    async def ask(
        self,
        message: str,
        *,
        kind: str = "input",
        options: Sequence[str | dict[str, Any]] = (),
        schema: dict[str, Any] | None = None,
        timeout: timedelta | None = None,
        default: Any = _UNSET,
        assignees: Sequence[str] = (),
        quorum: int = 1,
        remind_every: timedelta | None = None,
        name: str | None = None,
    ) -> Any:
        """The answer of a person: text, an option's id, or a value that fits the JSON Schema.

        Without a timeout it waits for as long as it takes. At the timeout it gives `default`; without one it raises an
        `ApplicationError` of type ``question_expired``, and one of type ``question_declined`` if the person declines.
        `assignees` (`user:x`, `group:y`) says who may answer, `quorum` how many different people must accept.
        """
        self._asked += 1
        address = within(self._host.address, "hitl", name or f"question-{self._asked}")
        asked = _asked(message, kind, options, schema, None if default is _UNSET else default)
        people = _people(assignees, quorum, remind_every, Address(address))
        reply = await self._wait(address, asked, None if timeout is None else timeout.total_seconds(), people)
        if reply.status == "answered":
            return reply.content
        if reply.status == "expired" and default is not _UNSET:
            return default
        raise failure(f"question_{reply.status}", f"{message!r} was {reply.status}", Address(address))

    async def _wait(self, address: Address, asked: Asked, timeout: float | None, people: People) -> Reply:
        asking = self._host.ask(address, asked, iteration=None, timeout=timeout, people=people)
        waiting = asyncio.create_task(asking)
        await asyncio.sleep(0)  # the question is open now, and can be shown
        self._host.show()
        reply = await waiting
        self._host.show()
        return reply


class HumanInTheLoop(Host):
    """Base class of a workflow that asks people: it answers the same updates, signals and queries as a run."""

    def __init__(self) -> None:
        info = workflow.info()
        super().__init__(run=info.workflow_id, address=root(info.workflow_type), blueprint=info.workflow_type)
        self.human = Human(self)


def _people(assignees: Sequence[str], quorum: int, remind_every: timedelta | None, at: Address) -> People:
    if isinstance(assignees, str) or not all(map(is_person, assignees)):
        raise failure("bad_assignees", f"assignees must be a list of user:NAME and group:NAME, not {assignees!r}", at)
    if quorum < 1:
        raise failure("bad_quorum", f"a quorum is at least 1, not {quorum}", at)
    if remind_every is not None and remind_every < SHORTEST_REMINDER:
        raise failure("bad_reminder", f"reminders are at least {SHORTEST_REMINDER} apart, not {remind_every}", at)
    every = None if remind_every is None else remind_every.total_seconds()
    return People(assignees=list(assignees), quorum=quorum, remind_every=every)


def _asked(message: str, kind: str, options: Sequence[Any], schema: dict[str, Any] | None, default: Any) -> Asked:
    if kind not in KINDS:
        raise failure("unknown_kind", f"unknown kind {kind!r}; known: {', '.join(KINDS)}", Address(""))
    if kind == "input" and not options:
        return Input(message=message, form=schema, default=default)
    made = [Option.model_validate({"id": one, "label": one} if isinstance(one, str) else one) for one in options]
    return KINDS[kind](message=message, options=made, default=default)
