"""Revision of a plan while it runs: what is over or under way stays as it is, everything else may change."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.blueprint.errors import BlueprintError
from holdfast.blueprint.kinds import PlanBody
from holdfast.blueprint.load.plans import list_problems, read_plan
from holdfast.blueprint.plan.answers import asks
from holdfast.blueprint.plan.compile import compile_plan
from holdfast.blueprint.plan.layout import Layout, LoopUnit, StepUnit, Unit
from holdfast.protocol.answers import Refusal
from holdfast.workflows.plan.catalogue import list_plan_tools
from holdfast.workflows.plan.state import PlanState

_STAYS = "the plan was not changed:"


def checked_change(payload: object, state: PlanState, *, by_model: bool = False) -> PlanBody:
    """Return the plan that a change asks for: `plan`, and perhaps `revision`, `by` and `reason`.

    Raises `Refusal` with everything that is wrong.
    """
    if not isinstance(payload, dict) or "plan" not in payload:
        raise Refusal("invalid_answer", 'give {"plan": …, "reason": "…", "by": "user:ana"}')
    for key in ("by", "reason"):
        if not isinstance(payload.get(key), str | None):
            raise Refusal("invalid_answer", f"{key} must be text")
    if payload.get("revision") not in (None, state.revision):
        text = f"the plan is at revision {state.revision} by now, not {payload['revision']}; look at it again"
        raise Refusal("question_changed", text)
    context = state.context
    try:
        agents = context.blueprint.agents
        new = read_plan(payload["plan"], context.author, agents, current=context.plan, by_model=by_model)
    except BlueprintError as error:
        raise _refusal(error.problems) from None
    if problems := _changes_of_begun(context.layout, compile_plan(new)[0], set(state.root.results)):
        raise _refusal(problems)
    return new


def _refusal(problems: Iterable[object]) -> Refusal:
    return Refusal("invalid_answer", "\n".join([_STAYS, *map(str, problems)]))


def _changes_of_begun(old: Layout, new: Layout, begun: set[str]) -> list[str]:
    """Return a problem for each step and loop that has begun and is changed, by its path in the old plan."""
    frozen = [unit for unit in old.units_by_id.values() if begun & {unit.id, *unit.around}]
    problems: dict[str, str] = {}
    for unit in sorted(frozen, key=lambda unit: (unit.place, isinstance(unit, LoopUnit))):
        if change := _change(unit, new.units_by_id.get(unit.id)):
            problems.setdefault(unit.path, f"{unit.path}: {unit.id!r} has begun or ended, and {change}")
    return list(problems.values())


def _change(before: Unit, after: Unit | None) -> str:
    """Return what may not be with a step or loop that has begun, and the way out; empty if it is the same."""
    if after is None:
        return "must stay; put it back as it was"
    if _find_written(before) != _find_written(after):
        return "cannot be changed; write it as it was"
    if before.around != after.around:
        return "cannot be put into a loop, or out of one"
    return "" if _list_body(before) == _list_body(after) else "its steps stay as they are"


def _find_written(unit: Unit) -> object:
    return unit.step if isinstance(unit, StepUnit) else unit.block if isinstance(unit, LoopUnit) else None


def _list_body(unit: Unit) -> list[str]:
    return [inner.id for inner in unit.body] if isinstance(unit, LoopUnit) else []


async def check_new_tools(new: PlanBody, state: PlanState) -> list[str]:
    """Look up the tools that a change brings in, and return them.

    Raises `Refusal` if one cannot be called, or not with the arguments in the plan.
    """
    old, catalogue = state.context.plan, state.context.catalogue
    before = list_plan_tools(old)
    added = [tool for tool in list_plan_tools(new) if tool not in before]
    called = [step.tools[0] for step in new.steps if step.arguments is not None and step not in old.steps]
    await catalogue.look_up([*added, *called], state.root.frame)
    faults = [*catalogue.faults(new, but=before), *catalogue.find_misfits(new, kept=old.steps)]
    if faults:
        raise _refusal(list_problems(faults))
    return added


# Changes by a driving agent


def check_questions_stay(new: PlanBody, state: PlanState) -> None:
    """Refuse a change by which an agent would take a question from a person, or word it anew."""
    steps, begun = {step.id: step for step in new.steps}, state.root.results
    for step in state.context.plan.steps:
        if asks(step) and step.id not in begun and steps.get(step.id) != step:
            raise Refusal("not_allowed", f"{_STAYS} step {step.id!r} is a question to a person, and stays as it is")


def needs_approval(old: PlanBody, new: PlanBody, listed: Iterable[str]) -> bool:
    """Return whether a person must approve an agent's change.

    So it is where the plan asks people anything: whatever is changed beside a question, it may be asked for something
    else, too late, or in vain. And where steps would use tools that nobody gave the plan or its agent (`listed`).
    """
    allowed = {*listed, *list_plan_tools(old)}
    added = (tool for step in new.steps if step not in old.steps for tool in step.tools)
    return any(map(asks, old.steps)) or any(tool not in allowed for tool in added)
