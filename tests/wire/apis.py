"""The four APIs: which requests each refuses, and how it words a reply and an error."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from tests.activities.provider import Reply, Request, completion, response
from tests.wire.contents import (
    anthropic_file_problems,
    anthropic_format_problems,
    cache_problems,
    chat_part_problems,
    google_file_problems,
    responses_part_problems,
)
from tests.wire.schemas import anthropic_problem, google_problem, openai_problem
from tests.wire.thoughts import (
    anthropic_thought,
    anthropic_thought_problems,
    google_thought_problems,
    responses_thought,
    responses_thought_problems,
    signature,
)

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_GOOGLE_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}")
_TOOL_USE_ID = re.compile(r"[a-zA-Z0-9_-]+")
_CHAT_KEYS = {
    *("model", "messages", "tools", "tool_choice", "parallel_tool_calls", "stream", "temperature", "top_p", "stop"),
    *("max_completion_tokens", "max_tokens", "seed", "response_format", "reasoning_effort", "user", "store"),
}
_RESPONSES_KEYS = {
    *("model", "input", "instructions", "tools", "tool_choice", "parallel_tool_calls", "stream", "temperature"),
    *("top_p", "max_output_tokens", "store", "include", "reasoning", "text", "truncation", "previous_response_id"),
}
_ANTHROPIC_KEYS = {
    *("model", "messages", "system", "max_tokens", "tools", "tool_choice", "temperature", "top_p", "top_k"),
    *("stream", "stop_sequences", "metadata", "thinking", "cache_control", "output_config"),
}
_GOOGLE_KEYS = {"contents", "systemInstruction", "tools", "toolConfig", "generationConfig", "safetySettings"}
_MOST_TOOLS = 128
_LONGEST_CALL_ID = 40


class Api:
    """One API. `offered` gives the schemas of the tools by name, as they came over the wire."""

    name: str
    model: str
    """What the alias names, with the provider."""
    base = ""
    """What stands behind the server's address in the alias."""

    def problem(self, request: Request) -> str | None:
        """Why the API would answer 400."""
        return next(self.problems(request), None)

    def problems(self, request: Request) -> Iterator[str]:
        raise NotImplementedError

    def offered(self, request: Request) -> dict[str, Any]:
        raise NotImplementedError

    def body(self, reply: Reply, request: Request) -> Any:
        raise NotImplementedError

    def stream(self, body: Any) -> Iterator[Any]:
        raise NotImplementedError

    def error(self, status: int, message: str) -> Any:
        return {"error": {"message": message, "type": "invalid_request_error", "code": None, "param": None}}


class Chat(Api):
    """OpenAI's chat completions."""

    name, model, base = "chat", "openai-chat:gpt-5.2", "/v1"

    def problems(self, request: Request) -> Iterator[str]:
        body = request.body
        yield from _unknown(body, _CHAT_KEYS)
        if not body.get("messages"):
            yield "Invalid 'messages': empty array. Expected an array with minimum length 1."
        yield from _openai_tools([tool.get("function", {}) for tool in body.get("tools", [])], body)
        if (form := body.get("response_format")) is not None:
            yield from _openai_format(form.get("type"), form.get("json_schema", {}), "response_format")
        yield from _chat_messages(body["messages"])

    def offered(self, request: Request) -> dict[str, Any]:
        return {tool["function"]["name"]: tool["function"]["parameters"] for tool in request.body.get("tools", [])}

    def body(self, reply: Reply, request: Request) -> Any:
        finish = {"refusal": "stop"}.get(reply.finish or "", reply.finish)
        whole = completion(reply, request.body["model"])
        [choice] = whole["choices"]
        choice["finish_reason"] = finish or choice["finish_reason"]
        if reply.finish == "refusal":
            choice["message"] = {"role": "assistant", "content": None, "refusal": reply.text}
        return whole


def _openai_format(kind: Any, form: Any, place: str) -> Iterator[str]:
    """The format of an output: a closed schema in strict mode, and a name."""
    if kind != "json_schema":
        yield f"Invalid value: '{kind}'. Supported values are: 'json_object', 'json_schema', and 'text'."
    if not NAME.fullmatch(form.get("name", "")):
        yield f"Missing required parameter: '{place}.name'."
    if problem := openai_problem(form.get("name", ""), form.get("schema"), strict=bool(form.get("strict"))):
        yield problem.replace("function", "response_format", 1)


