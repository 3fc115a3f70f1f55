"""Agents in plain words: model, instructions, tools, approvals and limits; used by the pages and by the graph."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from holdfast.blueprint.amounts import say_count
from holdfast.blueprint.dependencies import reach_of_tools
from holdfast.blueprint.explain.cost import limit_asks, limit_sentences
from holdfast.blueprint.kinds import Agent, AgentHistory, AgentTool, Blueprint, Rule
from holdfast.blueprint.kinds.description import Ask
from holdfast.blueprint.kinds.phrases import error_sentences
from holdfast.blueprint.kinds.references import ANY_TOOL, MCP, model, tool_name
from holdfast.blueprint.plan.output import PLAN_OUTPUT
from holdfast.blueprint.words.schemas import shape
from holdfast.blueprint.words.text import (
    RUN,
    Vocabulary,
    as_sentence,
    condition,
    enumerate_words,
    one_line,
    say_template,
)

CALL = Vocabulary({"args": "the call"})
_HISTORY = {
    "truncate_turns": "the oldest turns are dropped",
    "truncate_results": "old results of tools are shortened",
    "summarize": "older turns are summarised",
}


@dataclass(frozen=True)
class UsedAgent:
    """An agent as a step uses it; a planner has a registry instead of tools."""

    label: str
    agent: Agent
    registry: Sequence[AgentTool] | None = None
    turns: bool = True
    """True if it works in turns; false if it only calls the tools of a plan's steps, or drives a plan."""
    drives: bool = False
    """True if it drives a plan."""
    plan_tools: bool = False
    """True if it calls tools that a plan names."""

    def merged_with(self, other: UsedAgent) -> UsedAgent:
        """Return this agent with the uses of both."""
        return replace(
            self,
            agent=self.agent if self.agent.tools else other.agent,
            turns=self.turns or other.turns,
            drives=self.drives or other.drives,
            plan_tools=self.plan_tools or other.plan_tools,
        )

    @property
    def tools(self) -> Iterable[AgentTool]:
        return self.agent.tools if self.registry is None else self.registry


def describe_agent(used: UsedAgent, names: Vocabulary = RUN) -> str:
    """Return the sentences that describe an agent."""
    agent = used.agent
    instructions = f" is instructed: {say_template(agent.instructions, names)}" if agent.instructions else ""
    sentences = [as_sentence(f"{used.label} ({_models(agent)}){instructions}")]
    if agent.source is not None:
        sentences.append("Its tools, its output and its other instructions are defined in its code.")
    if agent.output_schema is not None:
        is_plan = agent.output_schema == PLAN_OUTPUT
        sentences.append("It returns a JSON plan." if is_plan else f"It returns {shape(agent.output_schema)}.")
    if agent.works_in_turns and used.registry is None and used.turns:
        sentences.append(_turns_sentence(agent))
    if used.drives:
        sentences.append(f"It drives a plan in at most {say_count(agent.driver_turns, 'turn')}.")
    tools = [describe_tool(tool, agent) for tool in used.tools]
    if tools and agent.source is not None:
        sentences.append(f"Of its tools, the blueprint configures {enumerate_words(tools)}.")
    elif tools:
        sentences.append(f"It may {'run' if used.registry is not None else 'call'} {enumerate_words(tools)}.")
    if used.plan_tools and "approve" in agent.human and not agent.tools:
        sentences.append("A person must agree to each call of a tool.")
    if "ask" in agent.human and used.registry is None:
        sentences.append("It may ask a person whenever it wants to know something.")
    sentences += [_permission_sentence(rule) for rule in agent.permissions]
    sentences += error_sentences(agent.tool_errors)
    if agent.history_management is not None:
        sentences.append(_history_sentence(agent.history_management))
    sentences += limit_sentences("One use may take", agent.limits)
    return " ".join(sentences)


def _models(agent: Agent) -> str:
    names = [*([agent.model] if agent.model else []), *agent.fallback_models]
    asked = ", else ".join(map(model, names))
    if agent.source is None:
        return asked
    own = one_line(agent.source, 80)
    asking = asked if agent.model else f"its own model, else {asked}"
    return f"{own}, asking {asking}" if names else own


def _turns_sentence(agent: Agent) -> str:
    most = f"It takes at most {say_count(agent.max_turns, 'turn')}"
    return f"{most} and {say_count(agent.max_tool_calls, 'call')}." if agent.max_tool_calls is not None else f"{most}."


