"""Permission of tool calls: one decision from all that authors, owners and people have said. Everything fails closed.

An author restricts an agent's tools by `human: [approve]` (every call), by `approve` and `review` of a tool, and by
rules (`permissions`); in a plan several agents may have a say. The owner of a tool demands approval or review in its
decorator. A person may permit a tool for the rest of the run. The loop guard stops a call that is repeated. What an
earlier plan has done is not done again unless a person wants that.
`decide` is where all of these meet. Workflows then ask a person where one must be asked (`workflows/approvals.py`),
and so do workers for a step, which calls its tool at once (`activities/owner_gate.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, Literal, NamedTuple, get_args

from holdfast.blueprint.dependencies import reach_of_tools
from holdfast.blueprint.kinds import Agent, AgentTool, Blueprint, Rule
from holdfast.blueprint.kinds.references import AGENT, IMPORT
from holdfast.blueprint.parts import Risk
from holdfast.protocol.agents import ToolSpec
from holdfast.protocol.argument_texts import list_texts
from holdfast.protocol.ledger import LedgerEntry
from holdfast.protocol.tool_rules import Consent, needs_approval
from holdfast.protocol.values import make_digest

Args = dict[str, Any]
Action = Literal["allow", "deny", "ask"]
STRICTNESS: tuple[Action, ...] = ("deny", "ask", "allow")
_REPEATED = "is called with the same arguments again and again"


class Policy(NamedTuple):
    """An agent that has a say, and its settings for the tool; without an agent, what the tool's owner says."""

    agent: Agent | None
    tool: AgentTool

    @staticmethod
    def of(agent: Agent, spec: ToolSpec) -> Policy:
        return Policy(agent, find_settings(agent.tools, spec))


Repetition = Literal["", "asks", "ends"]
"""What follows if an agent makes the same call again and again: nothing as it does not, a question, or its end."""


@dataclass(frozen=True)
class ProposedCall:
    """A call of a tool, with all that bears on whether it may be made."""

    spec: ToolSpec
    """The tool, with what its owner demands."""
    args: Args
    """The arguments, with the tool's defaults."""
    policies: Sequence[Policy] = ()
    """Of the agents that have a say; a step has none."""
    consent: Consent = ""
    """What a person has said: of these arguments, or of the tool for the rest of the run."""
    repetition: Repetition = ""
    earlier: LedgerEntry | None = None
    """The same call of an earlier plan, which nobody has been told of yet."""
    note: str = ""
    """Follows the question: why it is asked, where neither the arguments nor the tool say so."""


class CallDecision(NamedTuple):
    """The decision about a call, and the reason for the model or the question for a person."""

    action: Literal["allow", "refuse", "review", "approve", "end"]
    """`review`: a person sees the arguments, and may change them; then it is decided again. `end`: of the agent."""
    reason: str = ""
    risk: Risk | None = None
    """The highest that an author names for the tool."""
    permits: bool = False
    """True if a yes for the run counts for later calls: not where a repeated call may just go on."""


Expected = Literal["deny", "ask", "depends", "allow"]
"""The action for a tool before its arguments are known; `depends`: they decide."""
_EXPECTED: tuple[Expected, ...] = ("deny", "ask", "depends", "allow")


class _Clause(NamedTuple):
    """One thing that an author has said of a tool. The first that fits the arguments counts."""

    action: Action
    fits: Callable[[Args], bool] | None = None
    """None: it fits any arguments."""


def decide(call: ProposedCall) -> CallDecision:
    """Return what is to be done about a call: the strictest of what all say.

    From the strictest: it ends the agent, is refused, is reviewed, is approved, is made. A person is asked once: who
    reviews a call agrees to it as well, and who lets a repeated call go on approves it.
    """
    name, policies = call.spec.name, [*call.policies, *_of_owner(call.spec)]
    if call.repetition == "ends":
        return CallDecision("end", f"{name} {_REPEATED}")
    actions = {_action(call.args, call.spec, policy) for policy in policies}
    action = next((action for action in STRICTNESS if action in actions), "allow")
    if action == "deny":
        where = "with these arguments" if call.consent == "reviewed" else "here"
        return CallDecision("refuse", f"{name} is not permitted {where}")
    if call.consent != "reviewed" and any(policy.tool.review for policy in policies):
        text = f"{name} is about to be called. May it be called with these arguments?"
        return CallDecision("review", _question(text, call), _risk(policies))
    if action == "ask" and call.consent == "":
        return CallDecision(
            "approve", _question(f"May {name} be called?", call), _risk(policies), permits=call.earlier is None
        )
    if call.earlier is not None:
        return CallDecision("approve", _question(call.earlier.ask_again(name), call), _risk(policies))
    if call.repetition == "asks":
        return CallDecision("approve", f"{name} {_REPEATED}. Go on?", _risk(policies))
    return CallDecision("allow")


