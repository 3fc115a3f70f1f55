"""Rules of `plan`: a plan is written or read, not both; whoever works on it is there; it can be laid out."""

from __future__ import annotations

from blueprint.check.agents import check_agent, check_tool_name
from blueprint.check.findings import Findings, known
from blueprint.expressions.error import did_you_mean
from blueprint.grammar import Agent, Blueprint, Plan
from blueprint.plan import laid_out

_WRITTEN = ("goal", "steps", "loop_blocks")


def check_plan(step: Plan, path: str, blueprint: Blueprint, findings: Findings) -> None:
    plan = step.plan
    path = f"{path}.plan"
    _check_agent(plan.agent, f"{path}.agent", blueprint, findings)
    for index, one in enumerate(plan.steps):
        _check_agent(one.agent, f"{path}.steps[{index}].agent", blueprint, findings)
        for number, tool in enumerate(one.tools):
            where = f"{path}.steps[{index}].tools[{number}]"
            check_tool_name(tool, where, blueprint, findings)
            _check_allowed(tool, plan.agent if one.agent is None else one.agent, where, blueprint, findings)
    if plan.source is not None:
        for key in _WRITTEN:
            if plan.model_dump(include={key})[key]:
                told = f"'from' and {key!r} both say what the plan is"
                findings.add_key(f"{path}.{key}", "conflict", told, "keep one of them")
        return
    for fault in laid_out(plan)[1]:
        findings.add(f"{path}.{fault.path}", fault.code, fault.message, fault.hint)


def _check_allowed(tool: str, agent: str | Agent | None, path: str, blueprint: Blueprint, findings: Findings) -> None:
    """An agent that lists tools uses no others."""
    found = blueprint.agents.get(agent) if isinstance(agent, str) else agent
    names = [] if found is None else [one.name for one in found.tools]
    if names and tool not in names:
        hint = did_you_mean(tool, names) or f"it lists: {', '.join(names)}"
        findings.add(path, "unknown_name", f"the agent does not list the tool {tool!r}", hint)


def _check_agent(agent: str | Agent | None, path: str, blueprint: Blueprint, findings: Findings) -> None:
    if isinstance(agent, str) and not findings.was_mended("agents", agent):
        known(agent, "agent", blueprint.agents, path, findings)
    if isinstance(agent, Agent):
        check_agent(agent, path, blueprint, findings)
