"""The base class for authors of workflows: `self.human` asks people and runs blueprints, like a step of a run."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from itertools import count
from typing import Any, Literal, Self

from pydantic import ValidationError
from temporalio import workflow

from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.blueprint.kinds import Blueprint, Option
from holdfast.protocol.address import Address, child_workflow_id, name_at, root, within
from holdfast.protocol.agents import Usage
from holdfast.protocol.events import OwnChildStarted
from holdfast.protocol.questions import QuestionRequest
from holdfast.protocol.runs import (
    PAUSED_MEMO,
    PIPELINE_WORKFLOW,
    STATE_MEMO,
    Definition,
    OwnState,
    PipelineState,
    RunResult,
)
from holdfast.workflows.children import prepare_start
from holdfast.workflows.door import RunIdentity
from holdfast.workflows.failures import failure
from holdfast.workflows.handlers import Answers, Assignments, Elicitations, Events, Host, Steering, View, handles
from holdfast.workflows.handlers.forwarders import list_handlers
from holdfast.workflows.human_requests import Audience, Escalation, Form, Wording, make_people, make_question
from holdfast.workflows.replies import DEFAULT, Reply, describe_reply

_UNSET: Any = object()
RENAME = "which HumanInTheLoop has itself: rename it"
KEPT_REPLIES = 200
CARRIED = 20
"""Closed questions, and ids of children, that go over continue-as-new."""


class Human:
    """The people behind a workflow: to ask questions of, and to run blueprints that ask them."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._asked = 0
        self._open: set[Address] = set()
        self.replies: JSONObject = {}
        """By the name of a question: who answered it last, and how, as `steps.NAME.reply` says it in a blueprint."""
        self._showing: set[asyncio.Task[None]] = set()
        """Held here, as an event loop holds its tasks weakly."""

    async def ask(
        self,
        message: str,
        *,
        kind: str = "input",
        options: Sequence[str | JSONObject | Option] = (),
        schema: Form | None = None,
        payload: JSON = None,
        multiple: int = 1,
        allow_custom: bool | None = None,
        timeout: timedelta | None = None,
        default: Any = _UNSET,
        assignees: Sequence[str] = (),
        not_by: Sequence[str] = (),
        quorum: int = 1,
        proof: Literal["person"] | None = None,
        escalate: Escalation = (),
        remind_every: timedelta | None = None,
        on_decline: Literal["fail", "continue"] | None = None,
        name: str | None = None,
    ) -> Any:
        """Ask a person and return what the caller may act on; `replies` tells who answered, and how.

        Args:
            message: The text of the question.
            kind: `input`, `clarification`, `decision`, `permission`, `review`, `secret` or `hold`.
            options: Texts, or objects with `id`, `label`, `risk` and so on; for the first three kinds.
            schema: JSON Schema of the answer, of a reviewed payload or of the secrets asked for; or a pydantic model.
            payload: The value to review, or details shown beside the message.
            multiple: How many options may be chosen.
            allow_custom: Whether own words are accepted beside the options; None: as the kind has it.
            timeout: Time until the question expires; None: it waits for as long as it takes.
            default: The answer in place of one that did not come in time.
            assignees: Who may answer (`user:x`, `group:y`); empty: anyone.
            not_by: Who may not, even if assigned.
            quorum: How many different people must accept.
            proof: `person` takes only answers of people who have signed in.
            escalate: Pairs of a time after asking and the assignees from then on.
            remind_every: Time between reminders, 15 minutes or more.
            on_decline: `fail` raises if the person declines or says no, `continue` returns None (a permission
                False); by default a no goes on and a decline raises, but a permission or review takes it for a no.
            name: The question's name in its address; asked while it is open there, it gets `~2`, `~3` and so on.

        Returns:
            Text, an option's id (a list with `multiple`), or a value that fits the schema: an instance, if that is a
            model. A permission gives True or False, and a review the approved payload, None if it was rejected; a
            secret gives references for tools, a hold None.

        Raises:
            ApplicationError: `question_expired` at a timeout without default; `question_declined` or
                `question_cancelled` by a person, as `on_decline` says.
        """
        await self._host.until_resumed()
        self._asked += 1
        address = self._choose_address(name or f"question-{self._asked}")
        wording = Wording(message, kind, options, schema, payload, multiple, allow_custom)
        asked = make_question(wording, None if default is _UNSET else default, address)
        people = make_people(Audience(assignees, not_by, quorum, proof, escalate, remind_every), address)
        seconds = None if timeout is None else timeout.total_seconds()
        reply, value = await self._ask_until_it_fits(
            QuestionRequest(asked, address, timeout=seconds, people=people), wording
        )
        takes_default = reply.status == "expired" and default is not _UNSET
        self._keep_reply(address, describe_reply(asked, reply) | (DEFAULT if takes_default else {}))
        if takes_default:
            return asked.read_output(asked.accept(default)) if asked.yes_or_no else default
        if reply.status == "answered" and not (on_decline == "fail" and asked.says_no(reply.content)):
            return value
        goes_on = on_decline == "continue" or (on_decline is None and asked.yes_or_no)
        if goes_on and reply.status != "expired":
            return asked.output_without_answer
        status = "declined" if reply.status == "answered" else reply.status
        raise failure(f"question_{status}", f"{message!r} was {status}", address)

    async def run(self, blueprint: Blueprint, input: JSON = None, *, name: str | None = None) -> JSON:
        """Run a blueprint as a child of this workflow to its end, and return its output.

        Its questions and its trace are found under this workflow, which it is paused and cancelled with. What its
        models used is counted here, too.

        Args:
            blueprint: The blueprint, loaded while the module is imported: `load` reads a file.
            input: A value that fits the blueprint's `inputs`.
            name: Its name in the address; by default the blueprint's.

        Raises:
            ChildWorkflowError: It failed or was cancelled.
        """
        host = self._host
        await host.until_resumed()
        identity = host.identity
        address = Address(within(identity.address, "child", name or blueprint.name))
        definition = Definition(blueprint=blueprint, **identity.run_fields)
        state = PipelineState(
            input=input, started_by=identity.started_by, address=address, paused=host.paused, kept=host.hints
        )
        summary = f"{identity.blueprint}: {blueprint.name}"
        start = prepare_start(PIPELINE_WORKFLOW, [definition, state], RunResult, summary, blueprint.name)
        id_ = child_workflow_id(identity.run, address)
        result: RunResult = await host.children.run_counted(id_, start, address, OwnChildStarted, paused=state.paused)
        return result.output

    async def _ask_until_it_fits(self, request: QuestionRequest, wording: Wording) -> tuple[Reply, Any]:
        """Ask until an answer fits, or the question ends without one; return the reply, and the value of the answer."""
        while (reply := await self._reply(request)).status == "answered":
            try:
                return reply, wording.read_answer(request.asked.read_output(reply.content))
            except ValidationError as error:  # the model has rules that its JSON Schema cannot say
                request = request.asking_again(_describe_problem(error))
        return reply, None

    def _keep_reply(self, address: Address, reply: JSONObject) -> None:
        name = name_at(address)
        self.replies.pop(name, None)
        self.replies[name] = reply
        if len(self.replies) > KEPT_REPLIES:
            del self.replies[next(iter(self.replies))]

    def _choose_address(self, name: str) -> Address:
        """Return the address of a name: with `~2`, `~3` … while a question is open there, else its next round."""
        for n in count(1):
            address = Address(within(self._host.identity.address, "hitl", name if n == 1 else f"{name}~{n}"))
            if address not in self._open:
                return address
        raise AssertionError("there is always a next number")

    async def _reply(self, request: QuestionRequest) -> Reply:
        self._open.add(request.address)
        try:
            display = asyncio.create_task(self._host.view.keep_true())
            try:
                reply = await self._host.ask(request)
            except asyncio.CancelledError:  # the author gave the question up; not `finally`, which a destructor enters
                self._show_at_rest()
                raise
            finally:
                display.cancel()
            self._show_at_rest()
            return reply
        finally:
            self._open.remove(request.address)

    def _show_at_rest(self) -> None:
        showing = asyncio.create_task(self._host.view.show_at_rest())
        self._showing.add(showing)
        showing.add_done_callback(self._showing.discard)


