"""`create --from`: turn a plan in JSON, or a list of texts, into a blueprint of one step."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from holdfast.blueprint.core import expand, write_core
from holdfast.blueprint.errors import BlueprintError
from holdfast.blueprint.kinds import Agent, Blueprint, Plan, PlanBody, PlanStep
from holdfast.blueprint.load import loads
from holdfast.blueprint.plan.document import is_plan, plan_inside, strip_fences
from holdfast.blueprint.plan.text_lists import WAY_OUT, describe_look, plan_in_line, read_instructions
from holdfast.blueprint.requirements import list_requirements
from holdfast.blueprint.source import PlacedDict, plain, read
from holdfast.cli.new_files import check_free, print_command, run_command, write_all
from holdfast.cli.output import DONE, say
from holdfast.client.reading import BadUsage, text_of_file, text_of_input
from holdfast.protocol.display import one_line

Holder = TypeVar("Holder", PlanBody, PlanStep)
STDIN = Path("-")
SCRIPTED = "scripted:"


@dataclass(frozen=True)
class Origin:
    """The source of a plan: a file or standard input."""

    path: Path
    goal: str | None
    """Goal for a plan that names none."""

    @property
    def label(self) -> str:
        """The source's name in messages."""
        return "standard input" if self.path == STDIN else str(self.path)

    @property
    def folder(self) -> Path:
        """The folder that paths in the plan are relative to."""
        return Path() if self.path == STDIN else self.path.parent

    @property
    def target(self) -> Path:
        """The default name of the file to write."""
        return Path("plan.yaml" if self.path == STDIN else f"{self.path.stem}.yaml")


async def create_from(origin: Origin, file: Path | None, as_json: bool) -> int:
    """Write the plan's blueprint, or for a `.json` file the plan itself; print the command that runs it."""
    file = file or origin.target
    check_free(file)
    blueprint = _blueprint(origin, file)
    [step] = blueprint.steps
    assert isinstance(step, Plan)
    if file.suffix.lower() == ".json":
        text = json.dumps(write_core(step.plan), indent=2, ensure_ascii=False) + "\n"
    else:
        header = f"# The plan of {one_line(origin.label)}. What it will do: holdfast explain {file}"
        text = f"{header.splitlines()[0]}\n{expand(blueprint)}"
    loads(text, file=str(file), folder=file.parent)
    write_all({file: text})
    if step.plan.agent is None and any(planned.needs_agent for planned in step.plan.steps):
        say("no agent is named: the steps use the model `default` of [models.default] in holdfast.toml")
    if tools := dict.fromkeys(need.name for need in list_requirements(blueprint) if need.kind == "tool"):
        say(f"its tools must be in a module of [worker] imports in holdfast.toml: {', '.join(map(one_line, tools))}")
    print_command(run_command(file), as_json, files=[str(file)])
    return DONE


def _blueprint(origin: Origin, file: Path) -> Blueprint:
    """Return the plan's blueprint for this file. Raises `BlueprintError` or `BadUsage`."""
    text = _plan_text(origin)
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", file.stem).strip("-") or "plan"
    blueprint = loads(text, file=origin.label, folder=origin.folder, name=name)
    [step] = blueprint.steps
    assert isinstance(step, Plan)
    return blueprint.model_copy(
        update={"steps": [step.model_copy(update={"plan": _move_paths(step.plan, file.parent)})]}
    )


def _plan_text(origin: Origin) -> str:
    """Return the plan as JSON or YAML. Raises `BlueprintError` or `BadUsage`."""
    text = strip_fences(text_of_input() if origin.path == STDIN else text_of_file(origin.path))
    value, _, problems = read(text, origin.label)
    if isinstance(value, PlacedDict) and is_plan(plan := plan_inside(value)):
        return text if origin.goal is None else _with_goal(plan, origin)
    instructions = read_instructions(value if isinstance(value, list) else text)
    if instructions is None and isinstance(value, list) and any(isinstance(entry, str) for entry in value):
        instructions = read_instructions(text)  # for YAML an entry with a colon is no text
    if instructions is not None:
        return json.dumps(plan_in_line(instructions, origin.goal or ""))
    if isinstance(value, PlacedDict) and _is_blueprint(value):
        raise BadUsage(f"{origin.label} is a blueprint, not a plan; run it with: holdfast run {origin.path}")
    if problems and (text.lstrip().startswith("{") or origin.path.suffix.lower() in (".json", ".yaml", ".yml")):
        raise BlueprintError(problems)
    is_written = text.lstrip().startswith(("{", "[")) or (isinstance(value, dict) and "steps" in value)
    look = describe_look(value if is_written else text)
    raise BadUsage(f"{origin.label} is not a plan: it looks like {look}; {WAY_OUT}")


def _with_goal(plan: PlacedDict, origin: Origin) -> str:
    """Return a plan without a goal with that of the command, as JSON. Raises `BadUsage` if it has one."""
    if "goal" in plan:
        raise BadUsage(f"{origin.label} has a goal of its own: leave out --goal")
    return json.dumps({"goal": origin.goal, **plain(plan)})


def _is_blueprint(document: PlacedDict) -> bool:
    steps = document.get("steps")
    own = ("uses", "kind")
    return isinstance(steps, list) and any(isinstance(step, dict) and any(key in step for key in own) for step in steps)


def _move_paths(plan: PlanBody, folder: Path) -> PlanBody:
    """Return the plan with the paths of model scripts made relative to this folder."""
    steps = [_with_script(step, folder) for step in plan.steps]
    return _with_script(plan, folder).model_copy(update={"steps": steps})


def _with_script(holder: Holder, folder: Path) -> Holder:
    agent = holder.agent
    if not isinstance(agent, Agent) or not agent.model.startswith(SCRIPTED):
        return holder
    script = os.path.relpath(agent.model.removeprefix(SCRIPTED), folder)
    return holder.model_copy(update={"agent": agent.model_copy(update={"model": SCRIPTED + script})})
