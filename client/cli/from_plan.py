"""`create --from`: a plan in JSON, or as another planner writes it, becomes a blueprint of one step."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from blueprint import Blueprint, BlueprintError, expand, loads
from blueprint.core import core_of
from blueprint.grammar import Agent, Plan, PlanBody, PlanStep
from blueprint.plan.document import is_plan
from blueprint.plan.importers import FORMATS, imported, recognised
from blueprint.plan.importers.reading import unfenced
from blueprint.source import PlacedDict, read
from client.cli.output import DONE, say
from client.cli.writing import check_free, tell_command, write_all
from client.reading import BadUsage, text_of_file, text_of_input
from client.render import clean

Holder = TypeVar("Holder", PlanBody, PlanStep)
STDIN = Path("-")
SCRIPTED = "scripted:"


@dataclass(frozen=True)
class Origin:
    """Where a plan comes from."""

    path: Path
    goal: str | None
    """For a plan that has none."""

    @property
    def shown(self) -> str:
        return "standard input" if self.path == STDIN else str(self.path)

    @property
    def folder(self) -> Path:
        """What paths in the plan are relative to."""
        return Path() if self.path == STDIN else self.path.parent

    @property
    def target(self) -> Path:
        """The file that is written if none is named."""
        return Path("plan.yaml" if self.path == STDIN else f"{self.path.stem}.yaml")


async def create_from(origin: Origin, file: Path | None, as_json: bool) -> int:
    """Write the plan's blueprint, or the plan itself into a `.json` file; say what was written and how it is run."""
    file = file or origin.target
    check_free(file)
    blueprint = _blueprint(origin, file)
    [step] = blueprint.steps
    assert isinstance(step, Plan)
    if file.suffix.lower() == ".json":
        text = json.dumps(core_of(step.plan), indent=2, ensure_ascii=False) + "\n"
    else:
        told = f"# The plan of {clean(origin.shown)}. What it will do: holdfast explain {file}"
        text = f"{told.splitlines()[0]}\n{expand(blueprint)}"
    loads(text, file=str(file), folder=file.parent)
    write_all({file: text})
    if step.plan.agent is None and any(one.agent is None for one in step.plan.steps):
        say("no agent is named: the steps ask the model `default` of [models.default] in holdfast.toml")
    tell_command(file, as_json, files=[str(file)])
    return DONE


def _blueprint(origin: Origin, file: Path) -> Blueprint:
    """The blueprint that is to stand in a file. Raises `BlueprintError` or `BadUsage`."""
    text = _plan_text(origin)
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", file.stem).strip("-") or "plan"
    blueprint = loads(text, file=origin.shown, folder=origin.folder, name=name)
    [step] = blueprint.steps
    assert isinstance(step, Plan)
    return blueprint.model_copy(update={"steps": [step.model_copy(update={"plan": _moved(step.plan, file.parent)})]})


def _plan_text(origin: Origin) -> str:
    """The plan as JSON or YAML. Raises `BlueprintError` or `BadUsage`."""
    text = unfenced(text_of_input() if origin.path == STDIN else text_of_file(origin.path))
    value, _, problems = read(text, origin.shown)
    if isinstance(value, PlacedDict) and is_plan(value):
        if origin.goal is not None:
            raise BadUsage(f"{origin.shown} says its goal itself: leave out --goal")
        return text
    if recognised(text) is not None:
        return json.dumps(imported(text, goal=origin.goal, file=origin.shown))
    if isinstance(value, PlacedDict) and "steps" in value:
        raise BadUsage(f"{origin.shown} is a blueprint, no plan; it runs as it is: holdfast run {origin.path}")
    if problems and (text.lstrip().startswith("{") or origin.path.suffix.lower() in (".json", ".yaml", ".yml")):
        raise BlueprintError(problems)
    others = ", ".join(FORMATS)
    raise BadUsage(f'{origin.shown} is no plan: neither JSON with "goal" and "steps", nor a text of {others}')


def _moved(plan: PlanBody, folder: Path) -> PlanBody:
    """The plan as it stands in a folder: scripts of models are named from there."""
    steps = [_with_script(step, folder) for step in plan.steps]
    return _with_script(plan, folder).model_copy(update={"steps": steps})


def _with_script(holder: Holder, folder: Path) -> Holder:
    agent = holder.agent
    if not isinstance(agent, Agent) or not agent.model.startswith(SCRIPTED):
        return holder
    script = os.path.relpath(agent.model.removeprefix(SCRIPTED), folder)
    return holder.model_copy(update={"agent": agent.model_copy(update={"model": SCRIPTED + script})})
