"""Rules of a plan in a blueprint: it is written or read, not both; its tools exist; its steps can be ordered."""

from __future__ import annotations

from holdfast.blueprint.dependencies import resolve_agent
from holdfast.blueprint.findings import Findings
from holdfast.blueprint.kinds import Blueprint, PlanBody
from holdfast.blueprint.kinds.agent_checks import check_tool_name
from holdfast.blueprint.plan import compile_plan
from holdfast.blueprint.plan.tools import unlisted

_WRITTEN = ("goal", "steps", "loop_blocks")


def check_plan(plan: PlanBody, path: str, blueprint: Blueprint, findings: Findings) -> None:
    for index, step in enumerate(plan.steps):
        named = plan.agent if step.agent is None else step.agent
        agent = None if named is None else resolve_agent(named, blueprint)
        for number, tool in enumerate(step.tools):
            tool_path = f"{path}.steps[{index}].tools[{number}]"
            check_tool_name(tool, tool_path, blueprint, findings)
            if (lack := unlisted(tool, agent)) is not None:
                findings.add(tool_path, "unknown_name", lack.message, lack.hint)
    if plan.source is None:
        for fault in compile_plan(plan)[1]:
            findings.add(f"{path}.{fault.path}", fault.code, fault.message, fault.hint)
        return
    for key in _WRITTEN:
        if plan.model_dump(include={key})[key]:
            message = f"'from' and {key!r} both say what the plan is"
            findings.add_key(f"{path}.{key}", "conflict", message, "keep one of them")
