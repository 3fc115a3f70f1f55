"""One request to a model, whoever provides it."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from temporalio import activity

from activities.beating import beating
from activities.outputs import settled
from activities.registry import wrong
from activities.scripted import reply_from
from protocol.agents import ModelReply, ModelRequest

if TYPE_CHECKING:
    from activities.providers import Models


@dataclass(frozen=True)
class ModelAlias:
    """What the deployment means by a model's name; none of it is ever in a payload."""

    model: str
    api_key_env: str | None = None
    """The environment variable that holds the key."""
    base_url: str | None = None
    timeout: float | None = None
    """Seconds that one request may take."""


class ModelActivities:
    """Calls models; `aliases` gives the models that the deployment names."""

    def __init__(self, aliases: Mapping[str, ModelAlias]) -> None:
        self._aliases = aliases
        self._models: Models | None = None

    @activity.defn(name="call_model")
    async def call_model(self, request: ModelRequest) -> ModelReply:
        async with beating():
            reply = await self._answered(request)
        return settled(reply, request.output_schema)

    async def _answered(self, request: ModelRequest) -> ModelReply:
        alias = self._aliases.get(request.model)
        meant = alias or ModelAlias(request.model)
        provider, colon, rest = meant.model.partition(":")
        if provider == "echo":
            return ModelReply(output=request.messages[-1].content)
        if provider == "scripted":
            return reply_from(rest, request)
        if not colon:
            raise wrong("unknown_model", f"no model {request.model!r}; this worker knows: {self._known()}")
        return await (await self._providers()).reply(request, meant, ours=alias is not None)

    def _known(self) -> str:
        kinds = ("provider:NAME (such as openai:gpt-5.2)", "openai-compatible:NAME@URL", "scripted:FILE", "echo")
        return ", ".join([*sorted(self._aliases), *kinds])

    async def _providers(self) -> Models:
        """The real models. Importing their library takes a second or more, so it waits until one is asked for,
        and a thread does it: workers start fast, and the heartbeats of other activities go on meanwhile."""
        if self._models is None:
            module = await asyncio.to_thread(importlib.import_module, "activities.providers")
            self._models = self._models or module.Models()
        return self._models
