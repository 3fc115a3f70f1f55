"""The tools of a plan, as far as they were looked up: what they take, and which of them no worker has."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from holdfast.blueprint.json_values import JSONObject
from holdfast.blueprint.jsonschemas import BadSchema
from holdfast.blueprint.jsonschemas import list_misfits as schema_problems
from holdfast.blueprint.kinds import AgentTool, Blueprint, PlanBody, PlanStep
from holdfast.blueprint.kinds.references import AGENT, IMPORT
from holdfast.blueprint.plan.layout import Fault
from holdfast.blueprint.plan.references import list_references
from holdfast.protocol.agents import ToolSpec
from holdfast.workflows.frame import Frame
from holdfast.workflows.toolbox import describe_tools


@dataclass
class Catalogue:
    """The descriptions of tools, by the names that the plan has for them; one for each workflow of a plan."""

    specs: dict[str, ToolSpec] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)
    """Why a tool cannot be called."""

    async def look_up(self, tools: Iterable[str], frame: Frame) -> None:
        """Look up tools. One whose server does not answer stays unknown: its step looks again."""
        names = list(dict.fromkeys(tools))
        own = [tool for tool in names if _is_here(tool, frame.blueprint)]
        specs = {spec.reference: spec for spec in _described_here(own, frame.blueprint)}
        remote = [tool for tool in names if not tool.startswith((AGENT, IMPORT))]
        work = frame.host.activities.describe_tools
        describe_names = await work(remote, frame.address, lenient=True) if remote else []
        problems = {spec.reference: spec.problem for spec in describe_names if spec.problem}
        specs |= {spec.reference: spec for spec in describe_names if not spec.problem}
        # A server may be named as a whole (`mcp:files`); its tools come as `mcp:files/read`, and so on.
        several = {spec.reference.partition("/")[0] for spec in describe_names} & set(
            names
        ) - specs.keys() - problems.keys()
        problems |= {tool: f"{tool!r} is more than one tool: name one of them" for tool in sorted(several)}
        self.specs |= {tool: specs[tool] for tool in names if tool in specs}
        self.problems = {tool: why for tool, why in self.problems.items() if tool not in names} | problems

    def faults(self, plan: PlanBody, but: Iterable[str] = ()) -> list[Fault]:
        """Return every tool of a step that no worker has, but for these."""
        problems = {tool: why for tool, why in self.problems.items() if tool not in set(but)}
        return [
            Fault(f"steps[{index}].tools[{number}]", "unknown_name", problems[tool])
            for index, step in enumerate(plan.steps)
            for number, tool in enumerate(step.tools)
            if tool in problems
        ]

    def find_misfits(self, plan: PlanBody, kept: Container[PlanStep] = ()) -> list[Fault]:
        """Return what a tool does not take of the arguments that the plan gives, but for the steps that are kept."""
        return [
            Fault(f"steps[{index}].arguments", "bad_value", f"{problem}, as {step.tools[0]} takes it")
            for index, step in enumerate(plan.steps)
            if step.arguments is not None and step not in kept and step.tools[0] in self.specs
            for problem in _find_misfits(self.specs[step.tools[0]], step.arguments)
        ]

    def describe_names(self, tools: Iterable[str]) -> JSONObject:
        """Return what a model must know to call these tools, as far as it is known."""
        specs = {tool: self.specs[tool] for tool in sorted(set(tools)) if tool in self.specs}
        return {tool: {"description": spec.description, "parameters": spec.parameters} for tool, spec in specs.items()}


def _described_here(tools: Iterable[str], blueprint: Blueprint) -> list[ToolSpec]:
    return describe_tools([AgentTool(name=tool) for tool in tools], blueprint)


def _find_misfits(spec: ToolSpec, args: JSONObject) -> Iterator[str]:
    """Yield what does not fit of arguments, but for those whose references are filled in only when it is called."""
    with suppress(BadSchema):  # of a foreign server, which says itself what it does not take
        for path, message in schema_problems(spec.parameters, args):
            name = re.split(r"[.\[]", path, maxsplit=1)[0]
            if not list_references(args.get(name)):
                yield f"{path or 'the arguments'} {message}"


def _is_here(tool: str, blueprint: Blueprint) -> bool:
    return tool.removeprefix(AGENT) in blueprint.agents or tool.removeprefix(IMPORT) in blueprint.imports


def list_plan_tools(plan: PlanBody) -> list[str]:
    """Return every tool that a step names."""
    return [tool for step in plan.steps for tool in step.tools]
