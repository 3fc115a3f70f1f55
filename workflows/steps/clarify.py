"""The `clarify` kind: a conversation with a person, in a workflow of its own, until a goal is known."""

from __future__ import annotations

from typing import Any

from blueprint.expressions import text_of
from blueprint.grammar import Agent, Clarify
from protocol.questions import brief
from protocol.runs import ClarifyDefinition, ClarifyResult, ClarifyState
from workflows.alone import alone
from workflows.failures import failure
from workflows.frame import Frame


async def run_clarify(step: Clarify, frame: Frame) -> Any:
    frame = frame.after(frame.input_of(step))
    known = frame.render(step.known)
    if known is not None and not isinstance(known, dict):
        raise failure("input_invalid", f"what {step.name} knows must be an object, not {brief(known)}", frame.address)
    agent = step.agent if isinstance(step.agent, Agent) else frame.blueprint.agents.get(step.agent or "")
    definition = ClarifyDefinition(
        **alone(step, frame),
        goal=text_of(frame.render(step.goal)),
        known=known or {},
        instructions="" if agent is None else text_of(frame.render(agent.instructions)),
        place=frame.summary(step.name),
        n=frame.n,
        iteration=frame.iteration,
    )
    state = ClarifyState(paused=frame.host.paused, permits=frame.host.permits, budgets=frame.meter.budgets)
    result: ClarifyResult = await frame.run_child(definition, state)
    frame.scope.answered(result.output)
    return result.output
