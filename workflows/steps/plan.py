"""The `plan` kind: a plan in a workflow of its own, driven by the engine or by an agent."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from blueprint.expressions import names_in, text_of
from blueprint.grammar import Agent, Plan
from blueprint.reach import reach_of
from protocol.plans import (
    ITEMS_FAILED,
    DrivenDefinition,
    DrivenResult,
    DrivenState,
    PlanDefinition,
    PlanResult,
    PlanState,
)
from protocol.runs import Failure
from workflows.agents import Asking, agent_definition, within_own_limits
from workflows.alone import alone
from workflows.failures import raised
from workflows.frame import Frame

DEFAULT_MODEL = "default"
"""The name, in the worker's `[models]`, of the model that works on a plan which names no agent."""
_ROOM = {"max_turns": 10_000, "max_tool_calls_per_turn": 100}
"""What an agent that drives a plan may do, unless its author says otherwise."""
DRIVING = """You drive a plan by control tools. The engine keeps the state: ask it, do not guess.
- Work on the steps in the order of their dependencies. For a step with tools call execute_step_tool, \
then finish_step; for one without, do it yourself and call finish_step with what came out.
- A step with pause_for_response is a question: call request_user_info, wait, then finish_step.
- For a loop call start_loop once; for every item do all its steps, finish_step after each; then advance_loop, until \
should_continue is false.
- Conditions are told by the engine: a step whose condition does not hold is skipped already.
- RESULT_FROM_<id>, CURRENT_ITEM and LOOP_INDEX stand for values that the tools give you: fill them in.
- An error says what to do instead. Make no plan of your own; to change this one, call update_plan.
The plan is over when every step is."""
LONGEST_KEPT = 100_000
"""Characters of a failed plan's output that its failure carries."""


async def run_plan(step: Plan, frame: Frame) -> Any:
    """What the plan gives; a plan that failed, or that a person cancelled, fails the step, and tells what it gave."""
    task = frame.input_of(step)
    given = None if step.plan.source is None else frame.after(task).render(step.plan.source)
    drive = _driven if step.plan.driver == "agent" else _by_engine
    result: PlanResult | DrivenResult = await frame.run_child(*drive(step, given, task, frame))
    if result.status in ("failed", "cancelled"):
        raise raised(_failure(step, result, frame))
    return result.output


def _by_engine(step: Plan, given: Any, task: Any, frame: Frame) -> tuple[PlanDefinition, PlanState]:
    definition = PlanDefinition(
        **alone(_bare(step), frame),
        given=given,
        task=task,
        place=frame.summary(step.name),
        n=frame.n,
        iteration=frame.iteration,
        **_read(step, frame),
    )
    state = PlanState(paused=frame.host.paused, permits=frame.host.permits, budgets=frame.meter.budgets)
    return definition, state


def _driven(step: Plan, given: Any, task: Any, frame: Frame) -> tuple[DrivenDefinition, DrivenState]:
    asking = Asking.of(step.plan.agent or Agent(model=DEFAULT_MODEL), step.name, frame.blueprint)
    agent = asking.agent.model_copy(
        update=_ROOM | asking.agent.model_dump(include=asking.agent.model_fields_set & _ROOM.keys())
    )
    instructions = f"{text_of(frame.render(agent.instructions))}\n\n{DRIVING}".strip()
    told = agent_definition(replace(asking, agent=agent), instructions, task, frame)
    reach = reach_of([step], frame.blueprint)
    blueprint = told.blueprint.model_copy(update={"agents": reach.agents, "imports": reach.imports})
    definition = DrivenDefinition(
        **{**told.__dict__, "blueprint": blueprint},
        author=step.plan,
        given=given,
        task=task,
        plan_address=frame.address,
    )
    budgets = within_own_limits(frame, asking).meter.budgets
    state = DrivenState(paused=frame.host.paused, permits=frame.host.permits, budgets=budgets)
    return definition, state


def _bare(step: Plan) -> Plan:
    """The step without what is rendered here: the workflow of the plan needs not know what that reads."""
    return step.model_copy(update={"input": None, "when": None})


def _read(step: Plan, frame: Frame) -> dict[str, Any]:
    """What the instructions of its agents read of the place where the step stands."""
    plan = step.plan
    agents = [agent for agent in (plan.agent, *(one.agent for one in plan.steps)) if isinstance(agent, Agent)]
    agents += frame.blueprint.agents.values()
    names = {path[0] for path in names_in([agent.instructions for agent in agents])}
    return {
        "context": frame.store.value if names & {"context", "history"} else {},
        "previous": frame.previous if names & {"previous_step", "output"} else None,
    }


def _failure(step: Plan, result: PlanResult | DrivenResult, frame: Frame) -> Failure:
    steps = result.output["steps"]
    failed = [
        f"{id_}: {told['error']['message']}"
        for id_, told in steps.items()
        if told["status"] == "failed" and told["error"]["type"] != ITEMS_FAILED  # its loop tells it
    ]
    failed += [
        f"{id_}: {told['error']['message']}"
        for id_, told in result.output["loops"].items()
        if told["status"] == "failed"
    ]
    cancelled = result.status == "cancelled"
    told = "a person cancelled a question of it" if cancelled else "; ".join(failed)
    kept = result.output if len(text_of(result.output)) <= LONGEST_KEPT else _short(result.output)
    return Failure(
        type=f"plan_{result.status}",
        message=f"plan {step.name} {'was ' if cancelled else ''}{result.status}: {told}",
        address=frame.address,
        output=kept,
        final=cancelled,
    )


def _short(output: dict[str, Any]) -> dict[str, Any]:
    """How the steps ended, without what they gave."""
    ends = {id_: {"status": told["status"], "error": told["error"]} for id_, told in output["steps"].items()}
    return {"status": output["status"], "steps": ends, "loops": {}}