def _unknown(body: Any, known: set[str]) -> Iterator[str]:
    for key in body:
        if key not in known:
            yield f"Unknown parameter: '{key}'."


def _openai_tools(tools: list[Any], body: Any) -> Iterator[str]:
    if len(tools) > _MOST_TOOLS or ("tools" in body and not tools):
        yield "Invalid 'tools': array too long or empty. Expected an array with 1 to 128 elements."
    if body.get("tool_choice") not in (None, "none") and not tools:
        yield "Invalid value for 'tool_choice': 'tool_choice' is only allowed when 'tools' are specified."
    yield from _names([tool.get("name") for tool in tools], NAME)
    for tool in tools:
        if problem := openai_problem(tool["name"], tool.get("parameters"), strict=bool(tool.get("strict"))):
            yield problem


def _names(names: list[Any], pattern: re.Pattern[str]) -> Iterator[str]:
    for name in names:
        if not isinstance(name, str) or not pattern.fullmatch(name):
            yield f"Invalid name {name!r}: string does not match pattern. Expected a match of '{pattern.pattern}'."
    if len(set(names)) < len(names):
        yield "Tool names must be unique."


def _chat_messages(messages: list[Any]) -> Iterator[str]:
    waiting: list[str] = []
    for index, message in enumerate(messages):
        role, content, calls = message.get("role"), message.get("content"), message.get("tool_calls")
        if waiting and role != "tool":
            yield (
                "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
                f"'tool_call_id'. The following tool_call_ids did not have response messages: {', '.join(waiting)}"
            )
        match role:
            case "tool":
                if message.get("tool_call_id") not in waiting:
                    yield (
                        f"Invalid parameter: messages[{index}] with role 'tool' must be a response to a preceeding "
                        "message with 'tool_calls'."
                    )
                waiting.remove(message["tool_call_id"])
            case "assistant":
                if content is None and not calls:
                    yield f"Invalid value for 'messages[{index}].content': expected a string, got null."
                if calls is not None and not calls:
                    yield f"Invalid 'messages[{index}].tool_calls': empty array."
                waiting = [call["id"] for call in calls or ()]
                yield from _calls_of(calls or [], f"messages[{index}].tool_calls")
            case "system" | "developer" | "user":
                if not isinstance(content, str | list) or content == []:
                    yield f"Invalid value for 'messages[{index}].content': expected a string, got {content!r}."
                for part in content if isinstance(content, list) else ():
                    yield from chat_part_problems(part, f"messages[{index}].content")
            case _:
                yield f"Invalid value: '{role}'. Supported values are: 'system', 'assistant', 'user', 'tool'."
    if waiting:
        yield f"tool_call_ids did not have response messages: {', '.join(waiting)}"


def _calls_of(calls: list[Any], place: str) -> Iterator[str]:
    ids = [call.get("id") for call in calls]
    for call in calls:
        if not call.get("id") or len(call["id"]) > _LONGEST_CALL_ID:
            yield f"Invalid '{place}[0].id': empty, or a string with more than 40 characters: {call.get('id')!r}."
        if not isinstance(call["function"].get("arguments"), str):
            yield f"Invalid type for '{place}[0].function.arguments': expected a string."
        if not NAME.fullmatch(call["function"].get("name", "")):
            yield f"Invalid '{place}[0].function.name': string does not match pattern '^[a-zA-Z0-9_-]+$'."
    if len(set(ids)) < len(ids):
        yield f"Invalid '{place}': duplicate ids."


