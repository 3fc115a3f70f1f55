"""Agents called from a step or from another agent: a single request, or a child workflow when they have tools."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from temporalio.exceptions import ActivityError, ApplicationError

from holdfast.blueprint.dependencies import reach_of_tools
from holdfast.blueprint.expressions.evaluation import names_in
from holdfast.blueprint.expressions.lists import LIST_OUTPUT, find_structure, list_in
from holdfast.blueprint.expressions.values import write_text
from holdfast.blueprint.json_values import JSON
from holdfast.blueprint.kinds import Agent, AgentTool, Blueprint, PlainStep, Step
from holdfast.blueprint.parts import Retry, ToolErrors
from holdfast.protocol.agents import Message, ModelReply, ModelRequest, ToolSpec
from holdfast.protocol.children import AgentDefinition, AgentResult, AgentState, Budget, ToolBounds
from holdfast.protocol.events import AgentCompleted, AgentShortened, ModelReplied, ModelRequested
from holdfast.workflows.concurrency import is_cancelled
from holdfast.workflows.failures import failure
from holdfast.workflows.frame import Frame
from holdfast.workflows.turns import NOTHING_SAID, drop_older, tell_left_out

MOST_MISFITS = 3
"""Outputs in a row that may fail the schema; after them the agent fails."""
MOST_REPEATS = 2
"""Further requests for a reply that was cut off or empty."""
BAD_REPLIES = {
    "cut_off": ("reply_cut_off", "the reply was cut off at the limit of its tokens (max_tokens)"),
    "empty": ("reply_empty", "the model returned an empty reply"),
    "refused": ("reply_refused", "the model refused to reply"),
    "filtered": ("content_filter", "the provider withheld the reply"),
}
"""Failure type and message by the finish reason of a reply that is not usable."""
_AGAIN = {
    "cut_off": "Your reply was cut off at the limit of its length. Give it again, whole and shorter.",
    "empty": "Your reply was empty. Give it again.",
}
"""Hints for a repeated request, by finish reason: the same request alone would often end the same way."""
_LONGEST_REASON = 300
LONGEST_SAID = 20_000
"""Most characters of an invalid output that its failure carries."""


@dataclass(frozen=True)
class AgentCall:
    """An agent to run, for a step: `step` is the name that scripted models and people see."""

    agent: Agent
    name: str | None
    step: str
    timeout: float | None = None
    retry: Retry | None = None
    registry: tuple[AgentTool, ...] | None = None
    """Tools that a planner's commands may run; None for an agent that calls its tools itself."""
    ends_with_tool: bool = False
    specs: tuple[ToolSpec, ...] | None = None
    """The descriptions of its tools, where they are known."""
    bounds: ToolBounds | None = None
    """For a step of a plan."""
    tries: Mapping[str, int] = field(default_factory=dict)
    """Errors of its tools so far, as `AgentState.tool_errors`."""

    @staticmethod
    def of(agent: str | Agent, step: str, blueprint: Blueprint, **more: Any) -> AgentCall:
        """Return the call of an agent that is written in place, or named in the blueprint."""
        if isinstance(agent, Agent):
            return AgentCall(agent, None, step, **more)
        return AgentCall(blueprint.agents[agent], agent, step, **more)

    def with_tool_errors(self, rules: ToolErrors | None) -> AgentCall:
        """Return the call with the rules of a step about errors of tools, in place of the agent's own."""
        if rules is None:
            return self
        return replace(self, agent=self.agent.model_copy(update={"tool_errors": rules}))


def make_opening(step: Step, value: object, frame: Frame) -> list[Message]:
    """Return the first messages of a step's agent: its input, in a conversation after the turns so far.

    Without an input of its own only the turns are sent: the default input would be the whole context as JSON.
    """
    message = Message(role="user", content=value)
    if not frame.conversing:
        return [message]
    turns = frame.turns()
    if not frame.takes_previous(step):
        return [*turns, message]
    return turns or [Message(role="user", content=NOTHING_SAID)]


