"""The `plan` kind: a plan in a child workflow, run by the scheduler or driven by an agent."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from temporalio.exceptions import ChildWorkflowError, TerminatedError

from holdfast.blueprint.dependencies import find_reach, reach_of_tools, resolve_agent
from holdfast.blueprint.expressions.error import ExpressionError
from holdfast.blueprint.expressions.evaluation import names_in
from holdfast.blueprint.expressions.values import write_text
from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.blueprint.kinds import Agent, AnyStep, Blueprint, PlainStep, Plan
from holdfast.blueprint.kinds.agents import DRIVER_TURNS
from holdfast.blueprint.kinds.plan_body import DEFAULT_MODEL
from holdfast.blueprint.kinds.walk import lists_within
from holdfast.protocol.children import Failure
from holdfast.protocol.events import StepRetrying
from holdfast.protocol.ledger import ANY_TOOL, LedgerEntry, read_ledger
from holdfast.protocol.plans import (
    ITEMS_FAILED,
    DrivenDefinition,
    DrivenState,
    FailedPlan,
    PlanDefinition,
    PlannerCall,
    PlanOrigin,
    PlanResult,
    ScheduledState,
    fit_output,
)
from holdfast.workflows.agents import AgentCall, add_own_limits, count_left_out, define_agent
from holdfast.workflows.assignees import render_asked_people
from holdfast.workflows.children import define_child
from holdfast.workflows.concurrency import is_cancelled
from holdfast.workflows.failures import HANDLED, failure, find_failure, make_error
from holdfast.workflows.frame import Frame
from holdfast.workflows.turns import tell_left_out

_ROOM = {"max_turns": DRIVER_TURNS, "max_tool_calls_per_turn": 100}
"""Defaults for an agent that drives a plan: it needs more turns and calls than others."""
DRIVING = """You drive a plan by control tools. The engine keeps the state: ask it, do not guess.
- Work on the steps in the order of their dependencies. For a step with tools call execute_step_tool, \
then finish_step; for one without, do it yourself and call finish_step with what came out.
- A step with pause_for_response is a question: call request_user_info, wait, then finish_step.
- For a loop call start_loop once; for every item do all its steps, finish_step after each; then advance_loop, until \
should_continue is false.
- Conditions are told by the engine: a step whose condition does not hold is skipped already.
- A step that a loop goes through gives a list: call finish_step with it as `result`.
- `tools` says what each tool takes: the parameters of execute_step_tool are its arguments; {} where the \
step has `arguments`.
- RESULT_FROM_<id>, CURRENT_ITEM and LOOP_INDEX stand for values that the tools give you: fill them in.
- An error says what to do instead. Make no plan of your own; to change this one, call update_plan.
The plan is over when every step is."""
_PREVIOUS = ("previous_step", "output")


async def run_plan(step: Plan, frame: Frame) -> JSON:
    """Run a plan and return its output; a failed or cancelled plan fails the step, with the output in the failure."""
    value = frame.read_input(step)
    frame = replace(frame, people=render_asked_people(step, frame))
    source = None if step.plan.source is None else frame.after(value).render(step.plan.source)
    _take_done(step, value, frame)
    origin = PlanOrigin(given=source, planner=make_planner_call(step, frame), task=_task(step, value, frame))
    for left in reversed(range(step.plan.max_replans + 1)):
        result = await _run_once(step, origin, frame)
        if result.status == "completed":
            frame.host.ledgers.clear(frame.address)
        if result.status in ("completed", "completed_with_errors"):
            return result.output
        failed = _failure(step, result, frame)
        if failed.final or origin.planner is None or not left:
            raise make_error(failed)
        frame.note(StepRetrying(error=failed.type, message=failed.message))
        origin = origin.model_copy(update={"failed": FailedPlan(plan=result.plan, why=failed.message)})
    raise AssertionError("the last attempt returns or raises")


async def _run_once(step: Plan, origin: PlanOrigin, frame: Frame) -> PlanResult:
    """Run a plan to its end, and keep what it did where the next plan of the step finds it."""
    try:
        result = await _run_child(step, origin, frame)
    except HANDLED as error:
        cause = find_failure(error, frame.address)
        _take_reply(step, cause.reply, frame)
        if not is_cancelled(error):
            frame.host.ledgers.add(frame.address, _read_done(step, error, cause))
        raise
    _take_reply(step, result.reply, frame)
    frame.host.ledgers.add(frame.address, read_ledger(result.output))
    return result


def _read_done(step: Plan, error: BaseException, cause: Failure) -> list[LedgerEntry]:
    """Return what a plan did whose workflow has failed; of one that was terminated nothing is known."""
    if isinstance(error, ChildWorkflowError) and isinstance(error.cause, TerminatedError):
        return [LedgerEntry(tool=ANY_TOOL, status="unknown")]
    return read_ledger(cause.output) if cause.output is not None else []


def _take_done(step: Plan, value: JSON, frame: Frame) -> None:
    """Take what the author says was done before."""
    if step.plan.done is None:
        return
    try:
        done = read_ledger(frame.after(value).render(step.plan.done))
    except ValueError as error:
        raise failure("bad_ledger", f"plan.done: {error}", frame.address) from None
    frame.host.ledgers.add(frame.address, done)


async def _run_child(step: Plan, origin: PlanOrigin, frame: Frame) -> PlanResult:
    result: PlanResult
    if step.plan.driver == "agent":
        driver = AgentCall.of(step.plan.agent or Agent(model=DEFAULT_MODEL), step.name, frame.blueprint)
        definition = _make_driven(step, driver, origin, frame)
        result = await add_own_limits(frame, driver).run_child(definition, DrivenState())
    else:
        result = await frame.run_child(_by_engine(step, origin, frame), ScheduledState())
    return result


def _take_reply(step: Plan, reply: JSONObject | None, frame: Frame) -> None:
    if reply is not None:
        frame.scope.replies[step.name] = reply


def _task(step: Plan, value: object, frame: Frame) -> JSON:
    """Return the task of the plan's agents: in a conversation, without an input of its own, the turns.

    The default input there is the whole context, which goes to a model only where a template says so.
    """
    if not frame.conversing or not frame.takes_previous(step):
        return value
    turns = tell_left_out(frame.turns(), count_left_out(frame), 1)
    lines = [f"{'Assistant' if turn.role == 'assistant' else 'User'}: {write_text(turn.content)}" for turn in turns]
    return "\n".join(lines) or None


def _by_engine(step: Plan, origin: PlanOrigin, frame: Frame) -> PlanDefinition:
    fields = define_child(_bare(step), frame)
    return PlanDefinition(
        **{**fields, "blueprint": _with_reach(fields["blueprint"], origin.planner, frame)},
        origin=origin,
        place=frame.summary(step.name),
        iteration=frame.iteration,
        **_read(step, frame),
    )


def _make_driven(step: Plan, driver: AgentCall, origin: PlanOrigin, frame: Frame) -> DrivenDefinition:
    own = driver.agent.model_dump(include=driver.agent.model_fields_set & _ROOM.keys())
    agent = driver.agent.model_copy(update=_ROOM | own)
    instructions = f"{write_text(frame.render(agent.instructions))}\n\n{DRIVING}".strip()
    base = define_agent(replace(driver, agent=agent), instructions, [], frame)
    reach = find_reach([step], frame.blueprint)
    blueprint = base.blueprint.model_copy(update={"agents": reach.agents, "imports": reach.imports})
    blueprint = _with_reach(blueprint, origin.planner, frame)
    return DrivenDefinition(
        **{**base.__dict__, "blueprint": blueprint},
        author=step.plan,
        origin=origin,
        plan_address=frame.address,
    )


def _with_reach(blueprint: Blueprint, planner: PlannerCall | None, frame: Frame) -> Blueprint:
    """Return the blueprint with all that the planner's tools depend on, so that it can be asked again."""
    if planner is None:
        return blueprint
    reach = reach_of_tools(planner.agent.tools, frame.blueprint)
    agents, imports = {**blueprint.agents, **reach.agents}, {**blueprint.imports, **reach.imports}
    return blueprint.model_copy(update={"agents": agents, "imports": imports})


