"""One request to a model, whoever provides it."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from temporalio import activity

from activities.beating import beating
from activities.registry import wrong
from activities.scripted import reply_from
from blueprint.jsonschemas import misfit
from protocol.agents import ModelReply, ModelRequest

Provider = Callable[[ModelRequest, str], Awaitable[ModelReply]]
"""Answers a request; the text is what stands behind the provider's name: `scripted:<this>`."""


async def _scripted(request: ModelRequest, argument: str) -> ModelReply:
    return reply_from(argument, request)


async def _echo(request: ModelRequest, argument: str) -> ModelReply:
    return ModelReply(output=request.messages[-1].content)


PROVIDERS: dict[str, Provider] = {"scripted": _scripted, "echo": _echo}


class ModelActivities:
    """Calls models; `aliases` gives the models that the deployment names."""

    def __init__(self, aliases: Mapping[str, str]) -> None:
        self._aliases = aliases

    @activity.defn(name="call_model")
    async def call_model(self, request: ModelRequest) -> ModelReply:
        name = self._aliases.get(request.model, request.model)
        provider, _, argument = name.partition(":")
        if provider not in PROVIDERS:
            known = ", ".join([*sorted(self._aliases), "scripted:FILE", "echo"])
            raise wrong("unknown_model", f"no model {request.model!r}; this worker knows: {known}")
        async with beating():
            reply = await PROVIDERS[provider](request, argument)
        if request.output_schema is None or reply.tool_calls:
            return reply
        return reply.model_copy(update={"output": _fitting(reply.output, request)})


def _fitting(output: Any, request: ModelRequest) -> Any:
    """The output as its schema wants it; a text that holds JSON is read."""
    schema = request.output_schema or {}
    if isinstance(output, str) and misfit(schema, output):
        try:
            output = json.loads(output)
        except ValueError:
            raise wrong(
                "output_invalid", f"{request.step}: the model's text is no JSON, but a schema is wanted"
            ) from None
    if why := misfit(schema, output):
        raise wrong("output_invalid", f"{request.step}: the model's output does not fit: {why}")
    return output
