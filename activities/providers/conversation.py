"""Conversion of a request's messages to pydantic-ai's, and of its response to a `ModelReply`. Used by `Models`."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

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
from pydantic_ai.messages import ModelRequest as RequestMessage
from pydantic_ai.usage import RequestUsage
from pydantic_core import from_json

from holdfast.activities.outputs import FINAL_RESULT
from holdfast.activities.providers.alternation import alternate_roles
from holdfast.activities.providers.files import make_prompt
from holdfast.blueprint.expressions.values import write_text
from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.protocol.agents import Finish, Message, ModelReply, ToolCall
from holdfast.protocol.usage import Usage

_MADE_UP = "pyd_ai_"
"""Prefix of the random ids that pydantic-ai adds where a provider gives none. They are dropped: ours must replay."""
_ID = re.compile(r"[A-Za-z0-9_-]{1,40}")
"""The characters that Anthropic accepts, and the length that OpenAI's chat completions accept."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
_Waiting = tuple[str, ToolCallPart]
"""Our id of a call that has no result yet, and the call."""
_BEGIN = "(Here the conversation begins.)"
_UNANSWERED = {FINAL_RESULT: "taken"}


def conversation(messages: Sequence[Message], instructions: str = "", *, open_end: bool = False) -> list[ModelMessage]:
    """Return the messages in turns. Every tool call gets exactly one result: providers refuse anything else.

    Args:
        open_end: The last message is a reply whose calls have no results yet.
    """
    turns = _Turns(instructions or None)
    for message in alternate_roles(messages):
        turns.add(message)
    if not open_end:
        turns.end_request()
    return turns.done


class _Turns:
    """The turns of a conversation: replies of the model, and between two of them one request."""

    def __init__(self, instructions: str | None) -> None:
        self.done: list[ModelMessage] = []
        self._instructions = instructions
        self._ids: set[str] = set()
        self._waiting: list[_Waiting] = []
        self._results: list[ModelRequestPart] = []
        self._prompts: list[ModelRequestPart] = []

    def add(self, message: Message) -> None:
        """Add a message to the request of this turn; one of the model ends it."""
        match message.role:
            case "assistant":
                self._add_reply(message)
            case "tool":
                call = _take_call(message, self._waiting)
                parts = _restored_parts(message.raw, call) or [_result(call, write_text(message.content))]
                self._results += [part for part in parts if not isinstance(part, UserPromptPart)]
                self._prompts += [part for part in parts if isinstance(part, UserPromptPart)]
            case "user":
                self._prompts += _restored_parts(message.raw) or [UserPromptPart(make_prompt(message))]

    def _add_reply(self, message: Message) -> None:
        self.end_request()
        if not self.done:  # Anthropic accepts no conversation that the model begins
            self._request([UserPromptPart(_BEGIN)])
        response, calls = _response(message, self._ids)
        self.done.append(response)
        self._waiting += calls

    def end_request(self) -> None:
        """Add the request of this turn, if there is anything in it: results first, with one for every open call."""
        missing = [_result(call, _UNANSWERED.get(call.tool_name, "no result")) for _, call in self._waiting]
        if parts := [*self._results, *missing, *self._prompts]:
            self._request(parts)
        self._waiting, self._results, self._prompts = [], [], []

    def _request(self, parts: list[ModelRequestPart]) -> None:
        self.done.append(RequestMessage(parts=parts, instructions=self._instructions))


def make_reply(response: ModelResponse, tools: Sequence[str] = ()) -> ModelReply:
    """Return the reply, with the response itself as opaque JSON but without the URL that it came from.

    Args:
        tools: Names of the tools in the request: calls come back with their `wire_name`.
    """
    names = {wire_name(tool): tool for tool in tools}
    calls = [_call(part, names) for part in response.parts if isinstance(part, ToolCallPart)]
    finish = _finish(response)
    [raw] = ModelMessagesTypeAdapter.dump_python([replace(response, provider_url=None)], mode="json", exclude_none=True)
    return ModelReply(
        output=_refusal(response) if finish == "refused" else response.text or "",
        tool_calls=calls,
        finish=finish,
        usage=Usage(
            requests=1,
            input_tokens=response.usage.input_tokens,
            output_tokens=response.usage.output_tokens,
            # In the activity: the prices come with the library, and a replay under another version would spend
            # otherwise.
            cost_usd=_cost(response),
        ),
        raw=raw,
    )


def is_broken_off(response: ModelResponse) -> bool:
    """Return whether the connection closed before the reply was complete.

    pydantic-ai streams from Anthropic if no `max_tokens` is set. If the connection closes, it returns the part that
    came as if it were complete: a call with `{}` for its arguments, say. Only the finish reason is missing then.
    """
    reason = (response.provider_details or {}).get("finish_reason")
    return response.provider_name == "anthropic" and response.finish_reason is None and reason is None


def _finish(response: ModelResponse) -> Finish:
    """Return how the reply ended.

    A reply that was cut off is not used at all: its calls may be cut off too, and be valid JSON all the same.
    """
    match response.finish_reason:
        case "content_filter":
            return "filtered" if _refusal(response) is None else "refused"
        case "length":
            return "cut_off"
    if not response.tool_calls and not (response.text or "").strip():
        return "empty"
    # Gemini's MALFORMED_FUNCTION_CALL and the like: the part before the error is no complete reply.
    return "cut_off" if response.finish_reason == "error" else "finished"


