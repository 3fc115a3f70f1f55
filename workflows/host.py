"""What every workflow of a run answers to: one update and signal for answers, pause and resume, three queries."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.common import SearchAttributeKey, SearchAttributePair, TypedSearchAttributes
from temporalio.exceptions import ApplicationError, ChildWorkflowError

from protocol.address import Address, child_workflow_id
from protocol.agents import (
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
from protocol.answers import Closed, Receipt, Refusal, read_answers
from protocol.people import EVERYBODY, People, awaited
from protocol.plans import (
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
from protocol.questions import Asked, Question
from protocol.runs import (
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
    RESUME,
    VIEW,
    WAITING_ATTRIBUTE,
    AgentDefinition,
    AgentResult,
    Carried,
    ChildDefinition,
    ClarifyDefinition,
    ClarifyResult,
    Definition,
    Event,
    LoopDefinition,
    LoopResult,
    MapDefinition,
    MapResult,
    RefusedSignal,
    Status,
    WorkflowView,
    summary_of,
)
from protocol.values import Value
from workflows import calls
from workflows.details import details_of
from workflows.failures import HANDLED, failure_of, raised
from workflows.journal import Journal
from workflows.questions import Questions, Reply
from workflows.together import is_cancelled

BLUEPRINT_KEY = SearchAttributeKey.for_keyword(BLUEPRINT_ATTRIBUTE)
WAITING_KEY = SearchAttributeKey.for_keyword_list(WAITING_ATTRIBUTE)
KEPT_REFUSALS = 20
_CARRIED = Carried.model_fields.keys() - {"budgets"}
CHILDREN: dict[type[Definition], tuple[str, str, type[Any]]] = {
    LoopDefinition: (LOOP_WORKFLOW, "loop.started", LoopResult),
    AgentDefinition: (AGENT_WORKFLOW, "agent.started", AgentResult),
    MapDefinition: (MAP_WORKFLOW, "map.started", MapResult),
    ClarifyDefinition: (CLARIFY_WORKFLOW, "clarify.started", ClarifyResult),
    PlanDefinition: (PLAN_WORKFLOW, "plan.started", PlanResult),
    PlanLoopDefinition: (PLAN_LOOP_WORKFLOW, "loop.started", PlanLoopResult),
    DrivenDefinition: (DRIVEN_PLAN_WORKFLOW, "plan.started", DrivenResult),
}
"""By what a child executes: its workflow, the event that tells of its start, what it gives."""


class Host:
    """The part of a workflow that people and clients talk to."""

    def __init__(
        self,
        *,
        run: str,
        address: Address,
        blueprint: str,
        guarded: bool = False,
        started_by: str | None = None,
        paused: bool = False,
        closed: list[Closed] | None = None,
        next_offset: int = 0,
        previous_run: str | None = None,
        usage: Usage | None = None,
        permits: list[str] | None = None,
    ) -> None:
        self.run_id, self.address, self.blueprint_name = run, address, blueprint
        self.guarded, self.started_by, self.paused = guarded, started_by, paused
        self.journal = Journal(next_offset)
        self.questions = Questions(run, self.journal, guarded=guarded, closed=closed or [])
        self.children: dict[str, workflow.ChildWorkflowHandle[Any, Any]] = {}
        self.usage = usage or Usage()
        self.permits = list(permits or [])
        self.previous_run = previous_run
        self.iteration: int | None = None
        self.ended: Status | None = None
        self.digest = ""
        self._calls_under_way = 0
        self._started: dict[str, int] = {}
        self._refused: list[RefusedSignal] = []
        self._shown: tuple[Any, ...] = ()
        self._awaited = tuple(workflow.info().typed_search_attributes.get(WAITING_KEY) or ())

    # What a frame uses

    def note(self, address: Address, type_: str, **data: Any) -> None:
        self.journal.note(address, type_, **data)

    def count(self, usage: Usage) -> None:
        self.usage += usage

    async def until_resumed(self) -> None:
        if self.paused:
            await workflow.wait_condition(lambda: not self.paused)

    async def ask(
        self,
        address: Address,
        asked: Asked,
        *,
        iteration: int | None,
        timeout: float | None,
        takes_default: bool = False,
        parents: Sequence[dict[str, Any]] = (),
        people: People = EVERYBODY,
    ) -> Reply:
        deadline = None if timeout is None else workflow.now() + timedelta(seconds=timeout)
        return await self.questions.ask(
            address,
            asked,
            iteration=iteration,
            deadline=deadline,
            takes_default=takes_default,
            parents=parents,
            people=people,
        )

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
        with self._under_way():
            return await calls.look_up(CacheLookup(key=key))

    async def keep(self, entry: CacheEntry) -> None:
        with self._under_way():
            await calls.keep(entry)

    async def find_tool(self, wanted: FindTool) -> str | None:
        with self._under_way():
            return (await calls.find_tool(wanted)).name

    async def describe_tools(self, tools: Sequence[str]) -> list[ToolSpec]:
        with self._under_way():
            return await calls.describe_tools(ToolsRequest(tools=list(tools)))

    async def run_child(self, definition: ChildDefinition | AgentDefinition, state: Value) -> Any:
        """Start a child with a history of its own, and wait for its end; gives its result."""
        name, event, result_type = CHILDREN[type(definition)]
        if isinstance(definition, DrivenDefinition) and definition.loop is not None:
            event = "loop.started"
        return await self._run_child(name, event, definition, state, result_type)

    async def _run_child(
        self,
        name: str,
        event: str,
        definition: ChildDefinition | AgentDefinition,
        state: Any,
        result_type: type[Any],
    ) -> Any:
        handle = await workflow.start_child_workflow(
            name,
            args=[definition, state],
            id=self._new_child_id(child_workflow_id(self.run_id, _address_of(definition))),
            result_type=result_type,
            static_summary=summary_of(f"{self.blueprint_name}: {_address_of(definition).rpartition(';')[2]}"),
            search_attributes=TypedSearchAttributes([SearchAttributePair(BLUEPRINT_KEY, self.blueprint_name)]),
        )
        self.children[handle.id] = handle  # only now can it be asked
        self.note(definition.address, event, workflow=handle.id)
        try:
            if self.paused and not state.paused:
                await handle.signal(PAUSE)
            result: Any = await handle
        except ChildWorkflowError as error:
            self.count(failure_of(error, definition.address).usage)
            raise
        finally:
            del self.children[handle.id]
        self.count(result.usage)
        self.permit(*result.permits)
        return result

    def _new_child_id(self, wanted: str) -> str:
        """The id of a child; that of a step which is run once more gets `~2`."""
        again = self._started[wanted] = self._started.get(wanted, 0) + 1
        return wanted if again == 1 else f"{wanted}~{again}"

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

    # What is shown outside

    async def keep_shown(self) -> None:
        """Keep the current details and the search attribute true, once everything else has come to rest."""
        while True:
            await workflow.wait_condition(lambda: self._standing() != self._shown)
            self.show()

    def show(self) -> None:
        self._shown = self._standing()
        open_ = self.questions.open if self.ended is None else []
        names = tuple(awaited(question.people for question in open_))
        if names != self._awaited:
            self._awaited = names
            workflow.upsert_search_attributes([WAITING_KEY.value_set(list(names))])
        view = self._view([])
        workflow.set_current_details(details_of(view, self.questions.open))

    def _standing(self) -> tuple[Any, ...]:
        """What the details depend on."""
        asked = tuple(
            (question.id, question.reminders, question.answers_so_far, *question.assignees)
            for question in self.questions.open
        )
        return asked, self.iteration, tuple(self.children), len(self._refused), self.paused, self.ended

    async def live(self, work: Awaitable[Any]) -> Any:
        """A child's work to its end, shown meanwhile; a failure carries what was spent."""
        shown = asyncio.create_task(self.keep_shown())
        try:
            output = await work
        except HANDLED as error:
            if is_cancelled(error):
                await self.close("cancelled")
                raise
            await self.close("failed")
            what = failure_of(error, self.address)
            raise raised(what.model_copy(update={"usage": self.usage, **self.kept_of_a_failure()})) from error
        except asyncio.CancelledError:
            await self.close("cancelled")
            raise
        finally:
            shown.cancel()
        await self.close("completed")
        return output

    def kept_of_a_failure(self) -> dict[str, Any]:
        """What a failure carries beside that."""
        return {}

    async def carried(self) -> dict[str, Any]:
        """What the same workflow takes along into a fresh history, beside what it has done: no events."""
        await workflow.wait_condition(workflow.all_handlers_finished)
        self.show()
        return {
            "closed": self.questions.closed,
            "next_offset": self.journal.next,
            "previous_run": workflow.info().run_id,
            "paused": self.paused,
            "usage": self.usage,
            "permits": self.permits,
        }

    async def close(self, status: Status) -> None:
        """The last words of a run of the chain: every handler done, everything shown."""
        self.ended = status
        await workflow.wait_condition(workflow.all_handlers_finished)
        self.show()

    # Handlers

    @workflow.update(name=ANSWER, description="Answer one or several open questions.")
    def answer(self, payload: Any) -> list[Receipt]:
        try:
            return self.questions.take(read_answers(payload))
        except Refusal as refusal:
            raise refused(refusal) from None

    @answer.validator
    def _check_answer(self, payload: Any) -> None:
        try:
            answers = read_answers(payload)
            self.questions.check(answers)
            self.questions.check_deadlines(answers)
            self.questions.check_allowed(answers)
        except Refusal as refusal:
            raise refused(refusal) from None

    @workflow.signal(name=ANSWER, description="The same as the update, without a receipt.")
    def answer_signal(self, payload: Any = None) -> None:
        try:
            answers = read_answers(payload)
            self.questions.check_signal(answers)
            self.questions.check(answers)
            self.questions.take(answers)
        except Refusal as refusal:
            self._refuse(payload, refusal)

    def _refuse(self, payload: Any, refusal: Refusal) -> None:
        by = payload.get("by") if isinstance(payload, dict) else None
        told = RefusedSignal(
            at=workflow.now(), by=by if isinstance(by, str) else None, code=refusal.code, message=refusal.message
        )
        self._refused = [*self._refused, told][-KEPT_REFUSALS:]

    @workflow.update(name=PAUSE, description="Start no further step; answers are still taken, deadlines still run.")
    async def pause(self) -> None:
        await self._set_paused(True)

    @workflow.update(name=RESUME, description="Go on after a pause.")
    async def resume(self) -> None:
        await self._set_paused(False)

    @workflow.signal(name=PAUSE)
    async def pause_signal(self) -> None:
        await self._set_paused(True)

    @workflow.signal(name=RESUME)
    async def resume_signal(self) -> None:
        await self._set_paused(False)

    async def _set_paused(self, paused: bool) -> None:
        if paused == self.paused:
            return
        self.paused = paused
        if workflow.info().workflow_id == self.run_id:
            self.note(self.address, "run.paused" if paused else "run.resumed")
        signal = PAUSE if paused else RESUME
        # A child that ends in the same moment has nothing to pause.
        await asyncio.gather(*(child.signal(signal) for child in self.children.values()), return_exceptions=True)

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
        """Whether an agent takes its turns here."""
        return False

    def _status(self) -> Status:
        if self.ended is not None:
            return self.ended
        if self.paused:
            return "paused"
        return "waiting" if self.questions.open and not self._calls_under_way else "running"


def inherited(definition: ChildDefinition | AgentDefinition, state: Carried) -> dict[str, Any]:
    """What the host of a child is made of: what the workflow above tells it, and what it carries over by itself."""
    return {
        "run": definition.run,
        "address": _address_of(definition),
        "blueprint": definition.blueprint.name,
        "guarded": definition.guarded,
        "started_by": definition.started_by,
        **{key: value for key, value in state.__dict__.items() if key in _CARRIED},
    }


def refused(refusal: Refusal) -> ApplicationError:
    return ApplicationError(refusal.message, type=refusal.code, non_retryable=True)


def _address_of(definition: ChildDefinition | AgentDefinition) -> Address:
    """Where the child stands: a page of a map below its map."""
    if isinstance(definition, MapDefinition) and definition.pages is not None:
        return definition.pages
    return definition.address
