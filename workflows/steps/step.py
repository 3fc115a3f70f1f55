"""The `step` kind: an agent, a tool, a function, an imported blueprint, a built-in, or nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from blueprint.expressions import text_of
from blueprint.grammar import Agent, Blueprint, ImportConfig, PlainStep
from blueprint.jsonschemas import misfit
from protocol.agents import Message, ModelRequest, ToolRequest
from workflows.builtins import BUILTINS
from workflows.context import read
from workflows.failures import failure
from workflows.frame import Frame, Scope, Store
from workflows.tools import call_tool


async def run_plain(step: PlainStep, frame: Frame) -> Any:
    value = frame.input_of(step)
    if step.agent is not None:
        return await _run_agent(step, frame, value)
    if step.uses is None:
        return value
    if step.uses.startswith("imports."):
        return await _run_import(step, frame, value)
    if step.uses in BUILTINS:
        return BUILTINS[step.uses](value, frame)
    request = ToolRequest(tool=step.uses, input=value)
    return await call_tool(request, frame, step.name, timeout=step.timeout, retry=step.retry)


async def _run_agent(step: PlainStep, frame: Frame, value: Any) -> Any:
    """One request to the agent's model, with the input as the user's message."""
    agent = step.agent if isinstance(step.agent, Agent) else frame.blueprint.agents[step.agent or ""]
    request = ModelRequest(
        step=step.name,
        agent=step.agent if isinstance(step.agent, str) else None,
        n=frame.n,
        model=agent.model,
        instructions=text_of(frame.render(agent.instructions)),
        messages=[Message(role="user", content=value)],
        output_schema=agent.output_schema,
        settings=agent.settings,
    )
    frame.note("model.requested", model=agent.model)
    reply = await frame.host.call_model(
        request,
        summary=frame.summary(step.name),
        timeout=step.timeout or agent.timeout,
        retry=step.retry or agent.retry,
    )
    frame.note("model.replied", tokens=reply.usage.input_tokens + reply.usage.output_tokens)
    return reply.output


async def _run_import(step: PlainStep, frame: Frame, value: Any) -> Any:
    """Another blueprint, with a context of its own; `config.outputs` maps what comes back."""
    child = frame.blueprint.imports[(step.uses or "").removeprefix("imports.")]
    config = step.config or ImportConfig()
    given = value if config.input is None else frame.render(config.input)
    inside = import_frame(child, frame, given)
    output = await frame.run_steps(child.steps, inside, given)
    if child.output is not None:
        output = inside.after(output).render(child.output)
    for source, target in config.outputs.items():
        frame.apply("set", target, read(inside.store.value, source))
    return output


def import_frame(child: Blueprint, frame: Frame, given: Any) -> Frame:
    """Where an imported blueprint's steps stand: its own names, context and conversation."""
    if child.inputs is not None and (wrong := misfit(child.inputs, given)):
        raise failure("input_invalid", f"the input of {child.name} does not fit: {wrong}", frame.address)
    return replace(
        frame,
        blueprint=child,
        store=Store(child.context, child.context_schema),
        scope=Scope(),
        names={"input": given},
        conversing=False,
        turn_source=None,
    )
