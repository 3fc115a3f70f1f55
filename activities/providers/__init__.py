"""Real models: requests to providers through pydantic-ai. Imported by `ModelActivities` with the first such request."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import cast

from pydantic_ai.direct import model_request
from pydantic_ai.messages import ModelResponse
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition, ToolDefinitionKind
from temporalio.exceptions import ApplicationError

from holdfast.activities.aliases import ModelAlias
from holdfast.activities.attempts import limit_time
from holdfast.activities.outputs import FINAL_RESULT, arguments_schema
from holdfast.activities.providers.access import build_model, list_headers
from holdfast.activities.providers.conversation import conversation, is_broken_off, make_reply, wire_name
from holdfast.activities.providers.failures import broken_off, failure, in_background, timed_out
from holdfast.activities.providers.files import check_files
from holdfast.activities.providers.schemas import ProviderModel, native_strictness, strictness, wire_schema
from holdfast.activities.registry import wrong
from holdfast.blueprint.json_values import JSONObject
from holdfast.protocol.agents import ModelReply, ModelRequest

for _name in ("httpx", "httpx2"):
    # They log the URL of every request, and URLs are the deployment's own.
    logging.getLogger(_name).setLevel(logging.WARNING)

_RESULT = "Give the final output. Call it alone, when nothing else is left to do."


class Models:
    """The models of one worker. Each is built once, since it has its own HTTP client, whose connections are reused."""

    def __init__(self) -> None:
        self._models: dict[tuple[ModelAlias, bool], ProviderModel] = {}
        self._lock = asyncio.Lock()

    async def reply(self, request: ModelRequest, alias: ModelAlias, *, ours: bool) -> ModelReply:
        """Return the reply to one request. Raises a typed `ApplicationError`, which Temporal retries or not.

        Args:
            ours: The deployment named the model, and not a blueprint.
        """
        seconds = time_limit(request, alias)
        try:
            async with limit_time(seconds, partial(timed_out, request.model)):
                model = await self.model(request.model, alias, ours=ours)
                check_files(model, request)
                response = await _response(model, request, seconds)
            if response.state == "suspended":
                raise in_background(request.model)
            if is_broken_off(response):
                raise broken_off(request.model)
            return make_reply(response, [tool.name for tool in request.tools])
        except ApplicationError:
            raise
        except Exception as error:  # noqa: BLE001 a client may fail in any way on a malformed reply
            # Without its cause: causes are written into the history, and this one's text may contain URLs and keys.
            raise failure(error, request.model, alias) from None

    async def check(self, name: str, alias: ModelAlias, *, ours: bool) -> None:
        """Raise a typed failure if the worker lacks the provider, its package or its key."""
        await self.model(name, alias, ours=ours)

    async def model(self, name: str, alias: ModelAlias, *, ours: bool) -> ProviderModel:
        """Return the model. Raises a typed failure if the worker lacks the provider, its package or its key."""
        async with self._lock:
            if (alias, ours) not in self._models:
                self._models[alias, ours] = await asyncio.to_thread(build_model, name, alias, ours)
            return self._models[alias, ours]


def time_limit(request: ModelRequest, alias: ModelAlias) -> float:
    """Return the seconds for a request: those of its author, or fewer by the deployment."""
    return request.timeout if alias.timeout is None else min(request.timeout, alias.timeout)


async def _response(model: ProviderModel, request: ModelRequest, seconds: float) -> ModelResponse:
    return await model_request(
        model,
        conversation(request.messages, request.instructions),
        model_settings=settings_for(model, request, seconds),
        model_request_parameters=_parameters(request, model),
    )


def settings_for(model: ProviderModel, request: ModelRequest, seconds: float) -> ModelSettings:
    """Return the author's settings, with a timeout and without the client's own retries.

    Temporal retries; with its default, the client made three HTTP requests of each one that got a 429.
    """
    settings = {"timeout": seconds, **request.settings, "max_retries": 0}
    if headers := list_headers(model):
        settings["extra_headers"] = {**headers, **settings.get("extra_headers", {})}
    supported = [key for key in settings if key in request.settings or key not in model.unsupported_settings]
    return cast(ModelSettings, {key: settings[key] for key in supported})


def _parameters(request: ModelRequest, model: ProviderModel) -> ModelRequestParameters:
    tools = [_definition(wire_name(tool.name), tool.description, tool.parameters, model) for tool in request.tools]
    if request.output_schema is None:
        return ModelRequestParameters(function_tools=tools)
    if request.native_output:
        return ModelRequestParameters(
            function_tools=tools, output_mode="native", output_object=_output_format(request, model)
        )
    if any(tool.name == FINAL_RESULT for tool in tools):
        raise wrong("model_rejected", f"no tool may be named {FINAL_RESULT}: it is how the model gives its output")
    result = _definition(FINAL_RESULT, _RESULT, arguments_schema(request.output_schema), model, kind="output")
    return ModelRequestParameters(
        function_tools=tools, output_mode="tool", output_tools=[result], allow_text_output=False
    )


def _output_format(request: ModelRequest, model: ProviderModel) -> OutputObjectDefinition:
    """Return the format of an output for a provider that has one of its own. Raises `model_rejected`."""
    if not model.profile.get("supports_json_schema_output", False):
        text = f"{request.model} has no output format of its own; leave out output_mode: native"
        raise wrong("model_rejected", text)
    if request.tools and "google" in model.system and not model.profile.get("google_supports_tool_combination", False):
        text = f"{request.model} takes no tools beside an output format of its own; leave out output_mode: native"
        raise wrong("model_rejected", text)
    assert request.output_schema is not None
    schema = wire_schema(arguments_schema(request.output_schema))
    return OutputObjectDefinition(schema, name=FINAL_RESULT, strict=native_strictness(schema, model))


def _definition(
    name: str, description: str, parameters: JSONObject, model: ProviderModel, kind: ToolDefinitionKind = "function"
) -> ToolDefinition:
    """Return a tool for pydantic-ai, whose schema says of every free object that it is open.

    pydantic-ai would close those that do not say so: an object of any keys would become one that allows none.
    """
    schema = wire_schema(parameters)
    return ToolDefinition(
        name=name,
        description=description,
        parameters_json_schema=schema,
        strict=strictness(schema, model),
        kind=kind,
    )


__all__ = ["Models", "settings_for", "time_limit"]
