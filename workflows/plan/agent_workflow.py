"""The workflow of a plan that an agent drives: its turns are control calls, and the rules are kept here.

While a loop is active, the conversation goes on in a workflow of the loop's own, and comes back when the loop is over.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from temporalio import workflow

from holdfast.blueprint.expressions.error import ExpressionError
from holdfast.blueprint.expressions.values import write_text
from holdfast.blueprint.json_values import JSONObject
from holdfast.blueprint.kinds import PlanBody
from holdfast.blueprint.load.plans import plain_plan
from holdfast.protocol.address import Address
from holdfast.protocol.agents import Message, ModelReply, ToolCall, ToolSpec
from holdfast.protocol.children import Carried, ToldText
from holdfast.protocol.events import ToolDenied
from holdfast.protocol.names import DRIVEN_PLAN_WORKFLOW
from holdfast.protocol.plans import DrivenDefinition, DrivenState, PlanResult
from holdfast.workflows.agent.checks import Result
from holdfast.workflows.agent.turns import AgentTurns
from holdfast.workflows.agent.workflow import AgentWorkflow
from holdfast.workflows.approvals import Denied
from holdfast.workflows.concurrency import is_cancelled
from holdfast.workflows.failures import HANDLED, find_failure
from holdfast.workflows.frame import Frame
from holdfast.workflows.loop_guard import add_call, is_repetition
from holdfast.workflows.plan.approval import approved_change
from holdfast.workflows.plan.catalogue import list_plan_tools
from holdfast.workflows.plan.control_tools import CONTROL_TOOLS
from holdfast.workflows.plan.handlers import PlanHandlers
from holdfast.workflows.plan.navigation import ControlCall, ControlError, scope_around, what_is_next
from holdfast.workflows.plan.results import Ending
from holdfast.workflows.plan.revision import check_new_tools, check_questions_stay, needs_approval
from holdfast.workflows.plan.scope import PlanScope
from holdfast.workflows.plan.state import PlanState
from holdfast.workflows.toolbox import BadCall, check_call

HANDED_OVER = DrivenState.model_fields.keys() - Carried.model_fields.keys()
"""The fields of the state that go from one workflow of the plan to another: the conversation and the plan."""


@workflow.defn(name=DRIVEN_PLAN_WORKFLOW, failure_exception_types=[ExpressionError], sandboxed=False)
class DrivenPlanWorkflow(PlanHandlers, AgentWorkflow):
    """An agent's turns through a plan, or through one of its loops for as long as it is active."""

    definition: DrivenDefinition
    state: DrivenState

    @workflow.init
    def __init__(self, definition: DrivenDefinition, state: DrivenState) -> None:
        super().__init__(definition, state)
        self._below = False
        """True while the workflow of an active loop holds the plan."""

    def make_turns(self) -> AgentTurns:
        """See base class."""
        return _DrivingTurns(self)

    @property
    def hearer(self) -> Address | None:
        """See base class."""
        return None if self._below else super().hearer

    @property
    def holds_plan(self) -> bool:
        """See base class."""
        return not self._below

    @workflow.run
    async def run(self, definition: DrivenDefinition, state: DrivenState) -> PlanResult:  # type: ignore[override]
        result = await self.run_to_result(self._drive(), self.make_plan_result)
        return PlanResult(status="cancelled", **self.collect_result()) if result is None else result

    def make_plan_result(self, scope: PlanScope) -> PlanResult:
        """See base class; of a loop the state in which it hands back to the plan."""
        if self.definition.loop is None:
            return super().make_plan_result(scope)
        return PlanResult(state=self._handed_over(), **self.collect_result())

    def on_failure(self, error: BaseException) -> None:
        """See base class: end the plan's steps, unless the workflow of an active loop has done so."""
        if self.plan_state is None or self._reported_below(error):
            return
        self._below = False
        self.plan_state.break_off(Ending.of(error, self.address))

    def _reported_below(self, error: BaseException) -> bool:
        return self._below and (is_cancelled(error) or _has_steps(find_failure(error, self.address).output))

    def list_failure_fields(self, error: BaseException) -> dict[str, Any]:
        """See base class."""
        return {} if self._reported_below(error) else super().list_failure_fields(error)

    async def _drive(self) -> PlanScope:
        if self.state.progress.plan is None:
            await self._open_conversation()
        state = self._take_up()
        while not self.is_over(state):
            await self.turns.take_one()
            state = await self._hand_over(state)
        return state.root

    def on_success(self, output: PlanScope) -> None:
        """See base class."""
        if self.definition.loop is None:
            super().on_success(output)

    async def _open_conversation(self) -> None:
        """Begin the plan; it is the agent's first message, with what is known of its tools."""
        await self.begin_plan(self.turns.work.frame())
        plan, task = self.state.progress.plan, self.definition.origin.task
        assert plan is not None
        tools = self.catalogue.describe_names(list_plan_tools(plan))
        content = {
            **plain_plan(plan),
            **({"tools": tools} if tools else {}),
            **({} if task is None else {"input": task}),
        }
        self.advance(tools=_list_control_tools(), messages=[Message(role="user", content=content)])

    def _take_up(self) -> PlanState:
        """Go on from the carried progress, in this workflow or after a loop in another."""
        state = self.take_up(self._plan_frame())
        state.settle()
        return state

    def _plan_frame(self) -> Frame:
        return replace(self.turns.work.frame(), address=self.definition.plan_address)

    def is_over(self, state: PlanState) -> bool:
        loop = self.definition.loop
        return state.root.all_over() if loop is None else loop not in state.active

    # Loops

    async def _hand_over(self, state: PlanState) -> PlanState:
        """Give the conversation to the workflow of the active loop, and take it back when the loop is over."""
        while (loop := self._loop_below(state)) is not None:
            fields = {key: value for key, value in self._handed_over().__dict__.items() if key in HANDED_OVER}
            self.mailbox.told.clear()
            address = scope_around(state, loop).frame.address
            frame = replace(self.turns.work.frame(), address=address).at("loop", loop)
            definition = self.definition.model_copy(update={"address": frame.address, "loop": loop})
            self._below = True
            result: PlanResult = await frame.run_child(definition, DrivenState(**fields))
            self._below = False
            assert result.state is not None
            self.advance(**{key: value for key, value in result.state.__dict__.items() if key in HANDED_OVER})
            self.mailbox.told += self.state.told
            state = self._take_up()
        return state

    def _loop_below(self, state: PlanState) -> str | None:
        """Return the loop that is active, and was started in this workflow."""
        order = list(state.active)
        if self.definition.loop is None:
            return order[0] if order else None
        after = order[order.index(self.definition.loop) + 1 :] if self.definition.loop in order else []
        return after[0] if after else None

    def _handed_over(self) -> DrivenState:
        """Return the state with the plan's progress, and the messages that were not yet heard."""
        return self.state.model_copy(
            update={"progress": self.current_state().progress(), "told": list(self.mailbox.told)}
        )

    # Revision

    async def change_by_agent(self, new_plan: Any, reason: str) -> int:
        """Change the plan as the agent wants, where necessary by a person's approval; return the revision.

        Raises `Refusal`.
        """
        payload: dict[str, Any] = {"plan": new_plan}
        by, by_model = f"agent:{self.definition.name or self.definition.step}", True
        plan = self.checked_change(payload, by_model=True)
        await check_new_tools(plan, self.current_state())
        plan = self.checked_change(payload, by_model=True)  # a person may have changed it meanwhile
        check_questions_stay(plan, self.current_state())
        approved = self._needs_approval(plan)
        if approved:
            context = self.current_state().context
            payload["plan"], person = await approved_change(plan, context, self._plan_frame(), reason)
            by, by_model = person or by, False
        plan = self.checked_change(payload, by_model=by_model)
        return self.current_state().revise(plan, by, reason, approved=approved)

    def _needs_approval(self, plan: PlanBody) -> bool:
        listed = [tool.name for tool in self.definition.agent.tools]
        return self.author.confirm or needs_approval(self.current_state().context.plan, plan, listed)

    def plan_changed(self, number: int, payload: JSONObject, brought: list[str]) -> None:
        """See base class: tell the agent."""
        reason = f" ({payload['reason']})" if payload.get("reason") else ""
        text = f"A person has changed the plan{reason}. Revision {number}: {write_text(payload['plan'])}"
        if tools := self.catalogue.describe_names(brought):
            text += f"\nTools that are new in it: {write_text(tools)}"
        self.mailbox.told.append(ToldText(text=text, by=payload.get("by")))


