"""How a plan begins: it is read, if it is not written, and a person agrees to it, where the author wants that."""

from __future__ import annotations

from typing import Any

from temporalio.exceptions import ApplicationError

from blueprint.errors import BlueprintError
from blueprint.grammar import PlanBody
from blueprint.plan.reading import plain_plan, read_plan
from protocol.answers import Refusal
from protocol.plans import PlanReview
from workflows.failures import failure
from workflows.frame import Frame


async def begin(author: PlanBody, given: object, frame: Frame) -> PlanBody:
    """The plan that is to be run: written, or read, and agreed to by a person where the author wants that."""
    agents = list(frame.blueprint.agents)
    plan = author
    if author.source is not None:
        try:
            plan = read_plan(given, author, agents)
        except BlueprintError as error:
            text = "no plan that can be run:\n" + "\n".join(map(str, error.problems))
            raise failure("plan_invalid", text, frame.address) from None
    if not author.confirm:
        return plan
    agreed, _ = await reviewed(plan, author, frame, f"May this plan be run? {plan.goal}")
    if agreed is None:
        return plan
    return read_plan(agreed, author, agents)


async def agreed_to(plan: PlanBody, author: PlanBody, frame: Frame, reason: str) -> tuple[Any, str | None]:
    """The changed plan as a person agrees to it, and who has changed it once more. Raises `Refusal`."""
    try:
        agreed, by = await reviewed(plan, author, frame, f"May the plan be changed? {reason}")
    except ApplicationError as error:
        raise Refusal("not_allowed", error.message) from None
    return (plain_plan(plan), None) if agreed is None else (agreed, by)


async def reviewed(plan: PlanBody, author: PlanBody, frame: Frame, message: str) -> tuple[Any, str | None]:
    """What a person makes of a plan, and who that is; None: it may stay as it is. One that is rejected fails."""
    asked = PlanReview(
        message=message,
        payload=plain_plan(plan),
        payload_schema={"type": "object"},
        info={"goal": plan.goal},
        author=author,
        agents=list(frame.blueprint.agents),
    )
    await frame.host.until_resumed()
    reply = await frame.at("hitl", "confirm-plan").ask(asked)
    said = reply.content if reply.status == "answered" else asked.when_declined(reply.comment)
    if said["verdict"] == "rejected":
        why = f": {said['reason']}" if said.get("reason") else ""
        raise failure("plan_rejected", f"{reply.by or 'somebody'} rejected the plan{why}", frame.address)
    return (said["payload"] if said["verdict"] == "edited" else None), reply.by