def count_left_out(frame: Frame) -> int:
    """Return how many turns of the conversation around an agent its model is not told, and note those left out now."""
    if not frame.conversing:
        return 0
    if unsent := frame.count_unsent_turns():
        is_by_rule = frame.history_management is not None
        frame.note(AgentShortened(turns=unsent, reason="rule" if is_by_rule else "size"))
    return frame.left_out + unsent


async def run_agent(
    asking: AgentCall, opening: list[Message], frame: Frame, extra: str = "", left_out: int = 0
) -> AgentResult:
    """Run an agent and return its result.

    Args:
        asking: the agent, and the step that runs it.
        opening: its first messages.
        frame: a frame at the agent's own address.
        extra: text that follows its instructions, unrendered.
        left_out: Turns of the conversation around it that are not in `opening`; its model is told how many.
    """
    instructions = write_text(frame.render(asking.agent.instructions))
    if extra:
        instructions = f"{instructions}\n\n{extra}".strip()
    frame = add_own_limits(frame, asking)
    if not asking.agent.works_in_turns and asking.registry is None:
        return AgentResult(output=await _run_single(asking, instructions, opening, frame, left_out), turns=1)
    definition = define_agent(asking, instructions, opening, frame)
    state = AgentState(tool_errors=dict(asking.tries), left_out=left_out)
    room = frame.host.agent_room
    run = room.run if room is not None and room.takes(definition) else Frame.run_child
    result: AgentResult = await run(frame, definition, state)
    frame.note(AgentCompleted(turns=result.turns, output=result.output))
    return result


def add_own_limits(frame: Frame, asking: AgentCall) -> Frame:
    """Return the frame with a budget of the agent's own limits."""
    if asking.agent.limits is None:
        return frame
    budget = Budget(limits=asking.agent.limits, of=f"agent {asking.name or asking.step}")
    return replace(frame, meter=frame.meter.within(budget))


async def _run_single(
    asking: AgentCall, instructions: str, opening: list[Message], frame: Frame, left_out: int
) -> JSON:
    """Return the output of an agent without tools; an invalid one goes back to the model a few times."""
    agent = asking.agent
    messages, earlier = opening, len(opening) - 1
    misfits = 0
    while misfits < MOST_MISFITS:
        request = ModelRequest(
            step=asking.step,
            agent=asking.name,
            model=agent.model,
            instructions=instructions,
            messages=tell_left_out(messages, left_out, earlier),
            output_schema=agent.output_schema,
            native_output=agent.output_mode == "native",
            settings=agent.model_settings,
        )
        try:
            reply = await ask_model(request, asking, frame, asking.step)
        except ActivityError as error:
            if not earlier or not is_overflow(error):
                raise
            before = earlier
            messages, earlier = drop_older(messages, earlier)
            left_out += before - earlier
            frame.note(AgentShortened(turns=before - earlier, reason="model"))
            continue
        if reply.problem is None:
            return reply.output
        misfits += 1
        messages = [*messages, *tell_misfit(reply, reply.problem)]
    raise failure("output_invalid", f"{asking.step}: {reply.problem}", frame.address, output=unwrap_list(reply, agent))


def unwrap_list(reply: ModelReply, agent: Agent) -> JSON:
    """Return the output for which a list was expected, shortened, as the loop decides what it is; else None."""
    if agent.output_schema != LIST_OUTPUT:
        return None
    return reply.output[:LONGEST_SAID] if isinstance(reply.output, str) else reply.output


async def ask_model(request: ModelRequest, asking: AgentCall, frame: Frame, label: str) -> ModelReply:
    """Return a finished reply of the agent's model; one that was cut off or empty is asked for again.

    Raises a failure for a reply that the model or a filter withheld, and for one that stays cut off or empty.
    """
    reply = await _ask_with_fallbacks(request, asking, frame, label)
    for _ in range(MOST_REPEATS):
        if reply.finish not in _AGAIN:
            break
        hint = Message(role="user", content=_AGAIN[reply.finish])
        repeated = request.model_copy(update={"messages": [*request.messages, hint]})
        reply = await _ask_with_fallbacks(repeated, asking, frame, label)
    if reply.finish == "finished":
        return _wrap_list(reply) if request.output_schema == LIST_OUTPUT else reply
    type_, reason = BAD_REPLIES[reply.finish]
    quote = f": {write_text(reply.output)[:_LONGEST_REASON]}" if reply.finish == "refused" and reply.output else ""
    raise failure(type_, f"{asking.step}: {reason}{quote}", frame.address)


