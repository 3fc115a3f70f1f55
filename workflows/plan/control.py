"""The driver of a plan by an agent: each control tool is a verb of the state, and a wrong call is told what to do."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Any

from temporalio.exceptions import ApplicationError

from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.blueprint.kinds import Option, PlanStep
from holdfast.blueprint.plan import LoopUnit, StepUnit, asks
from holdfast.blueprint.plan.lists import list_in, structured
from holdfast.protocol.agents import FindTool, ToolCall
from holdfast.protocol.answers import Refusal
from holdfast.protocol.plans import UnitResult, progress_of
from holdfast.protocol.questions import Clarification
from holdfast.workflows.failures import failure_of
from holdfast.workflows.frame import Frame
from holdfast.workflows.plan.catalogue import Catalogue, tools_of
from holdfast.workflows.plan.items import CANCELLED, ItemDone, Repeat, after_item, start_loop
from holdfast.workflows.plan.navigation import (
    ControlError,
    LocatedStep,
    current_id,
    current_results,
    loop_named,
    next_units,
    position_of,
    scope_around,
    step_named,
    what_is_next,
)
from holdfast.workflows.plan.questions import DECLINED, ask, lets_tools_run
from holdfast.workflows.plan.results import failed
from holdfast.workflows.plan.state import LoopRun, PlanState
from holdfast.workflows.plan.tool_calls import CallOutcome, StepTools

_STATE_KEY = re.compile(r"step_(?P<id>.+)_(?P<field>status|error|response)")
_RETRY = {
    "tool_missing": "call find_tool, then execute_step_tool with the tool that it names",
    "bad_parameters": "correct the parameters, and call execute_step_tool again",
    "business": "change what can be changed, and call execute_step_tool again; else set the step's status to failed",
}


class Control:
    """Does what control calls say.

    Args:
        state: The state of the plan.
        change: Asks for another plan in place of this one, with a reason; returns its number. Raises `Refusal`.
    """

    def __init__(self, state: PlanState, change: Callable[[Any, str], Awaitable[int]]) -> None:
        self.state, self._context, self._change = state, state.context, change
        self._tools: dict[str, Callable[..., Awaitable[JSONObject]]] = {
            "get_state": self._get_state,
            "get_step_result": self._get_step_result,
            "execute_step_tool": self._execute_step_tool,
            "finish_step": self._finish_step,
            "start_loop": self._start_loop,
            "advance_loop": self._advance_loop,
            "get_loop_context": self._get_loop_context,
            "request_user_info": self._request_user_info,
            "update_plan": self._update_plan,
            "find_tool": self._find_tool,
        }
        self._current: str | None = None
        """The step that was worked on last."""

    async def do(self, call: ToolCall, frame: Frame) -> JSONObject:
        """Return the result of a call. Raises `ControlError` for one that cannot be done; then nothing has changed."""
        if call.name == "update_state":
            return await self._update_state(call.args)
        if call.name == "request_user_info":
            return await self._request_user_info(**call.args, frame=frame)
        return await self._tools[call.name](**call.args)

    def _next(self) -> str:
        return what_is_next(self.state)

    # Looking

    async def _get_state(self, key: str) -> JSONObject:
        layout, results = self._context.layout, current_results(self.state)
        match key:
            case "steps":
                steps = {
                    unit.id: {**_short(results[unit.id]), "instruction": unit.step.instruction}
                    for unit in layout.steps()
                }
                return {"steps": steps}
            case "results":
                return {"results": {id_: one.value for id_, one in results.items() if one.status == "completed"}}
            case "tools":
                return {"tools": self._described(tools_of(self._context.plan))}
            case "active_loops":
                return {"active_loops": {id_: position_of(run) for id_, run in self.state.active.items()}}
            case "progress":
                return {"progress": {**progress_of(results), "current_step": current_id(self.state)}}
        statuses = {id_: result.status for id_, result in results.items()}
        return {"goal": self._context.plan.goal, "statuses": statuses, "to_do": self._next(), "vars": self.state.vars}

    async def _get_step_result(self, step_id: str) -> JSONObject:
        unit = self._context.layout.find(step_id)
        if not isinstance(unit, StepUnit):
            return {"step_id": step_id, **step_named(self.state, step_id).result.to_output()}
        results = [scope.step_result(unit.id) for scope in reversed(list(self.state.scopes()))]
        result = next((result for result in results if result.status != "pending"), results[-1])
        return {"step_id": step_id, **result.to_output()}

    async def _get_loop_context(self, loop_id: str = "") -> JSONObject:
        active = self.state.active
        if not loop_id.strip():
            if not active:
                raise ControlError("no_active_loop", "no loop is active: call start_loop")
            return position_of(list(active.values())[-1])
        unit = loop_named(self.state, loop_id)
        return position_of(active[unit.id]) if unit.id in active else self._ended_loop(unit)

    def _ended_loop(self, unit: LoopUnit) -> JSONObject:
        """Return the end of a loop. Raises `ControlError` for one that has not begun."""
        scope = scope_around(self.state, unit.id)
        if scope.is_over(unit.id):
            return _ended(unit, scope.result(unit.id))
        raise ControlError("loop_not_started", f"the loop {unit.id!r} has not begun: call start_loop")

    def _described(self, tools: Iterable[str]) -> JSONObject:
        """Return what a model must know to call these tools, as far as it is known."""
        specs = self._context.specs
        return Catalogue({tool: specs[tool] for tool in tools if tool in specs}).described()

    # Steps

    def _workable(self, step_id: str) -> LocatedStep:
        """Return a step that may be worked on. Raises `ControlError`."""
        step = step_named(self.state, step_id)
        unit, scope = step
        result = step.result
        if result.is_over:
            reason = f" ({result.reason})" if result.reason else ""
            text = f"step {unit.id!r} is {result.status}{reason}; {self._next()}"
            raise ControlError("already_finished", text, status=result.status)
        if result.status == "pending" and scope.readiness(unit) == "wait":
            missing = [id_ for id_ in unit.waits if not scope.is_over(id_)]
            text = f"step {unit.id!r} waits for {', '.join(missing)}; {self._next()}"
            raise ControlError("dependencies_not_met", text, missing=missing)
        return step

    async def _begin(self, step: LocatedStep) -> None:
        self._current = step.unit.id
        if step.result.status == "pending":
            await step.scope.start(step.unit)

    def _end(self, step: LocatedStep, result: UnitResult) -> None:
        step.scope.finish(step.unit, result)
        self.state.settle()

    def _tools_of(self, step: LocatedStep) -> StepTools:
        return StepTools(step.unit, step.scope, step.scope.frame.at("step", step.unit.id))

    async def _execute_step_tool(self, step_id: str, tool_name: str, parameters: JSONObject) -> JSONObject:
        step = self._workable(step_id)
        if asks(step.unit.step) and step.result.data is None:
            text = f"step {step.unit.id!r} asks a person first: call request_user_info"
            raise ControlError("answer_missing", text)
        self._current = step.unit.id
        tools = self._tools_of(step)
        tool = await self._tool_named(tool_name, step, tools)
        if (last := tools.last(tool)) is not None:
            note = {"note": f"{tool} was done before with other parameters; it is not run again"}
            same = last["parameters"] == parameters
            return {
                "success": True,
                "data": last["data"],
                "error": None,
                "already_executed": True,
                **({} if same else note),
            }
        await self._begin(step)
        outcome = await tools.call(tool, parameters)
        if outcome.error is None:
            return {"success": True, "data": outcome.data, "error": None}
        return self._after_error(outcome, step)

    async def _tool_named(self, name: str, step: LocatedStep, tools: StepTools) -> str:
        """Return the step's tool of this name, as the plan or as the model calls it. Raises `ControlError`."""
        unit = step.unit
        prefix = f"{step.key};"
        found = [entry.removeprefix(prefix) for entry in self.state.found if entry.startswith(prefix)]
        if not unit.step.tools:
            text = f"step {unit.id!r} has no tools: do it yourself, and call finish_step with what you found"
            raise ControlError("no_tools", text)
        tool = next((tool for tool in [*unit.step.tools, *found] if name in (tool, tool.rpartition(":")[2])), None)
        if tool is None:
            text = f"step {unit.id!r} has no tool {name!r}; it has {', '.join(unit.step.tools)}"
            raise ControlError("tool_not_in_step", text)
        error = await tools.look_up(tool)
        if error is not None:
            self._note_missing(step, error.kind)
            raise ControlError(error.kind or error.type, f"{error.message}; {_RETRY['tool_missing']}")
        return tool

    def _note_missing(self, step: LocatedStep, kind: str | None) -> None:
        """Allow the step a tool that is found in place of its own."""
        if kind == "tool_missing" and step.key not in self.state.missing:
            self.state.missing.append(step.key)

    def _after_error(self, outcome: CallOutcome, step: LocatedStep) -> JSONObject:
        assert outcome.error is not None
        kind, ending = outcome.error.kind, outcome.ending
        self._note_missing(step, kind)
        error: JSONObject = {"type": kind or outcome.error.type, "message": outcome.error.message}
        if ending is None:
            return {"success": False, "data": None, "error": {**error, "todo": _RETRY[kind or ""]}}
        self._end(step, ending)
        error["todo"] = f"step {step.unit.id} is {ending.status}; {self._next()}"
        return {"success": False, "data": None, "error": error, "step_status": ending.status}

    async def _finish_step(self, step_id: str, result_summary: str, result: list[JSON] | None = None) -> JSONObject:
        step = step_named(self.state, step_id)
        before = step.result
        same = before.response == result_summary or asks(step.unit.step)
        if before.status != "completed" or not same:
            await self._complete(self._workable(step_id), result_summary, result)
        loop = {"stored_in_loop": step.scope.around[-1].loop} if step.scope.around else {}
        return {"success": True, **loop, "to_do": self._next()}

    async def _complete(self, step: LocatedStep, response: object, result: list[JSON] | None = None) -> None:
        """Complete a step, if it may be. Raises `ControlError`."""
        unit, before = step.unit, step.result
        _check_done(step)
        items = self._list_for_loop(step, response) if result is None else result
        await self._begin(step)
        data = before.tool_results[-1]["data"] if before.tool_results else before.data
        text = before.response if asks(unit.step) and not unit.step.tools else response
        self._end(step, UnitResult(status="completed", response=text, data=items if data is None else data))

    def _list_for_loop(self, step: LocatedStep, response: object) -> JSON:
        """Return the list in the response, where a loop goes through the step's result; else None."""
        plan_step = step.unit.step
        nothing = response is None or (isinstance(response, str) and not response.strip())
        if nothing or plan_step.tools or asks(plan_step) or not self._context.layout.feeds_loop(plan_step.id):
            return None
        items = list_in(response) if isinstance(response, str) else structured(response)
        if items is None:
            text = f"a loop goes through what step {plan_step.id!r} gives: call finish_step with `result`, a list"
            raise ControlError("list_needed", text)
        return items

    # People

    async def _request_user_info(
        self, question: str, frame: Frame, options: list[str] | None = None, step_id: str | None = None
    ) -> JSONObject:
        step = None if step_id == "" else self._asking_step(step_id)
        if step is None:
            return await self._ask_freely(question, options or [], frame)
        unit, scope = step
        await self._begin(step)
        scope.mark(unit, status="waiting_input")
        try:
            answer = await ask(unit, scope, question, options or [])
        except ApplicationError as error:
            answer = failed(failure_of(error, frame.address).type, error.message)
        scope.mark(unit)
        if answer.status == "completed" and (not unit.step.tools or lets_tools_run(unit.step, answer)):
            scope.mark(unit, data=answer.data, response=answer.response)
            return {"response": answer.response, "step_id": unit.id}
        if answer.status == "completed":
            answer = UnitResult(status="skipped", reason=DECLINED, response=answer.response)
        self._end(step, answer)
        ended = {"response": answer.response, "step_id": unit.id, "step_status": answer.status}
        return {**ended, "to_do": self._next()}

    def _asking_step(self, step_id: str | None) -> LocatedStep | None:
        """Return the step whose question it is: the named one, else the next that asks; None if it is no step's."""
        if step_id:
            step = self._workable(step_id)
            if not asks(step.unit.step):
                return None
            if step.result.data is not None:
                text = f"step {step.unit.id!r} has its answer: call finish_step"
                raise ControlError("already_answered", text, response=step.result.response)
            return step
        for unit, scope in next_units(self.state):
            if isinstance(unit, StepUnit) and asks(unit.step) and scope.result(unit.id).data is None:
                return LocatedStep(unit, scope)
        return None

    async def _ask_freely(self, question: str, options: list[str], frame: Frame) -> JSONObject:
        offered = [Option(id=text, label=text) for text in dict.fromkeys(options)]
        async with self._context.one_question:
            reply = await frame.ask(Clarification(message=question, options=offered))
        if reply.status == "answered":
            return {"response": reply.content}
        why = f": {reply.comment}" if reply.comment else ""
        return {"response": None, "note": f"nobody answered: the question was {reply.status}{why}"}

    # Loops

    async def _start_loop(self, loop_id: str) -> JSONObject:
        unit = loop_named(self.state, loop_id)
        if unit.id in self.state.active:
            return position_of(self.state.active[unit.id], already_started=True)
        scope = scope_around(self.state, unit.id)
        if scope.is_over(unit.id):
            return _ended(unit, scope.result(unit.id))
        if scope.readiness(unit) != "run":
            missing = [id_ for id_ in unit.waits if not scope.is_over(id_)]
            text = f"the loop {unit.id!r} waits for {', '.join(missing)}; {self._next()}"
            raise ControlError("dependency_not_completed", text, missing=missing)
        if items := await start_loop(unit, scope):
            return position_of(self.state.begin_items(unit, scope, items))
        self.state.settle()
        end = scope.result(unit.id)
        if end.status == "completed":
            return {**_ended(unit, end), "current_item": None, "to_do": self._next()}
        error = end.error or {"type": CANCELLED, "message": f"a person cancelled the question of {unit.id}"}
        return {"loop_id": unit.id, "should_continue": False, "error": error, "to_do": self._next()}

    async def _advance_loop(self, loop_id: str, expected_iteration: int | None = None) -> JSONObject:
        unit = loop_named(self.state, loop_id)
        run = self.state.active.get(unit.id)
        if run is None:
            return self._ended_loop(unit)
        if expected_iteration not in (None, run.index):
            return position_of(run, note=f"the loop is at iteration {run.index}; nothing has changed")
        missing = [inner.id for inner in unit.body if not run.scope.is_over(inner.id)]
        if missing:
            text = f"iteration {run.index} of {unit.id!r} is not complete: {', '.join(missing)} to be finished"
            raise ControlError("iteration_incomplete", text, missing=missing)
        return await self._advance(run)

    async def _advance(self, run: LoopRun) -> JSONObject:
        unit = run.unit
        match await after_item(unit, run.scope):
            case Repeat(item=item, done=done):
                self.state.repeat_item(run, item, done)
                return position_of(run, note=f"a person wants this item to be done once more; {self._next()}")
            case ItemDone(iteration=iteration, ended=ended):
                end = self.state.advance(run, iteration, ended)
                return position_of(run) if end is None else {**_ended(unit, end), "to_do": self._next()}

    # Changing

    async def _update_state(self, args: JSONObject) -> JSONObject:
        inner = args.get("updates")
        updates = inner if isinstance(inner, dict) and len(args) == 1 else args
        own = {key.removeprefix("vars."): value for key, value in updates.items() if _is_own(key)}
        changes = [(id_, self._change_of(id_, fields)) for id_, fields in _step_fields(updates).items()]
        for id_, change in changes:
            if not step_named(self.state, id_).result.is_over:
                await change()
        self.state.vars |= own
        return {"success": True, "to_do": self._next()}

    def _change_of(self, id_: str, fields: JSONObject) -> Callable[[], Awaitable[None]]:
        """Return what setting a step's state does. Raises `ControlError` for what may not be set."""
        status = fields.get("status")
        if status not in ("skipped", "failed", "completed", None):
            raise ControlError("not_allowed", f"a status is skipped, failed or completed, not {status!r}")
        step = step_named(self.state, id_)
        if step.result.is_over and status in (step.result.status, None) and set(fields) == {"status"}:
            return partial(self._set, step, step.result)  # the state has it already: the step was skipped
        step = self._workable(id_)
        if asks(step.unit.step) and status != "completed":
            text = f"step {step.unit.id!r} is a question to a person: call request_user_info"
            raise ControlError("not_allowed", text)
        match status:
            case "skipped":
                return partial(self._set, step, UnitResult(status="skipped", reason="skipped_by_agent"))
            case "failed":
                message = str(fields.get("error") or fields.get("response") or "the agent says so")
                return partial(self._set, step, failed("agent", message, response=fields.get("response")))
            case "completed":
                _check_done(step)
                return partial(self._complete, step, fields.get("response"))
        text = f"step {id_!r}: a response or an error alone says nothing; add step_{id_}_status"
        raise ControlError("not_allowed", text)

    async def _set(self, step: LocatedStep, result: UnitResult) -> None:
        self._end(step, result)

    async def _update_plan(self, new_plan: JSONObject, reason: str) -> JSONObject:
        known = tools_of(self._context.plan)
        try:
            revision = await self._change(new_plan, reason)
        except Refusal as refusal:
            raise ControlError("plan_refused", refusal.message) from None
        self.state.settle()
        tools = self._described(tool for tool in tools_of(self._context.plan) if tool not in known)
        return {"success": True, "revision": revision, **({"tools": tools} if tools else {}), "to_do": self._next()}

    async def _find_tool(self, instruction: str, service: str | None = None) -> JSONObject:
        lacking = self._step_without_tool()
        step = PlanStep(id="plan") if lacking is None else lacking.unit.step
        # For a step the plan's words count: by words of its own a model could bring any tool into it.
        wanted = FindTool(
            service=step.service or service,
            instruction=instruction if lacking is None else step.instruction,
            among=[tool.name for tool in self._context.policy_agent(step).tools],
            missing=step.tools[0] if step.tools else "",
        )
        name = await self.state.root.frame.host.activities.find_tool(wanted)
        if name is None:
            raise ControlError("tool_missing", "no tool does that; finish what can be done without, or skip the step")
        if lacking is not None:
            self.state.found = list(dict.fromkeys([*self.state.found, f"{lacking.key};{name}"]))
            await self._tools_of(lacking).look_up(name)
        return {"tool_name": name, **self._described([name]).get(name, {})}

    def _step_without_tool(self) -> LocatedStep | None:
        """Return the step that was worked on last, if it lacks a tool."""
        if self._current is None:
            return None
        try:
            step = step_named(self.state, self._current)
        except ControlError:  # its loop is over
            return None
        return step if step.key in self.state.missing else None


