"""Real models: requests to the providers that pydantic-ai knows."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, cast

from pydantic_ai.direct import model_request
from pydantic_ai.messages import ModelResponse
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition
from temporalio import activity
from temporalio.exceptions import ApplicationError

from activities.models import ModelAlias
from activities.outputs import FINAL_RESULT, arguments_schema
from activities.providers.access import made
from activities.providers.conversation import conversation, reply_of
from activities.providers.failures import failure, too_late, withheld
from activities.registry import wrong
from protocol.agents import ModelReply, ModelRequest

for _name in ("httpx", "httpx2"):
    # They log the address of every request, and addresses are the deployment's own.
    logging.getLogger(_name).setLevel(logging.WARNING)

_MARGIN_SECONDS = 2.0
_LONGEST_SECONDS = 600.0


class Models:
    """The real models of one worker, each made once: one HTTP client, so that connections are used again."""

    def __init__(self) -> None:
        self._made: dict[tuple[ModelAlias, bool], Model[Any]] = {}
        self._making = asyncio.Lock()

    async def reply(self, request: ModelRequest, alias: ModelAlias, *, ours: bool) -> ModelReply:
        """One HTTP request; `ours` says whether the deployment named the model. Failures are typed for retrying."""
        seconds = _allowed(alias)
        try:
            async with asyncio.timeout(seconds):
                model = await self._model(request.model, alias, ours)
                response = await _response(model, request, seconds)
            if response.finish_reason == "content_filter" or response.state == "suspended":
                raise withheld(response, request.model)
            return reply_of(response, request)
        except TimeoutError:
            raise too_late(request.model, seconds) from None
        except ApplicationError:
            raise
        except Exception as error:  # noqa: BLE001 a client may stumble in any way over a reply that makes no sense
            # Without its cause, whose text may hold addresses and keys: causes are written into the history.
            raise failure(error, request.model, alias) from None

    async def _model(self, name: str, alias: ModelAlias, ours: bool) -> Model[Any]:
        async with self._making:
            if (alias, ours) not in self._made:
                self._made[alias, ours] = await asyncio.to_thread(made, name, alias, ours)
            return self._made[alias, ours]


def _allowed(alias: ModelAlias) -> float:
    """Seconds that the request may take: a little less than the attempt, so that it ends with a failure of ours."""
    info = activity.info()
    whole = info.start_to_close_timeout or info.schedule_to_close_timeout
    attempt = _LONGEST_SECONDS if whole is None else whole.total_seconds()
    limit = attempt - min(_MARGIN_SECONDS, attempt / 10)
    return limit if alias.timeout is None else min(limit, alias.timeout)


async def _response(model: Model[Any], request: ModelRequest, seconds: float) -> ModelResponse:
    return await model_request(
        model,
        conversation(request),
        model_settings=_settings(model, request, seconds),
        model_request_parameters=_parameters(request),
    )


def _settings(model: Model[Any], request: ModelRequest, seconds: float) -> ModelSettings:
    """The author's settings. Temporal retries, the client does not; and its own time limit must not be shorter."""
    settings = {"timeout": seconds, **request.settings, "max_retries": 0}
    taken = [key for key in settings if key in request.settings or key not in model.unsupported_settings]
    return cast(ModelSettings, {key: settings[key] for key in taken})


def _parameters(request: ModelRequest) -> ModelRequestParameters:
    tools = [
        ToolDefinition(name=tool.name, description=tool.description, parameters_json_schema=tool.parameters)
        for tool in request.tools
    ]
    if request.output_schema is None:
        return ModelRequestParameters(function_tools=tools)
    if any(tool.name == FINAL_RESULT for tool in tools):
        raise wrong("model_rejected", f"no tool may be named {FINAL_RESULT}: it is how the model gives its output")
    result = ToolDefinition(
        name=FINAL_RESULT,
        description="Give the final output. Call it alone, when nothing else is left to do.",
        parameters_json_schema=arguments_schema(request.output_schema),
        kind="output",
    )
    return ModelRequestParameters(
        function_tools=tools, output_mode="tool", output_tools=[result], allow_text_output=False
    )


__all__ = ["Models"]