def make_planner_call(step: Plan, frame: Frame) -> PlannerCall | None:
    """Return the agent step whose output the plan is read from, as it was asked; None if it is not clear.

    Its input is rendered again, as it is not stored.
    """
    match = _step_read(step, frame.blueprint)
    if match is None:
        return None
    planner, before = match
    agent = None if planner.agent is None else resolve_agent(planner.agent, frame.blueprint)
    if agent is None:
        return None
    seen = frame.scope.collect_steps()
    previous = frame.input if before is None else seen.get(before.name, {}).get("output")
    place = frame.after(previous)
    try:
        value, instructions = place.render(planner.input), write_text(place.render(agent.instructions))
    except ExpressionError:  # it reads a name that no longer exists
        return None
    return PlannerCall(
        agent=agent,
        name=planner.agent if isinstance(planner.agent, str) else None,
        step=planner.name,
        instructions=instructions,
        input=value,
        timeout=planner.timeout,
        retry=planner.retry,
    )


def _step_read(step: Plan, blueprint: Blueprint) -> tuple[PlainStep, AnyStep | None] | None:
    """Return the step whose output the plan is read from, and the one before it."""
    paths = names_in(step.plan.source)
    if any(path[0] in _PREVIOUS for path in paths):  # in `from` these mean the step's own input
        paths = {path for path in paths if path[0] not in _PREVIOUS} | names_in(step.input)
    names = {path[1] for path in paths if path[0] == "steps" and len(path) > 1}
    for steps in lists_within(blueprint.steps):
        before = next((first for first, after in pairwise(steps) if after is step or after == step), None)
        if before is not None and any(path[0] in _PREVIOUS for path in paths):
            names = names | {before.name}
    if len(names) != 1:
        return None
    [name] = names
    for steps in lists_within(blueprint.steps):
        for index, candidate in enumerate(steps):
            if candidate.name == name and isinstance(candidate, PlainStep):
                return candidate, (steps[index - 1] if index else None)
    return None


