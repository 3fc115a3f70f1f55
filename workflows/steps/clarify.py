"""The `clarify` kind: a conversation with a person in a child workflow, until the facts of a goal are known."""

from __future__ import annotations

from dataclasses import replace

from holdfast.blueprint.expressions.values import write_text
from holdfast.blueprint.json_values import JSON
from holdfast.blueprint.kinds import Agent, Clarify
from holdfast.blueprint.questions import brief
from holdfast.protocol.children import ClarifyDefinition, ClarifyResult, ClarifyState
from holdfast.workflows.assignees import render_asked_people
from holdfast.workflows.children import define_child
from holdfast.workflows.failures import failure
from holdfast.workflows.frame import Frame


async def run_clarify(step: Clarify, frame: Frame) -> JSON:
    frame = frame.after(frame.read_input(step))
    facts = frame.render(step.known)
    if facts is not None and not isinstance(facts, dict):
        raise failure("input_invalid", f"what {step.name} knows must be an object, not {brief(facts)}", frame.address)
    agent = step.agent if isinstance(step.agent, Agent) else frame.blueprint.agents.get(step.agent or "")
    definition = ClarifyDefinition(
        **define_child(step, replace(frame, people=render_asked_people(step, frame))),
        goal=write_text(frame.render(step.goal)),
        known=facts or {},
        instructions="" if agent is None else write_text(frame.render(agent.instructions)),
        place=frame.summary(step.name),
        iteration=frame.iteration,
    )
    result: ClarifyResult = await frame.run_child(definition, ClarifyState())
    if result.reply is not None:
        frame.scope.replies[step.name] = result.reply
    frame.scope.take_answer(result.output)
    return result.output