class Responses(Api):
    """OpenAI's responses."""

    name, model, base = "responses", "openai:gpt-5.2", "/v1"
    _BEGIN = {"message": "msg", "function_call": "fc", "reasoning": "rs"}

    def problems(self, request: Request) -> Iterator[str]:
        body = request.body
        yield from _unknown(body, _RESPONSES_KEYS)
        yield from _openai_tools(body.get("tools", []), body)
        if (form := body.get("text", {}).get("format")) is not None:
            yield from _openai_format(form.get("type"), form, "text.format")
        if not body.get("input"):
            yield "Invalid 'input': empty."
        items = body["input"] if isinstance(body["input"], list) else []
        yield from self._items(items)
        yield from responses_thought_problems(items)

    def _items(self, items: list[Any]) -> Iterator[str]:
        ids = [item["id"] for item in items if item.get("id")]
        if len(set(ids)) < len(ids):
            yield "Duplicate item found with id. Remove duplicate items from your input and try again."
        called: list[str] = []
        for index, item in enumerate(items):
            kind = item.get("type", "message")
            if (id_ := item.get("id")) is not None and not id_.startswith(self._BEGIN.get(kind, "")):
                yield f"Invalid 'input[{index}].id': '{id_}'. Expected an ID that begins with '{self._BEGIN[kind]}'."
            match kind:
                case "function_call":
                    called.append(item["call_id"])
                    if not item["call_id"] or len(item["call_id"]) > 64:
                        yield f"Invalid 'input[{index}].call_id': empty string."
                    if not NAME.fullmatch(item["name"]):
                        yield f"Invalid 'input[{index}].name': string does not match pattern."
                case "function_call_output":
                    if item["call_id"] not in called:
                        yield f"No tool call found for function call output with call_id {item['call_id']}."
                    called.remove(item["call_id"])
                case "message":
                    if item.get("role") not in ("user", "assistant", "system", "developer"):
                        yield f"Invalid value: 'input[{index}].role'."
                    if called:
                        yield f"No tool output found for function call {called[0]}."
                    for part in item["content"] if isinstance(item["content"], list) else ():
                        yield from responses_part_problems(part, f"input[{index}].content")
                case "reasoning":
                    pass
                case _:
                    yield f"Invalid value: '{kind}'."
        if called:
            yield f"No tool output found for function call {called[0]}."

    def offered(self, request: Request) -> dict[str, Any]:
        return {tool["name"]: tool["parameters"] for tool in request.body.get("tools", [])}

    def body(self, reply: Reply, request: Request) -> Any:
        whole = response(reply, request.body["model"])
        if reply.reasoning is not None:
            whole["output"] = responses_thought(reply.reasoning, whole["output"])
        whole["output"] = [
            {**item, "id": f"{item['id']}_{request.connection}_{len(request.body['input'])}"}
            for item in whole["output"]
        ]
        match reply.finish:
            case "length" | "content_filter":
                reason = {"length": "max_output_tokens"}.get(reply.finish, reply.finish)
                whole |= {"status": "incomplete", "incomplete_details": {"reason": reason}}
            case "refusal":
                whole["output"][0]["content"] = [{"type": "refusal", "refusal": reply.text}]
        return whole


