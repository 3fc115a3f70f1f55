"""Control tools of steps: call a tool, ask a person, finish a step, or set its state."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from functools import cache, partial
from typing import Any

from temporalio.exceptions import ApplicationError

from holdfast.blueprint.expressions.lists import find_structure, list_in
from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.blueprint.parts import CallAgain, Option, ToolErrors
from holdfast.blueprint.plan.answers import asks
from holdfast.blueprint.plan.layout import StepUnit
from holdfast.blueprint.plan.tools import make_tool_errors
from holdfast.blueprint.questions import Clarification
from holdfast.protocol.agents import ToolSpec
from holdfast.protocol.children import Failure
from holdfast.protocol.plans import UnitResult
from holdfast.protocol.tool_errors import kind_of_result, useful
from holdfast.workflows.bounded_tools import BoundedTools
from holdfast.workflows.concurrency import is_cancelled
from holdfast.workflows.failures import HANDLED, ToolErrorFailure, find_failure
from holdfast.workflows.interpreter import begin_step
from holdfast.workflows.plan.navigation import (
    ControlCall,
    ControlError,
    next_units,
    step_named,
    what_is_next,
)
from holdfast.workflows.plan.results import end_by_error, make_failed, make_skipped, name_error
from holdfast.workflows.plan.step_run import StepRun
from holdfast.workflows.plan.units import ask_for_driver, compile_step_question

_STATE_KEY = re.compile(r"step_(?P<id>.+)_(?P<field>status|error|response)")
_RETRY = {
    "missing": "call find_tool, then execute_step_tool with the tool that it names",
    "bad_arguments": "correct the parameters, and call execute_step_tool again",
    "business": "change what can be changed, and call execute_step_tool again; else set the step's status to failed",
}


def _workable(at: ControlCall, step_id: str) -> StepRun:
    """Return a step that may be worked on. Raises `ControlError`."""
    run = step_named(at.state, step_id)
    unit, scope, result = run.unit, run.scope, run.result
    if result.is_over:
        reason = f" ({result.reason})" if result.reason else ""
        text = f"step {unit.id!r} is {result.status}{reason}; {what_is_next(at.state)}"
        raise ControlError("already_finished", text, status=result.status)
    if result.status == "pending" and scope.readiness(unit) == "wait":
        missing = [id_ for id_ in unit.waits if not scope.is_over(id_)]
        text = f"step {unit.id!r} waits for {', '.join(missing)}; {what_is_next(at.state)}"
        raise ControlError("dependencies_not_met", text, missing=missing)
    return run


@cache
def _make_tool_errors() -> ToolErrors:
    """Return what follows errors of tools: for a missing one it is the model that finds another."""
    return make_tool_errors().model_copy(update={"missing": CallAgain(retry=1)})


async def _begin(run: StepRun) -> None:
    if run.result.status == "pending":
        run.mark()
        await begin_step(compile_step_question(run) if asks(run.step) else run.work, run.frame)


def _end(at: ControlCall, run: StepRun, result: UnitResult) -> None:
    run.finish(result)
    at.state.settle()


async def execute_step_tool(at: ControlCall, step_id: str, tool_name: str, parameters: JSONObject) -> JSONObject:
    run = _workable(at, step_id)
    if asks(run.step) and run.result.data is None:
        text = f"step {run.id!r} asks a person first: call request_user_info"
        raise ControlError("answer_missing", text)
    tools = run.bind_tools(_make_tool_errors(), by_model=True)
    spec = await _tool_named(at, tool_name, run, tools)
    if run.step.arguments is not None:
        parameters = _arguments_in_plan(run, parameters)
    returned = run.result.tool_results
    if (last := next((call for call in reversed(returned) if call["tool"] == spec.reference), None)) is not None:
        note = {"note": f"{spec.reference} was done before with other parameters; it is not run again"}
        same = last["parameters"] == parameters
        return {
            "success": True,
            "data": last["data"],
            "error": None,
            "already_executed": True,
            **({} if same else note),
        }
    await _begin(run)
    # Each failed call is a retry or the end of the step, so that this number is given once.
    number = len(returned) + sum(tools.calls.tries.values()) + 1
    try:
        result = await tools.call(spec, parameters, tools.frame.at("tool", spec.name, f"call_{number}"))
    except ToolErrorFailure as error:
        return _end_by_error(at, find_failure(error, at.frame.address), run)
    except HANDLED as error:
        cause = find_failure(error, at.frame.address)
        if is_cancelled(error) or cause.final:
            raise
        return _tell_error(at, run, name_error(cause), cause.message)
    if (found := kind_of_result(result)) is not None:
        return _tell_error(at, run, *found)
    data = useful(result)
    run.mark(tool_results=[*returned, {"tool": spec.reference, "parameters": parameters, "data": data}])
    return {"success": True, "data": data, "error": None}


def _tell_error(at: ControlCall, run: StepRun, kind: str, message: str) -> JSONObject:
    """Return the error of a call, after which the model may call again."""
    _note_missing(at, run, kind)
    return {"success": False, "data": None, "error": {"type": kind, "message": message, "todo": _RETRY[kind]}}


async def _tool_named(at: ControlCall, name: str, run: StepRun, tools: BoundedTools) -> ToolSpec:
    """Return the step's tool of this name, as the plan or as the model calls it. Raises `ControlError`."""
    unit = run.unit
    replacements = at.state.replacements.get(run.key, [])
    if not unit.step.tools:
        text = f"step {unit.id!r} has no tools: do it yourself, and call finish_step with what you found"
        raise ControlError("no_tools", text)
    tool = next((tool for tool in [*unit.step.tools, *replacements] if name in (tool, tool.rpartition(":")[2])), None)
    if tool is None:
        text = f"step {unit.id!r} has no tool {name!r}; it has {', '.join(unit.step.tools)}"
        raise ControlError("tool_not_in_step", text)
    try:
        return await tools.describe(tool)
    except HANDLED as error:
        if is_cancelled(error):
            raise
        cause = find_failure(error, at.frame.address)
        _note_missing(at, run, name_error(cause))
        raise ControlError(name_error(cause), f"{cause.message}; {_RETRY['missing']}") from None


