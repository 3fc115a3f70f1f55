"""Short forms of steps: lists, kinds, what a step uses, what a person may choose."""

from __future__ import annotations

import json
from typing import Any

from blueprint.grammar import KINDS, Fallback, Loop, LoopBlock, PlainStep
from blueprint.grammar.steps import BUILTINS
from blueprint.source import Place, PlacedDict, PlacedList
from blueprint.spelling import nearest, unknown_key
from blueprint.sugar.agents import agent_at, tools_core
from blueprint.sugar.loops import loop_core
from blueprint.sugar.maps import map_core
from blueprint.sugar.notes import Notes
from blueprint.sugar.plans import plan_core

_FLUJO = "flujo.builtins."


def steps_core(written: Any, place: Place, path: str, notes: Notes) -> Any:
    """A list of steps from a list, from one step, or from `{steps: …}`."""
    match written:
        case PlacedList():
            steps = PlacedList(written.place)
            for index, (step, at) in enumerate(zip(written, written.places, strict=True)):
                steps.add(step_core(step, f"{path}[{index}]", notes), at)
            return steps
        case PlacedDict() if "steps" in written and not {"kind", "name"} & set(written):
            notes.only(written, ("steps",), path)
            return steps_core(written["steps"], written.value_place("steps"), f"{path}.steps", notes)
        case PlacedDict():
            steps = PlacedList(written.place)
            steps.add(step_core(written, f"{path}[0]", notes), place)
            return steps
    return written


def step_core(written: Any, path: str, notes: Notes) -> Any:
    if not isinstance(written, PlacedDict):
        return written
    kind = _kind(written, path, notes)
    meant = nearest(kind, KINDS) if isinstance(kind, str) and kind not in KINDS else kind
    if not isinstance(meant, str):
        return written
    step = notes.spelled(_flat(written, meant, path, notes), KINDS[meant], path)
    if "kind" not in step:
        step.put("kind", meant, step.place)
    _conditions(step, ("when", "condition_expression"))
    _fallback(step, path, notes)
    match meant:
        case "step":
            _plain(step, path, notes)
        case "hitl":
            _hitl(step)
        case "conditional":
            _conditional(step, path, notes)
        case "agentic_loop":
            _planner(step, path, notes)
        case "map" if isinstance(step.get("map"), PlacedDict):
            step["map"] = map_core(step["map"], f"{path}.map", notes, steps_core)
        case "parallel":
            _branches(step, path, notes)
        case "plan" if isinstance(step.get("plan"), PlacedDict):
            step["plan"] = plan_core(step["plan"], f"{path}.plan", notes)
        case "clarify" if isinstance(step.get("agent"), str | PlacedDict):
            _agent(step, path, notes)
        case "cache" if "wrapped_step" in step:
            step["wrapped_step"] = step_core(step["wrapped_step"], f"{path}.wrapped_step", notes)
        case "loop" if isinstance(step.get("loop"), PlacedDict):
            step["loop"] = loop_core(step["loop"], f"{path}.loop", notes, steps_core)
            _conditions(step["loop"], ("exit_expression",))
    return step


def _kind(written: PlacedDict, path: str, notes: Notes) -> Any:
    """The kind; where it is not said or its key is misspelt, the one whose keys are there."""
    if "kind" in written:
        return written["kind"]
    for key in written:
        if key not in PlainStep.model_fields and nearest(key, ["kind"]) and written[key] in list(KINDS):
            return written[key]
    others = [key for key in written if key not in PlainStep.model_fields]
    kinds = [kind for kind, model in KINDS.items() if others and set(written) <= set(model.model_fields)]
    if len(kinds) != 1:
        return "step"
    told = f"'kind' is missing: only {kinds[0]} steps have {', '.join(map(repr, others))}"
    notes.add(written.place, f"{path}.kind", "missing_key", told, f"add kind: {kinds[0]}")
    return kinds[0]


def _flat(written: PlacedDict, kind: str, path: str, notes: Notes) -> PlacedDict:
    """The keys where the core form has them: a loop's under `loop:`, those of `parallel:` on the step itself."""
    match kind:
        case "loop":
            return _gathered(written, path, notes)
        case "parallel" if isinstance(written.get("parallel"), PlacedDict):
            step = written.copy()
            block, _ = step.take("parallel")
            for key, value in block.items():
                if key in step:
                    notes.add(block.key_place(key), f"{path}.parallel.{key}", "conflict", f"{key!r} is there twice")
                else:
                    step.put(key, value, block.places[key])
            return step
    return written