@handles(Answers, Assignments, Events, Steering, Elicitations, View, held_by="_holdfast")
class HumanInTheLoop:
    """Base class of a workflow that asks people: it answers the same updates, signals and queries as a run.

    The state and the handlers of Holdfast are another object's, so that an author may use every name but those below.
    """

    _holdfast: Host
    _holdfast_human: Human

    def __init_subclass__(cls, **options: Any) -> None:
        """Raise `TypeError` for a name, or a handler, that would replace one of ours."""
        super().__init_subclass__(**options)
        if replaced := [name for name in vars(HumanInTheLoop) if is_reserved(name) and _is_replaced(cls, name)]:
            raise TypeError(f"{cls.__name__} defines {', '.join(replaced)}, {RENAME}")
        ours = [handler.takes for handler in list_handlers(HumanInTheLoop)]
        for handler in list_handlers(cls):
            if handler.takes in ours and not is_reserved(handler.method):
                kind, name = handler.takes
                raise TypeError(f"{cls.__name__}.{handler.method} takes the {kind} {name!r}, {RENAME}")

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Begin with the state of the history before; not in `__init__`, which an author's need not call."""
        instance = super().__new__(cls)
        info = workflow.info()
        state = workflow.memo_value(STATE_MEMO, OwnState(), type_hint=OwnState)
        identity = RunIdentity(run=info.workflow_id, address=root(info.workflow_type), blueprint=info.workflow_type)
        host = Host(identity, state)
        host.children.starts = dict(state.starts)
        vars(instance).update(_holdfast=host, _holdfast_human=Human(host))
        return instance

    def __setattr__(self, name: str, value: Any) -> None:
        if is_reserved(name):
            text = f"{type(self).__name__} sets self.{name}, {RENAME}"
            raise failure("reserved_name", text, self._holdfast.identity.address)
        super().__setattr__(name, value)

    @property
    def human(self) -> Human:
        """The people behind this workflow."""
        return self._holdfast_human

    @property
    def usage(self) -> Usage:
        """The usage of this workflow and of the blueprints that it ran, so far."""
        return self._holdfast.progress.usage

    async def run_human(self, work: Any, *args: Any, name: str) -> Any:
        """Run another `HumanInTheLoop` as a child to its end, and return its result; its id is `<this id>/<name>`.

        `work` is its run method, or the workflow's name. Its questions are listed with those of this workflow; it is
        paused and cancelled with it, also after it has continued as new, where Temporal's own call would lose a cancel.
        """
        own = self._holdfast
        await own.until_resumed()
        address = Address(within(own.identity.address, "child", name))
        start = partial(workflow.start_child_workflow, work, args=args)
        return await own.children.run_as(f"{workflow.info().workflow_id}/{name}", start, address, OwnChildStarted)


