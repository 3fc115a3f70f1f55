"""Agents in plain words: which model, told what, what they may call, and who has to agree first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import PurePosixPath

from blueprint.explain.cost import spent, turns_of_driver
from blueprint.explain.people import Ask
from blueprint.explain.schemas import shape
from blueprint.explain.words import RUN, Names, condition, counted, ended, filled, listed, one_line
from blueprint.grammar import Agent, AgentHistory, AgentTool, Blueprint, Rule
from blueprint.reach import AGENT, IMPORT, MCP, reach_of_tools

ANY_TOOL = "a tool"
"""Of a plan that is known only when it runs."""
CALL = Names({"args": "the call"})
_HISTORY = {
    "truncate_turns": "the oldest turns are dropped",
    "truncate_results": "old results of tools are shortened",
    "summarize": "older turns are summarised",
}


LIMIT = Ask("decision", "The limit is reached. Go on?", ("more", "fail"), on_decline="abort")


@dataclass(frozen=True)
class Used:
    """An agent as a step uses it: a planner has a registry instead of tools."""

    label: str
    agent: Agent
    registry: tuple[AgentTool, ...] | None = None
    turns: bool = True
    """Whether it works by itself, in turns; not where it only calls the tools of a plan's steps, or drives a plan."""
    drives: bool = False
    """Whether it drives a plan."""
    plan_tools: bool = False
    """Whether it calls tools that a plan names."""

    def also(self, other: Used) -> Used:
        """The same agent, used in another way, too."""
        plan_tools = self.plan_tools or other.plan_tools
        return replace(self, turns=self.turns or other.turns, drives=self.drives or other.drives, plan_tools=plan_tools)

    @property
    def tools(self) -> Iterable[AgentTool]:
        return self.agent.tools if self.registry is None else self.registry


def described(used: Used, names: Names = RUN) -> str:
    """All that is to be known of an agent, in a few sentences."""
    agent = used.agent
    told = f" is told {filled(agent.instructions, names)}" if agent.instructions else ""
    said = [ended(f"{used.label} ({model(agent.model)}){told}")]
    if agent.output_schema is not None:
        said.append(f"It gives {shape(agent.output_schema)}.")
    if agent.works_in_turns and used.registry is None and used.turns:
        said.append(_turns(agent))
    if used.drives:
        said.append(f"It drives a plan in at most {counted(turns_of_driver(agent), 'turn')}.")
    tools = [_tool(tool, agent) for tool in used.tools]
    if tools:
        said.append(f"It may {'run' if used.registry is not None else 'call'} {listed(tools)}.")
    if used.plan_tools and "approve" in agent.human and not agent.tools:
        said.append("A person must agree to each call of a tool.")
    if "ask" in agent.human and used.registry is None:
        said.append("It may ask a person whenever it wants to know something.")
    said += [_rule(rule) for rule in agent.permissions]
    if agent.history_management is not None:
        said.append(_shortened(agent.history_management))
    if agent.limits is not None and (most := spent(agent.limits)):
        more = "a person is asked for more" if agent.limits.on_limit == "ask" else "it fails"
        said.append(f"One use may take {listed(most)}; then {more}.")
    return " ".join(said)


def model(name: str) -> str:
    """
    >>> model("scripted:/srv/flows/replies.yaml"), model("openai-compatible:llama@http://localhost:1"), model("echo")
    ('scripted by replies.yaml', 'llama at http://localhost:1', 'echo: repeats what it gets')
    """
    kind, _, rest = name.partition(":")
    match kind:
        case "scripted":
            return f"scripted by {one_line(PurePosixPath(rest.replace(chr(92), '/')).name, 60)}"
        case "openai-compatible":
            return one_line(rest.replace("@", " at ", 1), 80)
        case "echo":
            return "echo: repeats what it gets"
    return one_line(name, 80)


def _turns(agent: Agent) -> str:
    most = f"It works in at most {counted(agent.max_turns, 'turn')}"
    return f"{most} and {counted(agent.max_tool_calls, 'call')}." if agent.max_tool_calls is not None else f"{most}."


def tool_name(name: str) -> str:
    """
    >>> tool_name("agent:lawyer"), tool_name("imports.review"), tool_name("mcp:files"), tool_name("mcp:files/read")
    ('the agent lawyer', 'the blueprint review', 'everything of the MCP server files', 'read of the MCP server files')
    """
    if name.startswith(AGENT):
        return f"the agent {name.removeprefix(AGENT)}"
    if name.startswith(IMPORT):
        return f"the blueprint {name.removeprefix(IMPORT)}"
    if name.startswith(MCP):
        server, _, tool = name.removeprefix(MCP).partition("/")
        return f"{one_line(tool, 60) or 'everything'} of the MCP server {one_line(server, 60)}"
    return one_line(name, 60)


