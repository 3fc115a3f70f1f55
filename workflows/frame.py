"""The frame of a step: its address, the names that its expressions see, and what it may call there."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Literal, Protocol

from temporalio import workflow
from temporalio.common import RawValue
from temporalio.exceptions import ChildWorkflowError

from holdfast.blueprint.expressions.bounds import Bounds
from holdfast.blueprint.expressions.error import ExpressionError
from holdfast.blueprint.expressions.evaluation import evaluate, holds, render
from holdfast.blueprint.expressions.values import write_text
from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.blueprint.jsonschemas import misfit
from holdfast.blueprint.kinds import AnyStep, Blueprint, HistoryManagement, Operation, Step
from holdfast.blueprint.parts import Retry
from holdfast.blueprint.questions import Asked, Extension
from holdfast.blueprint.reducers import Path, find_reducers
from holdfast.protocol.address import Address, within
from holdfast.protocol.agents import Message
from holdfast.protocol.children import (
    AgentDefinition,
    AgentResult,
    AgentState,
    Budget,
    Carried,
    ChildDefinition,
    HandedBack,
    LoopDefinition,
    MapDefinition,
)
from holdfast.protocol.context import BadWrite, apply_operation, read
from holdfast.protocol.elicitations import Elicited
from holdfast.protocol.events import EventData, LimitReached
from holdfast.protocol.incoming import KeptHint
from holdfast.protocol.people import EVERYBODY, People
from holdfast.protocol.questions import QuestionRequest
from holdfast.protocol.usage import Usage
from holdfast.workflows.calls import Activities
from holdfast.workflows.concurrency import (
    CancelledInCall,
    CancelledWithFailure,
    CancelledWithResult,
    end_if_cancelled,
)
from holdfast.workflows.door import Door
from holdfast.workflows.earlier_run import EarlierRun
from holdfast.workflows.failures import HANDLED, failure, find_failure
from holdfast.workflows.identity import RunIdentity
from holdfast.workflows.ledger import Ledgers
from holdfast.workflows.limits import Before, ExhaustedLimit, Meter
from holdfast.workflows.replies import Reply
from holdfast.workflows.request_counts import RequestCounts
from holdfast.workflows.rest import await_rest
from holdfast.workflows.sizes import CONTEXT, MAX_CONTEXT, check_weight, weigh_write
from holdfast.workflows.superseding import Superseding
from holdfast.workflows.turns import Speakers, count_unsent, make_messages
from holdfast.workflows.undo_log import UndoLog, UndoLogs

DEFAULT_INPUT = Step.model_fields["input"].default
HISTORY = "context.scratchpad.history"


@dataclass(frozen=True)
class OwnStart:
    """The start of a workflow that is no part of the run."""

    name: str
    args: Sequence[JSON]
    id: str | None
    """None: an id below the run's, from the address."""
    address: Address
    task_queue: str | None
    timeout: float | None
    retry: Retry | None
    summary: str


class AskingCall(Protocol):
    """A call under way, in whose middle an MCP server may ask people (`Interrupts`)."""

    def put(self, path: str, asked: Asked, seconds: float) -> None: ...
    def find_elicited(self, path: str) -> Elicited: ...


class AgentRoom(Protocol):
    """The room for an agent in the workflow of a run (`agent.in_run.AgentInRun`)."""

    def takes(self, definition: AgentDefinition) -> bool: ...
    async def run(self, frame: Frame, definition: AgentDefinition, state: AgentState) -> AgentResult: ...


class HostForFrames(Protocol):
    """What frames and children use of the workflow that they run in (`handlers.Host`)."""

    identity: RunIdentity
    permits: list[str]
    """Tools that a person allowed for the rest of the run."""
    ledgers: Ledgers
    speakers: Speakers
    activities: Activities
    door: Door
    superseding: Superseding
    earlier: EarlierRun
    undo_logs: UndoLogs
    agent_room: AgentRoom | None
    """None: agents with tools have workflows of their own."""

    @property
    def paused(self) -> bool: ...
    @property
    def hints(self) -> list[KeptHint]: ...

    def note(self, address: Address, event: EventData) -> None: ...
    def count(self, usage: Usage) -> None: ...
    def permit(self, *tools: str) -> None: ...
    async def until_resumed(self) -> None: ...
    async def ask(self, request: QuestionRequest) -> Reply: ...
    async def wait_until(self, address: Address, moment: datetime, summary: str) -> None: ...
    def mark_done(self, address: Address) -> None: ...
    def was_done(self, address: Address) -> bool: ...
    def mark_broken(self, address: Address) -> None: ...
    def show_deadline(self, moment: datetime) -> AbstractContextManager[None]: ...
    def change_question(self, address: Address, asked: Asked, parents: Sequence[JSONObject]) -> None: ...
    def let_ask(self, address: Address, call: AskingCall) -> AbstractContextManager[None]: ...
    async def run_child(self, definition: ChildDefinition | AgentDefinition, state: Carried) -> Any: ...
    async def run_own(self, start: OwnStart, begun: Callable[[str], None]) -> RawValue: ...