def _refusal(response: ModelResponse) -> str | None:
    """Return why the model refused; empty if it gave no reason, None if it did not refuse."""
    details = response.provider_details or {}
    if details.get("finish_reason") == "refusal":
        return str(details.get("refusal", ""))
    return details.get("refusal")


def _response(message: Message, ids: set[str]) -> tuple[ModelResponse, list[_Waiting]]:
    """Return the model's message, and its calls by our ids; on the wire calls get names and ids that APIs accept."""
    response = _restore(message.raw) or _build(message)
    ours = iter([call.id for call in message.tool_calls])
    parts: list[ModelResponsePart] = []
    calls: list[_Waiting] = []
    for part in response.parts:
        if isinstance(part, ToolCallPart):
            our_id = next(ours, "") or part.tool_call_id
            fit = _fit_call(part, _fit_id(our_id, ids))
            calls.append((our_id, fit))
            parts.append(fit)
        else:
            parts.append(part)
    return replace(response, parts=parts), calls


def _fit_call(part: ToolCallPart, id_: str) -> ToolCallPart:
    name = wire_name(part.tool_name)
    return replace(part, tool_call_id=id_) if name == part.tool_name else ToolCallPart(name, part.args, id_)


def _fit_id(id_: str, taken: set[str]) -> str:
    """Return the id of a call, or a new one if some API would refuse it: ids must be short, plain and unique."""
    number = len(taken) + 1
    fit = id_ if _ID.fullmatch(id_) else f"call_{number}"
    while fit in taken:
        number, fit = number + 1, f"call_{number}"
    taken.add(fit)
    return fit


def wire_name(name: str) -> str:
    """Return the name of a tool in a form that every API accepts: unchanged, if it is in one already.

    Agents and imports that are tools may begin with a digit or be long, and a model may have invented a name. The
    digest keeps two names apart that are equal once they are cut.
    """
    if _NAME.fullmatch(name):
        return name
    digest = hashlib.sha256(name.encode(errors="replace")).hexdigest()[:8]
    return f"_{re.sub(r'[^A-Za-z0-9_-]', '_', name)[:54]}_{digest}"


def _restore(raw: JSON) -> ModelResponse | None:
    """Return the provider's response, or None if this version cannot read it: after an upgrade during a run."""
    if raw is None:
        return None
    try:
        [response] = ModelMessagesTypeAdapter.validate_python([raw])
    except ValidationError:
        return None
    return response if isinstance(response, ModelResponse) else None


def _restored_parts(raw: JSON, call: ToolCallPart | None = None) -> list[ModelRequestPart]:
    """Return the parts of a request as their library has made them, as results of this call; [] as above."""
    if not isinstance(raw, list):
        return []
    try:
        [request] = ModelMessagesTypeAdapter.validate_python([{"kind": "request", "parts": raw}])
    except ValidationError:
        return []
    parts = list(request.parts) if isinstance(request, RequestMessage) else []
    for part in parts if call is not None else ():
        if isinstance(part, ToolReturnPart) and call is not None:
            part.tool_name, part.tool_call_id = call.tool_name, call.tool_call_id
    return parts


def _build(message: Message) -> ModelResponse:
    parts: list[ModelResponsePart] = []
    if message.content not in (None, ""):
        parts.append(TextPart(write_text(message.content)))
    return ModelResponse(parts=[*parts, *(ToolCallPart(call.name, call.args) for call in message.tool_calls)])


def _take_call(message: Message, waiting: list[_Waiting]) -> ToolCallPart:
    """Remove from `waiting` and return the call that a result is for: by its id, else the first of its tool."""
    matches = [entry for entry in waiting if entry[0] == message.call]
    matches += [entry for entry in waiting if entry[1].tool_name == wire_name(message.tool)]
    if not matches:
        return ToolCallPart(wire_name(message.tool), tool_call_id=message.call)
    waiting.remove(matches[0])
    return matches[0][1]


def _result(call: ToolCallPart, text: str) -> ToolReturnPart:
    return ToolReturnPart(call.tool_name, text, call.tool_call_id)


def _call(part: ToolCallPart, names: Mapping[str, str]) -> ToolCall:
    args, unreadable = _args(part.args)
    id_ = "" if part.tool_call_id.startswith(_MADE_UP) else part.tool_call_id
    name = names.get(part.tool_name, part.tool_name)
    return ToolCall(id=id_, name=name, args=args, unreadable=unreadable)


def _args(raw: str | JSONObject | None) -> tuple[JSONObject, str | None]:
    """Return the arguments, and why they cannot be read or None."""
    if not raw:
        return {}, None
    try:
        args = raw if isinstance(raw, dict) else from_json(raw, allow_inf_nan=False)
    except ValueError as error:
        return {}, f"no JSON: {error}"
    return (args, None) if isinstance(args, dict) else ({}, "no JSON object")


def find_price(model: str, usage: Usage) -> float | None:
    """Return the list price of tokens of a model, `provider:name`; None if it is not known."""
    provider, _, name = model.rpartition(":")
    tokens = RequestUsage(input_tokens=usage.input_tokens, output_tokens=usage.output_tokens)
    return _cost(ModelResponse(parts=[], usage=tokens, model_name=name or None, provider_name=provider or None))


def _cost(response: ModelResponse) -> float | None:
    """Return the cost in dollars, as the provider reports it or at list price; None if the price is not known."""
    if response.usage.cost is not None:
        return float(response.usage.cost)
    if response.model_name is None:
        return None
    try:
        return float(response.cost().total_price)
    except (LookupError, ValueError):
        return None