def _note_missing(at: ControlCall, run: StepRun, kind: str) -> None:
    """Allow the step a tool that is found in place of its own."""
    if kind == "missing":
        at.state.replacements.setdefault(run.key, [])


def _end_by_error(at: ControlCall, cause: Failure, run: StepRun) -> JSONObject:
    _note_missing(at, run, name_error(cause))
    ending = end_by_error(name_error(cause), cause, run.step)
    _end(at, run, ending)
    todo = f"step {run.id} is {ending.status}; {what_is_next(at.state)}"
    error = {"type": name_error(cause), "message": cause.message, "todo": todo}
    return {"success": False, "data": None, "error": error, "step_status": ending.status}


async def finish_step(
    at: ControlCall, step_id: str, result_summary: str, result: list[JSON] | None = None
) -> JSONObject:
    run = step_named(at.state, step_id)
    before = run.result
    same = before.response == result_summary or asks(run.step)
    if before.status != "completed" or not same:
        await _complete(at, _workable(at, step_id), result_summary, result)
    loop = {"stored_in_loop": run.scope.around[-1].loop} if run.scope.around else {}
    return {"success": True, **loop, "to_do": what_is_next(at.state)}


async def _complete(at: ControlCall, run: StepRun, response: object, result: list[JSON] | None = None) -> None:
    """Complete a step, if it may be. Raises `ControlError`."""
    before = run.result
    _check_done(run)
    items = _list_for_loop(run, response) if result is None else result
    await _begin(run)
    data = before.tool_results[-1]["data"] if before.tool_results else before.data
    text = before.response if asks(run.step) and not run.step.tools else response
    _end(at, run, UnitResult(status="completed", response=text, data=items if data is None else data))


def _list_for_loop(run: StepRun, response: object) -> JSON:
    """Return the list in the response, where a loop goes through the step's result; else None."""
    nothing = response is None or (isinstance(response, str) and not response.strip())
    if nothing or not run.feeds_loop:
        return None
    items = list_in(response) if isinstance(response, str) else find_structure(response)
    if items is None:
        text = f"a loop iterates over the result of step {run.id!r}: call finish_step with `result`, a list"
        raise ControlError("list_needed", text)
    return items