def _question(text: str, call: ProposedCall) -> str:
    """Return the question of the tool's owner, or this one, with a note that the call is repeated."""
    rule = call.spec.rule
    asked = text if rule is None or not rule.permission else rule.permission
    earlier = "" if call.earlier is None else call.earlier.describe()
    asked = " ".join(part for part in (asked, call.note, earlier) if part)
    return f"{asked} ({call.spec.name} {_REPEATED}.)" if call.repetition else asked


def _of_owner(spec: ToolSpec) -> list[Policy]:
    """Return what the tool's owner demands, which counts beside what authors of blueprints say."""
    if (rule := spec.rule) is None:
        return []
    settings = AgentTool(name=spec.reference, approve=rule.approve, review=rule.review, risk=rule.risk)
    return [Policy(None, settings)]


def _risk(policies: Sequence[Policy]) -> Risk | None:
    """Return the highest risk that the policies name."""
    named = [policy.tool.risk for policy in policies]
    return next((risk for risk in reversed(get_args(Risk)) if risk in named), None)


def find_expected(spec: ToolSpec, policies: Sequence[Policy]) -> Expected:
    """Return the action for a tool as far as it can be said before its arguments are known."""
    actions = {_expected_by(spec, policy) for policy in (*policies, *_of_owner(spec))}
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
    for rule in reversed(policy.agent.permissions if policy.agent else []):
        if _names(rule, spec):
            yield _Clause(rule.action, None if rule.target == "*" else partial(_fits, rule, spec))
    match policy.tool.approve:
        case "always":
            yield _Clause("ask")
        case "never":
            yield _Clause("allow")
        case None:
            yield _Clause("ask" if policy.agent is not None and "approve" in policy.agent.human else "allow")
        case expression:
            yield _Clause("ask", partial(needs_approval, expression))
            yield _Clause("allow")


def _names(rule: Rule, spec: ToolSpec) -> bool:
    """Return whether the rule is about the tool, by its name as the model or as the author has it."""
    return any(fnmatchcase(text, rule.tool) for text in (spec.name, spec.reference))


def _fits(rule: Rule, spec: ToolSpec, args: Args) -> bool:
    """Return whether the rule's target fits: for a rule that allows every text of the arguments, else any."""
    fitting = [fnmatchcase(text, rule.target) for text in list_texts(args, spec.parameters)]
    return bool(fitting) and (all(fitting) if rule.action == "allow" else any(fitting))


def find_settings(tools: Iterable[AgentTool], spec: ToolSpec) -> AgentTool:
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


def collect_policies(spec: ToolSpec, agent: Agent, others: Iterable[Agent]) -> list[Policy]:
    """Return who has a say in a tool: the agent that has it, and those of the others whose authors cover it."""
    return [Policy.of(source, spec) for source in (agent, *(other for other in others if _covers(other, spec)))]


def is_repeatable(spec: ToolSpec, policies: Sequence[Policy]) -> bool:
    """Return whether the same call may be made twice: as the blueprint says, else as the tool's owner says."""
    stated = [policy.tool.idempotent for policy in policies if policy.tool.idempotent is not None]
    return all(stated) if stated else spec.idempotent


Effect = Literal["reads", "repeatable", "acts"]
"""What a call does to the world, as far as the tool's owner or the blueprint says it."""


def name_effect(spec: ToolSpec, policies: Sequence[Policy], inner: Sequence[str]) -> Effect:
    """Return what a call does; `inner`: the tools that an agent or an import may call in its turn."""
    if spec.reference.startswith(AGENT):
        return "acts" if inner else "reads"
    if spec.reads_only:
        return "reads"
    return "repeatable" if is_repeatable(spec, policies) else "acts"


def make_permit_key(spec: ToolSpec, blueprint: Blueprint) -> str:
    """Return the key under which a permission for the rest of the run is kept.

    For an agent or an import it holds a digest of what that may use: another one may have the same name elsewhere.
    """
    if not spec.reference.startswith((AGENT, IMPORT)):
        return spec.reference
    reach = reach_of_tools([AgentTool(name=spec.reference)], blueprint)
    agents = {name: agent.model_dump(mode="json") for name, agent in reach.agents.items()}
    imports = {alias: child.model_dump(mode="json") for alias, child in reach.imports.items()}
    return f"{spec.reference}@{make_digest(agents, imports)}"
