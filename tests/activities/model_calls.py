"""Calls of a model by the activity alone, at a provider of the tests."""

from __future__ import annotations

from typing import Any

import pytest
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from holdfast.activities.aliases import ModelAlias
from holdfast.activities.models import ModelActivities
from holdfast.protocol.agents import Message, ModelReply, ModelRequest
from tests.activities.provider import Provider


def alias(provider: Provider, api: str = "chat", **more: Any) -> ModelAlias:
    """A model of the provider, by either of its APIs."""
    if api == "chat":
        return ModelAlias(f"openai-compatible:small@{provider.url}", api_key_env="TEST_KEY", **more)
    return ModelAlias("openai:small", api_key_env="TEST_KEY", base_url=provider.url, **more)


def asked(content: Any = "hello", model: str = "fast", **more: Any) -> ModelRequest:
    given = {"step": "draft", "messages": [Message(role="user", content=content)], "instructions": "Be brief."}
    return ModelRequest(model=model, **{**given, **more})


async def call(models: ModelActivities | ModelAlias, request: ModelRequest) -> ModelReply:
    activities = ModelActivities({"fast": models}) if isinstance(models, ModelAlias) else models
    reply = await ActivityEnvironment().run(activities.call_model, request)
    assert isinstance(reply, ModelReply)
    assert ModelReply.model_validate_json(reply.model_dump_json()) == reply, "it must survive being a payload"
    return reply


async def failed(models: ModelActivities | ModelAlias, request: ModelRequest | None = None) -> ApplicationError:
    with pytest.raises(ApplicationError) as caught:
        await call(models, request or asked())
    return caught.value


def answered(request: ModelRequest, reply: ModelReply, *more: Message) -> ModelRequest:
    """The request after it: with what the model said, and what was said to that."""
    said = Message(role="assistant", content=reply.output, tool_calls=reply.tool_calls, raw=reply.raw)
    return request.model_copy(update={"messages": [*request.messages, said, *more]})
