"""Checks of an agent's tools at its start, and of its calls before anything is done about them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from holdfast.blueprint.expressions.error import did_you_mean
from holdfast.blueprint.json_values import JSON
from holdfast.blueprint.kinds import Agent
from holdfast.protocol.address import Address
from holdfast.protocol.agents import Message, ToolCall, ToolSpec
from holdfast.protocol.children import Failure
from holdfast.protocol.tool_errors import kind_of_failure
from holdfast.workflows.calls import Activities
from holdfast.workflows.concurrency import is_cancelled
from holdfast.workflows.failures import HANDLED, failure, find_failure
from holdfast.workflows.toolbox import BadCall


@dataclass(frozen=True)
class Result:
    """The result of one tool call, as the model receives it."""

    content: JSON
    bad: bool = False
    """True if the call could not be made at all."""
    messages: list[Message] = field(default_factory=list)
    """For a tool of an agent object that was called: the result as its library makes it."""
    ends: bool = False
    """True if it is the output of an agent that ends with its tool."""
    again: bool = False
    """For such a tool: true if it asks for another call."""

    def as_messages(self, call: ToolCall) -> list[Message]:
        """Return the result as messages for the model."""
        return self.messages or [Message(role="tool", call=call.id, tool=call.name, content=self.content)]


async def describe_present(
    tools: Sequence[str], agent: Agent, work: Activities, address: Address
) -> tuple[list[ToolSpec], dict[str, Failure]]:
    """Return the descriptions of the tools that workers have, and for the others why they are missing.

    Raises a failure for one that is missing, unless the agent looks for another in its place.
    """
    try:
        return await work.describe_tools(tools, address) if tools else [], {}
    except HANDLED as error:
        if not agent.finds_tools or not _is_missing(error, address):
            raise
    specs: list[ToolSpec] = []
    missing: dict[str, Failure] = {}
    for tool in tools:
        try:
            specs += await work.describe_tools([tool], address)
        except HANDLED as error:
            if not _is_missing(error, address):
                raise
            missing[tool] = find_failure(error, address)
    return specs, missing


def _is_missing(error: BaseException, address: Address) -> bool:
    cause = find_failure(error, address)
    return not is_cancelled(error) and kind_of_failure(cause.type, cause.message) == "missing"


def check_rules(agent: Agent, place: str, specs: Sequence[ToolSpec], missing: Sequence[str], address: Address) -> None:
    """Raise a failure if a rule names a tool that the agent does not have: it would protect nothing.

    Most such names are found when the blueprint is loaded; those of an MCP server's tools only a run knows. `missing`
    are the tools in whose place the agent has others.
    """
    names = sorted({*missing, *(text for spec in specs for text in (spec.name, spec.reference))})
    for index, rule in enumerate(agent.permissions):
        if rule.names_one_tool and rule.tool not in names:
            hint = did_you_mean(rule.tool, names) or f"its tools are: {', '.join(names)}"
            text = f"{place}.permissions[{index}].tool: the agent has no tool {rule.tool!r} ({hint})"
            raise failure("unknown_tool", text, address)


def check_question(call: ToolCall) -> None:
    if not call.args["question"].strip():
        raise BadCall(f"the arguments of {call.name} do not fit: question is empty")