def _gathered(written: PlacedDict, path: str, notes: Notes) -> PlacedDict:
    """A loop whose keys stand beside `name`, read as if they stood under `loop:`."""
    astray = [key for key in written if key in LoopBlock.model_fields and key not in Loop.model_fields]
    if "loop" in written or not astray:
        return written
    step, block = written.copy(), PlacedDict(written.place)
    for key in astray:
        code, message, hint = unknown_key(Loop, key)
        notes.add(step.key_place(key), f"{path}.{key}", code, message, hint)
        block.put(key, *step.take(key))
    step.put("loop", block, step.place)
    return step


def _conditions(holder: PlacedDict, keys: tuple[str, ...]) -> None:
    """A bare `true` or `3` is an expression too."""
    for key in keys:
        if isinstance(holder.get(key), bool | int | float):
            holder[key] = json.dumps(holder[key])


def _fallback(step: PlacedDict, path: str, notes: Notes) -> None:
    written = step.get("on_error")
    if isinstance(written, PlacedDict):
        right = step["on_error"] = notes.spelled(written, Fallback, f"{path}.on_error")
        if "fallback" in right:
            right["fallback"] = step_core(right["fallback"], f"{path}.on_error.fallback", notes)


def _plain(step: PlacedDict, path: str, notes: Notes) -> None:
    _agent(step, path, notes)
    uses = step.get("uses")
    if not isinstance(uses, str):
        return
    if uses.startswith(_FLUJO):
        step["uses"] = _builtin(uses.removeprefix(_FLUJO), step.value_place("uses"), path, notes)
    elif uses.startswith("agents.") and "agent" not in step:
        _, places = step.take("uses")
        step.put("agent", uses.removeprefix("agents."), places)


def _agent(step: PlacedDict, path: str, notes: Notes) -> None:
    """`agents.editor` means `editor`; `{id: …}` names a tool; an agent written here has short forms of its own."""
    match step.get("agent"):
        case PlacedDict() as written if "id" in written and "model" not in written and "uses" not in step:
            notes.only(written, ("id",), f"{path}.agent")
            step.take("agent")
            step.put("uses", written["id"], written.places["id"])
        case _:
            agent_at(step, "agent", path, notes)


def _planner(step: PlacedDict, path: str, notes: Notes) -> None:
    agent_at(step, "planner", path, notes)
    if isinstance(step.get("registry"), PlacedList):
        step["registry"] = tools_core(step["registry"])


def _builtin(name: str, place: Place, path: str, notes: Notes) -> str:
    for spelled in (name, name.removesuffix("_sync")):
        if spelled in BUILTINS:
            return spelled
    close = nearest(name, BUILTINS)
    hint = f"did you mean {close!r}?" if close else f"known: {', '.join(sorted(BUILTINS))}"
    notes.add(place, f"{path}.uses", "unknown_name", f"unknown built-in {name!r}", hint)
    return "passthrough"


def _hitl(step: PlacedDict) -> None:
    options = step.get("options")
    if isinstance(options, PlacedList):
        step["options"] = PlacedList(options.place)
        for option, place in zip(options, options.places, strict=True):
            step["options"].add(_option(option, place), place)
    if step.get("default") is not None and step.get("on_timeout") is None:
        step.put("on_timeout", "default", step.places["default"])


def _option(written: Any, place: Place) -> Any:
    """`warm` is `{id: warm, label: warm}`; a number or `true` is the text it is written as."""
    if isinstance(written, bool | int | float):
        written = json.dumps(written) if place.raw.startswith("*") else place.raw.strip()
    if not isinstance(written, str):
        return written
    option = PlacedDict(place)
    option.put("id", written, place)
    option.put("label", written, place)
    return option


def _branches(step: PlacedDict, path: str, notes: Notes) -> None:
    branches = step.get("branches")
    if isinstance(branches, PlacedDict):
        step["branches"] = branches.copy()
        for key, steps in branches.items():
            place = branches.value_place(key)
            step["branches"][key] = steps_core(steps, place, f"{path}.branches.{key}", notes)


def _conditional(step: PlacedDict, path: str, notes: Notes) -> None:
    _branches(step, path, notes)
    if "default_branch" in step:
        place = step.value_place("default_branch")
        step["default_branch"] = steps_core(step["default_branch"], place, f"{path}.default_branch", notes)
