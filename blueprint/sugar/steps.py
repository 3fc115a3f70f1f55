"""Short forms of steps: lists, kinds, `uses`, options."""

from __future__ import annotations

import json
from typing import Any

from holdfast.blueprint.kinds import KINDS, Fallback, Loop, LoopBlock, PlainStep
from holdfast.blueprint.source import PlacedDict, PlacedList, Position
from holdfast.blueprint.sugar import flujo
from holdfast.blueprint.sugar.agents import agent_at, tools_core
from holdfast.blueprint.sugar.loops import loop_core
from holdfast.blueprint.sugar.maps import map_core
from holdfast.blueprint.sugar.plans import plan_core
from holdfast.blueprint.sugar.report import ExpansionReport
from holdfast.blueprint.suggest import nearest, unknown_key


def steps_core(definition: Any, place: Position, path: str, report: ExpansionReport) -> Any:
    """Return a list of steps from a list, from one step, or from `{steps: …}`."""
    match definition:
        case PlacedList():
            steps = PlacedList(definition.place)
            for index, (step, item_place) in enumerate(zip(definition, definition.places, strict=True)):
                steps.add(step_core(step, f"{path}[{index}]", report), item_place)
            return steps
        case PlacedDict() if "steps" in definition and not {"kind", "name"} & set(definition):
            report.refuse_other_keys(definition, ("steps",), path)
            return steps_core(definition["steps"], definition.value_place("steps"), f"{path}.steps", report)
        case PlacedDict():
            steps = PlacedList(definition.place)
            steps.add(step_core(definition, f"{path}[0]", report), place)
            return steps
    return definition


def step_core(definition: Any, path: str, report: ExpansionReport) -> Any:
    if not isinstance(definition, PlacedDict):
        return definition
    kind = _kind(definition, path, report)
    intended = nearest(kind, KINDS) if isinstance(kind, str) and kind not in KINDS else kind
    if not isinstance(intended, str):
        return definition
    step = report.correct_keys(_flat(definition, intended, path, report), KINDS[intended], path)
    if "kind" not in step:
        step.put("kind", intended, step.place)
    _conditions(step, ("when", "condition_expression"))
    _fallback(step, path, report)
    match intended:
        case "step":
            _plain(step, path, report)
        case "hitl":
            _hitl(step)
        case "conditional":
            _conditional(step, path, report)
        case "agentic_loop":
            _planner(step, path, report)
        case "map" if isinstance(step.get("map"), PlacedDict):
            step["map"] = map_core(step["map"], f"{path}.map", report, steps_core)
        case "parallel":
            _branches(step, path, report)
        case "plan" if isinstance(step.get("plan"), PlacedDict):
            step["plan"] = plan_core(step["plan"], f"{path}.plan", report)
        case "clarify" if isinstance(step.get("agent"), str | PlacedDict):
            _agent(step, path, report)
        case "cache" if "wrapped_step" in step:
            step["wrapped_step"] = step_core(step["wrapped_step"], f"{path}.wrapped_step", report)
        case "loop" if isinstance(step.get("loop"), PlacedDict):
            step["loop"] = loop_core(step["loop"], f"{path}.loop", report, steps_core)
            _conditions(step["loop"], ("exit_expression",))
    return step


def _kind(definition: PlacedDict, path: str, report: ExpansionReport) -> Any:
    """Return the kind; if it is missing or its key is misspelt, the one that has all the keys."""
    if "kind" in definition:
        return definition["kind"]
    for key in definition:
        if key not in PlainStep.model_fields and nearest(key, ["kind"]) and definition[key] in list(KINDS):
            return definition[key]
    others = [key for key in definition if key not in PlainStep.model_fields]
    kinds = [kind for kind, model in KINDS.items() if others and set(definition) <= set(model.model_fields)]
    if len(kinds) != 1:
        return "step"
    message = f"'kind' is missing: only {kinds[0]} steps have {', '.join(map(repr, others))}"
    report.add(definition.place, f"{path}.kind", "missing_key", message, f"add kind: {kinds[0]}")
    return kinds[0]


def _flat(definition: PlacedDict, kind: str, path: str, report: ExpansionReport) -> PlacedDict:
    """Return the step with its keys where the core form has them: under `loop:`, but not under `parallel:`."""
    match kind:
        case "loop":
            return _gathered(definition, path, report)
        case "parallel" if isinstance(definition.get("parallel"), PlacedDict):
            step = definition.copy()
            block, _ = step.take("parallel")
            for key, value in block.items():
                if key in step:
                    report.add(block.key_place(key), f"{path}.parallel.{key}", "conflict", f"{key!r} appears twice")
                else:
                    step.put(key, value, block.places[key])
            return step
    return definition