class _DrivingTurns(AgentTurns):
    """The turns of an agent whose calls are control calls."""

    def __init__(self, plan: DrivenPlanWorkflow) -> None:
        super().__init__(plan, plan.definition, plan.mailbox)
        self._plan = plan
        self._changes = 0
        """Number of changes of the state before the last call."""

    @property
    def calls_at_once(self) -> bool:
        return False

    def list_offered(self) -> list[ToolSpec]:
        return _list_control_tools()

    def conclude(self, reply: ModelReply) -> None:
        """See base class: text without calls does not end a plan."""
        self.correct(reply, f"the plan has not ended; {what_is_next(self._plan.current_state())}")

    async def answer_call(self, call: ToolCall, index: int, before: int, *, again: bool) -> Result:
        frame = self.work.frame().at("tool", call.name, call.id)
        try:
            await self.host.until_resumed()
            return Result(await self._made_by_control(call, frame))
        except BadCall as error:
            return _make_refusal("bad_call", str(error))
        except Denied as denied:
            frame.note(ToolDenied(tool=call.name, reason=str(denied)))
            return _make_refusal("denied", str(denied))
        except HANDLED as error:
            cause = find_failure(error, frame.address)
            if is_cancelled(error) or cause.final or cause.type == "doom_loop":
                raise
            return _make_refusal(cause.type, cause.message)
        except ControlError as error:
            return Result({"success": False, "error": error.content}, bad=True)

    async def _made_by_control(self, call: ToolCall, frame: Frame) -> dict[str, Any]:
        if self._plan.is_over(self._plan.current_state()):
            raise ControlError("plan_over", "every step has ended; nothing is left to do")
        tool = CONTROL_TOOLS.get(call.name)
        check_call(call, None if tool is None else tool.spec, list(CONTROL_TOOLS))
        assert tool is not None
        changes = self._plan.current_state().context.changes
        if changes != self._changes:  # what was called before a change is no repetition after it
            self._changes = changes
            self.work.advance(recent=add_call([], call))
        if is_repetition(self.state.recent, call):
            await self.calls.check_repetition(call, frame)
        return await tool.do(ControlCall(self._plan.current_state(), frame, self._plan.change_by_agent), **call.args)


def _list_control_tools() -> list[ToolSpec]:
    return [tool.spec for tool in CONTROL_TOOLS.values()]


def _make_refusal(type_: str, message: str) -> Result:
    return Result({"success": False, "error": {"type": type_, "message": message}}, bad=True)


def _has_steps(output: Any) -> bool:
    """Return whether a value is the output of a plan."""
    return isinstance(output, dict) and isinstance(output.get("steps"), dict)