class ContextStore:
    """The context: an immutable JSON value in a cell that one line of steps shares; a fork is another cell."""

    def __init__(
        self,
        value: JSONObject,
        schema: JSONObject | None = None,
        reducers: Mapping[Path, str] | None = None,
        heaviest: tuple[JSONObject, int] | None = None,
    ) -> None:
        self.value, self.schema = value, schema
        self.reducers = find_reducers(schema) if reducers is None else reducers
        self._heaviest = heaviest
        """A value with what it weighs at most. To weigh a context of 1,000 items takes as long as 1,000 appends."""

    def fork(self) -> ContextStore:
        """Return another cell with this value, which is weighed once for all that begin with it."""
        if self._heaviest is None or self._heaviest[0] is not self.value:
            with suppress(ExpressionError):  # one that is nested too deep fails its first write
                self._heaviest = (self.value, Bounds().weigh(self.value))
        return ContextStore(self.value, self.schema, self.reducers, self._heaviest)

    def take(self, value: JSONObject, address: Address, added: int | None = None) -> None:
        """Replace the value; one that breaks the context's schema, or is too large, fails the step that wrote it.

        `added`: how much more than the value before it weighs at most; None: that is not known.
        """
        before = self._heaviest[1] if self._heaviest is not None and self._heaviest[0] is self.value else None
        weight = None if before is None or added is None else before + added
        if weight is None or weight > MAX_CONTEXT:
            weight = check_weight(value, MAX_CONTEXT, CONTEXT, address)
        self._heaviest = (value, weight)
        if self.schema is not None and (wrong := misfit(self.schema, value)):
            raise failure("context_invalid", f"the context does not fit its schema: {wrong}", address)
        self.value = value


@dataclass
class Scope:
    """The steps that ran in one list and in the lists around it, and the last human answer there."""

    steps: JSONObject = field(default_factory=dict)
    outer: Scope | None = None
    resume_input: JSON = None
    was_answered: bool = False
    """True once somebody has answered in this list, or in a list inside."""
    answers_outer: Scope | None = None
    """The scope around it that gets the answers of this one, too."""
    replies: JSONObject = field(default_factory=dict)
    """The replies of steps that asked and have not ended yet, by name: they become `steps.NAME.reply`."""

    def nest(self) -> Scope:
        """Return the scope of a list inside this one."""
        return Scope(outer=self, resume_input=self.resume_input, answers_outer=self)

    def isolate(self) -> Scope:
        """Return the scope of one of several siblings: its answers reach neither them nor this scope."""
        return Scope(outer=self, resume_input=self.resume_input)

    def detach(self) -> Scope:
        """Return a scope that sees none of these steps, as an import has it; answers pass both ways."""
        return Scope(resume_input=self.resume_input, answers_outer=self)

    def collect_steps(self) -> JSONObject:
        return {**self.outer.collect_steps(), **self.steps} if self.outer else self.steps

    def remember(self, name: str, output: object, status: str, error: object = None, reason: str | None = None) -> None:
        """Record how a step ended, as `steps.NAME` has it; `reason`: why it was skipped."""
        entry = {"output": output, "status": status, "reason": reason, "error": error}
        if name in self.replies:
            entry["reply"] = self.replies[name]
        self.steps[name] = entry

    def take_answer(self, content: object) -> None:
        scope: Scope | None = self
        while scope is not None:
            scope.resume_input, scope.was_answered, scope = content, True, scope.answers_outer


class RunSteps(Protocol):
    """The interpreter: runs a list of steps, the first on a value, and returns the last one's output."""

    async def __call__(
        self, steps: Sequence[AnyStep], frame: Frame, value: object, max_parallel: int | None = None
    ) -> JSON: ...


