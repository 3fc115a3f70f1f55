"""The base class of every workflow of a run: its handlers, its frame, its end, and how it goes on in a new history."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, NoReturn, TypeVar

from temporalio import workflow

from holdfast.blueprint.json_values import JSONObject
from holdfast.protocol.address import Address, name_at
from holdfast.protocol.children import Carried, Failure
from holdfast.protocol.past import Past
from holdfast.protocol.runs import Definition
from holdfast.protocol.views import Status
from holdfast.workflows.children import read_address
from holdfast.workflows.concurrency import end_if_cancelled, is_cancelled, outlast
from holdfast.workflows.failures import HANDLED, drop_child_details, find_failure, make_error
from holdfast.workflows.frame import ContextStore, Frame, Scope, read_history
from holdfast.workflows.handlers import Answers, Assignments, Elicitations, Events, Host, Steering, View, handles
from holdfast.workflows.identity import RunIdentity
from holdfast.workflows.interpreter import run_steps
from holdfast.workflows.limits import Meter
from holdfast.workflows.request_counts import RequestCounts
from holdfast.workflows.rest import await_rest, check_runner, outlast_task
from holdfast.workflows.sizes import check_size, fit_failure
from holdfast.workflows.undo_log import UndoLog

Output = TypeVar("Output")
Result = TypeVar("Result")


@handles(Answers, Assignments, Events, Steering, Elicitations, View, held_by="host")
class RunWorkflow:
    """A workflow that executes a definition from its first step to its end.

    A child may continue as new between two rounds of its work. It keeps its identity: its id, its rounds and its event
    offsets go on.
    """

    definition: Definition
    state: Carried

    def __init__(
        self, definition: Definition, state: Carried, most_rounds: int | None = None, address: Address | None = None
    ) -> None:
        """Begin, or go on after continue-as-new.

        Args:
            definition: What to do; the same in every history of the chain.
            state: What is done, and what the parent handed down.
            most_rounds: Rounds in one history; None: as many as its other limits allow.
            address: Where this workflow stands in the run; None: as its definition says.
        """
        check_runner()
        self.definition, self.state = definition, state
        self.address = address or read_address(definition)
        identity = RunIdentity(
            run=definition.run,
            address=self.address,
            blueprint=definition.blueprint.name,
            guarded=definition.guarded,
            access=definition.access,
            started_by=definition.started_by,
            size_limits=definition.size_limits,
            history_limits=definition.history_limits,
            loss_policy=definition.loss_policy,
            local_tools=definition.local_tools,
        )
        self.host = Host(identity, state, most_rounds, definition.past)
        self.host.view.read_context = self.current_context
        self.meter = Meter(state.budgets)
        self.request_counts = RequestCounts(state.request_counts)
        room = definition.undo_room
        self.undos = None if room is None else UndoLog(room, state.undos)
        if self.undos is not None:
            self.host.undo_logs.keep(self.undos)

    def frame(self, store: ContextStore, scope: Scope, names: dict[str, Any], **where: Any) -> Frame:
        """Return a frame at this workflow's address, with its blueprint, its budgets and its counts."""
        own = {"address": self.address, "meter": self.meter, "request_counts": self.request_counts}
        own |= {"label": self.definition.label, "people": self.definition.people, "undos": self.undos}
        return Frame(
            host=self.host,
            blueprint=self.definition.blueprint,
            store=store,
            scope=scope,
            names=names,
            run_steps=run_steps,
            **{**own, **where},
        )

    async def run_to_end(self, work: Awaitable[Output], make_result: Callable[[Output], Result]) -> Result:
        """Return the result of the work, and keep what the workflow shows true until its end."""
        display = asyncio.create_task(self.host.view.keep_true())
        limit = self.host.identity.history_limits.value
        try:
            output = await work
            result = make_result(output)
            check_size([result], limit, f"the result of {name_at(self.address)}", self.address)
            self.on_success(output)
        except (asyncio.CancelledError, *HANDLED) as error:
            self.on_failure(error)
            if is_cancelled(error):
                await self.close("cancelled")
                raise
            await self.close("failed")
            raise make_error(fit_failure(self.make_failure(error), limit)) from drop_child_details(error)
        finally:
            display.cancel()
        await self.close("completed")
        return result

    async def run_to_result(self, work: Awaitable[Output], make_result: Callable[[Output], Result]) -> Result | None:
        """Return what `run_to_end` does; None if the work was cancelled, for `collect_result` tells it.

        For workflows that spend much, or do what a person must know of: their parents count and tell it all the same.
        """
        try:
            return await self.run_to_end(work, make_result)
        except (asyncio.CancelledError, *HANDLED) as error:
            if not is_cancelled(error):
                raise
            return None

    async def run_to_undos(self, work: Awaitable[Output], make_result: Callable[[Output], Result]) -> Result | None:
        """Return what `run_to_end` does; None if the work was cancelled and has done what may be undone.

        `collect_result` then hands over how. Without any, a cancelled workflow is one to Temporal, too.
        """
        try:
            return await self.run_to_end(work, make_result)
        except (asyncio.CancelledError, *HANDLED) as error:
            if not is_cancelled(error) or self.undos is None or not self.undos.pending:
                raise
            return None

    def collect_result(self) -> dict[str, Any]:
        """Return the fields that every result has."""
        return {"cancelled": self.host.progress.ended == "cancelled", **self.collect_spending()}

    def on_success(self, output: Any) -> None:
        """Note the end of the work, whose result can be sent. For subclasses."""

    def on_failure(self, error: BaseException) -> None:
        """End what is under way in a workflow that fails or is cancelled. For subclasses."""

    def make_failure(self, error: BaseException) -> Failure:
        """Return the failure that this workflow ends with; it carries what was spent and granted."""
        extra = {**self.collect_spending(), **self.list_failure_fields(error)}
        return find_failure(error, self.address).model_copy(update=extra)

    def list_failure_fields(self, error: BaseException) -> dict[str, Any]:
        """Return further fields for a failure of this workflow. For subclasses."""
        return {}

    async def close(self, status: Status) -> None:
        """Set the final status, wait for handlers that still run, and show the end.

        The end is decided: a cancel that comes while a handler still runs does not make another one of it.
        """
        self.host.progress.ended = status
        await outlast_task()  # what came with the task may still be heard
        # An update that is in flight when a workflow closes fails at its client.
        await outlast([asyncio.create_task(workflow.wait_condition(workflow.all_handlers_finished))])
        self.host.view.show()

    def collect_spending(self) -> dict[str, Any]:
        """Return what the parent, or the next run, goes on with, however this one ends: all of `HandedBack`."""
        speakers = self.host.speakers.of(read_history(self.current_context()))
        counted = {
            "usage": self.host.progress.usage,
            "request_counts": self.request_counts.counted,
            "speakers": speakers,
            "undos": [] if self.undos is None else self.undos.pending,
            "ledgers": self.host.ledgers.entries,
        }
        return {"permits": self.host.permits, "budgets": self.meter.budgets, **counted}

    def advance(self, **changes: Any) -> None:
        """Replace fields of the state that continue-as-new carries over."""
        self.state = self.state.model_copy(update=changes)

    async def next_round(self) -> None:
        """Wait while the run is paused, continue as new if the history is long, else begin a round in it."""
        await self.host.until_resumed()
        await await_rest(whole_task=True)  # only the task has the length of the history
        if self.host.history.is_long:
            await self.continue_as_new()
        self.host.history.begin_round()

    async def continue_as_new(self) -> NoReturn:
        """Go on in a new history; events stay behind, and are read from the run before.

        Handlers are awaited first, as an update in flight would fail, and what came with the task. Then nothing is
        awaited any more: an answer or a message that came meanwhile would be lost.
        """
        await await_rest(whole_task=True)
        while not workflow.all_handlers_finished():
            await workflow.wait_condition(workflow.all_handlers_finished)
            await await_rest(whole_task=True)
        await end_if_cancelled()  # the new run would not hear of a cancellation of this one
        self.host.view.show()
        self.advance(**self.host.next_state, **self.collect_spending(), **self.collect_state())
        changed = self.host.earlier.next_input
        own = {"past": self.list_unmet(), **({"input": changed[0]} if changed else {})}
        args = [self.definition.model_copy(update=own), self.state]
        check_size(args, self.host.identity.history_limits.value, f"the state of {name_at(self.address)}", self.address)
        workflow.continue_as_new(args=args)

    def list_unmet(self) -> Past | None:
        """Return what the next history still meets of the run that this one goes on from. For subclasses."""
        return None

    def collect_state(self) -> dict[str, Any]:
        """Return fields of the state that are kept elsewhere while the workflow runs. For subclasses."""
        return {}

    def current_context(self) -> JSONObject:
        """Return the context where the workflow stands. For subclasses."""
        return {}