def _gathered(definition: PlacedDict, path: str, report: ExpansionReport) -> PlacedDict:
    """Move keys of a loop that stand beside `name` under `loop:`, and report them."""
    misplaced = [key for key in definition if key in LoopBlock.model_fields and key not in Loop.model_fields]
    if "loop" in definition or not misplaced:
        return definition
    step, block = definition.copy(), PlacedDict(definition.place)
    for key in misplaced:
        code, message, hint = unknown_key(Loop, key)
        report.add(step.key_place(key), f"{path}.{key}", code, message, hint)
        block.put(key, *step.take(key))
    step.put("loop", block, step.place)
    return step


def _conditions(holder: PlacedDict, keys: tuple[str, ...]) -> None:
    """Turn a bare `true` or `3` into an expression."""
    for key in keys:
        if isinstance(holder.get(key), bool | int | float):
            holder[key] = json.dumps(holder[key])


def _fallback(step: PlacedDict, path: str, report: ExpansionReport) -> None:
    definition = step.get("on_error")
    if isinstance(definition, PlacedDict):
        corrected = step["on_error"] = report.correct_keys(definition, Fallback, f"{path}.on_error")
        if "fallback" in corrected:
            corrected["fallback"] = step_core(corrected["fallback"], f"{path}.on_error.fallback", report)


def _plain(step: PlacedDict, path: str, report: ExpansionReport) -> None:
    flujo.callable_of_agent(step)
    _agent(step, path, report)
    uses = step.get("uses")
    if isinstance(uses, str) and uses.startswith(flujo.PREFIX):
        step["uses"] = flujo.builtin(uses, step.value_place("uses"), f"{path}.uses", report)
    elif isinstance(uses, str) and uses.startswith("agents.") and "agent" not in step:
        _, places = step.take("uses")
        step.put("agent", uses.removeprefix("agents."), places)
    flujo.without_second_write(step)
    flujo.config_core(step, path, report)


def _agent(step: PlacedDict, path: str, report: ExpansionReport) -> None:
    """Expand `agent`: `agents.editor` means `editor`, `{id: …}` a tool; a definition has short forms too."""
    match step.get("agent"):
        case PlacedDict() as definition if "id" in definition and "model" not in definition and "uses" not in step:
            flujo.tool_of_agent(step, path, report)
        case _:
            agent_at(step, "agent", path, report)


def _planner(step: PlacedDict, path: str, report: ExpansionReport) -> None:
    agent_at(step, "planner", path, report)
    if isinstance(step.get("registry"), PlacedList):
        step["registry"] = tools_core(step["registry"])


def _hitl(step: PlacedDict) -> None:
    options = step.get("options")
    if isinstance(options, PlacedList):
        step["options"] = PlacedList(options.place)
        for option, place in zip(options, options.places, strict=True):
            step["options"].add(_option(option, place), place)
    if step.get("default") is not None and step.get("on_timeout") is None:
        step.put("on_timeout", "default", step.places["default"])


def _option(value: Any, place: Position) -> Any:
    """Expand an option: `warm` is `{id: warm, label: warm}`; a number or `true` is the text it is written as."""
    if isinstance(value, bool | int | float):
        value = json.dumps(value) if place.raw.startswith("*") else place.raw.strip()
    if not isinstance(value, str):
        return value
    option = PlacedDict(place)
    option.put("id", value, place)
    option.put("label", value, place)
    return option


def _branches(step: PlacedDict, path: str, report: ExpansionReport) -> None:
    branches = step.get("branches")
    if isinstance(branches, PlacedDict):
        step["branches"] = branches.copy()
        for key, steps in branches.items():
            place = branches.value_place(key)
            step["branches"][key] = steps_core(steps, place, f"{path}.branches.{key}", report)


def _conditional(step: PlacedDict, path: str, report: ExpansionReport) -> None:
    _branches(step, path, report)
    condition = step.get("condition")
    if isinstance(condition, str) and condition.startswith(flujo.PREFIX):
        step["condition"] = flujo.builtin(condition, step.value_place("condition"), f"{path}.condition", report)
    if "default_branch" in step:
        place = step.value_place("default_branch")
        step["default_branch"] = steps_core(step["default_branch"], place, f"{path}.default_branch", report)
