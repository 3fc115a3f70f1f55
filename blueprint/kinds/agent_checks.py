"""Rules of agents and of the tools that they may call. Used by the checks of steps and of the whole blueprint."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.blueprint.expressions.error import ExpressionError
from holdfast.blueprint.expressions.evaluation import check_expression, names_in_expression
from holdfast.blueprint.findings import Findings, check_function, check_known
from holdfast.blueprint.kinds.agents import Agent, AgentTool
from holdfast.blueprint.kinds.document import Blueprint
from holdfast.blueprint.kinds.references import AGENT, BUILTINS, IMPORT, MCP

PLAIN = ("always", "never")


def check_agent(
    agent: Agent, path: str, blueprint: Blueprint, findings: Findings, registry: Sequence[AgentTool] | None = None
) -> None:
    """Check an agent; `registry`: the tools that it may have run as a planner, None if it is none."""
    if agent.source is None:
        _check_plain(agent, path, findings)
        check_tools(agent.tools, f"{path}.tools", blueprint, findings)
    else:
        _check_object(agent, agent.source, path, findings)
    if (history := agent.history_management) is not None:
        if history.max_turns is None and history.max_tokens is None:
            message = "'max_turns' or 'max_tokens' is missing: it says when the conversation is too long"
            findings.add(f"{path}.history_management.max_turns", "missing_key", message, "add max_tokens: 50000")
        if history.agent is not None:
            check_known(history.agent, "agent", blueprint.agents, f"{path}.history_management.agent", findings)
    _check_rules(agent, path, findings, registry)
    if agent.tool_errors is not None and (agent.source is not None or not agent.tools):
        message = "'tool_errors' belongs to agents whose tools the blueprint names"
        findings.add_key(f"{path}.tool_errors", "conflict", message, "remove it")
    if agent.output_mode == "native" and agent.output_schema is None and agent.source is None:
        message = "'output_mode' belongs to outputs with a schema"
        findings.add_key(f"{path}.output_mode", "conflict", message, "add output_schema, or remove it")
    if not agent.works_in_turns and registry is None:
        for key in ("permissions", "history_management"):
            if getattr(agent, key):
                message = f"{key!r} belongs to agents that work in turns"
                findings.add_key(f"{path}.{key}", "conflict", message, "add tools or human, or remove it")


def _check_plain(agent: Agent, path: str, findings: Findings) -> None:
    if not agent.model:
        description = Agent.model_fields["model"].description
        findings.add(f"{path}.model", "missing_key", "'model' is missing", description)
    if agent.deps is not None:
        hint = "add from: package.module:agent, or remove it"
        findings.add_key(f"{path}.deps", "conflict", "'deps' belongs to agents with 'from'", hint)


def _check_object(agent: Agent, source: str, path: str, findings: Findings) -> None:
    """Check what stands beside `from`; whether the worker has the agent, and its tools, the look-up tells."""
    if ":" in source:
        check_function(source, f"{path}.from", findings)
    if agent.deps is not None:
        check_function(agent.deps, f"{path}.deps", findings)
    if agent.output_schema is not None:
        message = "the agent of 'from' has a type of output itself"
        hint = "remove it; a step may have an output_schema"
        findings.add_key(f"{path}.output_schema", "conflict", message, hint)
    if agent.output_mode == "native":
        message = "the agent of 'from' says itself how its output is given"
        findings.add_key(f"{path}.output_mode", "conflict", message, "remove it; in its code: NativeOutput")
    names = [tool.name for tool in agent.tools]
    for index, tool in enumerate(agent.tools):
        tool_path = f"{path}.tools[{index}]"
        if tool.name.startswith((AGENT, IMPORT, MCP)) or ":" in tool.name:
            message = f"{tool.name!r} cannot be given to an agent of 'from'"
            hint = "name its own tools here, to set approve, review, idempotent, timeout or retry of them"
            findings.add(f"{tool_path}.name", "bad_value", message, hint)
        if tool.name in names[:index]:
            message = f"the tool {tool.name!r} appears twice"
            findings.add(f"{tool_path}.name", "duplicate_name", message, "keep one of them")
        _check_approve(tool, tool_path, findings)


def _check_rules(agent: Agent, path: str, findings: Findings, registry: Sequence[AgentTool] | None) -> None:
    """Check that a rule for one tool names an existing one; an MCP server's tools are unknown here."""
    tools = agent.tools if registry is None else registry
    names = {spelling for tool in tools for spelling in _spellings(tool.name)}
    if agent.source is not None or any(name.startswith(MCP) for name in names):
        return
    for index, rule in enumerate(agent.permissions):
        if (names or registry is not None) and rule.names_one_tool and rule.tool not in names:
            rule_path = f"{path}.permissions[{index}].tool"
            check_known(rule.tool, "tool", names, rule_path, findings)


def _spellings(name: str) -> tuple[str, str]:
    """Return the names of a tool for the author and for the model."""
    return name, name.removeprefix(AGENT).removeprefix(IMPORT).rpartition(":")[2]


def check_tools(tools: Sequence[AgentTool], path: str, blueprint: Blueprint, findings: Findings) -> None:
    seen: set[str] = set()
    for index, tool in enumerate(tools):
        tool_path = f"{path}[{index}]"
        if tool.name in seen:
            findings.add(
                f"{tool_path}.name", "duplicate_name", f"the tool {tool.name!r} appears twice", "keep one of them"
            )
        seen.add(tool.name)
        check_tool_name(tool.name, f"{tool_path}.name", blueprint, findings)
        _check_approve(tool, tool_path, findings)


def check_tool_name(name: str, path: str, blueprint: Blueprint, findings: Findings) -> None:
    if name.startswith(AGENT):
        check_known(name.removeprefix(AGENT), "agent", blueprint.agents, path, findings)
    elif name.startswith(IMPORT):
        check_known(name.removeprefix(IMPORT), "import", blueprint.imports, path, findings)
    elif name.startswith(MCP):
        if not name.removeprefix(MCP).partition("/")[0]:
            findings.add(
                path, "bad_value", f"{name!r} does not name an MCP server", "write mcp:<server> or mcp:<server>/<tool>"
            )
    elif ":" in name:
        check_function(name, path, findings)
    elif name in BUILTINS:
        message = f"{name!r} is a built-in: it works in steps, not as a model's tool"
        findings.add(path, "bad_value", message, "name a tool of your own, an agent or an import")


def _check_approve(tool: AgentTool, path: str, findings: Findings) -> None:
    if tool.approve is None or tool.approve in PLAIN:
        return
    try:
        check_expression(tool.approve)
    except ExpressionError as error:
        findings.add(f"{path}.approve", "bad_expression", error.message, error.hint)
        return
    for chain in sorted(names_in_expression(tool.approve)):
        if chain[0] != "args":
            hint = "it sees the call's arguments: args.<name>; or write always or never"
            findings.add(f"{path}.approve", "unknown_name", f"unknown name {chain[0]!r}", hint)
