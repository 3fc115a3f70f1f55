"""The child workflows of one workflow: started, listed, signalled and cancelled by workflow id.

A cancellation that the SDK sends to a child is addressed to the first run of its chain, and is lost once the child has
continued as new: Temporal records it as delivered, and the child never hears of it. By id alone it arrives.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import Any

from pydantic import BaseModel
from temporalio import workflow
from temporalio.common import RawValue, RetryPolicy, SearchAttributePair, TypedSearchAttributes
from temporalio.exceptions import CancelledError, ChildWorkflowError

from holdfast.blueprint.dependencies import find_reach
from holdfast.blueprint.expressions.evaluation import names_in, names_in_expression
from holdfast.blueprint.json_values import JSONObject
from holdfast.blueprint.kinds import AnyStep, Block, Blueprint, Fallback
from holdfast.blueprint.parts import Retry
from holdfast.protocol.address import Address, child_workflow_id, name_at, nested_workflow_id, root
from holdfast.protocol.children import (
    AgentDefinition,
    AgentResult,
    Carried,
    ChildDefinition,
    ChildResult,
    ClarifyDefinition,
    ClarifyResult,
    Failure,
    HandedBack,
    LoopDefinition,
    LoopResult,
    MapDefinition,
    MapResult,
)
from holdfast.protocol.events import (
    AgentStarted,
    ChildStarted,
    ClarifyStarted,
    LoopStarted,
    MapStarted,
    PlanStarted,
)
from holdfast.protocol.incoming import HINT
from holdfast.protocol.names import (
    AGENT_WORKFLOW,
    CLARIFY_WORKFLOW,
    CLEANING_MEMO,
    DRIVEN_PLAN_WORKFLOW,
    LOOP_WORKFLOW,
    MAP_WORKFLOW,
    OWN_MEMO,
    PAUSE,
    PLACE_MEMO,
    PLAN_LOOP_WORKFLOW,
    PLAN_WORKFLOW,
    RESUME,
)
from holdfast.protocol.plans import DrivenDefinition, PlanDefinition, PlanLoopDefinition, PlanLoopResult, PlanResult
from holdfast.protocol.runs import Definition, write_summary
from holdfast.workflows.concurrency import (
    CancelledWithFailure,
    CancelledWithResult,
    deliver,
    is_cancelled,
    is_cleaning_up,
    outlast,
)
from holdfast.workflows.details import ACCESS_KEY, BLUEPRINT_KEY
from holdfast.workflows.failures import find_failure, make_child_error
from holdfast.workflows.frame import Frame, HostForFrames, OwnStart
from holdfast.workflows.sizes import check_size

Handle = workflow.ChildWorkflowHandle[Any, Any]
Start = Callable[..., Awaitable[Handle]]
"""Starts a child under the keyword argument `id`."""

KINDS: dict[type[Definition], tuple[str, type[ChildStarted], type[ChildResult]]] = {
    LoopDefinition: (LOOP_WORKFLOW, LoopStarted, LoopResult),
    AgentDefinition: (AGENT_WORKFLOW, AgentStarted, AgentResult),
    MapDefinition: (MAP_WORKFLOW, MapStarted, MapResult),
    ClarifyDefinition: (CLARIFY_WORKFLOW, ClarifyStarted, ClarifyResult),
    PlanDefinition: (PLAN_WORKFLOW, PlanStarted, PlanResult),
    PlanLoopDefinition: (PLAN_LOOP_WORKFLOW, LoopStarted, PlanLoopResult),
    DrivenDefinition: (DRIVEN_PLAN_WORKFLOW, PlanStarted, PlanResult),
}
"""By the definition of a child: its workflow, the event of its start, and the type of its result."""


def prepare_start(name: str, args: Sequence[object], result_type: type, summary: str, blueprint: str) -> Start:
    """Return what starts a workflow of ours as a child, listed under the blueprint that it runs."""
    return partial(
        workflow.start_child_workflow,
        name,
        args=args,
        result_type=result_type,
        # No parent close policy: by the default the server terminates it with its parent, also in a later run of its
        # chain.
        static_summary=write_summary(summary),
        memo={CLEANING_MEMO: True} if is_cleaning_up() or CLEANING_MEMO in workflow.memo() else None,
        search_attributes=TypedSearchAttributes([SearchAttributePair(BLUEPRINT_KEY, blueprint), *_access()]),
    )


def _access() -> list[SearchAttributePair[str]]:
    """Return the attribute of this workflow that finds whoever may see the run: its children are listed, too."""
    words = workflow.info().typed_search_attributes.get(ACCESS_KEY)
    return [] if not words else [SearchAttributePair(ACCESS_KEY, words)]


class Children:
    """The children of one workflow: listed while they run, paused and cancelled with it."""

    def __init__(self, host: HostForFrames) -> None:
        self._host = host
        self._running: dict[str, Child] = {}
        self.starts: dict[str, int] = {}
        """How often each id was asked for."""
        self.starting = 0
        """Children that were asked for, and have not started yet."""

    @property
    def ids(self) -> list[str]:
        return list(self._running)

    def is_running(self, address: Address) -> bool:
        """Return whether the first child that was asked for at an address runs."""
        return self._find_id(address) in self._running

    async def signal_at(self, address: Address, name: str, *arguments: BaseModel) -> None:
        """Send a signal to the first child that was asked for at an address, if it runs."""
        if (child := self._running.get(self._find_id(address))) is not None:
            await child.signal(name, *arguments)

    def _find_id(self, address: Address) -> str:
        """Return the id of the first child at an address."""
        identity = self._host.identity
        return nested_workflow_id(identity.run, address, workflow.info().workflow_id, identity.address)

    async def run(self, definition: ChildDefinition | AgentDefinition, state: Carried) -> Any:
        """Start a child of a kind of ours, wait for its end, and return its result."""
        host = self._host
        await host.until_resumed()
        name, event, result_type = KINDS[type(definition)]
        if isinstance(definition, DrivenDefinition) and definition.loop is not None:
            event = LoopStarted
        address = read_address(definition)
        id_ = self._find_id(address)
        met = host.earlier.take_child(address)
        if met is not None and met.status != "open":
            host.earlier.check_child(met, definition, state, address)
            host.note(definition.address, event(workflow=met.workflow))
            work = host.earlier.meet_child(met, self._choose_id(id_), result_type)
            return await self._count(id_, definition.address, work)
        past = None if met is None else met.past
        definition = definition.model_copy(update={"past": past})
        if past is not None and past.state is not None:
            state = _begin_with(past.state, type(state))
        # Only now, for a pause may have been waited for: no signal tells a child of a guarded run that it has ended.
        permits = list(dict.fromkeys([*host.permits, *state.permits]))
        ledgers = host.ledgers.select(definition.address)
        own = {"paused": host.paused, "permits": permits, "kept": host.hints, "ledgers": ledgers}
        state = state.model_copy(update=own)
        summary = f"{host.identity.blueprint}: {address.rpartition(';')[2]}"
        args = [definition, state]
        check_size(args, host.identity.history_limits.value, f"what {name_at(address)} starts with", address)
        start = prepare_start(name, args, result_type, summary, host.identity.blueprint)
        return await self.run_counted(id_, start, definition.address, event, paused=state.paused)

    async def run_own(self, start: OwnStart, begun: Callable[[str], None]) -> RawValue:
        """Run a workflow that is no part of the run to its end, and return its result as it came.

        It is not listed: it need not answer our queries. A cancellation of the run is passed on to it, and its end is
        waited for; a run that is terminated requests its cancellation.

        Args:
            start: What to start.
            begun: Called with its id once it has started.
        """
        await self._host.until_resumed()
        id_ = start.id or self._choose_id(child_workflow_id(self._host.identity.run, start.address))
        met = self._host.earlier.take_child(start.address)
        if met is not None and met.status != "open":
            begun(met.workflow)
            ended: RawValue = await self._host.earlier.meet_child(met, id_, RawValue)
            return ended
        starting = partial(
            workflow.start_child_workflow,
            start.name,
            args=start.args,
            id=id_,
            task_queue=start.task_queue,
            result_type=RawValue,
            run_timeout=None if start.timeout is None else timedelta(seconds=start.timeout),
            retry_policy=None if start.retry is None else _policy(start.retry),
            parent_close_policy=workflow.ParentClosePolicy.REQUEST_CANCEL,
            static_summary=write_summary(start.summary),
            memo={OWN_MEMO: self._host.identity.run, PLACE_MEMO: start.address},
        )

        async def has_started() -> None:
            begun(id_)

        reason = partial(self._host.superseding.reason_for, start.address)
        result: RawValue = await Child(id_, starting, reason).result(has_started)
        return result

    async def run_counted(
        self, id_: str, start: Start, address: Address, event: type[ChildStarted], *, paused: bool
    ) -> Any:
        """Run a child as `run_as` does, and count what it used, however it ends; return its result."""
        return await self._count(id_, address, self.run_as(id_, start, address, event, paused=paused))

    async def _count(self, id_: str, address: Address, work: Awaitable[Any]) -> Any:
        """Return the result of a child, and count what it used, however it ends."""
        try:
            result = await work
        except CancelledWithResult as cancelled:
            self._host.count(cancelled.result.usage)
            raise
        except CancelledWithFailure as cancelled:
            self._host.count(find_failure(cancelled.error, address).usage)
            raise
        except ChildWorkflowError as error:
            self._host.count(find_failure(error, address).usage)
            raise
        self._host.count(result.usage)
        if isinstance(result, ChildResult) and result.cancelled:  # itself, by its id
            done = {name: getattr(result, name) for name in HandedBack.model_fields}
            told = Failure(type="cancelled", message="it was cancelled", address=address, **done)
            cause = CancelledError("Workflow execution cancelled", told)
            raise make_child_error("Child Workflow execution cancelled", id_, cause)
        return result

    async def run_as(
        self, id_: str, start: Start, address: Address, event: type[ChildStarted], *, paused: bool = False
    ) -> Any:
        """Run a child under this id, or the next that is free; return its result.

        Args:
            id_: Its workflow id.
            start: Starts it.
            address: Where the start is noted.
            event: The class of that event.
            paused: Whether it begins paused.
        """
        host = self._host
        hint_ids = [hint.id for hint in host.hints]
        id_ = self._choose_id(id_)
        child = Child(id_, partial(start, id=id_), partial(host.superseding.reason_for, address), paused=paused)
        self.starting += 1
        try:
            return await child.result(partial(self._has_started, child, address, event, hint_ids))
        finally:
            # One that never started was not counted down by `_has_started`.
            self.starting -= id_ not in self._running
            self._running.pop(id_, None)

    async def _has_started(
        self, child: Child, address: Address, event: type[ChildStarted], hint_ids: list[str]
    ) -> None:
        """List a child, and send it what came meanwhile: a pause or resume, and hints of events beside those known.

        Before its start a client that walks the tree would meet "workflow not found".
        """
        host = self._host
        host.note(address, event(workflow=child.id))
        self._running[child.id] = child
        self.starting -= 1
        for hint in [hint for hint in host.hints if hint.id not in hint_ids]:
            await child.signal(HINT, hint)
        if host.door.takes_signals:
            await child.tell_pause(host)

    async def signal(self, name: str, *arguments: BaseModel) -> None:
        """Send a signal to every child that runs."""
        await asyncio.gather(*(child.signal(name, *arguments) for child in self._running.values()))

    async def tell_pause(self) -> None:
        """Tell every child that runs whether the run is paused."""
        await asyncio.gather(*(child.tell_pause(self._host) for child in self._running.values()))

    def _choose_id(self, id_: str) -> str:
        """Return the id; a step that runs once more gets `~2`, as Temporal refuses a second start of one id."""
        count = self.starts[id_] = self.starts.get(id_, 0) + 1
        return id_ if count == 1 else f"{id_}~{count}"


def _begin_with(state: JSONObject, type_: type[Carried]) -> Carried:
    """Return the state of a child that is gone through again: that which its last history had in the earlier run.

    Its events begin anew: those before are the earlier run's.
    """
    last = type_.model_validate(state)
    return last.model_copy(update={"previous_run": None, "next_offset": 0, "closed": [], "refused": []})


def read_address(definition: Definition) -> Address:
    """Return where the workflow of a definition stands in its run; a page of a map stands below its map."""
    match definition:
        case MapDefinition(pages=str(pages)):
            return Address(pages)
        case ChildDefinition() | AgentDefinition():
            return definition.address
    return root(definition.blueprint.name)


class Child:
    """A child workflow, from its start to its end."""

    def __init__(
        self, id_: str, start: Callable[[], Awaitable[Handle]], reason: Callable[[], str], *, paused: bool = False
    ) -> None:
        """`reason` returns that of a cancellation, when it is sent; `paused`: whether the child begins paused."""
        self.id = id_
        self._paused, self._telling = paused, asyncio.Lock()
        self._start, self._reason = start, reason
        self._started = False
        self._cancel_requested = False

    async def result(self, begun: Callable[[], Awaitable[None]]) -> Any:
        """Start the child and return its result; `begun` is awaited once it has started.

        A cancellation is passed on, and the child's end is waited for all the same. Raises `CancelledWithResult` if it
        ended with a result, and `CancelledWithFailure` if it failed.
        """
        work = asyncio.create_task(self._work(begun))
        try:
            # Not `await work`: a cancellation would go on to the SDK's handle, which asks the first run of the chain.
            await workflow.wait([work])
        except asyncio.CancelledError:
            self._cancel_requested = True
            requests = [asyncio.create_task(self._cancel())] if self._started else []
            await outlast([work, *requests])
            error = None if work.cancelled() else work.exception()
            if isinstance(error, ChildWorkflowError) and not is_cancelled(error):
                raise CancelledWithFailure(error) from None
            if work.cancelled() or error is not None:
                raise
            raise CancelledWithResult(work.result()) from None
        return work.result()

    async def signal(self, name: str, *arguments: BaseModel) -> None:
        """Send a signal; one to a child that has just ended is dropped."""
        await deliver(workflow.get_external_workflow_handle(self.id).signal(name, args=arguments))

    async def tell_pause(self, host: HostForFrames) -> None:
        """Tell the child whether the run is paused, if it was told otherwise last.

        The next signal waits until the one before has arrived: of two under way the second may arrive first.
        """
        async with self._telling:
            if host.paused != self._paused:
                self._paused = host.paused
                await self.signal(PAUSE if self._paused else RESUME)

    async def _work(self, begun: Callable[[], Awaitable[None]]) -> Any:
        handle = await self._start()
        self._started = True
        if self._cancel_requested:  # during the start, when there was nothing to cancel yet
            await self._cancel()
        await begun()
        return await handle

    async def _cancel(self) -> None:
        await deliver(workflow.get_external_workflow_handle(self.id).cancel(reason=self._reason()))


def _policy(retry: Retry) -> RetryPolicy:
    """Return Temporal's retry policy of a workflow of the author's own."""
    return RetryPolicy(
        maximum_attempts=retry.attempts,
        initial_interval=timedelta(seconds=retry.backoff),
        backoff_coefficient=retry.factor,
        # The SDK raises a ValueError for a maximum below the first interval, which would fail the task for ever.
        maximum_interval=timedelta(seconds=max(retry.max, retry.backoff)),
    )


# The definition of a child: its step alone, with only what it reads of the run around it


def define_child(step: AnyStep, frame: Frame) -> dict[str, Any]:
    """Return the fields of a child's definition: the step in a blueprint of its own, its address, what it reads."""
    lone = _isolate_step(step, frame.host.identity.blueprint, frame.blueprint)
    reads = list_reads(step) | names_in([agent.instructions for agent in lone.agents.values()])
    seen = frame.collect_names()
    steps = {path[1] if len(path) > 1 else "*" for path in reads if path[0] == "steps"}
    names = {path[0] for path in reads}
    return {
        "blueprint": lone,
        **frame.host.identity.run_fields,
        "address": frame.address,
        "label": frame.label,
        "people": frame.people,
        "undo_room": None if frame.undos is None else frame.undos.room,
        "input": frame.input if "input" in names else None,
        "steps": {name: record for name, record in seen["steps"].items() if name in steps or "*" in steps},
        "names": {name: value for name, value in frame.names.items() if name in names and name not in _MADE_BY_CHILD},
    }


