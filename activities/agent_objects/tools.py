"""Calls of the tools of agent objects: by the library, with the context that its functions expect."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

from pydantic_ai.exceptions import ToolFailedError, ToolRetryError, UnexpectedModelBehavior
from pydantic_ai.messages import ModelRequestPart, ToolCallPart, ToolReturn, ToolReturnPart, UserPromptPart
from pydantic_ai.tools import ToolDenied
from pydantic_ai.usage import RunUsage
from pydantic_core import to_jsonable_python

from holdfast.activities.agent_objects.found import UNSUPPORTED
from holdfast.activities.agent_objects.replies import Ids, say_reason
from holdfast.activities.agent_objects.runs import Run, dump_parts
from holdfast.activities.registry import wrong
from holdfast.activities.reported_usage import report_usage
from holdfast.protocol.agents import Completed, Message, ToolCall


async def call_tool(run: Run, call: ToolCall, ids: Ids, *, approved: bool) -> Completed:
    """Return the result of a call, as the library puts it to the model.

    Raises `tool_retries` once the retries of the tool are used up, and what the function raises.
    """
    library_ids = {ours: theirs for theirs, ours in ids}
    part = ToolCallPart(call.name, call.args, library_ids.get(call.id, call.id))
    manager, usage = run.ctx.deps.tool_manager, run.ctx.state.usage
    before = replace(usage)
    try:
        value = await manager.handle_call(part, approved=approved)
    except ToolRetryError as error:
        return _complete(call, [error.tool_retry], again=True)
    except ToolFailedError as error:
        return _complete(call, [error.tool_failed], refused="failed")
    except UnexpectedModelBehavior as error:
        raise wrong("tool_retries", error.message) from None
    finally:
        _report_delegates(before, usage)
    return _complete(call, _parts(part, value), refused="denied" if isinstance(value, ToolDenied) else "")


def _report_delegates(before: RunUsage, after: RunUsage) -> None:
    """Report what agents have used that the tool ran with `usage=ctx.usage`."""
    if requests := after.requests - before.requests:
        report_usage(
            requests=requests,
            input_tokens=after.input_tokens - before.input_tokens,
            output_tokens=after.output_tokens - before.output_tokens,
        )


def _parts(part: ToolCallPart, value: Any) -> list[ModelRequestPart]:
    """Return the result of a call, and what the model is told beside it."""
    if isinstance(value, ToolDenied):
        denied = ToolReturnPart(part.tool_name, value.message, part.tool_call_id, outcome="denied")
        return [denied]
    if not isinstance(value, ToolReturn):
        return [ToolReturnPart(part.tool_name, value, part.tool_call_id)]
    if value.tools:
        text = (
            f"{part.tool_name} reveals tools (ToolReturn.tools), but there is no tool search; offer them from the start"
        )
        raise wrong(UNSUPPORTED, text)
    result = ToolReturnPart(part.tool_name, value.return_value, part.tool_call_id, metadata=value.metadata)
    return [result, *([UserPromptPart(value.content)] if value.content else [])]


def _complete(
    call: ToolCall,
    parts: Sequence[ModelRequestPart],
    *,
    again: bool = False,
    refused: Literal["", "failed", "denied"] = "",
) -> Completed:
    content = to_jsonable_python(getattr(parts[0], "content", None))
    message = Message(role="tool", call=call.id, tool=call.name, content=content, raw=dump_parts(parts))
    problem = say_reason(content) if again or refused else ""
    return Completed(result=content, messages=[message], again=again, refused=refused, problem=problem)