def approval_condition(tool: AgentTool, agent: Agent) -> str | None:
    """Return the clause that says when a person has to approve a call; None if never."""
    match tool.approve:
        case "never":
            return None
        case "always":
            return "if a person agrees"
        case None:
            return "if a person agrees" if "approve" in agent.human else None
        case expression:
            return f"if a person agrees where {condition(expression, CALL)}"


def describe_tool(tool: AgentTool, agent: Agent) -> str:
    """Return a tool with what a person has to say before its agent calls it."""
    notes = [
        *(["a person sees each call first, and may change it"] if tool.review else []),
        _approval_note(tool, agent),
        *([f"risk: {tool.risk}"] if tool.risk else []),
    ]
    note_text = "; ".join(note for note in notes if note)
    return tool_name(tool.name) + (f" ({note_text})" if note_text else "")


def _approval_note(tool: AgentTool, agent: Agent) -> str | None:
    """Return the tool's own approval clause; None if a permission rule for every target decides instead."""
    rules = [rule for rule in agent.permissions if fnmatchcase(tool.name, rule.tool)]
    if any(rule.target == "*" for rule in rules):
        return None
    note = approval_condition(tool, agent)
    return f"{note}, unless a rule decides" if note and rules else note


def _permission_sentence(rule: Rule) -> str:
    calls = "Every call" if rule.tool == "*" else f"A call of {one_line(rule.tool, 60)}"
    on_target = "" if rule.target == "*" else f" on {one_line(rule.target, 60)}"
    effect = {"allow": "is allowed", "deny": "is denied", "ask": "needs a person's yes"}[rule.action]
    return f"{calls}{on_target} {effect}."


def _history_sentence(rule: AgentHistory) -> str:
    most = [say_count(rule.max_turns, "turn")] if rule.max_turns is not None else []
    most += [say_count(rule.max_tokens, "token")] if rule.max_tokens is not None else []
    by = f" by the agent {rule.agent}" if rule.strategy == "summarize" and rule.agent is not None else ""
    return f"If a conversation is longer than {enumerate_words(most, 'or')}, {_HISTORY[rule.strategy]}{by}."


def list_asks(used: UsedAgent, blueprint: Blueprint) -> list[Ask]:
    """Return the questions that an agent, and the agents it calls, may ask."""
    inner = reach_of_tools(used.tools, blueprint).agents.values()
    agents = [used, *(UsedAgent("", agent) for agent in inner)]
    return [ask for user in agents for ask in _asks_of_one(user)]


def asks_of_calls(used: UsedAgent, tools: Sequence[str], blueprint: Blueprint, *, may_ask: bool) -> list[Ask]:
    """Return the questions that may be asked when the agent calls tools named by a plan.

    Args:
        tools: Names as the plan writes them; `ANY_TOOL` for those not known yet.
        may_ask: Whether the agent may also ask on its own behalf.
    """
    agent = used.agent
    own_tools = {tool.name: tool for tool in agent.tools}
    settings = [own_tools.get(name) or own_tools.get(name.partition("/")[0]) or AgentTool(name=name) for name in tools]
    human = [word for word in agent.human if may_ask or word != "ask"]
    rules = [rule for rule in agent.permissions if any(_may_apply_to(rule, name) for name in tools)]
    restricted = agent.model_copy(update={"tools": settings, "human": human, "permissions": rules})
    return list_asks(replace(used, agent=restricted), blueprint)


def _may_apply_to(rule: Rule, tool: str) -> bool:
    """Return whether a rule may apply to a tool.

    Tools of an MCP server count always: only the server knows the names that the model will see.
    """
    return tool.startswith(MCP) or tool == ANY_TOOL or fnmatchcase(tool, rule.tool)


def _asks_of_one(used: UsedAgent) -> list[Ask]:
    agent = used.agent
    asks = [Ask("clarification", on_decline="told")] if "ask" in agent.human or used.registry is not None else []
    for tool in used.tools:
        name = one_line(tool.name, 60)
        if tool.review:
            asks.append(Ask("review", f"{name} is about to be called", on_decline="rejected"))
        if approval_condition(tool, agent) is not None:
            asks.append(Ask("permission", f"May {name} be called?", on_decline="denied"))
    asks += [
        Ask("permission", f"May {one_line(rule.tool, 60)} be called?", on_decline="denied")
        for rule in agent.permissions
        if rule.action == "ask"
    ]
    return [*asks, *limit_asks(agent.limits)]
