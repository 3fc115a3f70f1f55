"""The scripted model: replies from a YAML file, for tests and demos.

The n-th request of a step gets the n-th reply, whatever was retried or restarted; past the end the last one repeats.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from activities.registry import wrong
from blueprint.expressions import ExpressionError, render, text_of
from blueprint.source import read
from protocol.agents import ModelReply, ModelRequest, ToolCall, Usage
from protocol.values import Value


class Reply(Value):
    """A reply as the file has it; a bare text is an output. `expect` must stand in the conversation."""

    output: Any = None
    tool_calls: list[ToolCall] = []
    expect: str | None = None


def reply_from(file: str, request: ModelRequest) -> ModelReply:
    replies = _replies_for(file, request)
    reply = _parsed(replies[min(request.n, len(replies)) - 1], file, request)
    conversation = "\n".join([request.instructions, *(text_of(message.content) for message in request.messages)])
    if reply.expect is not None and reply.expect not in conversation:
        raise wrong("script_expectation", f"{file}: {request.step} {request.n}: expected {reply.expect!r} to be said")
    calls = [call.model_copy(update={"args": _filled(call.args, file, request)}) for call in reply.tool_calls]
    return ModelReply(output=_filled(reply.output, file, request), tool_calls=calls, usage=Usage(requests=1))


def _replies_for(file: str, request: ModelRequest) -> list[Any]:
    path = Path(file)
    try:
        script = _script(path, path.stat().st_mtime_ns)
    except OSError as error:
        raise wrong("bad_script", f"cannot read the script {file}: {error.strerror}") from None
    if isinstance(script, dict):
        script = _named(script, file, request)
    replies = script if isinstance(script, list) else [script]
    if not replies:
        raise wrong("bad_script", f"{file}: no replies for {request.step!r}")
    return replies


def _named(script: dict[Any, Any], file: str, request: ModelRequest) -> Any:
    for name in (request.step, request.agent):
        if name is not None and name in script:
            return script[name]
    raise wrong("bad_script", f"{file}: no replies for {request.step!r}; it has {', '.join(map(str, script))}")


@lru_cache(maxsize=64)
def _script(path: Path, changed: int) -> Any:
    value, _, problems = read(path.read_text(), str(path))
    if problems:
        raise wrong("bad_script", "\n".join(map(str, problems)))
    return value


def _parsed(reply: Any, file: str, request: ModelRequest) -> Reply:
    try:
        return Reply.model_validate(reply) if isinstance(reply, dict) else Reply(output=reply)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        text = f"{where}: {first['msg']}; a reply is text, {{output: …}} or {{tool_calls: […]}}"
        raise wrong("bad_script", f"{file}: {request.step} {request.n}: {text}") from None


def _filled(written: Any, file: str, request: ModelRequest) -> Any:
    """What the file has, with its templates filled in from the request."""
    try:
        return render(written, request.model_dump(mode="json"))
    except ExpressionError as error:
        raise wrong("bad_script", f"{file}: {request.step} {request.n}: {error}") from None
