"""The base class for authors of workflows: `self.human` asks people and runs blueprints, like a step of a run."""

from __future__ import annotations

import asyncio
import inspect
from dataclasses import replace
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack, cast, overload

from pydantic import BaseModel, ValidationError
from temporalio import workflow

from holdfast.blueprint.ask_options import AnswerForm, AskOptions
from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.blueprint.kinds import Blueprint
from holdfast.blueprint.kinds.document import BlueprintSource, read_blueprint
from holdfast.blueprint.model_problems import describe_problem
from holdfast.protocol.address import Address, child_workflow_id, name_at, root, within
from holdfast.protocol.children import OwnState
from holdfast.protocol.events import OwnChildStarted, QuestionReturned
from holdfast.protocol.names import PAUSED_MEMO, PIPELINE_WORKFLOW, STATE_MEMO
from holdfast.protocol.questions import QuestionRequest
from holdfast.protocol.runs import Definition, HistoryLimits, PipelineState
from holdfast.protocol.usage import Usage
from holdfast.protocol.views import RunResult
from holdfast.workflows.children import prepare_start
from holdfast.workflows.failures import failure
from holdfast.workflows.handlers import Answers, Assignments, Elicitations, Events, Host, Steering, View, handles
from holdfast.workflows.handlers.forwarders import list_handlers
from holdfast.workflows.human_requests import (
    Audience,
    Wording,
    check_names,
    make_people,
    make_question,
    read_json,
    read_timeout,
)
from holdfast.workflows.identity import RunIdentity
from holdfast.workflows.own_blueprints import LoopEnd, read_output, wrap_agent, wrap_loop
from holdfast.workflows.replies import DEFAULT, Reply, describe_reply

if TYPE_CHECKING:
    from holdfast.blueprint.build.agents import NamedAgent