def _check_done(step: LocatedStep) -> None:
    """Refuse to complete a question without its answer, or a step before each of its tools, or its replacement."""
    plan_step, result = step.unit.step, step.result
    if asks(plan_step) and result.data is None:
        raise ControlError("answer_missing", f"step {plan_step.id!r} asks a person: call request_user_info first")
    done = {call["tool"] for call in result.tool_results}
    replacements = len(done - set(plan_step.tools))
    missing = [tool for tool in plan_step.tools if tool not in done][replacements:]
    if missing:
        text = f"step {plan_step.id!r} is not done: call execute_step_tool with {', '.join(missing)}"
        raise ControlError("no_tool_result", text, missing=missing)


def _step_fields(updates: JSONObject) -> dict[str, JSONObject]:
    """Return the states to set, by the step's id. Raises `ControlError` for keys that cannot be set."""
    steps: dict[str, JSONObject] = {}
    for key, value in updates.items():
        if _is_own(key):
            continue
        match = _STATE_KEY.fullmatch(key)
        if match is None:
            text = f"{key!r} cannot be set; step_<id>_status, _error, _response and vars.<name> can"
            raise ControlError("not_allowed", text)
        steps.setdefault(match["id"], {})[match["field"]] = value
    return steps


def _is_own(key: str) -> bool:
    """Return whether a key of `update_state` names a value of the agent's own."""
    return key.startswith("vars.") and len(key) > len("vars.")


def _short(result: UnitResult) -> JSONObject:
    error = {} if result.error is None else {"error": result.error}
    return {"status": result.status, **error, **({} if result.reason is None else {"reason": result.reason})}


def _ended(unit: LoopUnit, result: UnitResult) -> JSONObject:
    """Return the end of a loop, as the control tools report it."""
    end: JSONObject = {"loop_id": unit.id, "should_continue": False, "completed": True, "status": result.status}
    reason = {} if result.reason is None else {"reason": result.reason}
    return {**end, "total_iterations": len(result.iterations or []), **reason}
