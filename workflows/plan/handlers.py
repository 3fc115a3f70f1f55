"""The part of a plan's workflow that both drivers share: its start, its view, its output, and its revision."""

from __future__ import annotations

from typing import Any

from temporalio import workflow
from temporalio.common import RawValue

from holdfast.blueprint.json_values import JSONObject
from holdfast.blueprint.kinds import PlanBody
from holdfast.blueprint.load.plans import plain_plan
from holdfast.protocol import guard
from holdfast.protocol.answers import Refusal
from holdfast.protocol.events import PlanCompleted
from holdfast.protocol.names import PLAN, PLAN_OUTPUT
from holdfast.protocol.past import Past
from holdfast.protocol.plans import (
    DrivenDefinition,
    DrivenState,
    PlanDefinition,
    PlanResult,
    PlanSnapshot,
    ScheduledState,
    fit_output,
    outputs,
)
from holdfast.workflows.door import CommandFields, make_update_error, read_value
from holdfast.workflows.frame import Frame
from holdfast.workflows.plan.approval import PlanStart
from holdfast.workflows.plan.catalogue import Catalogue
from holdfast.workflows.plan.context import PlanContext, approved_tools
from holdfast.workflows.plan.outcome import in_short, make_output, make_view, write_note
from holdfast.workflows.plan.revision import check_new_tools, checked_change
from holdfast.workflows.plan.scope import PlanScope
from holdfast.workflows.plan.state import PlanState
from holdfast.workflows.run import RunWorkflow


class PlanHandlers(RunWorkflow):
    """The base class of the workflows that hold a plan."""

    definition: PlanDefinition | DrivenDefinition
    state: ScheduledState | DrivenState

    def __init__(self, definition: PlanDefinition | DrivenDefinition, state: ScheduledState | DrivenState) -> None:
        super().__init__(definition, state)
        self.author = definition.author
        self.catalogue = Catalogue()
        self.plan_state: PlanState | None = None
        """None before the plan is read and approved."""
        self._start: PlanStart | None = None

    @property
    def holds_plan(self) -> bool:
        """Return whether this workflow holds the plan now, and no active loop of it does."""
        return True

    def plan_changed(self, number: int, payload: JSONObject, brought: list[str]) -> None:
        """Take note of a change by a person, and of the tools that it brings in. For subclasses."""

    async def begin_plan(self, frame: Frame) -> None:
        """Read the plan, unless it was read before; have it approved where the author wants that."""
        progress = self.state.progress
        if progress.plan is None:
            self._start = PlanStart(self.author, self.definition.origin, frame, self.catalogue)
            plan = await self._start.plan()
            begun = {"plan": plan, "approved": approved_tools(plan), "reply": self._start.reply}
            self.advance(progress=progress.model_copy(update=begun))

    def take_up(self, frame: Frame) -> PlanState:
        """Go on from the carried progress."""
        progress, definition = self.state.progress, self.definition
        assert progress.plan is not None
        blueprint, task = definition.blueprint, definition.origin.task
        context = PlanContext(progress.plan, self.author, blueprint, task, self.catalogue, progress.approved)
        self.plan_state = PlanState(PlanScope(context, frame), progress)
        return self.plan_state

    def on_success(self, output: PlanScope) -> None:
        """See base class."""
        self.host.note(self.address, PlanCompleted(status=output.plan_status(), note=write_note(output)))

    def make_plan_result(self, scope: PlanScope) -> PlanResult:
        """Return how the plan ended."""
        status = scope.plan_status()
        return PlanResult(
            status=status,
            output=make_output(scope),
            plan=plain_plan(scope.context.plan) if status == "failed" else {},
            reply=self.state.progress.reply,
            **self.collect_result(),
        )

    def list_unmet(self) -> Past | None:
        """See base class: a plan that failed by its steps is gone through from where the first failed."""
        return self.host.earlier.hand_over(self.address)

    def collect_state(self) -> dict[str, Any]:
        """See base class."""
        return {**super().collect_state(), "progress": self.current_state().progress()}

    def list_failure_fields(self, error: BaseException) -> dict[str, Any]:
        """See base class: the output, and the reply of who approved the plan."""
        if self.plan_state is None:
            return {}
        output = fit_output(make_output(self.plan_state.root, "failed"))
        return {"output": output, "reply": self.state.progress.reply}

    def current_state(self) -> PlanState:
        """Return the state of a plan that has begun."""
        assert self.plan_state is not None
        return self.plan_state

    def current_context(self) -> JSONObject:
        return {} if self.plan_state is None else {"steps": outputs(in_short(self.plan_state.root.all_steps()))[0]}

    @workflow.query(name=PLAN, description="The plan, and the status of its steps.")
    def plan_view(self) -> PlanSnapshot:
        proposed = None if self._start is None else self._start.proposed
        return make_view(self.host, self.plan_state, proposed or self.author, holds=self.holds_plan)

    @workflow.query(name=PLAN_OUTPUT, description="The output of a plan that failed or was cancelled before its end.")
    def plan_output(self) -> JSONObject | None:
        if self.plan_state is None or not self.holds_plan or self.host.progress.ended not in ("failed", "cancelled"):
            return None
        return make_output(self.plan_state.root, self.host.progress.ended)

    @workflow.update(name=PLAN, description="Change the remaining steps of the plan.")
    async def change_plan(self, raw: RawValue) -> int:
        self.host.history.updates += 1
        try:
            payload = read_value(raw, None)
            if self.host.door.was_taken(PLAN, payload):
                return self.current_state().revision
            plan = self.checked_change(payload)
            brought = await check_new_tools(plan, self.current_state())
            if self.host.door.was_taken(PLAN, payload):  # meanwhile
                return self.current_state().revision
            plan = self.checked_change(payload)  # more may have begun meanwhile
        except Refusal as refusal:
            raise make_update_error(refusal) from None
        self.host.door.remember(PLAN, payload)
        number = self.current_state().revise(plan, CommandFields.read(payload).by, str(payload.get("reason") or ""))
        self.plan_changed(number, payload, brought)
        return number

    @change_plan.validator
    def _check_change(self, raw: RawValue) -> None:
        """Refuse a change before it is in the history; only a validator may ask the deployment, as it never replays."""
        try:
            self.host.door.check_busy()
            payload = read_value(raw, guard.DEPLOYMENT.limits.answer)
            if not self.host.door.check_steering(PLAN, payload):
                self.checked_change(payload)
        except Refusal as refusal:
            raise make_update_error(refusal) from None

    def checked_change(self, payload: object, *, by_model: bool = False) -> PlanBody:
        """Return the plan that a change asks for. Raises `Refusal`."""
        if self.host.progress.ended is not None or (self.plan_state is not None and self.plan_state.root.all_over()):
            raise Refusal("run_closed", "the plan has ended; it can no longer be changed")
        if self.plan_state is None:
            raise Refusal("not_allowed", "the plan waits to be confirmed: change it in the answer to that question")
        if not self.holds_plan:
            raise Refusal("not_allowed", "a loop of the plan is active: send the change to the loop's workflow")
        return checked_change(payload, self.plan_state, by_model=by_model)
