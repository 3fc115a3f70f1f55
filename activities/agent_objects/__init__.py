"""Agents of a team's own library, pydantic-ai: imported by `AgentActivities` with the first blueprint that names one.

pydantic-ai runs an agent as a graph: build a request, send it, handle the reply. Here each activity opens a run where
the one before has left it, takes one step of that graph, and hands back what the next needs. So the library itself
evaluates instructions, offers tools, calls functions and checks outputs; the workflow decides what comes next.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from pydantic_ai.exceptions import AgentRunError, RunCancelled, UserError
from pydantic_ai.messages import ModelResponse
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition
from temporalio.exceptions import ApplicationError

from holdfast.activities.agent_objects.dependencies import dependencies
from holdfast.activities.agent_objects.found import AnyAgent, check_agent, check_tool, find_agent, unsupported_agents
from holdfast.activities.agent_objects.models import ObjectModels
from holdfast.activities.agent_objects.replies import handle_reply, read_ids, with_checked_output
from holdfast.activities.agent_objects.runs import Opening, ask, make_history, opening_parts, resume
from holdfast.activities.agent_objects.tools import call_tool
from holdfast.activities.aliases import ModelAlias
from holdfast.activities.attempts import limit_time
from holdfast.activities.providers import settings_for, time_limit
from holdfast.activities.providers.failures import failure, timed_out
from holdfast.activities.providers.schemas import ProviderModel
from holdfast.activities.registry import wrong
from holdfast.protocol.agent_objects import AgentDescription, ObjectReference, ObjectUse
from holdfast.protocol.agents import Completed, ModelReply, ModelRequest, ObjectCall, ToolSpec


class AgentObjects:
    """The agents of a team's own library, as one worker has them.

    Args:
        allowed: The packages that the worker lists.
        aliases: The models of the deployment, which a blueprint may name instead of an agent's own.
    """

    def __init__(self, allowed: Sequence[str], aliases: Mapping[str, ModelAlias]) -> None:
        self._allowed, self._models = allowed, ObjectModels(aliases)
        self._found: dict[str, AnyAgent] = {}

    def check(self, reference: ObjectReference) -> AgentDescription:
        """Return what the agent is. Raises `unknown_agent`, `not_allowed` or `agent_unsupported`."""
        agent = self._agent(reference.reference)
        check_agent(agent, reference)
        return AgentDescription(model=reference.model or self._models.own(agent).model_id)

    def check_tool(self, reference: str, name: str) -> None:
        """Raise `unknown_agent` if the agent has no tool of this name; an unknown agent is told of by itself."""
        try:
            agent = self._agent(reference)
        except ApplicationError:
            return
        check_tool(agent, reference, name)

    def _agent(self, reference: str) -> AnyAgent:
        if reference not in self._found:
            self._found[reference] = find_agent(reference, self._allowed)
        return self._found[reference]

    async def reply(self, request: ModelRequest, use: ObjectUse) -> ModelReply:
        """Return the reply to one request. Raises a typed `ApplicationError`, which Temporal retries or not."""
        agent = self._agent(use.reference)
        alias = self._models.alias(request.model, agent)
        name, seconds = request.model or use.reference, time_limit(request, alias)
        try:
            async with limit_time(seconds, partial(timed_out, name)):
                return await self._reply(request, use, agent, seconds)
        except ApplicationError:
            raise
        except (AgentRunError, UserError) as error:
            # Without its cause, as for other models: its text may contain URLs and keys.
            raise failure(error, name, alias) from None
        except Exception as error:  # noqa: BLE001 the team's functions may raise anything
            raise failure(error, name, alias, own_code=True) from None

    async def _reply(self, request: ModelRequest, use: ObjectUse, agent: AnyAgent, seconds: float) -> ModelReply:
        model = await self._models.model(request.model, agent, request)
        async with dependencies(use, self._allowed) as deps:
            parts = use.opening if use.opening is not None else await opening_parts(agent, use, model, deps)
            use = use.model_copy(update={"opening": parts})
            opening = Opening(
                use,
                model,
                deps,
                make_history(request.messages, use),
                request.instructions,
                _settings(agent, model, request, seconds),
                tuple(_define_tool(tool) for tool in request.tools),
            )
            async with opening.run(agent) as run:
                response = await ask(run, use, request.model or use.reference)
                reply = await handle_reply(run, agent, response)
        return reply.model_copy(update={"opening": parts})

    async def call(self, call: ObjectCall, *, approved: bool) -> Completed:
        """Return the result of a call, or of the check of an output. What the team's functions raise comes as it is.

        Raises `agent_cancelled` for a function that cancels its run.
        """
        try:
            return await self._call(call, approved)
        except RunCancelled as error:  # raised as the run is left
            raise wrong("agent_cancelled", f"{call.use.reference}: {error.message}") from None

    async def _call(self, call: ObjectCall, approved: bool) -> Completed:
        agent = self._agent(call.use.reference)
        model = await self._models.model(call.model, agent)
        async with dependencies(call.use, self._allowed) as deps:
            # Tools see no files: each call would carry them again.
            messages = [message.model_copy(update={"files": []}) for message in call.messages]
            history = make_history(messages, call.use, open_end=True)
            response = history[-1]
            assert isinstance(response, ModelResponse), "a call comes after the reply that makes it"
            async with Opening(call.use, model, deps, history, call.instructions).run(agent) as run:
                await resume(run, call.use)
                ids = read_ids(response, call.messages[-1].tool_calls)
                if call.call is None:
                    return await with_checked_output(run, response, ids)
                return await call_tool(run, call.call, ids, approved=approved)


def _define_tool(tool: ToolSpec) -> ToolDefinition:
    return ToolDefinition(name=tool.name, description=tool.description, parameters_json_schema=tool.parameters)


def _settings(agent: AnyAgent, model: ProviderModel, request: ModelRequest, seconds: float) -> ModelSettings:
    """Return the blueprint's settings, which count more than the agent's own; the agent's own timeout stays."""
    settings = settings_for(model, request, seconds)
    own = agent.model_settings
    if isinstance(own, dict) and "timeout" in own and "timeout" not in request.settings:
        settings.pop("timeout", None)
    return settings


__all__ = ["AgentObjects", "unsupported_agents"]
