"""Running an agent, from a step or from another agent: a single request, or a workflow of its own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from blueprint.expressions import names_in, text_of
from blueprint.grammar import Agent, AgentTool, Blueprint, PlainStep, Retry
from blueprint.reach import reach_of_tools
from protocol.agents import Message, ModelReply, ModelRequest
from protocol.runs import AgentDefinition, AgentResult, AgentState, Budget
from workflows.failures import failure
from workflows.frame import Frame

MOST_MISFITS = 3
"""Outputs in a row that do not fit the schema; then the agent fails."""


@dataclass(frozen=True)
class Asking:
    """Which agent is asked, and in whose name: `step` is what scripted models and people call it."""

    agent: Agent
    name: str | None
    step: str
    timeout: float | None = None
    retry: Retry | None = None
    registry: tuple[AgentTool, ...] | None = None
    """Of a planner: what its commands may run."""

    @staticmethod
    def of(written: str | Agent, step: str, blueprint: Blueprint, **more: Any) -> Asking:
        if isinstance(written, Agent):
            return Asking(written, None, step, **more)
        return Asking(blueprint.agents[written], written, step, **more)


async def run_agent(asking: Asking, value: Any, frame: Frame, told: str = "") -> AgentResult:
    """What the agent gives for the value. The frame stands at the agent's own address.

    `told` is what the model is told beside its instructions, word for word.
    """
    instructions = text_of(frame.render(asking.agent.instructions))
    if told:
        instructions = f"{instructions}\n\n{told}".strip()
    frame = within_own_limits(frame, asking)
    if not asking.agent.works_in_turns and asking.registry is None:
        return AgentResult(output=await _single(asking, instructions, value, frame), turns=1)
    state = AgentState(paused=frame.host.paused, permits=frame.host.permits, budgets=frame.meter.budgets)
    result: AgentResult = await frame.run_child(agent_definition(asking, instructions, value, frame), state)
    frame.note("agent.completed", turns=result.turns, output=result.output)
    return result


def within_own_limits(frame: Frame, asking: Asking) -> Frame:
    """The frame with what one use of the agent may spend."""
    if asking.agent.limits is None:
        return frame
    own = Budget(limits=asking.agent.limits, of=f"agent {asking.name or asking.step}")
    return replace(frame, meter=frame.meter.within(own))


async def _single(asking: Asking, instructions: str, value: Any, frame: Frame) -> Any:
    """The model's output; one that does not fit is given back to the model a few times."""
    agent = asking.agent
    messages = [Message(role="user", content=value)]
    for _ in range(MOST_MISFITS):
        request = ModelRequest(
            step=asking.step,
            agent=asking.name,
            n=frame.n,
            model=agent.model,
            instructions=instructions,
            messages=messages,
            output_schema=agent.output_schema,
            settings=agent.settings,
        )
        reply = await ask_model(request, asking, frame, asking.step)
        if reply.problem is None:
            return reply.output
        messages = [*messages, *misfit_told(reply, reply.problem)]
    raise failure("output_invalid", f"{asking.step}: {reply.problem}", frame.address)


async def ask_model(request: ModelRequest, asking: Asking, frame: Frame, label: str) -> ModelReply:
    """One request to the agent's model, if limits leave one."""
    await frame.within_limits("model")
    frame.note("model.requested", model=request.model)
    reply: ModelReply = await frame.spend(
        frame.host.call_model(
            request,
            summary=frame.summary(label),
            timeout=asking.timeout or asking.agent.timeout,
            retry=asking.retry or asking.agent.retry,
        )
    )
    frame.meter.count(reply.usage)
    frame.note("model.replied", tokens=reply.usage.input_tokens + reply.usage.output_tokens)
    return reply


def misfit_told(reply: ModelReply, problem: str) -> list[Message]:
    """The reply with what is wrong with it: as its calls' results where it made some, for each call gets one."""
    said = Message(role="assistant", content=reply.output, tool_calls=reply.tool_calls, raw=reply.raw)
    text = f"The output does not fit: {problem}. Give it again, corrected."
    if not reply.tool_calls:
        return [said, Message(role="user", content=text)]
    return [said, *(Message(role="tool", call=call.id, tool=call.name, content=text) for call in reply.tool_calls)]


def agent_definition(asking: Asking, instructions: str, value: Any, frame: Frame) -> AgentDefinition:
    """The agent with what it may use, and the names that its agents' instructions read."""
    agent = asking.agent
    reach = reach_of_tools([*agent.tools, *(asking.registry or ())], frame.blueprint)
    summarises = agent.history_management.agent if agent.history_management else None
    agents = reach.agents | ({summarises: frame.blueprint.agents[summarises]} if summarises else {})
    read = {path[0] for path in names_in([one.instructions for one in agents.values()])}
    read |= {"context"} if "history" in read else set()
    return AgentDefinition(
        blueprint=Blueprint(
            name=frame.host.blueprint_name,
            agents=agents,
            imports=reach.imports,
            steps=[PlainStep(kind="step", name=asking.step)],
        ),
        run=frame.host.run_id,
        guarded=frame.host.guarded,
        started_by=frame.host.started_by,
        address=frame.address,
        agent=agent,
        name=asking.name,
        step=asking.step,
        instructions=instructions,
        input=value,
        names={name: seen for name, seen in frame.visible().items() if name in read},
        place=frame.summary(asking.step),
        n=frame.n,
        iteration=frame.iteration,
        registry=None if asking.registry is None else list(asking.registry),
        timeout=asking.timeout,
        retry=asking.retry,
    )