class Anthropic(Api):
    """Anthropic's messages."""

    name, model = "anthropic", "anthropic:claude-sonnet-4-6"
    _ERRORS = {401: "authentication_error", 429: "rate_limit_error", 500: "api_error", 503: "overloaded_error"}
    _STOPS = {"length": "max_tokens", "content_filter": "refusal", "refusal": "refusal"}

    def problems(self, request: Request) -> Iterator[str]:
        body = request.body
        for key in body.keys() - _ANTHROPIC_KEYS:
            yield f"{key}: Extra inputs are not permitted"
        if not isinstance(body.get("max_tokens"), int):
            yield "max_tokens: Field required"
        tools = body.get("tools", [])
        yield from _names([tool.get("name") for tool in tools], re.compile(r"[a-zA-Z0-9_-]{1,128}"))
        for index, tool in enumerate(tools):
            if problem := anthropic_problem(f"tools.{index}.custom", tool.get("input_schema")):
                yield problem
        yield from cache_problems(body)
        if (form := body.get("output_config", {}).get("format")) is not None:
            yield from anthropic_format_problems(form)
        yield from anthropic_thought_problems(body)
        yield from self._messages(body.get("messages", []))

    def _messages(self, messages: list[Any]) -> Iterator[str]:
        if not messages or messages[0].get("role") != "user":
            yield "messages: first message must use the user role"
        used: Counter[str] = Counter()
        waiting: list[str] = []
        for index, message in enumerate(messages):
            content = message.get("content")
            blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content or []
            if not blocks:
                yield f"messages.{index}: all messages must have non-empty content except for the final assistant one"
            results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
            if sorted(results) != sorted(waiting):
                yield (
                    f"messages.{index}: `tool_use` ids were found without `tool_result` blocks immediately after, or "
                    f"unexpected `tool_use_id` found in `tool_result` blocks: {waiting} {results}"
                )
            kinds = [block["type"] for block in blocks]
            if results and kinds[: len(results)] != ["tool_result"] * len(results):
                yield f"messages.{index}: `tool_result` blocks must come first"
            yield from self._blocks(blocks, index)
            waiting = [block["id"] for block in blocks if block["type"] == "tool_use"]
            used.update(waiting)
            if message.get("role") == ("assistant" if results else "") or message.get("role") not in _ROLES:
                yield f"messages.{index}.role: Input should be 'user' or 'assistant'"
        if waiting:
            yield f"`tool_use` ids were found without `tool_result` blocks immediately after: {waiting}"
        if any(count > 1 for count in used.values()):
            yield "messages: `tool_use` ids must be unique"

    def _blocks(self, blocks: list[Any], index: int) -> Iterator[str]:
        for at, block in enumerate(blocks):
            place = f"messages.{index}.content.{at}"
            match block["type"]:
                case "image" | "document":
                    yield from anthropic_file_problems(block, place)
                case "text":
                    if not block["text"].strip():
                        yield f"{place}: text content blocks must contain non-whitespace text"
                case "tool_use":
                    if not _TOOL_USE_ID.fullmatch(block["id"]):
                        yield f"{place}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'"
                    if not isinstance(block["input"], dict):
                        yield f"{place}.tool_use.input: Input should be a valid dictionary"
                    if not re.fullmatch(r"[a-zA-Z0-9_-]{1,200}", block["name"]):
                        yield f"{place}.tool_use.name: String should match pattern '^[a-zA-Z0-9_-]{{1,200}}$'"

    def offered(self, request: Request) -> dict[str, Any]:
        return {tool["name"]: tool["input_schema"] for tool in request.body.get("tools", [])}

    def body(self, reply: Reply, request: Request) -> Any:
        content: list[Any] = [] if reply.reasoning is None else [anthropic_thought(reply.reasoning)]
        if reply.text not in (None, ""):
            content.append({"type": "text", "text": reply.text})
        for name, args, id_ in reply.calls:
            given = args if isinstance(args, dict) else {}
            content.append({"type": "tool_use", "id": id_, "name": name, "input": given})
        asked, said = reply.usage
        stop = self._STOPS.get(reply.finish or "", "tool_use" if reply.calls else "end_turn")
        details = (
            {"type": "refusal", "category": None, "explanation": reply.text} if reply.finish == "refusal" else None
        )
        return {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": request.body["model"],
            "content": content,
            "stop_reason": stop,
            "stop_sequence": None,
            "stop_details": details,
            "usage": {"input_tokens": asked, "output_tokens": said},
        }

    def error(self, status: int, message: str) -> Any:
        kind = self._ERRORS.get(status, "invalid_request_error")
        return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}

    def stream(self, body: Any) -> Iterator[Any]:
        """The events by which a reply comes, where it is asked for as a stream."""
        first = {**body, "content": [], "stop_reason": None, "usage": {**body["usage"], "output_tokens": 0}}
        yield {"type": "message_start", "message": first}
        for index, block in enumerate(body["content"]):
            yield from _block(index, block)
        ended = {key: body[key] for key in ("stop_reason", "stop_sequence", "stop_details")}
        yield {"type": "message_delta", "delta": ended, "usage": {"output_tokens": body["usage"]["output_tokens"]}}
        yield {"type": "message_stop"}


_ROLES = ("user", "assistant")


