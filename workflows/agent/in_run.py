"""The agent of a run that is one agent: it works in the workflow of its run, as long as the history is short.

So such a run is one workflow and not two, which halves what it takes of a worker's memory while it waits. When the
history is long, the agent goes on in a workflow of its own, which continues as new: a run's own workflow never does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from holdfast.blueprint.kinds import AnyStep
from holdfast.protocol.children import AgentDefinition, AgentResult, AgentState
from holdfast.workflows.agent.mailbox import Mailbox
from holdfast.workflows.agent.turns import AgentTurns
from holdfast.workflows.concurrency import CancelledWithResult, is_cancelled
from holdfast.workflows.failures import HANDLED, AgentFailure, find_failure
from holdfast.workflows.frame import ContextStore, Frame, Scope
from holdfast.workflows.handlers import Host
from holdfast.workflows.rest import await_rest


def is_one_agent(steps: Sequence[AnyStep]) -> bool:
    """Return whether the only step of a run is an agent."""
    return [step.segment for step in steps] == ["agent"]


class AgentInRun:
    """The room for one agent at a time in the workflow of a run; agents that it calls get workflows of their own."""

    def __init__(self, host: Host, mailbox: Mailbox) -> None:
        self._host, self._mailbox = host, mailbox

    def takes(self, definition: AgentDefinition) -> bool:
        """Return whether the agent may work here. A planner may not: its workflow shows its commands as the context."""
        return self._mailbox.address is None and definition.registry is None

    async def run(self, frame: Frame, definition: AgentDefinition, state: AgentState) -> AgentResult:
        """Run an agent and return its result, as `Frame.run_child` does. The frame stands at the agent."""
        self._mailbox.address = frame.address
        try:
            ended = await self._take_turns(frame, definition, state)
            if isinstance(ended, AgentResult):
                return ended
            self._mailbox.is_closed = True
            result: AgentResult = await frame.run_child(definition, ended)
            return result
        finally:
            self._mailbox.address, self._mailbox.is_closed = None, False
            self._mailbox.told.clear()

    async def _take_turns(
        self, frame: Frame, definition: AgentDefinition, state: AgentState
    ) -> AgentResult | AgentState:
        """Return the agent's result, or the state in which it goes on in a workflow of its own."""
        place = _PlaceInRun(self._host, definition, state, frame)
        turns = AgentTurns(place, definition, self._mailbox)
        try:
            return turns.make_result(await turns.take())
        except _HistoryFull:
            return place.state.model_copy(update=turns.collect_state())
        except (asyncio.CancelledError, *HANDLED) as error:
            if is_cancelled(error):
                raise CancelledWithResult(turns.make_result(None, cancelled=True)) from None
            failure = find_failure(error, turns.address)
            raise AgentFailure(failure.model_copy(update=turns.list_failure_fields(error))) from error


class _HistoryFull(Exception):
    """Ends the turns of an agent in the workflow of its run."""


class _PlaceInRun:
    """See `AgentPlace`: an agent's frame, with names of its own."""

    def __init__(self, host: Host, definition: AgentDefinition, state: AgentState, frame: Frame) -> None:
        self.host, self.state = host, state
        self.address, self.request_counts = frame.address, frame.request_counts
        self._blueprint, self._frame = definition.blueprint, frame

    def frame(self, store: ContextStore, scope: Scope, names: dict[str, Any], **where: Any) -> Frame:
        outer = self._frame
        return Frame(
            host=outer.host,
            address=outer.address,
            blueprint=self._blueprint,
            store=store,
            scope=scope,
            names=names,
            run_steps=outer.run_steps,
            label=outer.label,
            meter=outer.meter,
            request_counts=outer.request_counts,
            people=outer.people,
            **where,
        )

    def advance(self, **changes: Any) -> None:
        self.state = self.state.model_copy(update=changes)

    async def next_round(self) -> None:
        await self.host.until_resumed()
        await await_rest(whole_task=True)  # only the task has the length of the history
        if self._is_full():
            raise _HistoryFull
        self.host.history.begin_round()

    def _is_full(self) -> bool:
        """Return whether the agent goes on in a workflow of its own: where the earlier run did, too."""
        earlier = self.host.earlier
        if earlier.has_calls(self.address):
            return False
        return self.host.history.is_long or earlier.has_child(self.address)
