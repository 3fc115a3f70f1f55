"""Permission of tool calls: one decision from all that authors and people have said. Everything fails closed.

An author restricts an agent's tools by `human: [approve]` (every call), by `approve` and `review` of a tool, and by
rules (`permissions`); in a plan several agents may have a say. A person may permit a tool for the rest of the run.
`decide` is where these meet; `approvals` then asks a person, where it must.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, Literal, NamedTuple

from holdfast.blueprint.dependencies import reach_of_tools
from holdfast.blueprint.expressions import ExpressionError, holds, names_in_expression
from holdfast.blueprint.kinds import Agent, AgentTool, Blueprint, Rule
from holdfast.blueprint.kinds.references import AGENT, IMPORT
from holdfast.protocol.agents import ToolSpec
from holdfast.protocol.values import digest_of

Args = dict[str, Any]
Action = Literal["allow", "deny", "ask"]
STRICTNESS: tuple[Action, ...] = ("deny", "ask", "allow")


class Policy(NamedTuple):
    """An agent that has a say, and its settings for the tool."""

    agent: Agent
    tool: AgentTool

    @staticmethod
    def of(agent: Agent, spec: ToolSpec) -> Policy:
        return Policy(agent, settings_of(agent.tools, spec))


class CallDecision(NamedTuple):
    """What is to be done about a call, and the reason for the model or the question for a person."""

    action: Literal["allow", "refuse", "review", "approve"]
    """`review`: a person sees the arguments, and may change them; then it is decided again."""
    reason: str = ""


Expected = Literal["deny", "ask", "depends", "allow"]
"""The action for a tool before its arguments are known; `depends`: they decide."""
_EXPECTED: tuple[Expected, ...] = ("deny", "ask", "depends", "allow")


class _Clause(NamedTuple):
    """One thing that an author has said of a tool. The first that fits the arguments counts."""

    action: Action
    fits: Callable[[Args], bool] | None = None
    """None: it fits any arguments."""


def decide(
    args: Args, spec: ToolSpec, policies: Sequence[Policy], *, permitted: bool = False, reviewed: bool = False
) -> CallDecision:
    """Return what is to be done about a call: the strictest of what the policies say.

    Args:
        args: The arguments, with the tool's defaults.
        spec: The tool.
        policies: Whoever has a say.
        permitted: A person has permitted the tool for the rest of the run.
        reviewed: A person has seen these arguments.
    """
    actions = {_action(args, spec, policy) for policy in policies}
    action = next(action for action in STRICTNESS if action in actions)
    if action == "deny":
        where = "with these arguments" if reviewed else "here"
        return CallDecision("refuse", f"{spec.name} is not permitted {where}")
    if not reviewed and any(policy.tool.review for policy in policies):
        return CallDecision("review", f"{spec.name} is about to be called: may it be, and with these arguments?")
    if action == "ask" and not permitted:
        return CallDecision("approve", f"May {spec.name} be called?")
    return CallDecision("allow")


def expected(spec: ToolSpec, policies: Sequence[Policy]) -> Expected:
    """Return the action for a tool as far as it can be said before its arguments are known."""
    actions = {_expected_by(spec, policy) for policy in policies}
    return next(action for action in _EXPECTED if action in actions)


def _expected_by(spec: ToolSpec, policy: Policy) -> Expected:
    possible: list[Action] = []
    for clause in _clauses(spec, policy):
        possible.append(clause.action)
        if clause.fits is None:
            break
    if possible[-1] != "deny" and policy.tool.review:
        return "ask"
    return possible[-1] if len(set(possible)) == 1 else "depends"


def _action(args: Args, spec: ToolSpec, policy: Policy) -> Action:
    clauses = _clauses(spec, policy)
    return next(clause.action for clause in clauses if clause.fits is None or clause.fits(args))


def _clauses(spec: ToolSpec, policy: Policy) -> Iterator[_Clause]:
    """Yield the agent's rules, the last first, then the tool's `approve`, else what the agent says of every tool."""
    for rule in reversed(policy.agent.permissions):
        if _names(rule, spec):
            yield _Clause(rule.action, None if rule.target == "*" else partial(_fits, rule))
    match policy.tool.approve:
        case "always":
            yield _Clause("ask")
        case "never":
            yield _Clause("allow")
        case None:
            yield _Clause("ask" if "approve" in policy.agent.human else "allow")
        case expression:
            yield _Clause("ask", partial(_needs_approval, expression))
            yield _Clause("allow")


def _names(rule: Rule, spec: ToolSpec) -> bool:
    """Return whether the rule is about the tool, by its name as the model or as the author has it."""
    return any(fnmatchcase(text, rule.tool) for text in (spec.name, spec.reference))


def _fits(rule: Rule, args: Args) -> bool:
    """Return whether the rule's target fits: for a rule that allows every text of the arguments, else any."""
    fitting = [fnmatchcase(text, rule.target) for text in _texts(args)]
    return bool(fitting) and (all(fitting) if rule.action == "allow" else any(fitting))


def _texts(value: object) -> Iterator[str]:
    match value:
        case str():
            yield value
        case dict():
            for inner in value.values():
                yield from _texts(inner)
        case list():
            for inner in value:
                yield from _texts(inner)


def _needs_approval(expression: str, args: Args) -> bool:
    """Return whether the expression holds, and true where it fails or reads arguments that are missing."""
    try:
        if holds(expression, {"args": args})[0]:
            return True
    except ExpressionError:
        return True
    reads = names_in_expression(expression)
    return any(_lacks(args, path[1:]) for path in reads if path[0] == "args")


def _lacks(value: object, path: tuple[str, ...]) -> bool:
    """Return whether the argument at the path is missing, so that the tool's own default would apply unseen."""
    for key in path:
        if not isinstance(value, dict):
            return False
        if key not in value:
            return True
        value = value[key]
    return False


def settings_of(tools: Iterable[AgentTool], spec: ToolSpec) -> AgentTool:
    """Return the author's settings of a tool; those of a whole MCP server apply to all its tools."""
    by_name = {tool.name: tool for tool in reversed(list(tools))}
    server = spec.reference.partition("/")[0]
    return by_name.get(spec.reference) or by_name.get(server) or AgentTool(name=spec.reference)


def _covers(agent: Agent, spec: ToolSpec) -> bool:
    """Return whether an agent's author covers the tool: by listing it, or by a rule that restricts it."""
    names = (spec.reference, spec.reference.partition("/")[0])
    if any(tool.name in names for tool in agent.tools) or ("approve" in agent.human and not agent.tools):
        return True
    return any(rule.action != "allow" and _names(rule, spec) for rule in agent.permissions)


def policies_of(spec: ToolSpec, agent: Agent, others: Iterable[Agent]) -> list[Policy]:
    """Return who has a say in a tool: the agent that has it, and those of the others whose authors cover it."""
    return [Policy.of(one, spec) for one in (agent, *(other for other in others if _covers(other, spec)))]


def permit_of(spec: ToolSpec, blueprint: Blueprint) -> str:
    """Return the key under which a permission for the rest of the run is kept.

    For an agent or an import it holds a digest of what that may use: another one may have the same name elsewhere.
    """
    if not spec.reference.startswith((AGENT, IMPORT)):
        return spec.reference
    reach = reach_of_tools([AgentTool(name=spec.reference)], blueprint)
    agents = {name: agent.model_dump(mode="json") for name, agent in reach.agents.items()}
    imports = {alias: child.model_dump(mode="json") for alias, child in reach.imports.items()}
    return f"{spec.reference}@{digest_of(agents, imports)}"