def consent(tool: AgentTool, agent: Agent) -> str | None:
    """When a person has to agree to a call before it is made; None if never."""
    match tool.approve:
        case "never":
            return None
        case "always":
            return "if a person agrees"
        case None:
            return "if a person agrees" if "approve" in agent.human else None
        case expression:
            return f"if a person agrees where {condition(expression, CALL)}"


def _tool(tool: AgentTool, agent: Agent) -> str:
    notes = [*(["a person sees each call first, and may change it"] if tool.review else []), _leave(tool, agent)]
    told = "; ".join(note for note in notes if note)
    return tool_name(tool.name) + (f" ({told})" if told else "")


def _leave(tool: AgentTool, agent: Agent) -> str | None:
    """What the tool itself says of a person's leave, as far as no rule says more."""
    rules = [rule for rule in agent.permissions if fnmatchcase(tool.name, rule.tool)]
    if any(rule.target == "*" for rule in rules):
        return None
    told = consent(tool, agent)
    return f"{told}, where no rule says more" if told and rules else told


def _rule(rule: Rule) -> str:
    what = "Every call" if rule.tool == "*" else f"A call of {one_line(rule.tool, 60)}"
    target = "" if rule.target == "*" else f" on {one_line(rule.target, 60)}"
    done = {"allow": "is allowed", "deny": "is denied", "ask": "needs a person's yes"}[rule.action]
    return f"{what}{target} {done}."


def _shortened(rule: AgentHistory) -> str:
    most = [counted(rule.max_turns, "turn")] if rule.max_turns is not None else []
    most += [counted(rule.max_tokens, "token")] if rule.max_tokens is not None else []
    by = f" by the agent {rule.agent}" if rule.strategy == "summarize" and rule.agent is not None else ""
    return f"Of a conversation above {listed(most, 'or')} {_HISTORY[rule.strategy]}{by}."


def asks_of(used: Used, blueprint: Blueprint) -> list[Ask]:
    """What a person may be asked while the agent works, for it and for the agents that it calls."""
    inner = reach_of_tools(used.tools, blueprint).agents.values()
    every = [used, *(Used("", agent) for agent in inner)]
    return [ask for one in every for ask in _asks(one)]


def asks_of_calls(used: Used, tools: Sequence[str], blueprint: Blueprint, *, may_ask: bool) -> list[Ask]:
    """What a person may be asked where the agent calls tools that a plan names."""
    agent = used.agent
    known = {tool.name: tool for tool in agent.tools}
    settings = [known.get(name) or known.get(name.partition("/")[0]) or AgentTool(name=name) for name in tools]
    human = [word for word in agent.human if may_ask or word != "ask"]
    rules = [rule for rule in agent.permissions if any(_may_speak_of(rule, name) for name in tools)]
    here = agent.model_copy(update={"tools": settings, "human": human, "permissions": rules})
    return asks_of(replace(used, agent=here), blueprint)


def _may_speak_of(rule: Rule, tool: str) -> bool:
    """Whether a rule may be one for the tool; a server's tools have other names for the model, which only it knows."""
    return tool.startswith(MCP) or tool == ANY_TOOL or fnmatchcase(tool, rule.tool)


def _asks(used: Used) -> list[Ask]:
    agent = used.agent
    found = [Ask("clarification", on_decline="told")] if "ask" in agent.human or used.registry is not None else []
    for tool in used.tools:
        name = one_line(tool.name, 60)
        if tool.review:
            found.append(Ask("review", f"{name} is about to be called", on_decline="rejected"))
        if consent(tool, agent) is not None:
            found.append(Ask("permission", f"May {name} be called?", on_decline="denied"))
    found += [
        Ask("permission", f"May {one_line(rule.tool, 60)} be called?", on_decline="denied")
        for rule in agent.permissions
        if rule.action == "ask"
    ]
    return [*found, *limit_ask(agent)]


def limit_ask(agent: Agent) -> list[Ask]:
    """The question whether an agent may spend more than its limits say."""
    if agent.limits is None or agent.limits.on_limit != "ask":
        return []
    return [LIMIT]
