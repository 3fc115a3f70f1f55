"""The model that an agent object asks: its own, or the one that a blueprint names instead."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models import infer_model
from pydantic_ai.models.function import AgentInfo, FunctionModel

from holdfast.activities.agent_objects.found import AnyAgent
from holdfast.activities.aliases import ModelAlias
from holdfast.activities.providers import Models
from holdfast.activities.providers.schemas import ProviderModel
from holdfast.activities.registry import wrong
from holdfast.activities.scripted import reply_from
from holdfast.blueprint.expressions.values import write_text
from holdfast.protocol.agents import ModelReply, ModelRequest


class ObjectModels:
    """The models of agent objects. One that an agent has by name only is built once, with its connections."""

    def __init__(self, aliases: Mapping[str, ModelAlias]) -> None:
        self._aliases, self._models = aliases, Models()
        self._own: dict[int, ProviderModel] = {}

    def alias(self, name: str, agent: AnyAgent) -> ModelAlias:
        """Return what is known of the model; for the agent's own, its name and its address."""
        if name:
            return self._aliases.get(name) or ModelAlias(name)
        own = self.own(agent)
        return ModelAlias(own.model_id, base_url=getattr(own, "base_url", None))

    async def model(self, name: str, agent: AnyAgent, request: ModelRequest | None = None) -> ProviderModel:
        """Return the model of this name; without one, the agent's own. A scripted one replies to the request."""
        if not name:
            return self.own(agent)
        alias = self._aliases.get(name)
        target = alias or ModelAlias(name)
        kind, colon, file = target.model.partition(":")
        if kind in ("echo", "scripted"):
            return _stand_in(kind, file, request)
        if not colon:
            raise wrong("unknown_model", f"no model {name!r}; name provider:NAME, or one of [models]")
        return await self._models.model(name, target, ours=alias is not None)

    def own(self, agent: AnyAgent) -> ProviderModel:
        if id(agent) not in self._own:
            if agent.model is None:
                raise wrong("unknown_model", "the agent has no model; name one in the blueprint: model")
            self._own[id(agent)] = infer_model(agent.model)
        return self._own[id(agent)]


def _stand_in(kind: str, file: str, request: ModelRequest | None) -> ProviderModel:
    def reply(_: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        assert request is not None, "only a request asks a model"
        echo = ModelReply(output=request.messages[-1].content)
        return _response(echo if kind == "echo" else reply_from(file, request), info)

    return FunctionModel(reply, model_name=kind)


def _response(reply: ModelReply, info: AgentInfo) -> ModelResponse:
    """Return a scripted reply as a model gives it: an output that is no text through the tool for outputs."""
    finish = {"cut_off": "length", "filtered": "content_filter", "refused": "content_filter"}.get(reply.finish, "stop")
    calls = [ToolCallPart(call.name, call.args, call.id) for call in reply.tool_calls]
    if not calls and reply.finish == "finished" and info.output_tools and not isinstance(reply.output, str):
        name = info.output_tools[0].name
        args = reply.output if isinstance(reply.output, dict) else {"response": reply.output}
        return ModelResponse(parts=[ToolCallPart(name, args)])
    text = [] if reply.output is None or (calls and not reply.output) else [TextPart(write_text(reply.output))]
    return ModelResponse(parts=[*text, *calls], finish_reason=finish)  # type: ignore[arg-type]
