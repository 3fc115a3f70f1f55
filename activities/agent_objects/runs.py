"""Runs of agent objects for one activity: opened where the activity before has left them, and stepped once."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

from pydantic_ai._agent_graph import build_run_context
from pydantic_ai._enqueue import PendingMessage, PendingMessageQueue
from pydantic_ai.agent import AgentRun, CallToolsNode, ModelRequestNode, UserPromptNode
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter, ModelRequestPart, ModelResponse
from pydantic_ai.messages import ModelRequest as RequestMessage
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import RunContext, ToolDefinition
from pydantic_ai.toolsets import ExternalToolset
from pydantic_ai.usage import RunUsage, UsageLimits

from holdfast.activities.agent_objects.found import UNSUPPORTED, AnyAgent, check_names
from holdfast.activities.agent_objects.names import names_in_run
from holdfast.activities.agent_objects.sessions import ending_sessions
from holdfast.activities.providers.conversation import conversation, is_broken_off
from holdfast.activities.providers.failures import broken_off, in_background
from holdfast.activities.providers.schemas import ProviderModel
from holdfast.activities.registry import wrong
from holdfast.blueprint.expressions.values import write_text
from holdfast.blueprint.json_values import JSON
from holdfast.protocol.agent_objects import ObjectUse
from holdfast.protocol.agents import Message

Run = AgentRun[Any, Any]
_NO_LIMITS = UsageLimits(request_limit=None)
"""The workflow keeps the limits: the library's own would count the requests of one activity."""


class _NoQueue(PendingMessageQueue):
    """A queue that takes no messages: they would be lost with the activity."""

    def append(self, pending: PendingMessage) -> None:
        raise UserError("ctx.enqueue() is not carried from one activity to the next; return the text instead")


@dataclass(frozen=True)
class Opening:
    """All that a run is opened with."""

    use: ObjectUse
    model: ProviderModel
    deps: Any
    history: list[ModelMessage]
    instructions: str
    settings: ModelSettings | None = None
    offered: tuple[ToolDefinition, ...] = ()
    """Tools of the blueprint, which the workflow calls."""

    @asynccontextmanager
    async def run(self, agent: AnyAgent) -> AsyncIterator[Run]:
        """Open the run, with the counters that it had."""
        offered = [ExternalToolset[Any](list(self.offered))] if self.offered else []
        with ending_sessions(agent, offered):
            async with self._iter(agent, offered) as run:
                self._set_counters(run)
                yield run

    def _iter(self, agent: AnyAgent, offered: Sequence[ExternalToolset[Any]]) -> AbstractAsyncContextManager[Run]:
        return agent.iter(
            message_history=self.history,
            model=self.model,
            deps=self.deps,
            instructions=self.instructions or None,
            model_settings=self.settings,
            usage=RunUsage(**self.use.usage.model_dump()),
            usage_limits=_NO_LIMITS,
            run_id=self.use.run,
            conversation_id=self.use.run,
            toolsets=offered or None,
            infer_name=False,
        )

    def _set_counters(self, run: Run) -> None:
        """Set the counters of the run, which the library begins at 0."""
        state, use = run.ctx.state, self.use
        # With a reply at its end, the history is in the middle of a step; the library counts that when it goes on.
        step = use.step - 1 if isinstance(self.history[-1], ModelResponse) else use.step
        state.run_step, state.output_retries_used = step, use.output_retries
        state.pending_messages, run.ctx.deps.prompt = _NoQueue(), write_text(use.prompt)
        run.ctx.deps.tool_manager.ctx = RunContext(
            deps=self.deps, model=self.model, usage=state.usage, run_step=step, retries=dict(use.tool_retries)
        )


async def opening_parts(agent: AnyAgent, use: ObjectUse, model: ProviderModel, deps: Any) -> JSON:
    """Return the parts of the agent's system prompts, which are evaluated once, before the first request."""
    return dump_parts(await agent.system_prompt_parts(deps=deps, model=model, prompt=write_text(use.prompt)))


async def ask(run: Run, use: ObjectUse, name: str) -> ModelResponse:
    """Send the request of the run's next step, and return the response; `name` is the model's, for messages."""
    node = await _begin(run)
    assert isinstance(node, ModelRequestNode), "the history ends with a request"
    run.ctx.deps.prompt = write_text(use.prompt)  # the library takes that of the last request
    if use.tools:
        await _check_named_tools(run, node, use)
    asked = await run.next(node)
    assert isinstance(asked, CallToolsNode)
    _refuse_hidden_tools(run)
    if asked.model_response.state == "suspended":
        raise in_background(name)
    if is_broken_off(asked.model_response):
        raise broken_off(name)
    return asked.model_response


async def _check_named_tools(run: Run, node: ModelRequestNode[Any, Any], use: ObjectUse) -> None:
    """Raise `unknown_agent` for a name of the blueprint's that is no tool of the run: it would protect nothing."""
    history, step = run.ctx.state.message_history, run.ctx.state.run_step + 1
    context = replace(
        build_run_context(run.ctx),
        run_step=step,
        messages=[*history, node.request],
        retry=run.ctx.state.output_retries_used,
        max_retries=run.ctx.deps.tool_manager.default_max_retries,
    )
    # The request finds the tools of its step there, and does not ask for them again.
    run.ctx.deps.tool_manager = manager = await run.ctx.deps.tool_manager.for_run_step(context)
    names = {definition.name for definition in manager.tool_defs if definition.kind != "output"}
    if not names.issuperset(use.tools.values()):
        check_names(use.reference, use.tools, names | await names_in_run(manager.toolset, context))


async def _begin(run: Run) -> object:
    node = run.next_node
    assert isinstance(node, UserPromptNode)
    return await run.next(node)


async def resume(run: Run, use: ObjectUse) -> None:
    """Bring the run to where the last reply of its history is to be handled."""
    await _begin(run)
    run.ctx.state.run_step = use.step


def make_history(messages: Sequence[Message], use: ObjectUse, *, open_end: bool = False) -> list[ModelMessage]:
    """Return the conversation as the library has it, with the system prompts at its beginning."""
    history = conversation(messages, open_end=open_end)
    first = history[0]
    if isinstance(first, RequestMessage):
        history[0] = replace(first, parts=[*restore_parts(use.opening), *first.parts])
    # The library refuses a run id that is in the history already, as each of its runs has one of its own.
    return [replace(message, run_id=None) if isinstance(message, ModelResponse) else message for message in history]


def dump_parts(parts: Sequence[ModelRequestPart]) -> JSON:
    """Return parts of a request as JSON."""
    [request] = ModelMessagesTypeAdapter.dump_python(
        [RequestMessage(parts=list(parts))], mode="json", exclude_none=True
    )
    return request["parts"]


def restore_parts(parts: JSON) -> list[ModelRequestPart]:
    """Return the parts of a request from their JSON."""
    [request] = ModelMessagesTypeAdapter.validate_python([{"kind": "request", "parts": parts or []}])
    return list(request.parts) if isinstance(request, RequestMessage) else []


def _refuse_hidden_tools(run: Run) -> None:
    for definition in run.ctx.deps.tool_manager.tool_defs:
        if definition.defer_loading:
            text = f"tools: {definition.name} has defer_loading, but there is no tool search; remove defer_loading"
            raise wrong(UNSUPPORTED, text)
