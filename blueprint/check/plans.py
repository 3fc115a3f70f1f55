"""Rules of a plan in a blueprint: it is written or read, not both; its tools exist; its steps can be ordered."""

from __future__ import annotations

from holdfast.blueprint.dependencies import resolve_agent
from holdfast.blueprint.findings import Findings
from holdfast.blueprint.kinds import Blueprint, PlanBody, PlanStep
from holdfast.blueprint.kinds.agent_checks import check_tool_name
from holdfast.blueprint.people import is_person, name_hint
from holdfast.blueprint.plan.compile import compile_plan
from holdfast.blueprint.plan.references import replace_references
from holdfast.blueprint.plan.tools import find_unlisted

_WRITTEN = ("goal", "steps", "loop_blocks")


def check_plan(plan: PlanBody, path: str, blueprint: Blueprint, findings: Findings) -> None:
    for index, step in enumerate(plan.steps):
        _check_assignees(step, f"{path}.steps[{index}].assignees", findings)
        named = plan.agent if step.agent is None else step.agent
        agent = None if named is None else resolve_agent(named, blueprint)
        for number, tool in enumerate(step.tools):
            tool_path = f"{path}.steps[{index}].tools[{number}]"
            check_tool_name(tool, tool_path, blueprint, findings)
            if (lack := find_unlisted(tool, agent)) is not None:
                findings.add(tool_path, "unknown_name", lack.message, lack.hint)
    if plan.source is None:
        for fault in compile_plan(plan)[1]:
            if fault.path == "steps" and findings.is_repaired_within(f"{path}.steps"):
                continue  # there are steps, but none that could be read: each has a problem of its own
            findings.add(f"{path}.{fault.path}", fault.code, fault.message, fault.hint)
        return
    for key in _WRITTEN:
        if getattr(plan, key):
            message = f"'from' and {key!r} both say what the plan is"
            findings.add_key(f"{path}.{key}", "conflict", message, "keep one of them")


def _check_assignees(step: PlanStep, path: str, findings: Findings) -> None:
    """Report what is neither a user nor a group: a value that a plan fetches must not choose who decides."""
    for index, name in enumerate(step.assignees):
        if not is_person(name):
            message = f"{name[:40]!r} is neither a user nor a group"
            findings.add(f"{path}[{index}]", "bad_value", message, name_hint(name, "assignees"))
        elif "{{" in name or replace_references(name, lambda _: "") != name:
            message = f"{name[:40]!r}: the assignees of a plan's step are names, in which nothing is filled in"
            hint = "write user:NAME or group:NAME, or give the template to the step that runs the plan"
            findings.add(f"{path}[{index}]", "bad_value", message, hint)
