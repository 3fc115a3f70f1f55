"""Permission of an agent's tool calls: rules, approval and review by a person. Everything fails closed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Any, Literal, NamedTuple

from holdfast.blueprint import defaults
from holdfast.blueprint.dependencies import reach_of_tools
from holdfast.blueprint.expressions import ExpressionError, holds, names_in_expression
from holdfast.blueprint.kinds import Agent, AgentTool, Rule
from holdfast.blueprint.kinds.references import AGENT, IMPORT
from holdfast.protocol.agents import ToolCall, ToolSpec
from holdfast.protocol.questions import Permission, Review
from holdfast.protocol.values import digest_of
from holdfast.workflows.frame import Frame

Action = Literal["allow", "deny", "ask"]
STRICTNESS: tuple[Action, ...] = ("deny", "ask", "allow")
REMEMBERED_CALLS = 10
SAME_CALLS = 3


class Denied(Exception):
    """The call may not be made; the message is for the model."""


class Policy(NamedTuple):
    """An agent whose rules apply, and its settings for the tool."""

    agent: Agent
    tool: AgentTool


Expected = Literal["deny", "ask", "depends", "allow"]
"""The action for a tool before its arguments are known; `depends`: they decide."""
_EXPECTED: tuple[Expected, ...] = ("deny", "ask", "depends", "allow")


def expected(spec: ToolSpec, policies: Sequence[Policy]) -> Expected:
    """Return the action for a tool as far as it can be said before its arguments are known."""
    actions = {_expected_by(spec, policy) for policy in policies}
    return next(action for action in _EXPECTED if action in actions)


def _expected_by(spec: ToolSpec, policy: Policy) -> Expected:
    agent, tool = policy
    rules = [rule for rule in reversed(agent.permissions) if _names(rule, spec.name, spec)]
    decides = next((index for index, rule in enumerate(rules) if rule.target == "*"), len(rules))
    whole: Expected
    if decides < len(rules):
        whole = rules[decides].action
    elif tool.approve is None:
        whole = "ask" if "approve" in agent.human else "allow"
    else:
        whole = {"always": "ask", "never": "allow"}.get(tool.approve, "depends")  # type: ignore[assignment]
    if whole != "deny" and tool.review:
        return "ask"
    return whole if all(rule.action == whole for rule in rules[:decides]) else "depends"


def action_for(call: ToolCall, tool: AgentTool, spec: ToolSpec, agent: Agent) -> Action:
    """Return the action of the last rule that fits, else of the tool's `approve`, else of the agent in general."""
    for rule in reversed(agent.permissions):
        if _fits(rule, call, spec):
            return rule.action
    match tool.approve:
        case "always":
            return "ask"
        case "never":
            return "allow"
        case None:
            return "ask" if "approve" in agent.human else "allow"
        case expression:
            return "ask" if _holds(expression, call) else "allow"


def _holds(expression: str, call: ToolCall) -> bool:
    """Return whether a person must approve: also where the expression fails or reads arguments that are missing."""
    try:
        if holds(expression, {"args": call.args})[0]:
            return True
    except ExpressionError:
        return True
    reads = names_in_expression(expression)
    return any(_lacks(call.args, path[1:]) for path in reads if path[0] == "args")


def _lacks(value: Any, path: tuple[str, ...]) -> bool:
    """Return whether the argument at the path is missing, so that the tool's own default would apply unseen."""
    for key in path:
        if not isinstance(value, dict):
            return False
        if key not in value:
            return True
        value = value[key]
    return False


def with_defaults(call: ToolCall, spec: ToolSpec) -> ToolCall:
    """Return the call with the tool's default arguments filled in, as whoever approves must see them."""
    return call.model_copy(update={"args": defaults.with_defaults(spec.parameters, call.args)})


def _fits(rule: Rule, call: ToolCall, spec: ToolSpec) -> bool:
    """Return whether the rule applies to the call, by the tool's name as the author or as the model has it.

    A rule that allows must fit every text among the arguments; any other rule must fit one.
    """
    if not _names(rule, call.name, spec):
        return False
    if rule.target == "*":
        return True
    fitting = [fnmatchcase(text, rule.target) for text in _texts(call.args)]
    return bool(fitting) and (all(fitting) if rule.action == "allow" else any(fitting))


def _names(rule: Rule, name: str, spec: ToolSpec) -> bool:
    return any(fnmatchcase(text, rule.tool) for text in (name, spec.reference))