def _bare(step: Plan) -> Plan:
    """Return the step without the templates that are rendered here, so that the child need not carry what they read."""
    plan = step.plan.model_copy(update={"done": None})
    return step.model_copy(update={"input": None, "when": None, "assignees": [], "plan": plan})


def _read(step: Plan, frame: Frame) -> JSONObject:
    """Return what the plan's instructions read of the position of the step."""
    plan = step.plan
    agents = [agent for agent in (plan.agent, *(part.agent for part in plan.steps)) if isinstance(agent, Agent)]
    agents += frame.blueprint.agents.values()
    names = {path[0] for path in names_in([agent.instructions for agent in agents])}
    return {
        "context": frame.store.value if names & {"context", "history"} else {},
        "previous": frame.previous if names & {"previous_step", "output"} else None,
    }


def _failure(step: Plan, result: PlanResult, frame: Frame) -> Failure:
    failed = {
        id_: record["error"]
        for id_, record in result.output["steps"].items()
        if record["status"] == "failed" and record["error"]["type"] != ITEMS_FAILED  # its loop reports it
    }
    loops = result.output["loops"].items()
    failed |= {id_: record["error"] for id_, record in loops if record["status"] == "failed"}
    cancelled = result.status == "cancelled"
    why = "; ".join(f"{id_}: {error['message']}" for id_, error in failed.items())
    reason = "a person cancelled a question of it" if cancelled else why
    return Failure(
        type=f"plan_{result.status}",
        message=f"plan {step.name} {'was ' if cancelled else ''}{result.status}: {reason}",
        address=frame.address,
        raised_at=next((error["raised_at"] for error in failed.values() if "raised_at" in error), None),
        output=fit_output(result.output),
        final=cancelled,
    )