def _block(index: int, block: Any) -> Iterator[Any]:
    """A block of a streamed message, in two halves; a signature comes whole, at its end."""
    match block["type"]:
        case "text":
            kind, key, told, empty = "text_delta", "text", block["text"], {"text": ""}
        case "thinking":
            kind, key, told, empty = "thinking_delta", "thinking", block["thinking"], {"thinking": "", "signature": ""}
        case _:
            kind, key, told, empty = "input_json_delta", "partial_json", json.dumps(block["input"]), {"input": {}}
    yield {"type": "content_block_start", "index": index, "content_block": {**block, **empty}}
    for part in (told[: len(told) // 2], told[len(told) // 2 :]):
        yield {"type": "content_block_delta", "index": index, "delta": {"type": kind, key: part}}
    if "signature" in block:
        delta = {"type": "signature_delta", "signature": block["signature"]}
        yield {"type": "content_block_delta", "index": index, "delta": delta}
    yield {"type": "content_block_stop", "index": index}


class Google(Api):
    """Google's generateContent."""

    name, model = "google", "google:gemini-2.5-pro"
    _ERRORS = {401: "UNAUTHENTICATED", 429: "RESOURCE_EXHAUSTED", 500: "INTERNAL", 503: "UNAVAILABLE"}
    _FINISH = {"length": "MAX_TOKENS", "content_filter": "SAFETY", "refusal": "PROHIBITED_CONTENT"}

    def problems(self, request: Request) -> Iterator[str]:
        body = request.body
        if not re.fullmatch(r"/v1beta/models/[a-z0-9.-]+:generateContent", request.path):
            yield f"not found: {request.path}"
        for key in body.keys() - _GOOGLE_KEYS:
            yield f'Invalid JSON payload received. Unknown name "{key}": Cannot find field.'
        declared = self._declared(request)
        yield from _names([one.get("name") for one in declared], _GOOGLE_NAME)
        for index, one in enumerate(declared):
            place = f"tools[0].function_declarations[{index}].parameters"
            if problem := google_problem(place, self._schema(one)):
                yield problem
        if body.get("generationConfig", {}).get("responseMimeType") == "application/json" and declared:
            yield "Function calling with a response mime type: 'application/json' is unsupported"
        yield from google_thought_problems(body.get("contents", []))
        yield from self._contents(body.get("contents", []))

    def _contents(self, contents: list[Any]) -> Iterator[str]:
        if not contents:
            yield "contents is not specified"
        before: list[str] | None = None
        """The calls that wait for their responses; None at the beginning."""
        role = ""
        for index, content in enumerate(contents):
            parts = content.get("parts") or []
            if not parts or any(len(part.keys() - {"thoughtSignature", "thought"}) != 1 for part in parts):
                yield f"contents[{index}].parts: contents.parts must not be empty, and each must have one data field."
            for part in parts:
                yield from google_file_problems(part)
            calls = [part["functionCall"]["name"] for part in parts if "functionCall" in part]
            results = [part["functionResponse"]["name"] for part in parts if "functionResponse" in part]
            if (before or results) and results != (before or []):
                yield (
                    "Please ensure that the number of function response parts is equal to the number of function call "
                    f"parts of the function call turn. {before} {results}"
                )
            if calls and (content.get("role") != "model" or role != "user"):
                yield "Please ensure that function call turn comes immediately after a user turn."
            if any(not isinstance(part["functionResponse"]["response"], dict) for part in parts if results):
                yield "functionResponse.response: must be a Struct"
            before, role = calls, content.get("role", "")
            if role not in ("user", "model"):
                yield "Please use a valid role: user, model."
        if before:
            yield "the number of function response parts is not equal to the number of function call parts"

    def _declared(self, request: Request) -> list[Any]:
        return [one for tool in request.body.get("tools", []) for one in tool.get("functionDeclarations", [])]

    @staticmethod
    def _schema(declared: Any) -> Any:
        return declared.get("parametersJsonSchema", declared.get("parameters_json_schema"))

    def offered(self, request: Request) -> dict[str, Any]:
        return {one["name"]: self._schema(one) for one in self._declared(request)}

    def body(self, reply: Reply, request: Request) -> Any:
        parts: list[Any] = [] if reply.text in (None, "") else [{"text": reply.text}]
        for name, args, id_ in reply.calls:
            id_given = {"id": id_} if id_ else {}
            parts.append({"functionCall": {"name": name, "args": args if isinstance(args, dict) else {}, **id_given}})
        if reply.reasoning is not None:
            parts[0]["thoughtSignature"] = signature(reply.reasoning)
            parts.insert(0, {"text": reply.reasoning, "thought": True})
        asked, said = reply.usage
        finish = self._FINISH.get(reply.finish or "", "STOP")
        content = {} if finish in ("SAFETY", "PROHIBITED_CONTENT") else {"content": {"role": "model", "parts": parts}}
        return {
            "candidates": [{"index": 0, "finishReason": finish, **content}],
            "usageMetadata": {
                "promptTokenCount": asked,
                "candidatesTokenCount": said,
                "totalTokenCount": asked + said,
            },
            "modelVersion": "gemini-2.5-pro",
            "responseId": "r1",
        }

    def error(self, status: int, message: str) -> Any:
        kind = self._ERRORS.get(status, "INVALID_ARGUMENT")
        return {"error": {"code": status, "message": message, "status": kind}}


APIS: dict[str, Api] = {api.name: api for api in (Chat(), Responses(), Anthropic(), Google())}