async def request_user_info(
    at: ControlCall, question: str, options: list[str] | None = None, step_id: str | None = None
) -> JSONObject:
    run = None if step_id == "" else _asking_step(at, step_id)
    if run is None:
        return await _ask_freely(at, question, options or [])
    await _begin(run)
    run.mark(status="waiting_input")
    try:
        answer = await ask_for_driver(run, question, options or [])
    except ApplicationError as error:
        answer = make_failed(find_failure(error, at.frame.address).type, error.message)
    run.mark()
    if answer.status == "completed":
        run.mark(data=answer.data, response=answer.response)
        return {"response": answer.response, "step_id": run.id}
    _end(at, run, answer)
    ended = {"response": answer.response, "step_id": run.id, "step_status": answer.status}
    return {**ended, "to_do": what_is_next(at.state)}


def _asking_step(at: ControlCall, step_id: str | None) -> StepRun | None:
    """Return the step whose question it is: the named one, else the next that asks; None if it is no step's."""
    if step_id:
        run = _workable(at, step_id)
        if not asks(run.step):
            return None
        if run.result.data is not None:
            text = f"step {run.id!r} has its answer: call finish_step"
            raise ControlError("already_answered", text, response=run.result.response)
        return run
    for unit, scope in next_units(at.state):
        if isinstance(unit, StepUnit) and asks(unit.step) and scope.result(unit.id).data is None:
            return StepRun(unit, scope)
    return None


async def _ask_freely(at: ControlCall, question: str, options: list[str]) -> JSONObject:
    offered = [Option(id=text, label=text) for text in dict.fromkeys(options)]
    reply = await at.frame.ask(Clarification(message=question, options=offered))
    if reply.status == "answered":
        return {"response": reply.content}
    why = f": {reply.comment}" if reply.comment else ""
    return {"response": None, "note": f"nobody answered: the question was {reply.status}{why}"}


async def update_state(at: ControlCall, /, **args: Any) -> JSONObject:
    inner = args.get("updates")
    updates = inner if isinstance(inner, dict) and len(args) == 1 else args
    own = {key.removeprefix("vars."): value for key, value in updates.items() if _is_own(key)}
    # All are checked before the first is made. One that is made may end another: what depended on it is skipped.
    changes = [(id_, _make_change(at, id_, fields)) for id_, fields in _step_fields(updates).items()]
    for id_, change in changes:
        if not step_named(at.state, id_).result.is_over:
            await change()
    at.state.vars |= own
    return {"success": True, "to_do": what_is_next(at.state)}


def _make_change(at: ControlCall, id_: str, fields: JSONObject) -> Callable[[], Awaitable[None]]:
    """Return what setting a step's state does. Raises `ControlError` for what may not be set."""
    status = fields.get("status")
    if status not in ("skipped", "failed", "completed", None):
        raise ControlError("not_allowed", f"a status is skipped, failed or completed, not {status!r}")
    run = step_named(at.state, id_)
    if run.result.is_over and status in (run.result.status, None) and set(fields) == {"status"}:
        return partial(_set, at, run, run.result)  # the state has it already: the step was skipped
    run = _workable(at, id_)
    if asks(run.step) and status != "completed":
        text = f"step {run.id!r} is a question to a person: call request_user_info"
        raise ControlError("not_allowed", text)
    match status:
        case "skipped":
            return partial(_set, at, run, make_skipped("skipped_by_agent"))
        case "failed":
            message = str(fields.get("error") or fields.get("response") or "the agent says so")
            return partial(_set, at, run, make_failed("agent", message, response=fields.get("response")))
        case "completed":
            _check_done(run)
            return partial(_complete, at, run, fields.get("response"))
    text = f"step {id_!r}: a response or an error alone says nothing; add step_{id_}_status"
    raise ControlError("not_allowed", text)


async def _set(at: ControlCall, run: StepRun, result: UnitResult) -> None:
    _end(at, run, result)


def _arguments_in_plan(run: StepRun, given: JSONObject) -> JSONObject:
    """Return the arguments that the plan itself gives. Raises `ControlError` where the agent gives others."""
    args: JSONObject = run.inside.read_input(run.work)
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
