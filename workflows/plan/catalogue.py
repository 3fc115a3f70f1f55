"""The tools of a plan, looked up before anything runs: what they take, and which of them no worker has."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from holdfast.blueprint.json_values import JSONObject
from holdfast.blueprint.kinds import AgentTool, Blueprint, PlanBody, PlanStep
from holdfast.blueprint.kinds.references import AGENT, IMPORT
from holdfast.blueprint.plan.layout import Fault
from holdfast.blueprint.plan.tools import lack_of
from holdfast.protocol.agents import ToolSpec
from holdfast.workflows.frame import Frame
from holdfast.workflows.permissions import Expected, expected, policies_of
from holdfast.workflows.plan.context import PlanContext
from holdfast.workflows.toolbox import described_here

MARKS: dict[Expected, str] = {
    "allow": "",
    "depends": "may need approval",
    "ask": "needs approval",
    "deny": "not permitted",
}


@dataclass(frozen=True)
class Catalogue:
    """The descriptions of tools, by the names that the plan has for them."""

    specs: dict[str, ToolSpec] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)
    """Why a tool cannot be called."""

    def faults(self, plan: PlanBody, but: Iterable[str] = ()) -> list[Fault]:
        """Return every tool of a step that no worker has, but for these."""
        problems = {tool: why for tool, why in self.problems.items() if tool not in set(but)}
        return [
            Fault(f"steps[{index}].tools[{number}]", "unknown_name", problems[tool])
            for index, step in enumerate(plan.steps)
            for number, tool in enumerate(step.tools)
            if tool in problems
        ]

    def described(self) -> JSONObject:
        """Return what a model must know to call the tools."""
        return {
            tool: {"description": spec.description, "parameters": spec.parameters}
            for tool, spec in sorted(self.specs.items())
        }


async def look_up(tools: Iterable[str], frame: Frame) -> Catalogue:
    """Return what is known of the tools. One whose server does not answer is left out: its step looks again."""
    names = list(dict.fromkeys(tools))
    here = [tool for tool in names if _is_here(tool, frame.blueprint)]
    specs = {spec.reference: spec for spec in described_here([AgentTool(name=tool) for tool in here], frame.blueprint)}
    there = [tool for tool in names if not tool.startswith((AGENT, IMPORT))]
    found = await frame.host.activities.describe_tools(there, lenient=True) if there else []
    problems = {spec.reference: spec.problem for spec in found if spec.problem}
    specs |= {spec.reference: spec for spec in found if not spec.problem}
    several = {spec.reference.partition("/")[0] for spec in found} & set(names) - specs.keys() - problems.keys()
    problems |= {tool: f"{tool!r} is more than one tool: name one of them" for tool in sorted(several)}
    return Catalogue({tool: specs[tool] for tool in names if tool in specs}, problems)


def _is_here(tool: str, blueprint: Blueprint) -> bool:
    return tool.removeprefix(AGENT) in blueprint.agents or tool.removeprefix(IMPORT) in blueprint.imports


def tools_of(plan: PlanBody) -> list[str]:
    """Return every tool that a step names."""
    return [tool for step in plan.steps for tool in step.tools]


def marked_tools(context: PlanContext, catalogue: Catalogue) -> dict[str, list[str]]:
    """Return the tools of every step that has some, with what a person should know before agreeing to them."""
    return {
        step.id: [_marked(tool, step, context, catalogue) for tool in step.tools]
        for step in context.plan.steps
        if step.tools
    }


def _marked(tool: str, step: PlanStep, context: PlanContext, catalogue: Catalogue) -> str:
    lack = lack_of(tool, step, context.author, context.policy_agent(step))
    missing = catalogue.problems.get(tool) if lack is None else lack.message
    mark = f"cannot be called: {missing}" if missing else MARKS[_expected(tool, step, context, catalogue)]
    return f"{tool} ({mark})" if mark else tool


def _expected(tool: str, step: PlanStep, context: PlanContext, catalogue: Catalogue) -> Expected:
    """Return what the rules say about a tool before its arguments are known."""
    spec = catalogue.specs.get(tool) or ToolSpec(name=tool.rpartition(":")[2], reference=tool)
    return expected(spec, policies_of(spec, context.policy_agent(step), context.further_policy_agents(step)))
