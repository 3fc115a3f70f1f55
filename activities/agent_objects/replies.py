"""Replies of models to agent objects: the calls that they make, and their outputs, checked by the agent's own types."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

from pydantic_ai.agent import CallToolsNode, ModelRequestNode
from pydantic_ai.exceptions import UnexpectedModelBehavior
from pydantic_ai.messages import ModelRequestPart, ModelResponse, ToolCallPart, ToolReturnPart
from pydantic_ai.tool_manager import ToolManager
from pydantic_ai.tools import ToolDefinition
from pydantic_core import to_jsonable_python
from pydantic_graph import End

from holdfast.activities.agent_objects.found import AnyAgent, has_output_function, has_own_checks
from holdfast.activities.agent_objects.runs import Run, dump_parts
from holdfast.activities.providers.conversation import make_reply
from holdfast.activities.registry import wrong
from holdfast.blueprint.expressions.values import write_text
from holdfast.blueprint.json_values import JSON
from holdfast.protocol.agents import Completed, Message, ModelReply, ObjectTool, ToolCall

Ids = list[tuple[str, str]]
"""For each call of a reply: the id that the library knows, and ours."""
Demand = Literal["", "approval", "external", "output"]
_DEMANDS: dict[str, Demand] = {"unapproved": "approval", "external": "external"}


def read_ids(response: ModelResponse, calls: Sequence[ToolCall]) -> Ids:
    """Return the ids of the calls; where no call stands in our message, those of the library."""
    theirs = [part.tool_call_id for part in response.tool_calls]
    ours = [call.id for call in calls] if len(calls) == len(theirs) else theirs
    return list(zip(theirs, ours, strict=True))


async def handle_reply(run: Run, agent: AnyAgent, response: ModelResponse) -> ModelReply:
    """Return the reply: with its calls, or with its output, checked unless functions of the team take part in that."""
    reply = make_reply(response)
    parts = response.tool_calls
    calls = [
        call.model_copy(update={"id": part.tool_call_id}) for call, part in zip(reply.tool_calls, parts, strict=True)
    ]
    tools = [await _make_tool(part, run.ctx.deps.tool_manager) for part in parts]
    reply = reply.model_copy(
        update={
            "tool_calls": calls,
            "object_tools": tools,
            "end_strategy": agent.end_strategy,
            "output_function": has_output_function(agent),
        }
    )
    if reply.finish == "empty" and agent._output_schema.allows_none:
        reply = reply.model_copy(update={"finish": "finished"})
    if reply.finish != "finished" or any(tool.demand != "output" for tool in tools):
        return reply.model_copy(update={"unchecked": any(tool.demand == "output" for tool in tools)})
    if has_own_checks(agent):
        return reply.model_copy(update={"unchecked": True})
    checked = await with_checked_output(run, response, read_ids(response, calls))
    if checked.again:
        return reply.model_copy(update={"problem": checked.problem, "corrections": checked.messages})
    return reply.model_copy(update={"output": checked.result, "tool_calls": [], "object_tools": []})


async def _make_tool(part: ToolCallPart, manager: ToolManager[Any]) -> ObjectTool:
    definition = manager.get_tool_def(part.tool_name)
    if definition is None:
        return ObjectTool()
    demand: Demand = "output" if definition.kind == "output" else await _demand(part, definition, manager)
    return ObjectTool(parameters=definition.parameters_json_schema, demand=demand, barrier=definition.sequential)


async def _demand(part: ToolCallPart, definition: ToolDefinition, manager: ToolManager[Any]) -> Demand:
    """Return what comes before the call; nothing if its arguments do not fit: the call itself then says so."""
    demand = _DEMANDS.get(definition.kind, "")
    if not demand:
        return ""
    try:
        validated = await manager.validate_tool_call(part)
    except UnexpectedModelBehavior:
        return ""
    return demand if validated.args_valid and validated.deferral is None else ""


async def with_checked_output(run: Run, response: ModelResponse, ids: Ids) -> Completed:
    """Return the output that a reply gives, as JSON; or, with `again`, the messages that ask for another.

    Raises `output_invalid` once the agent's retries are used up.
    """
    manager, history = run.ctx.deps.tool_manager, run.ctx.state.message_history
    kept = [part for part in response.parts if not isinstance(part, ToolCallPart) or _is_output(part, manager)]
    # The library looks for the very object in the history: a copy fails, where a provider is known.
    history[-1] = output = replace(response, parts=kept)
    try:
        following = await run.next(CallToolsNode(output))
    except UnexpectedModelBehavior as error:
        raise wrong("output_invalid", error.message) from None
    if isinstance(following, End):
        return Completed(result=to_jsonable_python(following.data.output))
    assert isinstance(following, ModelRequestNode)
    messages = make_messages(following.request.parts, ids)
    problem = "; ".join(say_reason(message.content) for message in messages)
    return Completed(again=True, problem=problem, messages=messages)


def _is_output(part: ToolCallPart, manager: ToolManager[Any]) -> bool:
    definition = manager.get_tool_def(part.tool_name)
    return definition is not None and definition.kind == "output"


def make_messages(parts: Sequence[ModelRequestPart], ids: Ids) -> list[Message]:
    """Return our messages for parts that the library has made: a result for each call, and what else it says."""
    messages: list[Message] = []
    our_ids = dict(ids)
    for part in parts:
        content = to_jsonable_python(getattr(part, "content", None))  # parts about the request itself have none
        raw = dump_parts([part])
        if isinstance(part, ToolReturnPart):
            call = our_ids.get(part.tool_call_id, part.tool_call_id)
            messages.append(Message(role="tool", call=call, tool=part.tool_name, content=content, raw=raw))
        else:
            messages.append(Message(role="user", content=content, raw=raw))
    return messages


def say_reason(content: JSON) -> str:
    """Return what the library tells a model that has to call again, as one line; of its own checks, all mistakes.

    >>> say_reason([{"loc": ["amount"], "msg": "Input should be a valid integer", "type": "int_parsing"}])
    'amount: Input should be a valid integer'
    """
    match content:
        case [{"loc": _, "msg": _}, *_]:
            mistakes = [(".".join(map(str, mistake["loc"])), mistake["msg"]) for mistake in content]
            return "; ".join(f"{place}: {text}" if place else text for place, text in mistakes)
    return write_text(content)