@dataclass(frozen=True)
class Frame:
    """The position of a step in a run. Immutable: `at`, `after` and the like return another one."""

    host: HostForFrames
    address: Address
    blueprint: Blueprint
    store: ContextStore
    scope: Scope
    run_steps: RunSteps
    names: JSONObject
    """Names beside those every step sees: `input`, `iteration`, `error`."""
    reads_run_input: bool = True
    """False in an import, whose `input` is that of its step."""
    previous: JSON = None
    """Output of the step before."""
    iteration: int | None = None
    turn_source: str | None = None
    """In a conversation: the step whose output is the assistant's turn."""
    conversing: bool = False
    history_management: HistoryManagement | None = None
    """In a conversation: the rule for how many of its turns a model gets."""
    left_out: int = 0
    """In a conversation: turns that were dropped from it before, and of which no summary was made."""
    sends_previous: bool = False
    """In a conversation: an agent without an input gets the output of the step before, as in an item of a map."""
    place: str = ""
    """Name of the position for people: `clarify 2`."""
    label: str | None = None
    """What people read of the item of a map around it; of nested maps outermost first."""
    meter: Meter = field(default_factory=Meter)
    request_counts: RequestCounts = field(default_factory=RequestCounts)
    people: People = EVERYBODY
    """Who may answer what is asked here, where the question does not say it."""
    undos: UndoLog | None = None
    """In a block: what its steps have done, and how it is undone."""
    new_input: tuple[JSON] | None = None
    """Input from a person for this step, after it failed with its own."""

    async def spend(self, work: Awaitable[Any]) -> Any:
        """Return the result of the work, and count the time that it took."""
        begun = workflow.now()
        try:
            result = await work
        except HANDLED:
            await self._count_time(begun)
            raise
        try:
            await self._count_time(begun)
        except asyncio.CancelledError:  # the cancel came with the result, which is not lost by it
            raise CancelledInCall(result) from None
        return result

    async def _count_time(self, begun: datetime) -> None:
        if self.meter.limits_time:
            await await_rest(whole_task=True)  # only the task has the time
        self.meter.count(_count_seconds(begun))

    async def within_limits(self, before: Before = "step") -> None:
        """Fail, or ask a person for more if the author says so, if a limit on what is about to start is used up."""
        while (reached := self.meter.find_reached(before)) is not None:
            limit = self.meter.describe_exhausted(*reached, self.address)
            self.note(LimitReached(limit=reached.limit, message=limit.message))
            if await self.go_beyond(limit):
                self.meter.grant(*reached, limit.amount)

    async def go_beyond(self, limit: ExhaustedLimit) -> bool:
        """Return whether a person grants as much again; False where what there is is enough. Else raise a failure."""
        if limit.then == "finish":
            return False
        if limit.then == "fail":
            raise failure(limit.type, limit.message, limit.address, final=limit.final)
        asked = Extension.model_validate({"message": limit.question, "options": limit.options()})
        reply = await self.at("hitl", limit.key).ask(asked)
        if reply.content not in ("more", "finish"):
            message = f"{limit.ended} by {reply.by or 'somebody'}"
            raise failure(limit.type, message, limit.address, final=limit.final_if_ended)
        return bool(reply.content == "more")

    async def run_child(self, definition: ChildDefinition | AgentDefinition, state: Carried) -> Any:
        """Run a child, return its result, and take over here what it spent, was granted, and did."""
        budgets = list(self.meter.budgets)
        handed_on = {
            "budgets": budgets,
            "request_counts": dict(self.request_counts.counted),
            "speakers": self._speakers_for(definition),
        }
        begun = state.model_copy(update=handed_on)
        try:
            result = await self.host.run_child(definition, begun)
        except CancelledWithResult as cancelled:
            self._take_over(cancelled.result, budgets, definition)
            raise
        except CancelledWithFailure as cancelled:
            self._take_over(find_failure(cancelled.error, self.address), budgets, definition)
            raise
        except ChildWorkflowError as error:
            self._take_over(find_failure(error, self.address), budgets, definition)
            raise
        self._take_over(result, budgets, definition)
        return result

    def _take_over(
        self, ended: HandedBack, budgets: Sequence[Budget], definition: ChildDefinition | AgentDefinition
    ) -> None:
        self.meter.count(ended.usage)
        self.request_counts.take(ended.request_counts)
        self.host.speakers.take(ended.speakers)
        self.host.permit(*ended.permits)
        self.host.ledgers.take_over(definition.address, ended.ledgers)
        self.meter.adopt(budgets, ended.budgets)
        if self.undos is not None:
            self.undos.take_over(ended.undos)

    def _speakers_for(self, definition: ChildDefinition | AgentDefinition) -> dict[str, bool]:
        """Return the speakers of the conversation, for a child that shares this context."""
        shares = isinstance(definition, LoopDefinition | MapDefinition)
        return self.host.speakers.of(read_history(self.store.value)) if shares else {}

    def at(self, type_: str, id_: str, sub: object = None) -> Frame:
        """Return the frame with the same names, one address segment deeper."""
        return replace(self, address=within(self.address, type_, id_, sub), new_input=None)

    def inside(self, type_: str, id_: str) -> Frame:
        """Return a frame one segment deeper, in a scope of its own: its steps are not seen outside."""
        return replace(self.at(type_, id_), scope=self.scope.nest())

    def isolate(self) -> Frame:
        """Return the same place in a scope whose answers stay in it."""
        return replace(self, scope=self.scope.isolate())

    def after(self, previous: object) -> Frame:
        return replace(self, previous=previous)

    def with_names(self, **names: Any) -> Frame:
        return replace(self, names={**self.names, **names})

    @property
    def input(self) -> JSON:
        """What the name `input` means here: in a run that was forked with another one, that from the place on."""
        own: JSON = self.names.get("input")
        return self.host.earlier.read_input(self.address, own) if self.reads_run_input else own

    def collect_names(self) -> JSONObject:
        """Return every name that an expression sees here, with its value."""
        return {
            **self.names,
            **({"input": self.input} if "input" in self.names else {}),
            **({"history": read_history(self.store.value)} if self.iteration is not None else {}),
            "context": self.store.value,
            "steps": self.scope.collect_steps(),
            "previous_step": self.previous,
            "output": self.previous,
            "resume_input": self.scope.resume_input,
        }

    def evaluate(self, expression: str) -> JSON:
        return evaluate(expression, self.collect_names())

    def holds(self, expression: str) -> tuple[bool, JSON]:
        return holds(expression, self.collect_names())

    def render(self, template: object) -> JSON:
        return render(template, self.collect_names())

    def read_input(self, step: Step) -> JSON:
        """Return the step's input. Raises a failure if it does not fit the step's `input_schema`."""
        value = self.render_input(step)
        if step.input_schema is not None and (wrong := misfit(step.input_schema, value)):
            raise failure("input_invalid", f"the input of {step.name} does not fit: {wrong}", self.address)
        return value

    def takes_previous(self, step: Step) -> bool:
        """Return whether the step has no input of its own, so that in a conversation it gets the turns instead."""
        return self.new_input is None and not self.sends_previous and step.input == DEFAULT_INPUT

    def render_input(self, step: Step) -> JSON:
        """Return the step's input unchecked: from a person who replaced it, else from its template."""
        return self.render(step.input_template) if self.new_input is None else self.new_input[0]

    def note(self, event: EventData) -> None:
        self.host.note(self.address, event)

    def write(self, value: JSONObject, added: int | None = None) -> None:
        """Take another context; see `ContextStore.take`."""
        self.store.take(value, self.address, added)

    def apply(self, verb: Literal["set", "append", "merge"], path: str, value: object) -> None:
        """Apply one operation to the context; one that does not fit the value there fails the step."""
        try:
            written = apply_operation(self.store.value, verb, path, value)
        except BadWrite as error:
            raise failure("bad_write", str(error), self.address) from None
        self.write(written, None if verb == "merge" else weigh_write(path, value, verb, self.address))

    def summary(self, label: str) -> str:
        """Return the summary of an activity for Temporal's UI."""
        return f"{self.place} · {label}" if self.place else label

    def turn(self, speaker: str, content: object) -> None:
        """In a conversation, append a turn of this speaker ("User" or "Assistant")."""
        if self.conversing:
            entry = f"{speaker}: {write_text(content)}"
            self.host.speakers.note(entry, assistant=speaker == "Assistant")
            self.apply("append", HISTORY, entry)

    def turns(self) -> list[Message]:
        """Return the conversation so far, as a model gets it."""
        return make_messages(read_history(self.store.value), self.host.speakers, self.history_management)

    def count_unsent_turns(self) -> int:
        """Return how many turns are in the conversation, and not in what a model gets."""
        return count_unsent(read_history(self.store.value), self.history_management)

    def operate(self, operation: Operation) -> None:
        """Apply one of the author's writes to the context."""
        template, value = operation.write.value, self.render(operation.write.value)
        if operation.write.target == HISTORY:
            self.host.speakers.note_written(template, value)
        self.apply(operation.verb, operation.write.target, value)

    async def ask(
        self,
        asked: Asked,
        timeout: float | None = None,
        *,
        takes_default: bool = False,
        parents: Sequence[JSONObject] = (),
        people: People | None = None,
    ) -> Reply:
        """Ask people a question here, and wait for the reply; see `QuestionRequest`."""
        asked_people = self.people if people is None else people
        request = QuestionRequest(
            asked, self.address, self.iteration, timeout, takes_default, parents, asked_people, self.label
        )
        reply = await self.put(request)
        if reply.status == "answered":
            self.scope.take_answer(asked.read_output(reply.content))
        elif asked.yes_or_no:
            # Else a yes from before would be read as the answer to this one.
            self.scope.take_answer(asked.output_without_answer)
        return reply

    async def put(self, request: QuestionRequest) -> Reply:
        """Ask as `ask` does, but keep the answer from later steps: it may not stand."""
        await end_if_cancelled()
        return await self.host.ask(request)


def read_history(context: JSONObject) -> JSON:
    """Return the conversation that a loop keeps in the context, or an empty list."""
    return read(context, HISTORY, [])


def _count_seconds(begun: datetime) -> Usage:
    return Usage(seconds=(workflow.now() - begun).total_seconds())
