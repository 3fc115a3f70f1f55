"""One step of a plan under the scheduler: a question, an agent's work, an agent that ends with its tools, or a call."""

from __future__ import annotations

from dataclasses import replace

from temporalio.exceptions import ChildWorkflowError, TerminatedError

from holdfast.blueprint.expressions import text_of
from holdfast.blueprint.expressions.lists import LIST_OUTPUT
from holdfast.blueprint.json_values import JSON
from holdfast.blueprint.plan import asks, compile_call
from holdfast.blueprint.plan.references import references_of
from holdfast.blueprint.plan.tools import TOOL_ERRORS
from holdfast.protocol.agents import MadeCall, Message, ReturnedCall
from holdfast.protocol.plans import UnitResult, text_of_result
from holdfast.protocol.runs import Failure
from holdfast.protocol.tool_errors import useful
from holdfast.workflows.agents import AgentCall, run_agent
from holdfast.workflows.concurrency import CancelledWithResult, is_cancelled
from holdfast.workflows.failures import HANDLED, find_failure
from holdfast.workflows.plan.questions import ask
from holdfast.workflows.plan.results import CALLS_UNKNOWN, end_by_error, failed
from holdfast.workflows.plan.step_run import StepRun
from holdfast.workflows.plan.tools import bound_tools
from holdfast.workflows.steps.step import use_tool
from holdfast.workflows.tool_calls import name_tool_error

RESULT_SHOWN = 20_000
"""Most characters of a result that a model is shown without a reference to it."""


async def run_step(run: StepRun) -> None:
    """Run a step to its end; a failure is a result, too."""
    await run.frame.host.until_resumed()
    try:
        await run.start()
        result = await _result(run)
    except HANDLED as error:
        cause = find_failure(error, run.frame.address)
        if is_cancelled(error) or cause.final:
            raise
        kind = name_tool_error(error) or _tool_error_in(cause)
        result = failed(cause.type, cause.message) if kind is None else end_by_error(kind, cause.message, run.step)
    run.finish(result)


def _tool_error_in(cause: Failure) -> str | None:
    """Return the error of a tool by which the workflow of a step's agent failed; None for any other failure."""
    match cause.output:
        case {"tool_error": str(kind)}:
            return kind
    return None


async def _result(run: StepRun) -> UnitResult:
    if asks(run.step):
        answer = await ask(run)
        if answer.status != "completed" or not run.step.tools:
            return answer
    if not run.step.tools:
        return await _agents_work(run)
    return await (_tools_work(run) if run.step.arguments is None else _call_as_written(run))


async def _agents_work(run: StepRun) -> UnitResult:
    """Return what an agent gives for the instruction: a text, or data."""
    opening = [Message(role="user", content=run.render(run.step.instruction))]
    call = run.scope.context.toolless_call(run.step)
    if run.feeds_loop:
        call = _asking_for_list(call)
    try:
        output = (await run_agent(call, opening, run.frame, surroundings(run))).output
    except HANDLED as error:
        cause = find_failure(error, run.frame.address)
        if call.agent.output_schema != LIST_OUTPUT or cause.type != "output_invalid" or cause.output is None:
            raise
        output = cause.output  # still no list: the loop asks a person for its items, or fails, or has one item
    if isinstance(output, str):
        return UnitResult(status="completed", response=output)
    return UnitResult(status="completed", response=text_of_result(output), data=output)


def _asking_for_list(call: AgentCall) -> AgentCall:
    """Return the call of an agent whose output a loop goes through; an author's own schema counts more."""
    if call.agent.output_schema is not None:
        return call
    return replace(call, agent=call.agent.model_copy(update={"output_schema": LIST_OUTPUT}))


def surroundings(run: StepRun) -> str:
    """Return what a model gets of the plan around a step, beside the step's instruction."""
    step, scope = run.step, run.scope
    lines = [f"You work on one step of a plan, and on nothing else. The plan's goal: {scope.context.plan.goal}"]
    lines.append(f"The step: {step.id}{f', {step.title}' if step.title else ''}")
    if step.expected_result:
        lines.append(f"Expected result: {step.expected_result}")
    if run.feeds_loop:
        lines.append("Return a list: the plan continues with each of its items.")
    if scope.context.task is not None:
        lines.append(f"Input of the plan: {_shown(scope.context.task)}")
    referred = {str(reference) for reference in references_of(step.instruction)}
    if scope.around and "CURRENT_ITEM" not in referred:
        item = scope.around[-1]
        lines.append(f"It runs once for each item; this is item {item.index}: {_shown(item.item)}")
    for id_ in run.unit.needs:
        need = scope.lookup(id_)
        if f"RESULT_FROM_{id_}" not in referred and need.succeeded:
            lines.append(f"Result of {id_}: {_shown(need.value)}")
    return "\n".join(lines)


def _shown(value: object) -> str:
    text = text_of(value)
    return text if len(text) <= RESULT_SHOWN else f"{text[:RESULT_SHOWN]}…"


async def _tools_work(run: StepRun) -> UnitResult:
    """Return what the step's tools give, which an agent calls; it ends when each of them has returned."""
    tools = bound_tools(run, TOOL_ERRORS)
    found = [await tools.describe_or_replace(tool) for tool in dict.fromkeys(run.step.tools)]
    specs = list({spec.reference: spec for spec in found}.values())
    call = run.scope.context.tools_call(run.step, specs, tools.calls.tries)
    opening = [Message(role="user", content=_instruct(run))]
    try:
        result = await run_agent(call, opening, run.beside("step", run.id), surroundings(run))
    except CancelledWithResult as cancelled:
        _keep_calls(run, cancelled.result.made, cancelled.result.returned)
        raise
    except HANDLED as error:
        cause = find_failure(error, run.frame.address)
        if isinstance(error, ChildWorkflowError) and isinstance(error.cause, TerminatedError):
            return failed(cause.type, cause.message, reason=CALLS_UNKNOWN)
        _keep_calls(run, cause.made, _returned_in(cause))
        raise
    _keep_calls(run, result.made, result.returned)
    data = result.returned[-1].data
    return UnitResult(status="completed", response=result.text or text_of_result(data), data=data)


def _instruct(run: StepRun) -> JSON:
    instruction = run.render(run.step.instruction)
    if asks(run.step):
        return f"A person has agreed to this: {text_of(instruction)}"
    return instruction or f"Call {', '.join(run.step.tools)}."


def _keep_calls(run: StepRun, made: list[MadeCall], returned: list[ReturnedCall]) -> None:
    """Record the calls that the step's agent made, and what they returned."""
    run.mark(made=made, tool_results=[call.model_dump(mode="json") for call in returned])


def _returned_in(cause: Failure) -> list[ReturnedCall]:
    """Return the calls that had succeeded before the workflow of a step's agent failed."""
    match cause.output:
        case {"returned": list(calls)}:
            return [ReturnedCall.model_validate(call) for call in calls]
    return []


async def _call_as_written(run: StepRun) -> UnitResult:
    """Call the step's only tool with the arguments in the plan."""
    step = compile_call(run.unit, run.scope.layout)
    tools = bound_tools(run, step.tool_errors)
    args = run.scope.inside(run.unit).read_input(step)
    data = useful(await use_tool(step, args, tools.frame, tools))
    _keep_calls(
        run, tools.calls.made, [ReturnedCall(tool=tools.find_current(run.step.tools[0]), parameters=args, data=data)]
    )
    return UnitResult(status="completed", response=text_of_result(data), data=data)
