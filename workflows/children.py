"""Child workflows of a run, for `BaseWorkflow`: started, listed, signalled and cancelled by workflow id.

A cancellation that the SDK sends to a child is addressed to the first run of its chain, and is lost once the child has
continued as new: Temporal records it as delivered, and the child never hears of it. By id alone it arrives.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from temporalio import workflow
from temporalio.common import SearchAttributeKey, SearchAttributePair, TypedSearchAttributes
from temporalio.exceptions import ApplicationError, ChildWorkflowError

from holdfast.protocol.address import Address, child_workflow_id
from holdfast.protocol.events import (
    AgentStarted,
    AnyChildStarted,
    ClarifyStarted,
    LoopStarted,
    MapStarted,
    PlanStarted,
)
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
from holdfast.protocol.runs import (
    AGENT_WORKFLOW,
    BLUEPRINT_ATTRIBUTE,
    CLARIFY_WORKFLOW,
    LOOP_WORKFLOW,
    MAP_WORKFLOW,
    PAUSE,
    RESUME,
    AgentDefinition,
    AgentResult,
    Carried,
    ChildDefinition,
    ChildResult,
    ClarifyDefinition,
    ClarifyResult,
    Definition,
    LoopDefinition,
    LoopResult,
    MapDefinition,
    MapResult,
    summary_of,
)
from holdfast.workflows.concurrency import outlast
from holdfast.workflows.failures import failure_of
from holdfast.workflows.frame import Runtime

Handle = workflow.ChildWorkflowHandle[Any, Any]
Start = Callable[..., Awaitable[Handle]]
"""Starts a child under the keyword argument `id`."""

BLUEPRINT_KEY = SearchAttributeKey.for_keyword(BLUEPRINT_ATTRIBUTE)
KINDS: dict[type[Definition], tuple[str, type[AnyChildStarted], type[ChildResult]]] = {
    LoopDefinition: (LOOP_WORKFLOW, LoopStarted, LoopResult),
    AgentDefinition: (AGENT_WORKFLOW, AgentStarted, AgentResult),
    MapDefinition: (MAP_WORKFLOW, MapStarted, MapResult),
    ClarifyDefinition: (CLARIFY_WORKFLOW, ClarifyStarted, ClarifyResult),
    PlanDefinition: (PLAN_WORKFLOW, PlanStarted, PlanResult),
    PlanLoopDefinition: (PLAN_LOOP_WORKFLOW, LoopStarted, PlanLoopResult),
    DrivenDefinition: (DRIVEN_PLAN_WORKFLOW, PlanStarted, DrivenResult),
}
"""By the definition of a child: its workflow, the event of its start, and the type of its result."""


class Children:
    """The children of one workflow: listed while they run, paused and cancelled with it."""

    def __init__(self, host: Runtime) -> None:
        self._host = host
        self._running: dict[str, Child] = {}
        self._starts: dict[str, int] = {}
        self.starting = 0
        """Children that were asked for, and have not started yet."""

    @property
    def ids(self) -> list[str]:
        return list(self._running)

    async def run(self, definition: ChildDefinition | AgentDefinition, state: Carried) -> Any:
        """Start a child of a kind of ours, wait for its end, and return its result."""
        host = self._host
        await host.until_resumed()
        name, event, result_type = KINDS[type(definition)]
        if isinstance(definition, DrivenDefinition) and definition.loop is not None:
            event = LoopStarted
        address = address_of(definition)
        # Only now, for a pause may have been waited for: no signal tells a child of a guarded run that it has ended.
        state = state.model_copy(update={"paused": host.paused, "permits": host.permits})
        start = partial(
            workflow.start_child_workflow,
            name,
            args=[definition, state],
            result_type=result_type,
            static_summary=summary_of(f"{host.blueprint_name}: {address.rpartition(';')[2]}"),
            search_attributes=TypedSearchAttributes([SearchAttributePair(BLUEPRINT_KEY, host.blueprint_name)]),
        )
        id_ = child_workflow_id(host.run_id, address)
        try:
            result: ChildResult = await self.run_as(id_, start, definition.address, event, paused=state.paused)
        except ChildWorkflowError as error:
            host.count(failure_of(error, definition.address).usage)
            raise
        host.count(result.usage)
        host.permit(*result.permits)
        return result

    async def run_as(
        self, id_: str, start: Start, address: Address, event: type[AnyChildStarted], *, paused: bool = False
    ) -> Any:
        """Run a child under this id, or the next that is free; return its result.

        Args:
            id_: Its workflow id.
            start: Starts it.
            address: Where the start is noted.
            event: The class of that event.
            paused: Whether it begins paused.
        """
        id_ = self._free(id_)
        child = Child(id_, partial(start, id=id_))
        self.starting += 1
        try:
            return await child.result(partial(self._has_started, child, address, event, paused))
        finally:
            self.starting -= id_ not in self._running
            self._running.pop(id_, None)

    async def _has_started(self, child: Child, address: Address, event: type[AnyChildStarted], paused: bool) -> None:
        """List a child, and send it the pause or resume that came meanwhile.

        Before its start a client that walks the tree would meet "workflow not found".
        """
        host = self._host
        host.note(address, event(workflow=child.id))
        self._running[child.id] = child
        self.starting -= 1
        if host.paused != paused and host.takes_signals:
            await child.signal(PAUSE if host.paused else RESUME)

    async def signal(self, name: str) -> None:
        """Send a signal without arguments to every child that runs."""
        await asyncio.gather(*(child.signal(name) for child in self._running.values()))

    def _free(self, id_: str) -> str:
        """Return the id; a step that runs once more gets `~2`, as Temporal refuses a second start of one id."""
        count = self._starts[id_] = self._starts.get(id_, 0) + 1
        return id_ if count == 1 else f"{id_}~{count}"


def address_of(definition: ChildDefinition | AgentDefinition) -> Address:
    """Return the address of a child; a page of a map stands below its map."""
    if isinstance(definition, MapDefinition) and definition.pages is not None:
        return definition.pages
    return definition.address


class Child:
    """A child workflow, from its start to its end."""

    def __init__(self, id_: str, start: Callable[[], Awaitable[Handle]]) -> None:
        self.id = id_
        self._start = start
        self._started = False
        self._cancel_requested = False

    async def result(self, begun: Callable[[], Awaitable[None]]) -> Any:
        """Start the child and return its result; `begun` is awaited once it has started.

        A cancellation is passed on, and the child's end is waited for all the same.
        """
        work = asyncio.create_task(self._work(begun))
        try:
            await workflow.wait([work])
        except asyncio.CancelledError:
            self._cancel_requested = True
            requests = [asyncio.create_task(self._cancel())] if self._started else []
            await outlast([work, *requests])
            raise
        return work.result()

    async def signal(self, name: str) -> None:
        """Send a signal without arguments; one to a child that has just ended is dropped."""
        await _send_if_running(workflow.get_external_workflow_handle(self.id).signal(name))

    async def _work(self, begun: Callable[[], Awaitable[None]]) -> Any:
        handle = await self._start()
        self._started = True
        if self._cancel_requested:  # during the start, when there was nothing to cancel yet
            await self._cancel()
        await begun()
        return await handle

    async def _cancel(self) -> None:
        await _send_if_running(workflow.get_external_workflow_handle(self.id).cancel())


async def _send_if_running(request: Awaitable[None]) -> None:
    """Await a request to a workflow by id; if the workflow is not found, it has ended."""
    try:
        await request
    except ApplicationError:
        workflow.logger.debug("a child had ended before a request reached it")
