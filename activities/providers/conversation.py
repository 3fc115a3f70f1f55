"""A conversation as pydantic-ai has it, made from ours, and a reply of ours made from its."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pydantic import ValidationError
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequestPart,
    ModelResponse,
    ModelResponsePart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.messages import ModelRequest as Said
from pydantic_core import from_json

from activities.outputs import FINAL_RESULT
from blueprint.expressions import text_of
from protocol.agents import Message, ModelReply, ModelRequest, ToolCall, Usage

_MADE_UP = "pyd_ai_"
"""How ids begin that pydantic-ai makes up where the provider gave none; ours come from structure, not from chance."""
_CUT_OFF = "the reply was cut off at the limit of its tokens (max_tokens)"
_UNANSWERED = {FINAL_RESULT: "taken"}


def conversation(request: ModelRequest) -> list[ModelMessage]:
    """The messages in turns. Every tool call gets exactly one result, as providers refuse anything else."""
    turns: list[ModelMessage] = []
    waiting: list[ToolCallPart] = []
    results: list[ModelRequestPart] = []
    said: list[ModelRequestPart] = []

    def take_turn() -> None:
        missing = [_result(call, _UNANSWERED.get(call.tool_name, "no result")) for call in waiting]
        if parts := [*results, *missing, *said]:
            turns.append(Said(parts=parts, instructions=request.instructions or None))
        for part in (waiting, results, said):
            part.clear()

    for message in request.messages:
        match message.role:
            case "assistant":
                take_turn()
                response = _response(message)
                turns.append(response)
                waiting += [part for part in response.parts if isinstance(part, ToolCallPart)]
            case "tool":
                results.append(_result(_answered(message, waiting), text_of(message.content)))
            case "user":
                said.append(UserPromptPart(text_of(message.content)))
    take_turn()
    return turns


def reply_of(response: ModelResponse, request: ModelRequest) -> ModelReply:
    """The reply; the response itself goes along as opaque JSON, without the address it came from."""
    calls = [_call(part) for part in response.parts if isinstance(part, ToolCallPart)]
    text = response.text or ""
    cut_off = response.finish_reason == "length" and not calls and (request.output_schema is not None or not text)
    [raw] = ModelMessagesTypeAdapter.dump_python([replace(response, provider_url=None)], mode="json", exclude_none=True)
    return ModelReply(
        output=text,
        tool_calls=calls,
        usage=Usage(
            requests=1,
            input_tokens=response.usage.input_tokens,
            output_tokens=response.usage.output_tokens,
            cost_usd=_cost(response),
        ),
        problem=_CUT_OFF if cut_off else None,
        raw=raw,
    )


def _response(message: Message) -> ModelResponse:
    """What the model said, with our ids in its tool calls, in order."""
    response = _restored(message.raw) or _built(message)
    ids = iter([call.id for call in message.tool_calls])
    parts = [
        replace(part, tool_call_id=next(ids, "") or part.tool_call_id) if isinstance(part, ToolCallPart) else part
        for part in response.parts
    ]
    return replace(response, parts=parts)


def _restored(raw: Any) -> ModelResponse | None:
    """The response as the provider gave it; None if this version cannot read it, after an upgrade in mid-run."""
    if raw is None:
        return None
    try:
        [response] = ModelMessagesTypeAdapter.validate_python([raw])
    except ValidationError:
        return None
    return response if isinstance(response, ModelResponse) else None


def _built(message: Message) -> ModelResponse:
    parts: list[ModelResponsePart] = []
    if message.content not in (None, ""):
        parts.append(TextPart(text_of(message.content)))
    return ModelResponse(parts=[*parts, *(ToolCallPart(call.name, call.args) for call in message.tool_calls)])


def _answered(message: Message, waiting: list[ToolCallPart]) -> ToolCallPart:
    """The call that a result belongs to, no longer waiting: that of its id, else the first of its tool."""
    found = [call for call in waiting if call.tool_call_id == message.call]
    found += [call for call in waiting if call.tool_name == message.tool]
    if not found:
        return ToolCallPart(message.tool, tool_call_id=message.call)
    waiting.remove(found[0])
    return found[0]


def _result(call: ToolCallPart, text: str) -> ToolReturnPart:
    return ToolReturnPart(call.tool_name, text, call.tool_call_id)


def _call(part: ToolCallPart) -> ToolCall:
    args, unreadable = _args(part.args)
    id_ = "" if part.tool_call_id.startswith(_MADE_UP) else part.tool_call_id
    return ToolCall(id=id_, name=part.tool_name, args=args, unreadable=unreadable)


def _args(given: str | dict[str, Any] | None) -> tuple[dict[str, Any], str | None]:
    if not given:
        return {}, None
    try:
        args = given if isinstance(given, dict) else from_json(given, allow_inf_nan=False)
    except ValueError as error:
        return {}, f"no JSON: {error}"
    return (args, None) if isinstance(args, dict) else ({}, "no JSON object")


def _cost(response: ModelResponse) -> float | None:
    """Dollars, as the provider says or at the list price; None where the price is not known."""
    if response.usage.cost is not None:
        return float(response.usage.cost)
    if response.model_name is None:
        return None
    try:
        return float(response.cost().total_price)
    except (LookupError, ValueError):
        return None
