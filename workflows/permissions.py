"""What an agent may call: rules, a person's leave, a person's look at the arguments. Everything fails closed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Any, Literal, NamedTuple

from temporalio import workflow

from blueprint import defaults
from blueprint.expressions import ExpressionError, holds, names_in_expression
from blueprint.grammar import Agent, AgentTool, Rule
from blueprint.reach import AGENT, IMPORT, reach_of_tools
from protocol.agents import ToolCall, ToolSpec
from protocol.questions import Permission, Review
from protocol.values import digest_of
from workflows.frame import Frame

Action = Literal["allow", "deny", "ask"]
STRICTNESS: tuple[Action, ...] = ("deny", "ask", "allow")
REMEMBERED_CALLS = 10
SAME_CALLS = 3

# Changes that histories of before must not see.
ABSENT_ASKS = "absent-arguments-ask"
NESTED_DEFAULTS = "nested-defaults"
PERMITS_SAY_WHOSE = "permits-say-whose"


class Denied(Exception):
    """The call may not be made; the message is for the model."""


class Ruling(NamedTuple):
    """An agent whose rules count, and what it says of the tool."""

    agent: Agent
    tool: AgentTool


def action_for(call: ToolCall, tool: AgentTool, spec: ToolSpec, agent: Agent) -> Action:
    """The last rule that fits decides; else the tool's `approve`; else what the agent asks for in general."""
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
    """Whether a person is to be asked; so it is, too, where the expression says nothing of these arguments."""
    try:
        if holds(expression, {"args": call.args})[0]:
            return True
    except ExpressionError:
        return True
    reads = names_in_expression(expression)
    return any(_lacks(call.args, path[1:]) for path in reads if path[0] == "args") and workflow.patched(ABSENT_ASKS)


def _lacks(value: Any, path: tuple[str, ...]) -> bool:
    """Whether an argument at the path is not given: what the tool takes in its place, nobody knows."""
    for key in path:
        if not isinstance(value, dict):
            return False
        if key not in value:
            return True
        value = value[key]
    return False


def with_defaults(call: ToolCall, spec: ToolSpec) -> ToolCall:
    """The call with the arguments that the tool would fill in itself: who approves must see them."""
    properties = spec.parameters.get("properties", {})
    named = {name: one["default"] for name, one in properties.items() if isinstance(one, dict) and "default" in one}
    args = {**named, **call.args}
    whole = defaults.with_defaults(spec.parameters, args)
    if whole != args and workflow.patched(NESTED_DEFAULTS):
        args = whole
    return call.model_copy(update={"args": args})


def _fits(rule: Rule, call: ToolCall, spec: ToolSpec) -> bool:
    """Whether the rule speaks of the call, by the tool's name as the author or as the model has it.

    A rule that allows must fit every text among the arguments, others one.
    """
    if not _names(rule, call.name, spec):
        return False
    if rule.target == "*":
        return True
    fitting = [fnmatchcase(text, rule.target) for text in _texts(call.args)]
    return bool(fitting) and (all(fitting) if rule.action == "allow" else any(fitting))


def _names(rule: Rule, name: str, spec: ToolSpec) -> bool:
    return any(fnmatchcase(one, rule.tool) for one in (name, spec.reference))


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


def _strictest(call: ToolCall, spec: ToolSpec, rulings: Sequence[Ruling]) -> Action:
    actions = {action_for(call, one.tool, spec, one.agent) for one in rulings}
    return next(action for action in STRICTNESS if action in actions)


def speaks_of(agent: Agent, spec: ToolSpec) -> bool:
    """Whether an agent's author said anything of the tool: by listing it, or by a rule that keeps it back."""
    names = (spec.reference, spec.reference.partition("/")[0])
    if any(tool.name in names for tool in agent.tools) or ("approve" in agent.human and not agent.tools):
        return True
    return any(rule.action != "allow" and _names(rule, spec.name, spec) for rule in agent.permissions)


async def permitted(
    call: ToolCall, tool: AgentTool, spec: ToolSpec, agent: Agent, frame: Frame, others: Sequence[Ruling] = ()
) -> ToolCall:
    """The call that may be made: a person may have changed its arguments. `others` rule, too. Raises `Denied`."""
    rulings = [Ruling(agent, tool), *others]
    if _strictest(call, spec, rulings) == "deny":
        raise Denied(f"{call.name} is not permitted here")
    if any(one.tool.review for one in rulings):
        call = with_defaults(await _reviewed(call, spec, frame), spec)
    match _strictest(call, spec, rulings):
        case "deny":
            raise Denied(f"{call.name} is not permitted with these arguments")
        case "ask" if (key := _permit_of(spec, frame)) not in frame.host.permits:
            said = await ask_leave(call, f"May {call.name} be called?", frame)
            if said.get("scope") in ("run", "always"):
                frame.host.permit(key)
    return call


def _permit_of(spec: ToolSpec, frame: Frame) -> str:
    """What leave for the run is kept as. An agent or an import is told from others of its name by what it may use."""
    if not spec.reference.startswith((AGENT, IMPORT)) or not workflow.patched(PERMITS_SAY_WHOSE):
        return spec.reference
    reach = reach_of_tools([AgentTool(name=spec.reference)], frame.blueprint)
    agents = {name: agent.model_dump(mode="json") for name, agent in reach.agents.items()}
    imports = {alias: child.model_dump(mode="json") for alias, child in reach.imports.items()}
    return f"{spec.reference}@{digest_of(agents, imports)}"


async def ask_leave(call: ToolCall, message: str, frame: Frame) -> dict[str, Any]:
    """A person's explicit yes; anything else is a `Denied` with the person's reason."""
    asked = Permission(message=message, info={"tool": call.name, "args": call.args})
    reply = await frame.ask(asked)
    said: dict[str, Any] = reply.content if reply.status == "answered" else asked.when_declined(reply.comment)
    if said["granted"] is not True:
        why = f": {said['reason']}" if said.get("reason") else ""
        raise Denied(f"not approved{why}")
    return said


async def _reviewed(call: ToolCall, spec: ToolSpec, frame: Frame) -> ToolCall:
    asked = Review(
        message=f"{call.name} is about to be called: may it be, and with these arguments?",
        payload=call.args,
        payload_schema=spec.parameters,
        info={"tool": call.name},
    )
    reply = await frame.ask(asked)
    said = reply.content if reply.status == "answered" else asked.when_declined(reply.comment)
    if said["verdict"] == "rejected":
        why = f": {said['reason']}" if said.get("reason") else ""
        raise Denied(f"rejected{why}")
    return call.model_copy(update={"args": said["payload"]})


def remembered(recent: list[str], call: ToolCall) -> list[str]:
    """The digests of the last calls, with this one."""
    return [*recent, _digest(call)][-REMEMBERED_CALLS:]


def repeats(recent: list[str], call: ToolCall) -> bool:
    """Whether the same call stands three times among the last ten, others between them or not."""
    return call.unreadable is None and recent.count(_digest(call)) >= SAME_CALLS


def forgotten(recent: list[str], call: ToolCall) -> list[str]:
    """Without this call: a person has said that it may go on."""
    return [one for one in recent if one != _digest(call)]


def _digest(call: ToolCall) -> str:
    return digest_of(call.name, call.args)
