"""The base class for authors of workflows: `await self.human.ask(...)` asks a question like that of a run."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from itertools import count
from typing import Any

from temporalio import workflow

from holdfast.blueprint.kinds import Option
from holdfast.blueprint.people import is_person
from holdfast.blueprint.question_kinds import ASK_KINDS
from holdfast.protocol.address import Address, root, within
from holdfast.protocol.events import OwnChildStarted
from holdfast.protocol.people import People
from holdfast.protocol.questions import QUESTION_KINDS, Asked, Draft, QuestionRequest
from holdfast.workflows.base import BaseWorkflow, Identity
from holdfast.workflows.failures import failure
from holdfast.workflows.questions import Reply
from holdfast.workflows.timetable import SHORTEST_REMINDER

_UNSET: Any = object()
KINDS = [name for name, kind in ASK_KINDS.items() if kind.takes_options]


class Human:
    """The people behind a workflow, to ask questions of."""

    def __init__(self, host: BaseWorkflow) -> None:
        self._host = host
        self._asked = 0
        self._open: set[Address] = set()

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
        """Ask a person and return the answer: text, an option's id, or a value that fits the JSON Schema.

        Without a timeout it waits for as long as it takes. At the timeout it gives `default`; without one it raises an
        `ApplicationError` of type ``question_expired``, and one of type ``question_declined`` if the person declines.
        A name that is asked while a question of that name is open gets `~2`, `~3` and so on in its address.
        `assignees` (`user:x`, `group:y`) says who may answer, `quorum` how many different people must accept.
        """
        self._asked += 1
        address = self._free(name or f"question-{self._asked}")
        asked = _asked(message, kind, options, schema, None if default is _UNSET else default)
        people = _people(assignees, quorum, remind_every, address)
        self._open.add(address)
        try:
            seconds = None if timeout is None else timeout.total_seconds()
            reply = await self._wait(QuestionRequest(asked, address, timeout=seconds, people=people))
        finally:
            self._open.remove(address)
        if reply.status == "answered":
            return reply.content
        if reply.status == "expired" and default is not _UNSET:
            return default
        raise failure(f"question_{reply.status}", f"{message!r} was {reply.status}", address)

    def _free(self, name: str) -> Address:
        """Return the address of a name: with `~2`, `~3` … while a question is open there, else its next round."""
        for n in count(1):
            address = Address(within(self._host.address, "hitl", name if n == 1 else f"{name}~{n}"))
            if address not in self._open:
                return address
        raise AssertionError("there is always a next number")

    async def _wait(self, request: QuestionRequest) -> Reply:
        waiting = asyncio.create_task(self._host.ask(request))
        await asyncio.sleep(0)  # the question is open now, and can be shown
        self._host.display.show()
        reply = await waiting
        self._host.display.show()
        return reply


class HumanInTheLoop(BaseWorkflow):
    """Base class of a workflow that asks people: it answers the same updates, signals and queries as a run."""

    def __init__(self) -> None:
        info = workflow.info()
        super().__init__(Identity(run=info.workflow_id, address=root(info.workflow_type), blueprint=info.workflow_type))
        self.human = Human(self)

    async def run_human(self, work: Any, *args: Any, name: str) -> Any:
        """Run another `HumanInTheLoop` as a child to its end, and return its result; its id is `<this id>/<name>`.

        `work` is its run method, or the workflow's name. Its questions are listed with those of this workflow; it is
        paused and cancelled with it, also after it has continued as new, where Temporal's own call would lose a cancel.
        """
        address = Address(within(self.address, "child", name))
        start = partial(workflow.start_child_workflow, work, args=args)
        return await self.children.run_as(f"{workflow.info().workflow_id}/{name}", start, address, OwnChildStarted)


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
    made = [
        Option.model_validate({"id": option, "label": option} if isinstance(option, str) else option)
        for option in options
    ]
    return QUESTION_KINDS[kind].of(Draft(message, default, form=schema, options=made))
