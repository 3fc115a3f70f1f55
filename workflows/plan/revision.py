"""Changing a plan while it runs: what is over or under way stays as it is, everything else may change."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from temporalio.common import RawValue

from holdfast.blueprint.errors import BlueprintError
from holdfast.blueprint.kinds import Agent, PlanBody
from holdfast.blueprint.load.plans import problems_of, read_plan
from holdfast.blueprint.plan import Layout, LoopUnit, Unit, asks, laid_out
from holdfast.protocol import guard
from holdfast.protocol.answers import Refusal
from holdfast.protocol.plans import PLAN
from holdfast.workflows.base import BaseWorkflow, refused
from holdfast.workflows.door import value_in
from holdfast.workflows.frame import Frame
from holdfast.workflows.plan.catalogue import Catalogue, look_up, tools_of


def checked_change(
    payload: Any,
    plan: PlanBody,
    author: PlanBody,
    revision: int,
    layout: Layout,
    begun: Iterable[str],
    agents: Mapping[str, Agent],
    *,
    by_model: bool = False,
) -> PlanBody:
    """The plan that a change asks for, if it may be; `begun` are the units that are over or under way.

    Raises `Refusal`.
    """
    if not isinstance(payload, dict) or "plan" not in payload:
        raise Refusal("invalid_answer", 'give {"plan": …, "reason": "…", "by": "user:ana"}')
    for key in ("by", "reason"):
        if not isinstance(payload.get(key), str | None):
            raise Refusal("invalid_answer", f"{key} must be text")
    if payload.get("revision") not in (None, revision):
        text = f"the plan is at revision {revision} by now, not {payload['revision']}; look at it again"
        raise Refusal("question_changed", text)
    return revised(payload["plan"], plan, author, layout, begun, agents, by_model=by_model)


def check_open(*, ended: bool, begun: bool) -> None:
    """Refuse a change of a plan that is over, or that nobody has agreed to yet."""
    if ended:
        raise Refusal("run_closed", "the plan has ended; it cannot be changed any more")
    if not begun:
        raise Refusal("not_allowed", "the plan waits to be confirmed: change it in the answer to that question")


def check_change(raw: RawValue, host: BaseWorkflow, revised: Callable[[Any], PlanBody]) -> None:
    """Refuse what may not be changed, before it is in the history. Only a validator may ask: it is never replayed."""
    try:
        host.check_busy()
        payload = value_in(raw, guard.DEPLOYMENT.limits.answer)
        if not host.check_steering(PLAN, payload):
            revised(payload)
    except Refusal as refusal:
        raise refused(refusal) from None


def revised(
    new: Any,
    plan: PlanBody,
    author: PlanBody,
    layout: Layout,
    begun: Iterable[str],
    agents: Mapping[str, Agent],
    *,
    by_model: bool = False,
) -> PlanBody:
    """The plan that is to take the place of another. Raises `Refusal` with everything that is wrong."""
    try:
        read = read_plan(new, author, agents, changing=True, by_model=by_model)
    except BlueprintError as error:
        raise Refusal("invalid_answer", "the plan stays as it is:\n" + "\n".join(map(str, error.problems))) from None
    changed = list(_changed(plan, read, layout, set(begun)))
    if changed:
        raise Refusal("invalid_answer", "the plan stays as it is:\n" + "\n".join(changed))
    return read


def _changed(old: PlanBody, new: PlanBody, layout: Layout, begun: set[str]) -> Iterable[str]:
    """What may not be changed and was."""
    frozen = {id_ for id_ in layout.units_by_id if begun & {id_, *layout.loops_of(id_)}}
    steps = {step.id: step for step in new.steps}
    for index, step in enumerate(old.steps):
        if step.id not in frozen and not _heads(step.id, frozen):
            continue
        if step.id not in steps:
            yield f"steps[{index}]: {step.id!r} has begun or is over, and must stay; put it back as it was"
        elif steps[step.id] != step:
            yield f"steps[{index}]: {step.id!r} has begun or is over, and cannot be changed; write it as it was"
    yield from _moved(layout, laid_out(new)[0], frozen)
    for id_, block in old.loop_blocks.items():
        if id_ in frozen and new.loop_blocks.get(id_) != block:
            yield f"loop_blocks.{id_}: the loop has begun or is over, and must stay as it is"


async def check_new_tools(new: PlanBody, old: PlanBody, frame: Frame) -> Catalogue:
    """Return what is known of the tools that a change brings in. Raises `Refusal` if one cannot be called."""
    catalogue = await look_up((tool for tool in tools_of(new) if tool not in tools_of(old)), frame)
    if faults := problems_of(catalogue.faults(new)):
        raise Refusal("invalid_answer", "the plan stays as it is:\n" + "\n".join(map(str, faults)))
    return catalogue


def check_questions_stay(old: PlanBody, new: PlanBody, begun: Iterable[str]) -> None:
    """Refuse a change by which an agent would take a question from a person, or word it anew."""
    steps, over = {step.id: step for step in new.steps}, set(begun)
    for step in old.steps:
        if asks(step) and step.id not in over and steps.get(step.id) != step:
            text = f"the plan stays as it is: step {step.id!r} is a question to a person, and stays as it is"
            raise Refusal("not_allowed", text)


def needs_leave(old: PlanBody, new: PlanBody, listed: Iterable[str]) -> bool:
    """Whether a person must agree to what an agent wants to change.

    So it is where the plan asks people anything: whatever is changed beside a question, it may be asked for something
    else, too late, or in vain. And where steps would use tools that nobody gave the plan or its agent.
    """
    known = {*listed, *(tool for step in old.steps for tool in step.tools)}
    brought = (tool for step in new.steps if step not in old.steps for tool in step.tools)
    return any(map(asks, old.steps)) or any(tool not in known for tool in brought)


def _moved(old: Layout, new: Layout, frozen: set[str]) -> Iterable[str]:
    """What stands in another loop than before, and loops that have another body."""
    for id_ in sorted(frozen & new.units_by_id.keys()):
        unit, now = old.units_by_id[id_], new.units_by_id[id_]
        if old.loops_of(id_) != new.loops_of(id_):
            yield f"{now.path}: {id_!r} has begun or is over, and cannot be put into a loop, or out of one"
        elif _body_of(unit) != _body_of(now):
            yield f"{now.path}: the loop {id_!r} has begun or is over, and its steps stay as they are"


def _body_of(unit: Unit) -> list[str]:
    return [inner.id for inner in unit.body] if isinstance(unit, LoopUnit) else []


def _heads(id_: str, frozen: set[str]) -> bool:
    """Whether a step is the head of a loop that has begun."""
    return id_ in frozen or f"loop_{id_}" in frozen
