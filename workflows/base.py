"""The base class of every workflow of a run: answers, pause and resume, queries, children, and the end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from temporalio import workflow
from temporalio.common import RawValue, SearchAttributeKey, SearchAttributePair, TypedSearchAttributes
from temporalio.exceptions import ApplicationError, ChildWorkflowError

from holdfast.protocol import guard
from holdfast.protocol.address import Address, child_workflow_id
from holdfast.protocol.agents import (
    CacheEntry,
    CacheHit,
    CacheLookup,
    FindTool,
    ModelReply,
    ModelRequest,
    ToolOutcome,
    ToolRequest,
    ToolSpec,
    ToolsRequest,
    Usage,
)
from holdfast.protocol.answers import Closed, Receipt, Refusal
from holdfast.protocol.door import SizeLimits
from holdfast.protocol.events import (
    AgentStarted,
    AnyChildStarted,
    AnyEvent,
    ClarifyStarted,
    Event,
    LoopStarted,
    MapStarted,
    OwnChildStarted,
    PlanStarted,
    RunPaused,
    RunResumed,
)
from holdfast.protocol.people import awaited
from holdfast.protocol.plans import (
    DRIVEN_PLAN_WORKFLOW,
    PLAN_LOOP_WORKFLOW,
    PLAN_WORKFLOW,
    DrivenDefinition,
    DrivenResult,
    PlanDefinition,
    PlanLoopDefinition,
    PlanLoopResult,
    PlanResult,
)
from holdfast.protocol.questions import Asked, Question, QuestionRequest
from holdfast.protocol.runs import (
    AGENT_WORKFLOW,
    ANSWER,
    BLUEPRINT_ATTRIBUTE,
    CLARIFY_WORKFLOW,
    CONTEXT,
    EVENTS,
    LOOP_WORKFLOW,
    MAP_WORKFLOW,
    PAGE_BYTES,
    PAUSE,
    PAUSED_MEMO,
    RESUME,
    VIEW,
    WAITING_ATTRIBUTE,
    AgentDefinition,
    AgentResult,
    ChildDefinition,
    ClarifyDefinition,
    ClarifyResult,
    Definition,
    HistoryLimits,
    LoopDefinition,
    LoopResult,
    MapDefinition,
    MapResult,
    RefusedSignal,
    Status,
    WorkflowView,
    summary_of,
)
from holdfast.protocol.values import Value
from holdfast.workflows import calls
from holdfast.workflows.children import Child, Handle
from holdfast.workflows.concurrency import end_if_cancelled, is_cancelled, was_cancelled
from holdfast.workflows.details import details_of
from holdfast.workflows.door import NOTHING, answers_in, one_argument, value_in
from holdfast.workflows.failures import HANDLED, failure_of, raised
from holdfast.workflows.frame import history_of
from holdfast.workflows.history import History
from holdfast.workflows.journal import Journal
from holdfast.workflows.questions import Questions, Reply
from holdfast.workflows.request_counts import RequestCounts
from holdfast.workflows.steering import (
    Steering,
    check_may_answer,
    check_may_steer,
    check_payload_token,
    check_token,
    digest_of_command,
)
from holdfast.workflows.turns import Speakers

BLUEPRINT_KEY = SearchAttributeKey.for_keyword(BLUEPRINT_ATTRIBUTE)
WAITING_KEY = SearchAttributeKey.for_keyword_list(WAITING_ATTRIBUTE)
KEPT_REFUSALS = 20
LONGEST_REFUSAL = 200
UNQUOTED = {
    "invalid_answer": "a signal could not be read, or its content does not fit",
    "unknown_question": "a signal names a question that is not open",
}
CHILDREN: dict[type[Definition], tuple[str, type[AnyChildStarted], type[Any]]] = {
    LoopDefinition: (LOOP_WORKFLOW, LoopStarted, LoopResult),
    AgentDefinition: (AGENT_WORKFLOW, AgentStarted, AgentResult),
    MapDefinition: (MAP_WORKFLOW, MapStarted, MapResult),
    ClarifyDefinition: (CLARIFY_WORKFLOW, ClarifyStarted, ClarifyResult),
    PlanDefinition: (PLAN_WORKFLOW, PlanStarted, PlanResult),
    PlanLoopDefinition: (PLAN_LOOP_WORKFLOW, LoopStarted, PlanLoopResult),
    DrivenDefinition: (DRIVEN_PLAN_WORKFLOW, PlanStarted, DrivenResult),
}
"""By the definition of a child: its workflow, the event of its start, and the type of its result."""


class BaseWorkflow:
    """The part of a workflow that people and clients talk to: handlers, queries, and the state they show."""

    def __init__(
        self,
        *,
        run: str,
        address: Address,
        blueprint: str,
        guarded: bool = False,
        steer: Sequence[str] = (),
        limits: SizeLimits | None = None,
        history: History | None = None,
        started_by: str | None = None,
        paused: bool = False,
        closed: list[Closed] | None = None,
        next_offset: int = 0,
        previous_run: str | None = None,
        usage: Usage | None = None,
        permits: list[str] | None = None,
        request_counts: dict[str, int] | None = None,
        speakers: dict[str, bool] | None = None,
    ) -> None:
        self.run_id, self.address, self.blueprint_name = run, address, blueprint
        self.guarded, self.started_by, self.paused = guarded, started_by, paused
        self.steer = list(steer)
        # Fixed when the run starts. A signal's handler runs again on replay, so it must measure by the same limits
        # then; the deployment's limits may have changed.
        self.limits = limits or SizeLimits()
        self.journal = Journal(next_offset)
        self.questions = Questions(run, self.journal, guarded=guarded, closed=closed or [])
        self.children: dict[str, Child] = {}
        self.usage = usage or Usage()
        self.permits = list(permits or [])
        self.request_counts = RequestCounts(request_counts)
        self.speakers = Speakers(speakers)
        self.previous_run = previous_run
        self.iteration: int | None = None
        self.ended: Status | None = None
        self.digest = ""
        self.history = history or History(HistoryLimits())
        self._calls_under_way = 0
        self._children_starting = 0
        self._started: dict[str, int] = {}
        self._refused: list[RefusedSignal] = []
        self._shown_key: tuple[Any, ...] = ()
        self._awaited = tuple(workflow.info().typed_search_attributes.get(WAITING_KEY) or ())

    # For frames

    def note(self, address: Address, event: AnyEvent) -> None:
        self.journal.note(address, event)

    def count(self, usage: Usage) -> None:
        self.usage += usage

    async def until_resumed(self) -> None:
        """Wait while the run is paused; raise `CancelledError` if it was cancelled.

        Every activity, child and step starts behind this call, so a cancelled run starts nothing more.
        """
        if self.paused:
            await workflow.wait_condition(lambda: not self.paused or was_cancelled())
        await end_if_cancelled()

    async def ask(self, request: QuestionRequest) -> Reply:
        self.count(Usage(questions=1))
        return await self.questions.ask(request)

    def change_question(self, address: Address, asked: Asked, parents: Sequence[dict[str, Any]]) -> None:
        self.questions.change(address, asked, parents)

    async def call_model(self, request: ModelRequest, **how: Any) -> ModelReply:
        await self.until_resumed()
        with self._under_way():
            reply = await calls.call_model(request, **how)
        self.count(reply.usage)
        return reply

    async def call_tool(self, request: ToolRequest, **how: Any) -> ToolOutcome:
        await self.until_resumed()
        with self._under_way():
            return await calls.call_tool(request, **how)

    async def look_up(self, key: str) -> CacheHit:
        await self.until_resumed()
        with self._under_way():
            return await calls.look_up(CacheLookup(key=key))

    async def keep(self, entry: CacheEntry) -> None:
        await self.until_resumed()
        with self._under_way():
            await calls.keep(entry)

    async def find_tool(self, wanted: FindTool) -> str | None:
        await self.until_resumed()
        with self._under_way():
            return (await calls.find_tool(wanted)).name

    async def describe_tools(self, tools: Sequence[str], *, lenient: bool = False) -> list[ToolSpec]:
        if not lenient:  # a look-up is not work of the run: a paused plan may be changed
            await self.until_resumed()
        with self._under_way():
            return await calls.describe_tools(ToolsRequest(tools=list(tools), lenient=lenient))

    async def run_child(self, definition: ChildDefinition | AgentDefinition, state: Value) -> Any:
        """Start a child workflow, wait for its end, and return its result."""
        name, event, result_type = CHILDREN[type(definition)]
        if isinstance(definition, DrivenDefinition) and definition.loop is not None:
            event = LoopStarted
        return await self._run_child(name, event, definition, state, result_type)

    async def _run_child(
        self,
        name: str,
        event: type[AnyChildStarted],
        definition: ChildDefinition | AgentDefinition,
        state: Any,
        result_type: type[Any],
    ) -> Any:
        await self.until_resumed()
        id_ = self._new_child_id(child_workflow_id(self.run_id, address_of(definition)))
        fixed = {"size_limits": self.limits, "history_limits": self.history.limits}
        start = partial(
            workflow.start_child_workflow,
            name,
            args=[definition.model_copy(update=fixed), state],
            id=id_,
            result_type=result_type,
            static_summary=summary_of(f"{self.blueprint_name}: {address_of(definition).rpartition(';')[2]}"),
            search_attributes=TypedSearchAttributes([SearchAttributePair(BLUEPRINT_KEY, self.blueprint_name)]),
        )
        child = Child(id_, start)
        self._children_starting += 1
        try:
            started = partial(self._child_started, child, definition.address, event, state.paused)
            result: Any = await child.result(started)
        except ChildWorkflowError as error:
            self.count(failure_of(error, definition.address).usage)
            raise
        finally:
            self._children_starting -= id_ not in self.children
            self.children.pop(id_, None)
        self.count(result.usage)
        self.permit(*result.permits)
        return result

    async def _run_own_child(self, id_: str, start: Callable[..., Awaitable[Handle]], address: Address) -> Any:
        """Run a child workflow of the author's own, listed and paused with this one, and return its result."""
        child = Child(id_, partial(start, id=id_))
        try:
            return await child.result(partial(self._child_started, child, address, OwnChildStarted, False))
        finally:
            self.children.pop(id_, None)

    async def _child_started(self, child: Child, address: Address, event: type[AnyChildStarted], paused: bool) -> None:
        """List a child that has started, and send it the pause or resume that came meanwhile.

        Before its start a client that walks the tree would meet "workflow not found".
        """
        self.note(address, event(workflow=child.id))
        self.children[child.id] = child
        self._children_starting -= 1
        if self.paused != paused and self.takes_signals:
            await child.signal(PAUSE if self.paused else RESUME)

    def _new_child_id(self, id_: str) -> str:
        """Return a child's id; a step that runs once more gets `~2`, as Temporal refuses a second start of one id."""
        count = self._started[id_] = self._started.get(id_, 0) + 1
        return id_ if count == 1 else f"{id_}~{count}"

    def permit(self, *tools: str) -> None:
        """Remember that a person allowed these tools for the rest of the run."""
        self.permits += [tool for tool in tools if tool not in self.permits]

    @contextmanager
    def _under_way(self) -> Iterator[None]:
        self._calls_under_way += 1
        try:
            yield
        finally:
            self._calls_under_way -= 1

    # Display

    async def keep_shown(self) -> None:
        """Update the current details and the search attribute whenever what they show has changed."""
        while True:
            await workflow.wait_condition(lambda: self._details_key() != self._shown_key)
            self.show()

    def show(self) -> None:
        """Write the current details, and the search attribute only if it changed: each upsert is an event."""
        self._shown_key = self._details_key()
        open_ = self.questions.open if self.ended is None else []
        names = tuple(awaited(question.people for question in open_))
        if names != self._awaited:
            self._awaited = names
            workflow.upsert_search_attributes([WAITING_KEY.value_set(list(names))])
        view = self._view([])
        workflow.set_current_details(details_of(view, self.questions.open))

    def _details_key(self) -> tuple[Any, ...]:
        """Return the values that the current details are made of, to compare."""
        asked = tuple(
            (question.id, question.reminders, question.answers_so_far, *question.assignees)
            for question in self.questions.open
        )
        return asked, self.iteration, tuple(self.children), len(self._refused), self.paused, self.ended

    async def live(self, work: Awaitable[Any]) -> Any:
        """Run a child's work to its end, and keep what it shows true; a failure carries what was spent."""
        display = asyncio.create_task(self.keep_shown())
        try:
            output = await work
        except HANDLED as error:
            self.wind_up(error)
            if is_cancelled(error):
                await self.close("cancelled")
                raise
            await self.close("failed")
            cause = failure_of(error, self.address)
            extra = {**self.counted(), **self.kept_of_a_failure(error)}
            raise raised(cause.model_copy(update=extra)) from error
        except asyncio.CancelledError as error:
            self.wind_up(error)
            await self.close("cancelled")
            raise
        finally:
            display.cancel()
        await self.close("completed")
        return output

    def wind_up(self, error: BaseException) -> None:
        """End what is under way in a workflow that fails or is cancelled."""

    def kept_of_a_failure(self, error: BaseException) -> dict[str, Any]:
        """Return further fields for a failure of this workflow. For subclasses."""
        return {}

    def counted(self) -> dict[str, Any]:
        """Return what was spent, requested and said so far, for the parent or the next run, however this one ends."""
        speakers = self.speakers.of(history_of(self.current_context()))
        return {"usage": self.usage, "request_counts": self.request_counts.counted, "speakers": speakers}

    async def close(self, status: Status) -> None:
        """Set the final status, wait for handlers that still run, and show the end."""
        self.ended = status
        await workflow.wait_condition(workflow.all_handlers_finished)
        self.show()

    # Handlers. They take `RawValue`: with a typed argument, a signal that cannot be decoded is dropped in silence, and
    # an update reports only "Failed decoding arguments".

    @workflow.update(name=ANSWER, description="Answer one or several open questions.")
    def answer(self, payload: RawValue) -> list[Receipt]:
        # No limit and no check here: a handler runs again on replay, and what the deployment allows may have changed.
        # The validator, which does not run again, has checked them.
        self.history.updates += 1
        try:
            return self.questions.take(answers_in(payload, None))
        except Refusal as refusal:
            raise refused(refusal) from None

    @answer.validator
    def _check_answer(self, payload: RawValue) -> None:
        try:
            answers = answers_in(payload, guard.DEPLOYMENT.limits.answer)
            check_may_answer(check_token(self.run_id, ANSWER, payload))
            self.questions.check(answers)
            self.questions.check_deadlines(answers)
            self.questions.check_allowed(answers)
        except Refusal as refusal:
            raise refused(refusal) from None

    @workflow.signal(name=ANSWER, description="The same as the update, without a receipt.")
    @one_argument
    def answer_signal(self, payload: RawValue = NOTHING) -> None:
        self.history.signals += 1
        by = None
        try:
            answers = answers_in(payload, self.limits.answer)
            by = answers.by
            self.questions.check_signal(answers)
            self.questions.check(answers)
            self.questions.take(answers)
        except Refusal as refusal:
            self.refuse_signal(refusal, by)

    def refuse_signal(self, refusal: Refusal, by: str | None = None) -> None:
        """List a refused signal in the view with the reason, without its content."""
        refused = RefusedSignal(at=workflow.now(), by=by, code=refusal.code, message=unquoted(refusal))
        self._refused = [*self._refused, refused][-KEPT_REFUSALS:]

    def check_busy(self) -> None:
        """Refuse an update that can wait, to keep the remaining ones for answers, pause and resume.

        For validators only, as the threshold is the deployment's. Raises `Refusal`.
        """
        if self.history.updates >= guard.DEPLOYMENT.busy_from:
            text = f"{self.history.updates:,} updates stand in this history, and the rest is kept for answers"
            raise Refusal("busy", f"{text}; answer what is open, or try again once the run has moved on")

    @workflow.update(name=PAUSE, description="Start no further step; answers are still taken, deadlines still run.")
    async def pause(self, payload: RawValue = NOTHING) -> None:
        await self._take_pause(PAUSE, payload)

    @pause.validator
    def _check_pause(self, payload: RawValue = NOTHING) -> None:
        self._check_pausing(PAUSE, payload)

    @workflow.update(name=RESUME, description="Go on after a pause.")
    async def resume(self, payload: RawValue = NOTHING) -> None:
        await self._take_pause(RESUME, payload)

    @resume.validator
    def _check_resume(self, payload: RawValue = NOTHING) -> None:
        self._check_pausing(RESUME, payload)

    def _check_pausing(self, command: str, raw: RawValue) -> None:
        try:
            self.check_steering(command, value_in(raw, guard.DEPLOYMENT.limits.answer))
        except Refusal as refusal:
            raise refused(refusal) from None

    async def _take_pause(self, command: str, raw: RawValue) -> None:
        self.history.updates += 1
        try:
            payload = value_in(raw, None)
            before = self.steered_before(command, payload)
        except Refusal as refusal:
            raise refused(refusal) from None
        if not before:
            self.steered(command, payload)
            await self._set_paused(command == PAUSE)
        if not self.takes_signals:  # the client sends it to the children next, so each must be listed
            await workflow.wait_condition(lambda: self._children_starting == 0)

    @workflow.signal(name=PAUSE)
    @one_argument
    async def pause_signal(self, payload: RawValue = NOTHING) -> None:
        await self._pause_by_signal(True)

    @workflow.signal(name=RESUME)
    @one_argument
    async def resume_signal(self, payload: RawValue = NOTHING) -> None:
        await self._pause_by_signal(False)

    async def _pause_by_signal(self, paused: bool) -> None:
        self.history.signals += 1
        try:
            self.check_signal()
        except Refusal as refusal:
            self.refuse_signal(refusal)
        else:
            await self._set_paused(paused)

    # Steering

    @property
    def takes_signals(self) -> bool:
        """Return whether commands may come by signal: not where the sender matters, as a signal has no validator."""
        return not self.guarded and not self.steer

    def check_signal(self) -> None:
        """Refuse a steering signal in a run that checks its senders. Raises `Refusal`."""
        if not self.takes_signals:
            reason = "is guarded" if self.guarded else f"is steered by {', '.join(self.steer)}"
            raise Refusal("not_allowed", f"this run {reason} and takes commands by update only: use holdfast")

    def check_steering(self, command: str, payload: Any) -> bool:
        """Refuse a command from a person who may not steer; return whether its key was used for it before.

        For validators only, as they may read the deployment. Raises `Refusal`.
        """
        steering = Steering.of(payload)
        check_may_steer(steering, check_payload_token(self.run_id, command, payload), self.steer, self.started_by)
        return self.questions.taken_under(steering.key, digest_of_command(command, payload))

    def steered_before(self, command: str, payload: Any) -> bool:
        """Return whether the command was taken before, under its key. Raises `Refusal`."""
        return self.questions.taken_under(Steering.of(payload).key, digest_of_command(command, payload))

    def steered(self, command: str, payload: Any) -> None:
        """Remember the key of an accepted command."""
        steering = Steering.of(payload)
        if steering.key is not None:
            self.questions.remember_command(steering.key, digest_of_command(command, payload), steering.by)

    async def _set_paused(self, paused: bool) -> None:
        if paused == self.paused:
            return
        self.paused = paused
        if workflow.info().workflow_id == self.run_id:
            self.note(self.address, RunPaused() if paused else RunResumed())
            workflow.upsert_memo({PAUSED_MEMO: True if paused else None})
        if self.takes_signals:
            await asyncio.gather(*(child.signal(PAUSE if paused else RESUME) for child in self.children.values()))

    @workflow.query(name=VIEW, description="Status, iteration, open questions, children.")
    def view(self, offset: int = 0) -> WorkflowView:
        return self._view(self._page_of_questions(offset), offset)

    @workflow.query(name=EVENTS, description="The events from an offset on, a page at a time.")
    def events(self, offset: int = 0) -> list[Event]:
        return self.journal.page(offset)

    @workflow.query(name=CONTEXT, description="The context where this workflow stands.")
    def context(self) -> dict[str, Any]:
        return self.current_context()

    def current_context(self) -> dict[str, Any]:
        return {}

    def _page_of_questions(self, offset: int) -> list[Question]:
        taken: list[Question] = []
        room = PAGE_BYTES
        for question in self.questions.open[offset:]:
            room -= len(question.model_dump_json(exclude_defaults=True).encode())
            if room < 0 and taken:
                break
            taken.append(question)
        return taken

    def _view(self, questions: list[Question], offset: int = 0) -> WorkflowView:
        return WorkflowView(
            run=self.run_id,
            workflow=workflow.info().workflow_id,
            address=self.address,
            blueprint=self.blueprint_name,
            blueprint_digest=self.digest,
            status=self._status(),
            iteration=self.iteration,
            questions=questions,
            more_questions=len(self.questions.open) - offset - len(questions),
            children=list(self.children),
            moving=self._calls_under_way > 0,
            hears=self.hears,
            refused=self._refused,
            usage=self.usage,
            first_offset=self.journal.first,
            next_offset=self.journal.next,
            temporal_run=workflow.info().run_id,
            previous_run=self.previous_run,
        )

    @property
    def hears(self) -> bool:
        """Return whether this workflow takes messages to an agent."""
        return False

    def _status(self) -> Status:
        if self.ended is not None:
            return self.ended
        if self.paused:
            return "paused"
        return "waiting" if self.questions.open and not self._calls_under_way else "running"


def unquoted(refusal: Refusal) -> str:
    """Return a refusal's message for the view, where everybody sees it: short, and without what was sent."""
    if refusal.code in ("invalid_answer", "unknown_question"):
        return f"{UNQUOTED[refusal.code]}; send it with `holdfast answer`, which says what is wrong"
    return refusal.message if len(refusal.message) <= LONGEST_REFUSAL else f"{refusal.message[:LONGEST_REFUSAL]}…"


def refused(refusal: Refusal) -> ApplicationError:
    return ApplicationError(refusal.message, type=refusal.code, non_retryable=True)


def address_of(definition: ChildDefinition | AgentDefinition) -> Address:
    """Return the address of a child; a page of a map stands below its map."""
    if isinstance(definition, MapDefinition) and definition.pages is not None:
        return definition.pages
    return definition.address
