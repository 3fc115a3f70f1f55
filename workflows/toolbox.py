"""The tools of an agent: activities, other agents, imported blueprints, a person; each with one name for the model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from holdfast.blueprint.expressions.values import write_text
from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.blueprint.jsonschemas import NOT_NULL, BadSchema, misfit
from holdfast.blueprint.kinds import Agent, AgentTool, Blueprint
from holdfast.blueprint.kinds.references import AGENT, IMPORT
from holdfast.blueprint.parts import Option
from holdfast.blueprint.questions import Clarification, Input
from holdfast.protocol.address import Address
from holdfast.protocol.agents import MadeCall, Message, ToolCall, ToolRequest, ToolSpec
from holdfast.protocol.events import ToolCalled, ToolReturned
from holdfast.protocol.permissions import find_settings
from holdfast.workflows.agents import AgentCall, run_agent
from holdfast.workflows.approvals import Allowed
from holdfast.workflows.failures import failure
from holdfast.workflows.frame import Frame
from holdfast.workflows.imports import run_import
from holdfast.workflows.tools import call_tool

ASK_PERSON = "request_user_info"


class BadCall(Exception):
    """A call that cannot be made; the message is for the model."""


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


def list_tools_of_workers(tools: Iterable[AgentTool]) -> list[str]:
    """Return the names of tools that only a worker can describe: those that are activities."""
    return [tool.name for tool in tools if not tool.name.startswith((AGENT, IMPORT))]


def describe_tools(tools: Iterable[AgentTool], blueprint: Blueprint) -> list[ToolSpec]:
    """Return the descriptions of the agents and imported blueprints among the tools."""
    specs = []
    for tool in tools:
        if tool.name.startswith(AGENT):
            name = tool.name.removeprefix(AGENT)
            description = blueprint.agents[name].description or f"Asks the agent {name}."
            specs.append(ToolSpec(name=name, description=description, parameters=_TASK, reference=tool.name))
        elif tool.name.startswith(IMPORT):
            alias = tool.name.removeprefix(IMPORT)
            child = blueprint.imports[alias]
            description = child.description or f"Runs {child.name}."
            specs.append(
                ToolSpec(name=alias, description=description, parameters=_describe_inputs(child), reference=tool.name)
            )
    return specs


def describe_person() -> ToolSpec:
    """Return the tool that asks a person."""
    description = "Ask a person, and wait for the answer. Use it when you cannot go on without knowing something."
    return ToolSpec(name=ASK_PERSON, description=description, parameters=_QUESTION, reference=ASK_PERSON)


def _describe_inputs(child: Blueprint) -> JSONObject:
    """Return the schema of an import's arguments: its inputs if they are an object, else a single `input`."""
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
    """True if a call that may have taken effect is not retried, even of an idempotent tool."""
    inner_calls: list[MadeCall] = field(default_factory=list)
    """The calls of the agents among its tools."""

    def check(self, address: Address) -> None:
        """Raise a failure if two tools share a name, which a model could not tell apart."""
        names = [spec.name for spec in self.specs]
        for name in names:
            if names.count(name) > 1:
                raise failure("duplicate_tool", f"two tools of this agent are called {name!r}", address)

    def spec(self, name: str) -> ToolSpec | None:
        return next((spec for spec in self.specs if spec.name == name), None)

    def names(self) -> list[str]:
        return [spec.name for spec in self.specs]

    async def run(self, allowed: Allowed, spec: ToolSpec, frame: Frame) -> JSON:
        """Call a tool and return its result. The frame stands at the call's address."""
        call = allowed.call
        if spec.reference == ASK_PERSON:
            return await ask_person(call, frame)
        if spec.reference.startswith(AGENT):
            return await self._run_agent(call, spec, frame)
        if spec.reference.startswith(IMPORT):
            return await self._run_import(call, spec, frame)
        tool = find_settings(self.tools, spec)
        request = ToolRequest(
            tool=spec.reference,
            input=call.args,
            by_name=True,
            idempotent=tool.idempotent,
            consent=allowed.consent,
            unsure_is_final=self.unsure_is_final,
        )
        return await call_tool(request, frame, call.name, timeout=tool.timeout, retry=tool.retry)

    async def _run_agent(self, call: ToolCall, spec: ToolSpec, frame: Frame) -> JSON:
        name = spec.reference.removeprefix(AGENT)
        inside = frame.at("agent", name)
        frame.note(ToolCalled(tool=spec.reference))
        asking = AgentCall.of(name, name, frame.blueprint)
        result = await run_agent(asking, [Message(role="user", content=write_text(call.args["input"]))], inside)
        self.inner_calls.extend(result.made)
        frame.note(ToolReturned(tool=spec.reference, result=result.output))
        return result.output

    async def _run_import(self, call: ToolCall, spec: ToolSpec, frame: Frame) -> JSON:
        alias = spec.reference.removeprefix(IMPORT)
        child = frame.blueprint.imports[alias]
        value = call.args if _takes_object(child) else call.args["input"]
        frame.note(ToolCalled(tool=spec.reference))
        output, _ = await run_import(alias, value, replace(frame.at("import", alias), place=call.name))
        frame.note(ToolReturned(tool=spec.reference, result=output))
        return output


def check_call(call: ToolCall, spec: ToolSpec | None, names: list[str]) -> ToolSpec:
    """Return the tool of a call. Raises `BadCall` if there is none, or if the arguments do not fit its schema."""
    if spec is None:
        raise BadCall(f"there is no tool {call.name!r}; there are: {', '.join(names) or 'none'}")
    if call.unreadable is not None:
        raise BadCall(f"the arguments of {call.name} cannot be read: {call.unreadable}")
    try:
        wrong = misfit(spec.parameters, call.args)
    except BadSchema as error:
        raise BadCall(f"{call.name} cannot be called: its arguments have no valid schema ({error})") from None
    if wrong:
        raise BadCall(f"the arguments of {call.name} do not fit: {wrong}")
    return spec


async def ask_person(call: ToolCall, frame: Frame) -> JSON:
    """Ask a person for the model; without an answer return a text that says so, and let the model go on."""
    options = [Option(id=text, label=text) for text in dict.fromkeys(call.args.get("options") or []) if text.strip()]
    frame.note(ToolCalled(tool=call.name))
    reply = await frame.ask(Clarification(message=call.args["question"], options=options))
    frame.note(ToolReturned(tool=call.name, result=reply.content))
    if reply.status != "answered":
        comment = f": {reply.comment}" if reply.comment else ""
        return f"nobody answered: the question was {reply.status}{comment}"
    return reply.content


async def ask_result(call: ToolCall, tool: str, frame: Frame) -> JSON:
    """Ask for the result of a call that is done elsewhere; without an answer return a text that says so."""
    message = f"{call.name} is done elsewhere: what was its result?"
    frame.note(ToolCalled(tool=tool))
    asked = Input(message=message, form=NOT_NULL, info={"message": message, "tool": call.name, "args": call.args})
    reply = await frame.ask(asked)
    frame.note(ToolReturned(tool=tool, result=reply.content))
    if reply.status != "answered":
        comment = f": {reply.comment}" if reply.comment else ""
        return f"no result: the question was {reply.status}{comment}"
    return reply.content
