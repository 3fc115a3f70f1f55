"""Limits on the results of activities, checked before they enter a history.

There it would be too late: a workflow that takes over two seconds to walk a value fails its task on every replay.
"""

from __future__ import annotations

from typing import Any

from pydantic_core import to_json
from temporalio import activity
from temporalio.exceptions import ApplicationError
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor

from holdfast.activities.attempts import find_request
from holdfast.activities.registry import wrong
from holdfast.protocol.agents import ModelReply, ToolCall
from holdfast.protocol.answers import Refusal
from holdfast.protocol.size_limits import LARGEST_VALUE, SizeLimit, check_bytes, check_value, describe_excess


class SizeInterceptor(Interceptor):
    """Fails calls of ours whose result is larger than a server takes: it would be made again and again, without end.

    For workers that do not store large values outside.
    """

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        """See base class."""
        return _MeasuredCalls(next)


class _MeasuredCalls(ActivityInboundInterceptor):
    async def execute_activity(self, input: ExecuteActivityInput) -> Any:
        result = await self.next.execute_activity(input)
        if find_request(input) is not None:
            count = sum(payload.ByteSize() for payload in activity.payload_converter().to_payloads([result]))
            if count > LARGEST_VALUE:
                raise wrong("too_large", describe_excess("the result has", count, LARGEST_VALUE, "return less"))
        return result


def check_result(value: object, limit: SizeLimit, name: str) -> None:
    """Refuse a tool's result that is too large, or that JSON cannot represent.

    Raises a final `ApplicationError` of type `too_large` or `tool_output`, with the path.

    Args:
        value: Dicts, lists, texts, numbers, booleans and None; numbers may be too large or not finite.
        name: Name of the tool, for the message.
    """
    try:
        check_value(value, limit, "the result")
        check_bytes(len(to_json(value)), limit)
    except Refusal as refusal:
        if refusal.code == "too_large":
            raise wrong("too_large", f"{name} returned too much: {refusal.message}") from None
        raise wrong("tool_output", f"{name} returned something that is not JSON: {refusal.message}") from None


def storable(reply: ModelReply, limit: SizeLimit) -> ModelReply:
    """Return the reply with a problem for the model in place of a value that JSON cannot represent, such as 1e999.

    Raises a final `ApplicationError` of type `too_large`.
    """
    _unfit(reply.raw, limit, "the reply")
    calls = [_storable_call(call, limit) for call in reply.tool_calls]
    if (problem := _unfit(reply.output, limit, "the output")) is not None:
        reply = reply.model_copy(update={"output": None, "problem": reply.problem or problem})
    reply = reply.model_copy(update={"tool_calls": calls})
    try:
        check_bytes(len(to_json(reply)), limit)
    except Refusal as refusal:
        raise _too_large(refusal) from None
    return reply


def _storable_call(call: ToolCall, limit: SizeLimit) -> ToolCall:
    problem = _unfit(call.args, limit, "the arguments")
    return call if problem is None else call.model_copy(update={"args": {}, "unreadable": call.unreadable or problem})


def _unfit(value: object, limit: SizeLimit, name: str) -> str | None:
    """Return why JSON cannot represent the value, or None. Raises an `ApplicationError` if it is too large."""
    try:
        check_value(value, limit, name)
    except Refusal as refusal:
        if refusal.code == "too_large":
            raise _too_large(refusal) from None
        return refusal.message
    return None


def _too_large(refusal: Refusal) -> ApplicationError:
    return wrong("too_large", f"the model returned too much: {refusal.message}")
