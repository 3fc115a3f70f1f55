"""A plan that an agent drives, in a history of its own: its turns are control calls, and the rules are kept here.

While a loop is active, the conversation goes on in a workflow of the loop's own, and comes back when the loop is over.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from typing import Any

from temporalio import workflow
from temporalio.common import RawValue

from holdfast.blueprint.expressions import ExpressionError, text_of
from holdfast.blueprint.kinds import PlanBody
from holdfast.blueprint.load.plans import plain_plan
from holdfast.blueprint.plan import Layout
from holdfast.protocol.agents import Message, ModelReply, ToolCall, ToolSpec
from holdfast.protocol.answers import Refusal
from holdfast.protocol.events import PlanCompleted, PlanRevised, ToolDenied
from holdfast.protocol.plans import (
    DRIVEN_PLAN_WORKFLOW,
    PLAN,
    PLAN_OUTPUT,
    DrivenDefinition,
    DrivenResult,
    DrivenState,
    PlanView,
    Revision,
    fitting,
)
from holdfast.protocol.runs import ToldText
from holdfast.protocol.values import digest_of
from holdfast.workflows.agent.workflow import AgentWorkflow, BadCall, Result, checked
from holdfast.workflows.base import refused
from holdfast.workflows.concurrency import is_cancelled
from holdfast.workflows.door import value_in
from holdfast.workflows.failures import HANDLED, failure_of
from holdfast.workflows.frame import Frame
from holdfast.workflows.permissions import Denied
from holdfast.workflows.plan.approval import agreed_to, begin
from holdfast.workflows.plan.break_off import Ending
from holdfast.workflows.plan.catalogue import Catalogue
from holdfast.workflows.plan.context import PlanContext
from holdfast.workflows.plan.control import CONTROL, Control
from holdfast.workflows.plan.driven_state import ControlError, DrivenPlan
from holdfast.workflows.plan.outcome import note_of, output_of, shown_of, view_of
from holdfast.workflows.plan.revision import (
    check_change,
    check_new_tools,
    check_open,
    check_questions_stay,
    checked_change,
    needs_leave,
)
from holdfast.workflows.plan.scope import PlanScope

SAME_CALLS = 3
"""The same call, with nothing changed by it or between."""
HANDED_OVER = (
    *("turn", "messages", "tools", "call_ids", "calls", "bad_calls", "misfits", "recent", "told"),
    *("plan", "revision", "revisions", "standing"),
)
"""What the conversation and the plan are: it goes from one workflow of the plan to another."""


@workflow.defn(name=DRIVEN_PLAN_WORKFLOW, failure_exception_types=[ExpressionError], sandboxed=False)
class DrivenPlanWorkflow(AgentWorkflow):
    """An agent's turns through a plan, or through one of its loops for as long as it is active."""

    definition: DrivenDefinition
    state: DrivenState

    @workflow.init
    def __init__(self, definition: DrivenDefinition, state: DrivenState) -> None:
        super().__init__(definition, state)
        self.drive: DrivenPlan | None = None
        self.control: Control | None = None
        self._since: Counter[str] = Counter()
        self._progress = 0
        self.specs: dict[str, ToolSpec] = {}
        """What is known of the plan's tools."""
        self._below = False
        """Whether a loop's workflow has the plan in its hands."""

    @property
    def hears(self) -> bool:
        """See base class."""
        return super().hears and not self._below

    def current_context(self) -> dict[str, Any]:
        return {} if self.drive is None else {"steps": shown_of(self.drive.root)}

    @workflow.run
    async def run(self, definition: DrivenDefinition, state: DrivenState) -> DrivenResult:  # type: ignore[override]
        await self.live(self._drive())
        assert self.drive is not None
        root, loop = self.drive.root, definition.loop
        return DrivenResult(
            status="completed" if loop is not None else root.whole_status(),
            output={} if loop is not None else output_of(root),
            state=None if loop is None else self._with_standing().model_copy(update={"told": list(self.told)}),
            **self.handed_back(),
        )

    def wind_up(self, error: BaseException) -> None:
        """See base class: a loop that had the plan in its hands has ended its steps, and tells of them."""
        if self.control is None or self._told_below(error):
            return
        self._below = False
        self.control.break_off(Ending.of(error, self.address))

    def _told_below(self, error: BaseException) -> bool:
        return self._below and (is_cancelled(error) or _has_steps(failure_of(error, self.address).output))

    def kept_of_a_failure(self, error: BaseException) -> dict[str, Any]:
        if self.drive is None or self._told_below(error):
            return {}
        return {"output": fitting(output_of(self.drive.root, "failed"))}

    async def _drive(self) -> None:
        if self.state.plan is None:
            definition = self.definition
            plan, catalogue = await begin(
                definition.author, definition.given, self._frame(), definition.planner, definition.task
            )
            self.specs |= catalogue.specs
            given = {} if definition.task is None else {"input": definition.task}
            tools = {"tools": catalogue.described()} if catalogue.specs else {}
            said = Message(role="user", content={**plain_plan(plan), **tools, **given})
            self.advance(plan=plan, tools=list(CONTROL), messages=[said])
        self._take_up()
        while not self._over():
            await self.until_resumed()
            self._hear()
            await self._shorten()
            await self.next_round()
            await self._take(await self._reply())
            await self._hand_over()
        assert self.drive is not None
        if self.definition.loop is None:
            root = self.drive.root
            self.note(self.address, PlanCompleted(status=root.whole_status(), note=note_of(root)))

    def _take_up(self) -> None:
        """Go on from the state, as it was handed over."""
        assert self.state.plan is not None
        self.drive = DrivenPlan(self.state.plan, self.state.standing, self.definition.plan_address)
        author = self.definition.author
        task, lock = self.definition.task, asyncio.Lock()
        desk = PlanContext(self.state.plan, self._frame(), self.drive.root, task, lock, author, self.specs)
        self.control = Control(self.drive, desk, self._change_by_agent)
        self.control.settle()

    def _over(self) -> bool:
        assert self.drive is not None
        if self.definition.loop is not None:
            return self.definition.loop not in self.drive.active
        return self.drive.root.all_over()

    # Turns

    @property
    def _calls_at_once(self) -> bool:
        return False

    def _offered(self) -> list[ToolSpec]:
        return list(CONTROL)

    def _conclude(self, reply: ModelReply) -> None:
        """See base class: words alone end no plan."""
        self._correct(reply, f"the plan is not over; {self._next()}")

    def _next(self) -> str:
        assert self.drive is not None
        return self.drive.told_next()

    async def _result(self, call: ToolCall, index: int, before: int, *, again: bool) -> Result:
        assert self.control is not None
        frame = self._frame().at("tool", call.name, call.id)
        try:
            await self.until_resumed()
            if self._over():
                raise ControlError("plan_over", "every step is over; nothing is left to do")
            spec = next((spec for spec in CONTROL if spec.name == call.name), None)
            checked(call, spec, [spec.name for spec in CONTROL])
            await self._check_repeats(call)
            return Result(await self.control.do(call, frame))
        except BadCall as error:
            return Result({"success": False, "error": {"type": "bad_call", "message": str(error)}}, bad=True)
        except Denied as denied:
            frame.note(ToolDenied(tool=call.name, reason=str(denied)))
            return Result({"success": False, "error": {"type": "denied", "message": str(denied)}}, bad=True)
        except HANDLED as error:
            what = failure_of(error, frame.address)
            if is_cancelled(error) or what.final or what.type == "doom_loop":
                raise
            return Result({"success": False, "error": {"type": what.type, "message": what.message}}, bad=True)
        except ControlError as wrong:
            return Result({"success": False, "error": wrong.told}, bad=True)

    async def _check_repeats(self, call: ToolCall) -> None:
        """The same call again and again, though nothing changes by it: a person is asked, or the plan stops."""
        assert self.control is not None
        if self.control.progress != self._progress:
            self._progress = self.control.progress
            self._since.clear()
        digest = digest_of(call.name, call.args)
        self._since[digest] += 1
        if self._since[digest] > SAME_CALLS:
            await self._doubt(call, self._frame().at("tool", call.name, call.id))
            self._since.clear()

    # Loops

    async def _hand_over(self) -> None:
        """Give the conversation to the loop that is active, and take it back when the loop is over."""
        assert self.drive is not None
        while (loop := self._loop_below()) is not None:
            said = {key: value for key, value in self._with_standing().__dict__.items() if key in HANDED_OVER}
            own = {"paused": self.paused, "permits": self.permits, "budgets": self.meter.budgets}
            state = DrivenState(**{**said, **own, "told": list(self.told)})
            self.told.clear()
            address = self.drive.address_of(self.drive.scope_around(loop))
            place = replace(self._frame(), address=address).at("loop", loop)
            definition = self.definition.model_copy(update={"address": place.address, "loop": loop})
            self._below = True
            result: DrivenResult = await place.run_child(definition, state)
            self._below = False
            assert result.state is not None
            self.advance(**{key: value for key, value in result.state.__dict__.items() if key in HANDED_OVER})
            self.told += self.state.told
            self._take_up()

    def _loop_below(self) -> str | None:
        """The loop that is active, and was started in this workflow."""
        assert self.drive is not None
        order = list(self.drive.active)
        if self.definition.loop is None:
            return order[0] if order else None
        after = order[order.index(self.definition.loop) + 1 :] if self.definition.loop in order else []
        return after[0] if after else None

    def _with_standing(self) -> DrivenState:
        assert self.drive is not None
        return self.state.model_copy(update={"standing": self.drive.standing()})

    def progress(self) -> dict[str, Any]:
        """See base class."""
        assert self.drive is not None
        return {**super().progress(), "standing": self.drive.standing()}

    # Changing what is left

    async def _change_by_agent(self, new_plan: Any, reason: str) -> int:
        """What the agent wants to change; gives the revision. Questions stay; who agreed to the plan is asked again.

        Raises `Refusal`.
        """
        assert self.state.plan is not None and self.drive is not None
        plan = self._revised({"plan": new_plan}, by_model=True)
        catalogue = await check_new_tools(plan, self.state.plan, self._frame())
        plan = self._revised({"plan": new_plan}, by_model=True)  # a person may have changed it meanwhile
        self.specs |= catalogue.specs
        check_questions_stay(self.state.plan, plan, self._begun())
        author, listed = self.definition.author, [tool.name for tool in self.agent.tools]
        if not author.confirm and not needs_leave(self.state.plan, plan, listed):
            return self._change(new_plan, reason, by_model=True)
        agreed, by = await agreed_to(plan, author, self.control_frame(), reason, catalogue)
        return self._change(agreed, reason, by)

    def control_frame(self) -> Frame:
        return replace(self._frame(), address=self.definition.plan_address)

    def _change(self, new_plan: Any, reason: str, by: str | None = None, *, by_model: bool = False) -> int:
        """Go on with another plan; gives its revision. Raises `Refusal`."""
        plan = self._revised({"plan": new_plan}, by_model=by_model)
        assert self.control is not None
        self.control.revised(plan)
        number = self.state.revision + 1
        revision = Revision(
            revision=number, by=by or f"agent:{self.definition.name or self.definition.step}", reason=reason
        )
        self.advance(plan=plan, revision=number, revisions=[*self.state.revisions, revision])
        self.note(self.definition.plan_address, PlanRevised(revision=number, by=revision.by, reason=reason or None))
        return number

    def _revised(self, payload: Any, *, by_model: bool = False) -> PlanBody:
        over = self.ended is not None or (self.drive is not None and self.drive.root.all_over())
        check_open(ended=over, begun=self.drive is not None)
        assert self.drive is not None and self.state.plan is not None
        if self._below:
            raise Refusal("not_allowed", "a loop of the plan is active: send the change to the loop's workflow")
        return checked_change(
            payload,
            self.state.plan,
            self.definition.author,
            self.state.revision,
            self.drive.layout,
            self._begun(),
            self.definition.blueprint.agents,
            by_model=by_model,
        )

    def _begun(self) -> list[str]:
        """What is over, or under way."""
        assert self.drive is not None
        root = self.drive.root
        return [*root.loops, *self.drive.active, *(id_ for id_, one in root.steps.items() if one.status != "pending")]

    @workflow.query(name=PLAN, description="The plan, and where it stands.")
    def plan_view(self) -> PlanView:
        plan = self.state.plan or self.definition.author
        scope = PlanScope(Layout(), ()) if self.drive is None else self.drive.root
        running = [] if self.drive is None else list(self.drive.active)
        told = view_of(self, plan, scope, running, revision=self.state.revision, revisions=self.state.revisions)
        return told.model_copy(update={"holds": self.hears})

    @workflow.query(name=PLAN_OUTPUT, description="What a plan gave that failed or was cancelled before its end.")
    def plan_output(self) -> dict[str, Any] | None:
        if self.drive is None or self._below or self.ended not in ("failed", "cancelled"):
            return None
        return output_of(self.drive.root, self.ended)

    @workflow.update(name=PLAN, description="Change what is left of the plan.")
    async def change_plan(self, raw: RawValue) -> int:
        self.history.updates += 1
        try:
            payload = value_in(raw, None)
            if self.steered_before(PLAN, payload):
                return self.state.revision
            plan, before = self._revised(payload), self.state.plan
            assert before is not None
            catalogue = await check_new_tools(plan, before, self._frame())
            if self.steered_before(PLAN, payload):  # meanwhile
                return self.state.revision
            self.specs |= catalogue.specs
            number = self._change(payload["plan"], str(payload.get("reason") or ""), payload.get("by"))
            self.steered(PLAN, payload)
        except Refusal as refusal:
            raise refused(refusal) from None
        self.told.append(_told_change(number, payload, catalogue))
        return number

    @change_plan.validator
    def _check_change(self, raw: RawValue) -> None:
        check_change(raw, self, self._revised)


def _has_steps(output: Any) -> bool:
    """Whether it is what a plan gave."""
    return isinstance(output, dict) and isinstance(output.get("steps"), dict)


def _told_change(number: int, payload: dict[str, Any], catalogue: Catalogue) -> ToldText:
    why = f" ({payload['reason']})" if payload.get("reason") else ""
    text = f"A person has changed the plan{why}. Revision {number}: {text_of(payload['plan'])}"
    if catalogue.specs:
        text += f"\nTools that are new in it: {text_of(catalogue.described())}"
    return ToldText(text=text, by=payload.get("by"))