Output = TypeVar("Output")
Model = TypeVar("Model", bound=BaseModel)
RENAME = "which HumanInTheLoop has itself: rename it"
_EMPTY_STATE = b"{}"
"""A state as Holdfast's payload converter writes it; no other one leaves out what is as it was set."""
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
        schema: AnswerForm | None = None,
        name: str | None = None,
        **options: Unpack[AskOptions],
    ) -> Any:
        """Ask a person and return what the caller may act on; `replies` tells who answered, and how.

        Args:
            message: The text of the question.
            schema: JSON Schema of the answer, of a reviewed payload or of the secrets asked for; or a pydantic model.
            name: The question's name in its address; asked while it is open there, it gets `~2`, `~3` and so on.
            options: What else is said of it: see `AskOptions`.

        Returns:
            Text, an option's id (a list with `multiple`), or a value that fits the schema: an instance, if that is a
            model. A permission gives True or False, and a review the approved payload, None if it was rejected; a
            secret gives references for tools, a hold None.

        Raises:
            ApplicationError: `question_expired` at a timeout without default; `question_declined` or
                `question_cancelled` by a person, as `on_decline` says.
        """
        await _until_resumed(self._host)
        self._asked += 1
        address = self._choose_address(name or f"question-{self._asked}")
        check_names(options, address)
        wording = Wording.read(message, schema, options)
        asked = make_question(wording, options.get("default"), address)
        timeout = read_timeout(options, address)
        people = make_people(Audience.read(options, address), address)
        request = QuestionRequest(asked, address, timeout=timeout, people=people)
        reply, value = await self._ask_until_it_fits(request, wording)
        return self._read_reply(request, wording, reply, value, options)

    @overload
    async def run(
        self, blueprint: BlueprintSource, input: object = None, *, output: type[Model], name: str | None = None
    ) -> Model: ...

    @overload
    async def run(self, blueprint: BlueprintSource, input: object = None, *, name: str | None = None) -> JSON: ...

    async def run(
        self,
        blueprint: BlueprintSource,
        input: object = None,
        *,
        output: type[BaseModel] | None = None,
        name: str | None = None,
    ) -> Any:
        """Run a blueprint as a child of this workflow to its end, and return its output.

        Its questions and its trace are found under this workflow, which it is paused and cancelled with. What its
        models used is counted here, too.

        Args:
            blueprint: The blueprint, loaded while the module is imported: `load` reads a file; or a pipeline.
            input: A value that fits the blueprint's `inputs`; or a pydantic model.
            output: The model of the output; None: it is returned as it is.
            name: Its name in the address; by default the blueprint's.

        Raises:
            ChildWorkflowError: It failed or was cancelled.
            ApplicationError: `output_invalid`, if the output breaks a rule of its model.
        """
        blueprint = read_blueprint(blueprint)
        return await self._run(blueprint, input, output, self._place_child(name or blueprint.name))

    async def agent(self, agent: NamedAgent[Output], input: object, *, name: str | None = None) -> Output:
        """Have an agent work on an input, as a child of this workflow, and return its output.

        Its tools' approvals and its questions are found under this workflow; see `run`.

        Args:
            agent: The agent, made while the module is imported: see `holdfast.build.agent`.
            input: What the agent gets: text, or a value; or a pydantic model.
            name: The name of this use in the address; by default the agent's.

        Returns:
            Text; with an output schema a value that fits it, an instance if that is a model's.

        Raises:
            ChildWorkflowError: It failed or was cancelled.
            ApplicationError: `output_invalid`, if the output breaks a rule of its model.
        """
        name = name or agent.name
        address = self._place_child(name)
        return cast("Output", await self._run(wrap_agent(agent, name, address), input, agent.model, address))

    @overload
    async def loop(
        self,
        body: BlueprintSource,
        input: object = None,
        *,
        output: type[Model],
        name: str,
        **end: Unpack[LoopEnd],
    ) -> Model: ...

    @overload
    async def loop(self, body: BlueprintSource, input: object = None, *, name: str, **end: Unpack[LoopEnd]) -> JSON: ...

    async def loop(
        self,
        body: BlueprintSource,
        input: object = None,
        *,
        output: type[BaseModel] | None = None,
        name: str,
        **end: Unpack[LoopEnd],
    ) -> Any:
        """Repeat the steps of a blueprint until an exit holds, and return the output of the last iteration.

        It is a loop like that of a blueprint: a workflow of its own, which continues as new between iterations, so that
        it may ask people for months. It is found under this workflow; see `run`.

        Args:
            body: The blueprint whose steps are an iteration; the output of one is the input of the next.
            input: The input of the first iteration, and the `input` of all; or a pydantic model.
            output: The model of the output; None: it is returned as it is.
            name: The name of the loop in the address.
            end: When it ends: see `LoopEnd`.

        Raises:
            ChildWorkflowError: It failed or was cancelled.
            ApplicationError: `bad_loop` for an end that cannot be used; `output_invalid`, if the output breaks a rule
                of its model.
        """
        address = self._place_child(name)
        return await self._run(wrap_loop(read_blueprint(body), name, end, address), input, output, address)

    def _place_child(self, name: str) -> Address:
        return Address(within(self._host.identity.address, "child", name))

    async def _run(self, blueprint: Blueprint, input: object, output: type[Any] | None, address: Address) -> Any:
        """Run a blueprint at an address, and return its output as its model has it."""
        host = self._host
        await _until_resumed(host)
        identity = host.identity
        definition = Definition(blueprint=blueprint, **identity.run_fields)
        state = PipelineState(
            input=read_json(input, "input", address),
            started_by=identity.started_by,
            address=address,
            paused=host.paused,
            kept=host.hints,
        )
        summary = f"{identity.blueprint}: {blueprint.name}"
        start = prepare_start(PIPELINE_WORKFLOW, [definition, state], RunResult, summary, blueprint.name)
        id_ = child_workflow_id(identity.run, address)
        result: RunResult = await host.children.run_counted(id_, start, address, OwnChildStarted, paused=state.paused)
        return read_output(output, result.output, address)

    def _read_reply(
        self, request: QuestionRequest, wording: Wording, reply: Reply, value: Any, options: AskOptions
    ) -> Any:
        """Keep a reply, and return what its question gives. Raises a failure where it gives nothing."""
        asked, address = request.asked, request.address
        takes_default = reply.status == "expired" and "default" in options
        self._keep_reply(address, describe_reply(asked, reply) | (DEFAULT if takes_default else {}))
        if takes_default:
            return wording.read_default(asked)
        on_decline = options.get("on_decline")
        if reply.status == "answered" and not (on_decline == "fail" and asked.says_no(reply.content)):
            return value
        goes_on = on_decline == "continue" or (on_decline is None and asked.yes_or_no)
        if goes_on and reply.status != "expired":
            return asked.output_without_answer
        status = "declined" if reply.status == "answered" else reply.status
        raise failure(f"question_{status}", f"{asked.message!r} was {status}", address)

    async def _ask_until_it_fits(self, request: QuestionRequest, wording: Wording) -> tuple[Reply, Any]:
        """Ask until an answer fits, or the question ends without one; return the reply, and the value of the answer.

        Its times count from the first time: otherwise its deadline could be put off by answers that do not fit.
        """
        since = workflow.now()
        while (reply := await self._reply(request)).status == "answered":
            try:
                return reply, wording.read_answer(request.asked.read_output(reply.content))
            except ValidationError as error:  # the model has rules that its JSON Schema cannot say
                reason = describe_problem(error)
                self._host.note(request.address, QuestionReturned(id=reply.question, reason=reason))
                request = replace(request.ask_again(reason), since=since)
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
            await _until_resumed(self._host)  # it may have been paused before the question is asked again
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
        """Begin with the state of the history before; not in `__init__`, which an author's need not call.

        Raises `RuntimeError`, which fails the workflow task, on a worker without the plugin.
        """
        if workflow.payload_converter().to_payload(OwnState()).data != _EMPTY_STATE:
            raise RuntimeError(
                f"{cls.__name__} asks people by Holdfast, which its worker's client does not have: "
                "Client.connect(…, plugins=[holdfast.Plugin()])"
            )
        instance = super().__new__(cls)
        info = workflow.info()
        state = workflow.memo_value(STATE_MEMO, OwnState(), type_hint=OwnState)
        identity = RunIdentity(
            run=info.workflow_id,
            address=root(info.workflow_type),
            blueprint=info.workflow_type,
            history_limits=HistoryLimits(value=None),  # the author's client knows whether large values are stored
        )
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
        await _until_resumed(own)
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


async def _until_resumed(host: Host) -> None:
    """Wait while a workflow is paused. Unlike a run's steps, an author's code may ask after a cancel that it caught."""
    if host.paused:
        await workflow.wait_condition(lambda: not host.paused)


def _is_replaced(cls: type, name: str) -> bool:
    return inspect.getattr_static(cls, name) is not inspect.getattr_static(HumanInTheLoop, name)