_MADE_BY_CHILD = {"input", "history"}
"""Names that the child makes itself, or gets in a field of their own."""


def _isolate_step(step: AnyStep, name: str, blueprint: Blueprint) -> Blueprint:
    """Return a blueprint of this one step, under the run's name."""
    reach = find_reach([step], blueprint)
    return Blueprint(
        name=name,
        context_schema=blueprint.context_schema,
        agents=reach.agents,
        imports=reach.imports,
        steps=[step],
    )


def list_reads(step: AnyStep) -> set[tuple[str, ...]]:
    """Return every name that the step, or anything inside it, reads of the run around it."""
    names: set[tuple[str, ...]] = names_in(dict(step.reads()))
    for expression in step.conditions().values():
        names |= names_in_expression(expression)
    for block in _list_blocks(step):
        inside = names_in(dict(block.reads))
        for expression in block.conditions.values():
            inside |= names_in_expression(expression)
        for inner in block.steps:
            inside |= list_reads(inner)
        # The history is part of the context, so it is read from outside even where a loop gives it a name.
        names |= {path for path in inside if path[0] not in block.names - {"history"}}
    return names


def _list_blocks(step: AnyStep) -> list[Block]:
    fallback = [Block((step.on_error.fallback,))] if isinstance(step.on_error, Fallback) else []
    return [*step.blocks().values(), *fallback]
