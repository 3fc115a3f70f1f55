"""Rules of `plan`: it is written or read, not both; its agents and tools exist; its steps can be ordered."""

from __future__ import annotations

from holdfast.blueprint.expressions.error import did_you_mean
from holdfast.blueprint.findings import Findings
from holdfast.blueprint.kinds import Agent, Blueprint, PlanBody
from holdfast.blueprint.kinds.agent_checks import check_tool_name
from holdfast.blueprint.plan import compile_plan

_WRITTEN = ("goal", "steps", "loop_blocks")


def check_plan(plan: PlanBody, path: str, blueprint: Blueprint, findings: Findings) -> None:
    for index, plan_step in enumerate(plan.steps):
        for number, tool in enumerate(plan_step.tools):
            tool_path = f"{path}.steps[{index}].tools[{number}]"
            check_tool_name(tool, tool_path, blueprint, findings)
            _check_allowed(
                tool, plan.agent if plan_step.agent is None else plan_step.agent, tool_path, blueprint, findings
            )
    if plan.source is not None:
        for key in _WRITTEN:
            if plan.model_dump(include={key})[key]:
                message = f"'from' and {key!r} both say what the plan is"
                findings.add_key(f"{path}.{key}", "conflict", message, "keep one of them")
        return
    for fault in compile_plan(plan)[1]:
        findings.add(f"{path}.{fault.path}", fault.code, fault.message, fault.hint)


def _check_allowed(tool: str, agent: str | Agent | None, path: str, blueprint: Blueprint, findings: Findings) -> None:
    """Check that a step's tool is one that its agent lists, if the agent lists any."""
    definition = blueprint.agents.get(agent) if isinstance(agent, str) else agent
    names = [] if definition is None else [entry.name for entry in definition.tools]
    if names and tool not in names:
        hint = did_you_mean(tool, names) or f"it lists: {', '.join(names)}"
        findings.add(path, "unknown_name", f"the agent does not list the tool {tool!r}", hint)
