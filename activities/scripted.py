"""The scripted model `scripted:FILE`: replies from a YAML file, for tests and demos.

The n-th request of a step gets the n-th reply, counted over iterations and turns; past the end the last reply repeats.
Replies stand under the name of a step or an agent, or under a glob over addresses, which goes first.
The workflow counts (`RequestCounts`), since this worker may be restarted or be one of several.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path

from pydantic import ValidationError

from holdfast.activities.registry import wrong
from holdfast.blueprint.expressions.error import ExpressionError
from holdfast.blueprint.expressions.evaluation import render
from holdfast.blueprint.expressions.values import write_text
from holdfast.blueprint.json_values import JSON
from holdfast.blueprint.model_problems import describe_problem
from holdfast.blueprint.source import read
from holdfast.protocol.agents import Finish, ModelReply, ModelRequest, ToolCall
from holdfast.protocol.usage import Usage
from holdfast.protocol.values import Value


class ScriptedReply(Value):
    """A reply as the file has it; a plain text is one with just an output."""

    output: JSON = None
    tool_calls: list[ToolCall] = []
    expect: str | None = None
    """Text that must occur in the conversation; otherwise the request fails with `script_expectation`."""
    finish: Finish = "finished"
    """How the reply ended, to try replies that a real model cuts off or refuses."""


def reply_from(file: str, request: ModelRequest) -> ModelReply:
    """Return the file's reply to the request, its templates filled in. Raises `bad_script`, `script_expectation`."""
    replies = _replies_for(file, request)
    reply = _parse_reply(replies[min(request.n, len(replies)) - 1], file, request)
    conversation = "\n".join([request.instructions, *(write_text(message.content) for message in request.messages)])
    if reply.expect is not None and reply.expect not in conversation:
        raise wrong(
            "script_expectation", f"{file}: {request.step} {request.n}: expected {reply.expect!r} in the conversation"
        )
    calls = [call.model_copy(update={"args": _render_reply(call.args, file, request)}) for call in reply.tool_calls]
    output = _render_reply(reply.output, file, request)
    return ModelReply(output=output, tool_calls=calls, finish=reply.finish, usage=Usage(requests=1))


def check_script(file: str) -> JSON:
    """Return what the file holds. Raises `bad_script` if it cannot be read."""
    path = Path(file)
    try:
        return _script(path, path.stat().st_mtime_ns)
    except OSError as error:
        raise wrong("bad_script", f"cannot read the script {file}: {error.strerror}") from None


def _replies_for(file: str, request: ModelRequest) -> list[JSON]:
    script = check_script(file)
    if isinstance(script, dict):
        script = _find_replies(script, file, request)
    replies = script if isinstance(script, list) else [script]
    if not replies:
        raise wrong("bad_script", f"{file}: no replies for {request.step!r}")
    return replies


def _find_replies(script: dict[object, JSON], file: str, request: ModelRequest) -> JSON:
    for name, replies in script.items():
        if fnmatchcase(request.address, str(name)):
            return replies
    for name in (request.step, request.agent):
        if name is not None and name in script:
            return script[name]
    raise wrong("bad_script", f"{file}: no replies for {request.step!r}; it has {', '.join(map(str, script))}")


@lru_cache(maxsize=64)
def _script(path: Path, changed: int) -> JSON:  # `changed` is part of the cache's key
    value, _, problems = read(path.read_text(), str(path))
    if problems:
        raise wrong("bad_script", "\n".join(map(str, problems)))
    return value


def _parse_reply(reply: object, file: str, request: ModelRequest) -> ScriptedReply:
    try:
        return ScriptedReply.model_validate(reply) if isinstance(reply, dict) else ScriptedReply(output=reply)
    except ValidationError as error:
        text = f"{describe_problem(error)}; a reply is text, {{output: …}} or {{tool_calls: […]}}"
        raise wrong("bad_script", f"{file}: {request.step} {request.n}: {text}") from None


def _render_reply(template: object, file: str, request: ModelRequest) -> JSON:
    try:
        return render(template, request.model_dump(mode="json"))
    except ExpressionError as error:
        raise wrong("bad_script", f"{file}: {request.step} {request.n}: {error}") from None
