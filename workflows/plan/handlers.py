"""The handlers of a workflow that holds a plan, whoever drives it: the plan's view, its output, and its revision."""

from __future__ import annotations

from typing import Any

from temporalio import workflow
from temporalio.common import RawValue

from holdfast.blueprint.kinds import PlanBody
from holdfast.protocol import guard
from holdfast.protocol.answers import Refusal
from holdfast.protocol.plans import PLAN, PLAN_OUTPUT, PlanView
from holdfast.workflows.base import refused
from holdfast.workflows.chain import ChildWorkflow
from holdfast.workflows.door import value_in
from holdfast.workflows.plan.catalogue import Catalogue
from holdfast.workflows.plan.outcome import output_of, results_in_short, view_of
from holdfast.workflows.plan.revision import check_new_tools, checked_change
from holdfast.workflows.plan.state import PlanState


class PlanHandlers(ChildWorkflow):
    """The part of a plan's workflow that clients talk to."""

    author: PlanBody
    """The plan as its step has it."""
    plan_state: PlanState | None = None
    """None before the plan is read and approved."""

    @property
    def holds_plan(self) -> bool:
        """Return whether this workflow holds the plan now, and no active loop of it does."""
        return True

    def plan_changed(self, number: int, payload: dict[str, Any], catalogue: Catalogue) -> None:
        """Take note of a change by a person. For subclasses."""

    def current_context(self) -> dict[str, Any]:
        return {} if self.plan_state is None else {"steps": results_in_short(self.plan_state.root)}

    @workflow.query(name=PLAN, description="The plan, and the status of its steps.")
    def plan_view(self) -> PlanView:
        return view_of(self, self.plan_state, self.author, holds=self.holds_plan)

    @workflow.query(name=PLAN_OUTPUT, description="The output of a plan that failed or was cancelled before its end.")
    def plan_output(self) -> dict[str, Any] | None:
        if self.plan_state is None or not self.holds_plan or self.ended not in ("failed", "cancelled"):
            return None
        return output_of(self.plan_state.root, self.ended)

    @workflow.update(name=PLAN, description="Change the remaining steps of the plan.")
    async def change_plan(self, raw: RawValue) -> int:
        self.history.updates += 1
        try:
            payload = value_in(raw, None)
            if self.steered_before(PLAN, payload):
                return self._state().revision
            plan = self.checked_change(payload)
            catalogue = await check_new_tools(plan, self._state())
            if self.steered_before(PLAN, payload):  # meanwhile
                return self._state().revision
            plan = self.checked_change(payload)  # more may have begun meanwhile
        except Refusal as refusal:
            raise refused(refusal) from None
        self.steered(PLAN, payload)
        self._state().context.specs.update(catalogue.specs)
        number = self._state().revise(plan, payload.get("by"), str(payload.get("reason") or ""))
        self.plan_changed(number, payload, catalogue)
        return number

    @change_plan.validator
    def _check_change(self, raw: RawValue) -> None:
        """Refuse a change before it is in the history; only a validator may ask the deployment, as it never replays."""
        try:
            self.check_busy()
            payload = value_in(raw, guard.DEPLOYMENT.limits.answer)
            if not self.check_steering(PLAN, payload):
                self.checked_change(payload)
        except Refusal as refusal:
            raise refused(refusal) from None

    def checked_change(self, payload: Any, *, by_model: bool = False) -> PlanBody:
        """Return the plan that a change asks for. Raises `Refusal`."""
        if self.ended is not None or (self.plan_state is not None and self.plan_state.root.all_over()):
            raise Refusal("run_closed", "the plan has ended; it cannot be changed any more")
        if self.plan_state is None:
            raise Refusal("not_allowed", "the plan waits to be confirmed: change it in the answer to that question")
        if not self.holds_plan:
            raise Refusal("not_allowed", "a loop of the plan is active: send the change to the loop's workflow")
        return checked_change(payload, self.plan_state, by_model=by_model)

    def _state(self) -> PlanState:
        assert self.plan_state is not None  # or `checked_change` has refused
        return self.plan_state
