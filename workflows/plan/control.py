"""The driver of a plan by an agent: each control tool is a verb of the state, and a wrong call is told what to do."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from temporalio.exceptions import ApplicationError

from holdfast.blueprint.expressions.lists import list_in, structured
from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.blueprint.kinds import Option, PlanStep
from holdfast.blueprint.parts import CallAgain
from holdfast.blueprint.plan import LoopUnit, StepUnit, asks
from holdfast.blueprint.plan.tools import TOOL_ERRORS
from holdfast.blueprint.questions import Clarification
from holdfast.protocol.agents import FindTool, ToolCall
from holdfast.protocol.answers import Refusal
from holdfast.protocol.plans import UnitResult, progress_of
from holdfast.protocol.runs import Failure
from holdfast.workflows.concurrency import is_cancelled
from holdfast.workflows.failures import HANDLED, find_failure
from holdfast.workflows.frame import Frame
from holdfast.workflows.plan.catalogue import tools_of
from holdfast.workflows.plan.items import after_item, start_loop
from holdfast.workflows.plan.navigation import (
    ControlError,
    current_id,
    current_results,
    loop_named,
    next_units,
    position_of,
    scope_around,
    step_named,
    what_is_next,
)
from holdfast.workflows.plan.questions import ask
from holdfast.workflows.plan.results import end_by_error, failed, name_error, skipped
from holdfast.workflows.plan.scope import StepRun
from holdfast.workflows.plan.state import PlanState
from holdfast.workflows.plan.step_tools import StepTools
from holdfast.workflows.tool_calls import ToolErrorFailure

_STATE_KEY = re.compile(r"step_(?P<id>.+)_(?P<field>status|error|response)")
_TOOL_ERRORS = TOOL_ERRORS.model_copy(update={"missing": CallAgain(retry=1)})
"""What follows errors of tools: for a missing one it is the model that finds another."""
_RETRY = {
    "missing": "call find_tool, then execute_step_tool with the tool that it names",
    "bad_arguments": "correct the parameters, and call execute_step_tool again",
    "business": "change what can be changed, and call execute_step_tool again; else set the step's status to failed",
}


class Control:
    """Does what control calls say: each of `CONTROL_TOOLS` is a method of its name.

    Args:
        state: The state of the plan.
        change: Asks for another plan in place of this one, with a reason; returns its number. Raises `Refusal`.
    """

    _frame: Frame
    """That of the call."""

    def __init__(self, state: PlanState, change: Callable[[Any, str], Awaitable[int]]) -> None:
        self.state, self._context, self._change = state, state.context, change

    async def do(self, call: ToolCall, frame: Frame) -> JSONObject:
        """Return the result of a call. Raises `ControlError` for one that cannot be done; then nothing has changed."""
        self._frame = frame
        # One of the tools that were offered, which are the methods below: the agent's workflow has checked its name.
        tool: Callable[..., Awaitable[JSONObject]] = getattr(self, call.name)
        return await tool(**call.args)

    def _next(self) -> str:
        return what_is_next(self.state)

    # Looking

    async def get_state(self, key: str) -> JSONObject:
        layout, results = self._context.layout, current_results(self.state)
        match key:
            case "steps":
                steps = {
                    unit.id: {**_short(results[unit.id]), "instruction": unit.step.instruction}
                    for unit in layout.steps()
                }
                return {"steps": steps}
            case "results":
                return {"results": {id_: unit.value for id_, unit in results.items() if unit.status == "completed"}}
            case "tools":
                return {"tools": self._context.catalogue.described(tools_of(self._context.plan))}
            case "active_loops":
                return {"active_loops": {id_: position_of(scope) for id_, scope in self.state.active.items()}}
            case "progress":
                return {"progress": {**progress_of(results), "current_step": current_id(self.state)}}
        statuses = {id_: result.status for id_, result in results.items()}
        return {"goal": self._context.plan.goal, "statuses": statuses, "to_do": self._next(), "vars": self.state.vars}

    async def get_step_result(self, step_id: str) -> JSONObject:
        unit = self._context.layout.find(step_id)
        if not isinstance(unit, StepUnit):
            return {"step_id": step_id, **step_named(self.state, step_id).result.to_output()}
        return {"step_id": step_id, **current_results(self.state)[unit.id].to_output()}

    async def get_loop_context(self, loop_id: str = "") -> JSONObject:
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

    # Steps

    def _workable(self, step_id: str) -> StepRun:
        """Return a step that may be worked on. Raises `ControlError`."""
        run = step_named(self.state, step_id)
        unit, scope, result = run.unit, run.scope, run.result
        if result.is_over:
            reason = f" ({result.reason})" if result.reason else ""
            text = f"step {unit.id!r} is {result.status}{reason}; {self._next()}"
            raise ControlError("already_finished", text, status=result.status)
        if result.status == "pending" and scope.readiness(unit) == "wait":
            missing = [id_ for id_ in unit.waits if not scope.is_over(id_)]
            text = f"step {unit.id!r} waits for {', '.join(missing)}; {self._next()}"
            raise ControlError("dependencies_not_met", text, missing=missing)
        return run

    async def _begin(self, run: StepRun) -> None:
        if run.result.status == "pending":
            await run.start()

    def _end(self, run: StepRun, result: UnitResult) -> None:
        run.finish(result)
        self.state.settle()

    def _tools_of(self, run: StepRun) -> StepTools:
        return StepTools(run, run.beside("step", run.id), _TOOL_ERRORS)

    async def execute_step_tool(self, step_id: str, tool_name: str, parameters: JSONObject) -> JSONObject:
        run = self._workable(step_id)
        if asks(run.step) and run.result.data is None:
            text = f"step {run.id!r} asks a person first: call request_user_info"
            raise ControlError("answer_missing", text)
        tools = self._tools_of(run)
        tool = await self._tool_named(tool_name, run, tools)
        if run.step.arguments is not None:
            parameters = _arguments_in_plan(run, parameters)
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
        await self._begin(run)
        try:
            attempt = await tools.call(tool, parameters)
        except ToolErrorFailure as error:
            return self._end_by_error(find_failure(error, self._frame.address), run)
        if attempt.error is None:
            return {"success": True, "data": attempt.data, "error": None}
        kind = name_error(attempt.error)
        self._note_missing(run, kind)
        told = {"type": kind, "message": attempt.error.message, "todo": _RETRY[kind]}
        return {"success": False, "data": None, "error": told}

    async def _tool_named(self, name: str, run: StepRun, tools: StepTools) -> str:
        """Return the step's tool of this name, as the plan or as the model calls it. Raises `ControlError`."""
        unit = run.unit
        replacements = self.state.replacements.get(run.key, [])
        if not unit.step.tools:
            text = f"step {unit.id!r} has no tools: do it yourself, and call finish_step with what you found"
            raise ControlError("no_tools", text)
        tool = next(
            (tool for tool in [*unit.step.tools, *replacements] if name in (tool, tool.rpartition(":")[2])), None
        )
        if tool is None:
            text = f"step {unit.id!r} has no tool {name!r}; it has {', '.join(unit.step.tools)}"
            raise ControlError("tool_not_in_step", text)
        try:
            await tools.look_up(tool)
        except HANDLED as error:
            if is_cancelled(error):
                raise
            cause = find_failure(error, self._frame.address)
            self._note_missing(run, name_error(cause))
            raise ControlError(name_error(cause), f"{cause.message}; {_RETRY['missing']}") from None
        return tool

    def _note_missing(self, run: StepRun, kind: str) -> None:
        """Allow the step a tool that is found in place of its own."""
        if kind == "missing":
            self.state.replacements.setdefault(run.key, [])

    def _end_by_error(self, cause: Failure, run: StepRun) -> JSONObject:
        self._note_missing(run, name_error(cause))
        ending = end_by_error(cause, optional=run.step.optional)
        self._end(run, ending)
        todo = f"step {run.id} is {ending.status}; {self._next()}"
        error = {"type": name_error(cause), "message": cause.message, "todo": todo}
        return {"success": False, "data": None, "error": error, "step_status": ending.status}

    async def finish_step(self, step_id: str, result_summary: str, result: list[JSON] | None = None) -> JSONObject:
        run = step_named(self.state, step_id)
        before = run.result
        same = before.response == result_summary or asks(run.step)
        if before.status != "completed" or not same:
            await self._complete(self._workable(step_id), result_summary, result)
        loop = {"stored_in_loop": run.scope.around[-1].loop} if run.scope.around else {}
        return {"success": True, **loop, "to_do": self._next()}

    async def _complete(self, run: StepRun, response: object, result: list[JSON] | None = None) -> None:
        """Complete a step, if it may be. Raises `ControlError`."""
        before = run.result
        _check_done(run)
        items = self._list_for_loop(run, response) if result is None else result
        await self._begin(run)
        data = before.tool_results[-1]["data"] if before.tool_results else before.data
        text = before.response if asks(run.step) and not run.step.tools else response
        self._end(run, UnitResult(status="completed", response=text, data=items if data is None else data))

    def _list_for_loop(self, run: StepRun, response: object) -> JSON:
        """Return the list in the response, where a loop goes through the step's result; else None."""
        nothing = response is None or (isinstance(response, str) and not response.strip())
        if nothing or not run.feeds_loop:
            return None
        items = list_in(response) if isinstance(response, str) else structured(response)
        if items is None:
            text = f"a loop iterates over the result of step {run.id!r}: call finish_step with `result`, a list"
            raise ControlError("list_needed", text)
        return items

    # People

    async def request_user_info(
        self, question: str, options: list[str] | None = None, step_id: str | None = None
    ) -> JSONObject:
        run = None if step_id == "" else self._asking_step(step_id)
        if run is None:
            return await self._ask_freely(question, options or [])
        await self._begin(run)
        run.mark(status="waiting_input")
        try:
            answer = await ask(run, question, options or [])
        except ApplicationError as error:
            answer = failed(find_failure(error, self._frame.address).type, error.message)
        run.mark()
        if answer.status == "completed":
            run.mark(data=answer.data, response=answer.response)
            return {"response": answer.response, "step_id": run.id}
        self._end(run, answer)
        ended = {"response": answer.response, "step_id": run.id, "step_status": answer.status}
        return {**ended, "to_do": self._next()}

    def _asking_step(self, step_id: str | None) -> StepRun | None:
        """Return the step whose question it is: the named one, else the next that asks; None if it is no step's."""
        if step_id:
            run = self._workable(step_id)
            if not asks(run.step):
                return None
            if run.result.data is not None:
                text = f"step {run.id!r} has its answer: call finish_step"
                raise ControlError("already_answered", text, response=run.result.response)
            return run
        for unit, scope in next_units(self.state):
            if isinstance(unit, StepUnit) and asks(unit.step) and scope.result(unit.id).data is None:
                return StepRun(unit, scope)
        return None

    async def _ask_freely(self, question: str, options: list[str]) -> JSONObject:
        offered = [Option(id=text, label=text) for text in dict.fromkeys(options)]
        reply = await self._frame.ask(Clarification(message=question, options=offered))
        if reply.status == "answered":
            return {"response": reply.content}
        why = f": {reply.comment}" if reply.comment else ""
        return {"response": None, "note": f"nobody answered: the question was {reply.status}{why}"}

    # Loops

    async def start_loop(self, loop_id: str) -> JSONObject:
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
            return position_of(self.state.begin_item(scope.item_scope(unit, items, 0)))
        self.state.settle()
        end = scope.result(unit.id)
        if end.status == "completed":
            return {**_ended(unit, end), "current_item": None, "to_do": self._next()}
        error = end.error or {"type": "cancelled", "message": f"a person cancelled the question of {unit.id}"}
        return {"loop_id": unit.id, "should_continue": False, "error": error, "to_do": self._next()}

    async def advance_loop(self, loop_id: str, expected_iteration: int | None = None) -> JSONObject:
        unit = loop_named(self.state, loop_id)
        scope = self.state.active.get(unit.id)
        if scope is None:
            return self._ended_loop(unit)
        index = scope.item.index
        if expected_iteration not in (None, index):
            return position_of(scope, note=f"the loop is at iteration {index}; nothing has changed")
        missing = [inner.id for inner in unit.body if not scope.is_over(inner.id)]
        if missing:
            text = f"iteration {index} of {unit.id!r} is not complete: {', '.join(missing)} to be finished"
            raise ControlError("iteration_incomplete", text, missing=missing)
        over = await after_item(scope)
        if over is None:
            self.state.begin_item(scope)
            return position_of(scope, note=f"a person wants this item to run again; {self._next()}")
        after = self.state.advance(scope, over)
        return {**_ended(unit, after), "to_do": self._next()} if isinstance(after, UnitResult) else position_of(after)

    # Changing

    async def update_state(self, /, **args: Any) -> JSONObject:
        inner = args.get("updates")
        updates = inner if isinstance(inner, dict) and len(args) == 1 else args
        own = {key.removeprefix("vars."): value for key, value in updates.items() if _is_own(key)}
        # All are checked before the first is made. One that is made may end another: what depended on it is skipped.
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
        run = step_named(self.state, id_)
        if run.result.is_over and status in (run.result.status, None) and set(fields) == {"status"}:
            return partial(self._set, run, run.result)  # the state has it already: the step was skipped
        run = self._workable(id_)
        if asks(run.step) and status != "completed":
            text = f"step {run.id!r} is a question to a person: call request_user_info"
            raise ControlError("not_allowed", text)
        match status:
            case "skipped":
                return partial(self._set, run, skipped("skipped_by_agent"))
            case "failed":
                message = str(fields.get("error") or fields.get("response") or "the agent says so")
                return partial(self._set, run, failed("agent", message, response=fields.get("response")))
            case "completed":
                _check_done(run)
                return partial(self._complete, run, fields.get("response"))
        text = f"step {id_!r}: a response or an error alone says nothing; add step_{id_}_status"
        raise ControlError("not_allowed", text)

    async def _set(self, run: StepRun, result: UnitResult) -> None:
        self._end(run, result)

    async def update_plan(self, new_plan: JSONObject, reason: str) -> JSONObject:
        before = tools_of(self._context.plan)
        try:
            revision = await self._change(new_plan, reason)
        except Refusal as refusal:
            raise ControlError("plan_refused", refusal.message) from None
        self.state.settle()
        tools = self._context.catalogue.described(tool for tool in tools_of(self._context.plan) if tool not in before)
        return {"success": True, "revision": revision, **({"tools": tools} if tools else {}), "to_do": self._next()}

    async def find_tool(self, instruction: str, service: str | None = None) -> JSONObject:
        lacking = self._step_without_tool()
        step = PlanStep(id="plan") if lacking is None else lacking.unit.step
        # For a step the plan's words count: by words of its own a model could bring any tool into it.
        wanted = FindTool(
            service=step.service or service,
            instruction=instruction if lacking is None else step.instruction,
            among=[tool.name for tool in self._context.policy_agent(step).tools],
            missing=step.tools[0] if step.tools else "",
        )
        frame = self.state.root.frame
        name = await frame.host.activities.find_tool(wanted, frame.address)
        if name is None:
            raise ControlError("missing", "no tool does that; finish what can be done without, or skip the step")
        if lacking is not None:
            replacements = self.state.replacements[lacking.key]
            self.state.replacements[lacking.key] = list(dict.fromkeys([*replacements, name]))
            await self._tools_of(lacking).can_call(name)  # if not, that is told when it is called
        return {"tool_name": name, **self._context.catalogue.described([name]).get(name, {})}

    def _step_without_tool(self) -> StepRun | None:
        """Return the step that lacked a tool last, of those that may be worked on."""
        runs = [StepRun(unit, scope) for unit, scope in next_units(self.state) if isinstance(unit, StepUnit)]
        by_key = {run.key: run for run in runs}
        return next((by_key[key] for key in reversed(self.state.replacements) if key in by_key), None)


def _arguments_in_plan(run: StepRun, given: JSONObject) -> JSONObject:
    """Return the arguments that the plan itself gives. Raises `ControlError` where the agent gives others."""
    args: JSONObject = run.scope.fill(run.step.arguments)
    if given not in ({}, args):
        text = f"the plan gives the arguments of step {run.id!r}: call execute_step_tool with parameters {{}}"
        raise ControlError("arguments_in_plan", text, arguments=args)
    return args


def _check_done(run: StepRun) -> None:
    """Refuse to complete a question without its answer, or a step before each of its tools, or its replacement."""
    plan_step, result = run.step, run.result
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