def _texts(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case dict():
            for inner in value.values():
                yield from _texts(inner)
        case list():
            for inner in value:
                yield from _texts(inner)


def _strictest(call: ToolCall, spec: ToolSpec, policies: Sequence[Policy]) -> Action:
    actions = {action_for(call, policy.tool, spec, policy.agent) for policy in policies}
    return next(action for action in STRICTNESS if action in actions)


def speaks_of(agent: Agent, spec: ToolSpec) -> bool:
    """Return whether an agent's author covers the tool: by listing it, or by a rule that restricts it."""
    names = (spec.reference, spec.reference.partition("/")[0])
    if any(tool.name in names for tool in agent.tools) or ("approve" in agent.human and not agent.tools):
        return True
    return any(rule.action != "allow" and _names(rule, spec.name, spec) for rule in agent.permissions)


async def permitted(
    call: ToolCall, tool: AgentTool, spec: ToolSpec, agent: Agent, frame: Frame, others: Sequence[Policy] = ()
) -> ToolCall:
    """Return the call that may be made; a person may have changed its arguments. Raises `Denied`.

    `others` are policies that apply besides the agent's.
    """
    policies = [Policy(agent, tool), *others]
    if _strictest(call, spec, policies) == "deny":
        raise Denied(f"{call.name} is not permitted here")
    if any(policy.tool.review for policy in policies):
        call = with_defaults(await _reviewed(call, spec, frame), spec)
    match _strictest(call, spec, policies):
        case "deny":
            raise Denied(f"{call.name} is not permitted with these arguments")
        case "ask" if (key := _permit_of(spec, frame)) not in frame.host.permits:
            answer = await ask_approval(call, f"May {call.name} be called?", frame)
            if answer.get("scope") in ("run", "always"):
                frame.host.permit(key)
    return call


def _permit_of(spec: ToolSpec, frame: Frame) -> str:
    """Return the key of a permission for the whole run.

    For an agent or an import it holds a digest of what that may use: another one may have the same name elsewhere.
    """
    if not spec.reference.startswith((AGENT, IMPORT)):
        return spec.reference
    reach = reach_of_tools([AgentTool(name=spec.reference)], frame.blueprint)
    agents = {name: agent.model_dump(mode="json") for name, agent in reach.agents.items()}
    imports = {alias: child.model_dump(mode="json") for alias, child in reach.imports.items()}
    return f"{spec.reference}@{digest_of(agents, imports)}"


async def ask_approval(call: ToolCall, message: str, frame: Frame) -> dict[str, Any]:
    """Ask a person to approve a call, and return the answer. Raises `Denied` unless it is an explicit yes."""
    asked = Permission(message=message, info={"tool": call.name, "args": call.args})
    reply = await frame.ask(asked)
    answer: dict[str, Any] = reply.content if reply.status == "answered" else asked.when_declined(reply.comment)
    if answer["granted"] is not True:
        reason = f": {answer['reason']}" if answer.get("reason") else ""
        raise Denied(f"not approved{reason}")
    return answer


async def _reviewed(call: ToolCall, spec: ToolSpec, frame: Frame) -> ToolCall:
    asked = Review(
        message=f"{call.name} is about to be called: may it be, and with these arguments?",
        payload=call.args,
        payload_schema=spec.parameters,
        info={"tool": call.name},
    )
    reply = await frame.ask(asked)
    answer = reply.content if reply.status == "answered" else asked.when_declined(reply.comment)
    if answer["verdict"] == "rejected":
        reason = f": {answer['reason']}" if answer.get("reason") else ""
        raise Denied(f"rejected{reason}")
    return call.model_copy(update={"args": answer["payload"]})


def with_call(recent: list[str], call: ToolCall) -> list[str]:
    """Return the digests of the last calls, this one included."""
    return [*recent, _digest(call)][-REMEMBERED_CALLS:]


def repeats(recent: list[str], call: ToolCall) -> bool:
    """Return whether the same call occurs three times among the last ten, in a row or not."""
    return call.unreadable is None and recent.count(_digest(call)) >= SAME_CALLS


def without_call(recent: list[str], call: ToolCall) -> list[str]:
    """Return the digests without this call, as a person has approved its repetition."""
    return [digest for digest in recent if digest != _digest(call)]


def _digest(call: ToolCall) -> str:
    return digest_of(call.name, call.args)
