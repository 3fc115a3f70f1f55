"""The life of a child workflow of a run: begun by its parent, continued as new, its frame, and what its result holds.

Loop, map, clarification, agent and plan derive from `ChildWorkflow`; a run itself never continues as new.
"""

from __future__ import annotations

from typing import Any, NoReturn

from temporalio import workflow

from holdfast.protocol.runs import AgentDefinition, Carried, ChildDefinition
from holdfast.workflows.base import BaseWorkflow, address_of
from holdfast.workflows.concurrency import end_if_cancelled
from holdfast.workflows.frame import ContextStore, Frame, Scope
from holdfast.workflows.history import History
from holdfast.workflows.interpreter import run_steps
from holdfast.workflows.limits import Meter

_BEGUN_WITH = Carried.model_fields.keys() - {"budgets"}


class ChildWorkflow(BaseWorkflow):
    """A workflow inside a run. Continuing as new keeps its identity: its id, its rounds and its event offsets go on."""

    definition: ChildDefinition | AgentDefinition
    state: Carried

    def __init__(
        self, definition: ChildDefinition | AgentDefinition, state: Carried, most_rounds: int | None = None
    ) -> None:
        """Begin, or go on after continue-as-new.

        Args:
            definition: What to do; the same in every history of the chain.
            state: What is done, and what the parent handed down.
            most_rounds: Rounds in one history; None: as many as its other limits allow.
        """
        super().__init__(
            run=definition.run,
            address=address_of(definition),
            blueprint=definition.blueprint.name,
            guarded=definition.guarded,
            steer=definition.steer,
            limits=definition.size_limits,
            history=History(definition.history_limits, most_rounds),
            started_by=definition.started_by,
            **{key: value for key, value in state.__dict__.items() if key in _BEGUN_WITH},
        )
        self.definition, self.state = definition, state
        self.meter = Meter(state.budgets)

    def frame(self, store: ContextStore, scope: Scope, names: dict[str, Any], **where: Any) -> Frame:
        """Return a frame at this workflow's address, with its blueprint, its budgets and its counts."""
        settings: dict[str, Any] = {"address": self.definition.address, "meter": self.meter, **where}
        return Frame(
            host=self,
            blueprint=self.definition.blueprint,
            store=store,
            scope=scope,
            names=names,
            run_steps=run_steps,
            **{"request_counts": self.request_counts, **settings},
        )

    def advance(self, **changes: Any) -> None:
        """Replace fields of the state that continue-as-new carries over."""
        self.state = self.state.model_copy(update=changes)

    async def next_round(self) -> None:
        """Wait while the run is paused, continue as new if the history is long, else begin a round in it."""
        await self.until_resumed()
        if self.history.is_long:
            await self.continue_as_new()
        self.history.begin_round()

    async def continue_as_new(self) -> NoReturn:
        """Go on in a new history; events stay behind, and are read from the run before.

        Handlers are awaited first, as an update in flight would fail. Then nothing is awaited any more: an answer or a
        message that came meanwhile would be lost.
        """
        await workflow.wait_condition(workflow.all_handlers_finished)
        await end_if_cancelled()  # the new run would not hear of a cancellation of this one
        self.show()
        self.advance(**self._carried(), **self.progress())
        workflow.continue_as_new(args=[self.definition, self.state])

    def progress(self) -> dict[str, Any]:
        """Return fields of the state that are kept elsewhere while the workflow runs. For subclasses."""
        return {}

    def _carried(self) -> dict[str, Any]:
        # An offset and a run id instead of the events: 1,000 of them took 363 kB each time.
        return {
            "closed": self.questions.closed,
            "next_offset": self.journal.next,
            "previous_run": workflow.info().run_id,
            "paused": self.paused,
            **self.handed_back(),
        }

    def handed_back(self) -> dict[str, Any]:
        """Return what every result holds beside its output, and every state: spending, permits, budgets, counts."""
        return {"permits": self.permits, "budgets": self.meter.budgets, **self.counted()}
