"""What an agent may call: tools, other agents, imported blueprints, a person. One entry a name that the model sees."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from blueprint.expressions import text_of
from blueprint.grammar import Agent, AgentTool, Blueprint, Option
from blueprint.reach import AGENT, IMPORT
from protocol.address import Address
from protocol.agents import ToolCall, ToolRequest, ToolSpec
from protocol.questions import Clarification
from workflows.agents import Asking, run_agent
from workflows.failures import failure
from workflows.frame import Frame
from workflows.imports import run_import
from workflows.tools import call_tool

ASK_PERSON = "request_user_info"
_INPUT = {"type": "string", "description": "What it is asked to do, with all that it must know."}
_TASK = {"type": "object", "properties": {"input": _INPUT}, "required": ["input"], "additionalProperties": False}
_QUESTION = {
    "type": "object",
    "properties": {
        "question": {"type": "string", "minLength": 1},
        "options": {
            "type": "array",
            "items": {"type": "string"},
            "description": "Suggested answers, if there are any.",
        },
    },
    "required": ["question"],
    "additionalProperties": False,
}


def described_by_worker(tools: Iterable[AgentTool]) -> list[str]:
    """The tools that only a worker knows: those that are activities."""
    return [tool.name for tool in tools if not tool.name.startswith((AGENT, IMPORT))]


def described_here(tools: Iterable[AgentTool], blueprint: Blueprint) -> list[ToolSpec]:
    """The agents and the imported blueprints among the tools."""
    specs = []
    for tool in tools:
        if tool.name.startswith(AGENT):
            name = tool.name.removeprefix(AGENT)
            told = blueprint.agents[name].description or f"Asks the agent {name}."
            specs.append(ToolSpec(name=name, description=told, parameters=_TASK, reference=tool.name))
        elif tool.name.startswith(IMPORT):
            alias = tool.name.removeprefix(IMPORT)
            child = blueprint.imports[alias]
            told = child.description or f"Runs {child.name}."
            specs.append(ToolSpec(name=alias, description=told, parameters=_inputs(child), reference=tool.name))
    return specs


def person() -> ToolSpec:
    """The tool that asks a person."""
    told = "Ask a person, and wait for the answer. Use it when you cannot go on without knowing something."
    return ToolSpec(name=ASK_PERSON, description=told, parameters=_QUESTION, reference=ASK_PERSON)


def _inputs(child: Blueprint) -> dict[str, Any]:
    """An object of arguments: the blueprint's inputs where they are one, else a single `input`."""
    if _takes_object(child):
        return child.inputs or {}
    return {"type": "object", "properties": {"input": child.inputs or {}}, "required": ["input"]}


def _takes_object(child: Blueprint) -> bool:
    return child.inputs is not None and child.inputs.get("type") == "object"


@dataclass(frozen=True)
class Toolbox:
    """The tools of one agent, as the model calls them."""

    agent: Agent
    tools: Sequence[AgentTool]
    specs: Sequence[ToolSpec]
    unsure_is_final: bool = False
    """Whether a call that may have taken effect is not tried again, though the tool be idempotent."""

    def check(self, address: Address) -> None:
        """Two tools of one name would be one to the model."""
        names = [spec.name for spec in self.specs]
        for name in names:
            if names.count(name) > 1:
                raise failure("duplicate_tool", f"two tools of this agent are called {name!r}", address)

    def spec(self, name: str) -> ToolSpec | None:
        return next((spec for spec in self.specs if spec.name == name), None)

    def names(self) -> list[str]:
        return [spec.name for spec in self.specs]

    def settings(self, spec: ToolSpec) -> AgentTool:
        """What the author says of a tool; a tool of an MCP server may be named with all the others of the server."""
        server = spec.reference.partition("/")[0]
        for wanted in (spec.reference, server):
            for tool in self.tools:
                if tool.name == wanted:
                    return tool
        return AgentTool(name=spec.reference)

    async def run(self, call: ToolCall, spec: ToolSpec, frame: Frame) -> Any:
        """The tool's result. The frame stands at the call's address."""
        if spec.reference == ASK_PERSON:
            return await ask_person(call, frame)
        if spec.reference.startswith(AGENT):
            return await self._run_agent(call, spec.reference.removeprefix(AGENT), frame)
        if spec.reference.startswith(IMPORT):
            return await self._run_import(call, spec.reference.removeprefix(IMPORT), frame)
        tool = self.settings(spec)
        request = ToolRequest(
            tool=spec.reference,
            input=call.args,
            by_name=True,
            idempotent=tool.idempotent,
            unsure_is_final=self.unsure_is_final,
        )
        return await call_tool(request, frame, call.name, timeout=tool.timeout, retry=tool.retry)

    async def _run_agent(self, call: ToolCall, name: str, frame: Frame) -> Any:
        inside = frame.at("agent", name)
        frame.note("tool.called", tool=call.name)
        asking = Asking.of(name, name, frame.blueprint)
        result = await run_agent(asking, text_of(call.args["input"]), inside)
        frame.note("tool.returned", tool=call.name, result=result.output)
        return result.output

    async def _run_import(self, call: ToolCall, alias: str, frame: Frame) -> Any:
        child = frame.blueprint.imports[alias]
        given = call.args if _takes_object(child) else call.args["input"]
        frame.note("tool.called", tool=call.name)
        output, _ = await run_import(child, given, replace(frame.at("import", alias), place=call.name))
        frame.note("tool.returned", tool=call.name, result=output)
        return output


async def ask_person(call: ToolCall, frame: Frame) -> Any:
    """The person's answer; that there is none is a result too, so that the model may go on without."""
    options = [Option(id=text, label=text) for text in dict.fromkeys(call.args.get("options") or []) if text.strip()]
    frame.note("tool.called", tool=call.name)
    reply = await frame.ask(Clarification(message=call.args["question"], options=options))
    frame.note("tool.returned", tool=call.name, result=reply.content)
    if reply.status != "answered":
        why = f": {reply.comment}" if reply.comment else ""
        return f"nobody answered: the question was {reply.status}{why}"
    return reply.content