def _wrap_list(reply: ModelReply) -> ModelReply:
    """Return the reply with the list in its output, in whatever form it was given; prose stays a problem."""
    if reply.problem is None:
        return reply
    items = list_in(reply.output) if isinstance(reply.output, str) else find_structure(reply.output)
    return reply if items is None else reply.model_copy(update={"output": items, "problem": None, "tool_calls": []})


async def _ask_with_fallbacks(request: ModelRequest, asking: AgentCall, frame: Frame, label: str) -> ModelReply:
    """Send a request to the agent's model; where that fails to its fallback models, one after the other."""
    for name in asking.agent.fallback_models:
        try:
            return await _send_request(request, asking, frame, label)
        except ActivityError as error:
            if is_cancelled(error) or is_overflow(error):  # what is too long is cut, and asked again
                raise
        request = request.model_copy(update={"model": name})
    return await _send_request(request, asking, frame, label)


async def _send_request(request: ModelRequest, asking: AgentCall, frame: Frame, label: str) -> ModelReply:
    """Send one request to the model that it names, within the limits."""
    await frame.within_limits("model")
    # The number is of the request, not of the attempt: a retried activity gets the same scripted reply.
    request = request.model_copy(update={"n": frame.request_counts.next(request.step)})
    frame.note(ModelRequested(model=request.model))
    reply: ModelReply = await frame.spend(
        frame.host.activities.call_model(
            request,
            frame.address,
            summary=frame.summary(label),
            timeout=asking.timeout or asking.agent.timeout,
            retry=asking.retry or asking.agent.retry,
        )
    )
    frame.meter.count(reply.usage)
    used = reply.usage
    frame.note(ModelReplied(tokens=used.tokens, cost_usd=used.cost_usd, finish=reply.finish))
    return reply


def tell_misfit(reply: ModelReply, problem: str) -> list[Message]:
    """Return the reply and its problem as messages: as a result of each call if it made calls, as each needs one."""
    answer = Message(role="assistant", content=reply.output, tool_calls=reply.tool_calls, raw=reply.raw)
    text = f"The output does not fit: {problem}. Give it again, corrected."
    if not reply.tool_calls:
        return [answer, Message(role="user", content=text)]
    return [answer, *(Message(role="tool", call=call.id, tool=call.name, content=text) for call in reply.tool_calls)]


def is_overflow(error: ActivityError) -> bool:
    """Return whether the conversation was too long for the model."""
    return isinstance(error.cause, ApplicationError) and error.cause.type == "context_overflow"


def define_agent(asking: AgentCall, instructions: str, opening: list[Message], frame: Frame) -> AgentDefinition:
    """Return the input of an agent's workflow: its tools, and the names that its agents' instructions read."""
    agent = asking.agent
    reach = reach_of_tools([*agent.tools, *(asking.registry or ())], frame.blueprint)
    summarises = agent.history_management.agent if agent.history_management else None
    agents = reach.agents | ({summarises: frame.blueprint.agents[summarises]} if summarises else {})
    names = {path[0] for path in names_in([agent.instructions for agent in agents.values()])}
    names |= {"context"} if "history" in names else set()
    return AgentDefinition(
        blueprint=Blueprint(
            name=frame.host.identity.blueprint,
            agents=agents,
            imports=reach.imports,
            steps=[PlainStep(kind="step", name=asking.step)],
        ),
        **frame.host.identity.run_fields,
        address=frame.address,
        agent=agent,
        name=asking.name,
        step=asking.step,
        instructions=instructions,
        messages=opening,
        names={name: value for name, value in frame.collect_names().items() if name in names},
        place=frame.summary(asking.step),
        iteration=frame.iteration,
        label=frame.label,
        people=frame.people,
        registry=None if asking.registry is None else list(asking.registry),
        ends_with_tool=asking.ends_with_tool,
        specs=None if asking.specs is None else list(asking.specs),
        bounds=asking.bounds,
        timeout=asking.timeout,
        retry=asking.retry,
    )