def is_reserved(name: str) -> bool:
    """Return whether a name is ours in every class that derives from `HumanInTheLoop`."""
    return name in ("human", "usage", "run_human") or name.startswith("_holdfast")


def leave(instance: HumanInTheLoop) -> None:
    """Take no more answers in this history: the author's code has ended, and nothing waits for them any more."""
    instance._holdfast.answers.leaving = True


def collect_memo(instance: HumanInTheLoop) -> JSONObject:
    """Return what the memo holds of a workflow over continue-as-new; the runner adds it, see `runner.Runner`."""
    host = instance._holdfast
    state = OwnState(
        paused=host.paused,
        usage=host.progress.usage,
        # Fewer than in a loop's arguments: lists of workflows bring their memos.
        closed=host.door.receipts.closed[-CARRIED:],
        next_offset=host.journal.next,
        previous_run=workflow.info().run_id,
        starts=dict(list(host.children.starts.items())[-CARRIED:]),
        refused=host.door.refused,
    )
    return {STATE_MEMO: state, **({PAUSED_MEMO: True} if host.paused else {})}


def _is_replaced(cls: type, name: str) -> bool:
    return inspect.getattr_static(cls, name) is not inspect.getattr_static(HumanInTheLoop, name)


def _describe_problem(error: ValidationError) -> str:
    """Return the first problem of an answer, for the person who gave it."""
    first = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(map(str, first["loc"]))
    return f"{place}: {first['msg']}" if place else first["msg"]
