"""Read forms of blueprints that were written for Flujo as the core forms of this language."""

from __future__ import annotations

from holdfast.blueprint.expressions.error import did_you_mean
from holdfast.blueprint.json_values import JSON
from holdfast.blueprint.kinds.expansion import Expansion
from holdfast.blueprint.kinds.references import BUILTINS
from holdfast.blueprint.source import PlacedDict, PlacedList, Position

PREFIX = "flujo.builtins."
_WRITES = ("context_set", "context_merge")
_SETTINGS = ("temperature", "top_k", "top_p")


OF_IMPORTS = {
    "input_to": "its input is set by `input:`",
    "propagate_hitl": "the questions of an import are always asked: remove it",
    "inherit_context": "an import has a context of its own: pass what it needs by `input:`",
    "inherit_conversation": "an import has a conversation of its own: pass what it needs by `input:`",
    "timeout_s": "an import runs many steps: give `timeout` to them",
    "max_retries": "an import runs many steps: give `retry` to them",
}
"""Keys of Flujo's imports, with the way to write the same here."""


def expand_agent_or_tool(step: PlacedDict, path: str, expansion: Expansion) -> None:
    """Expand `agent`: `agents.editor` means `editor`, `{id: …}` a tool; a definition has short forms too."""
    match step.get("agent"):
        case PlacedDict() as definition if "id" in definition and "model" not in definition and "uses" not in step:
            tool_of_agent(step, path, expansion)
        case _:
            expansion.expand_agent(step, "agent", path)


def callable_of_agent(step: PlacedDict) -> None:
    """Read `agent: "pkg.mod:function"` and `agent: "flujo.builtins.x"` as `uses`."""
    agent = step.get("agent")
    if isinstance(agent, str) and (":" in agent or agent.startswith(PREFIX)) and "uses" not in step:
        step.put("uses", *step.take("agent"))


def builtin(reference: str, place: Position, path: str, expansion: Expansion) -> str:
    """Return the built-in that `flujo.builtins.<name>` means, also with `_sync`."""
    name = reference.removeprefix(PREFIX)
    for spelled in (name, name.removesuffix("_sync")):
        if spelled in BUILTINS:
            return spelled
    hint = did_you_mean(name, BUILTINS) or f"known: {', '.join(sorted(BUILTINS))}"
    expansion.add(place, path, "unknown_name", f"unknown built-in {name!r}", hint)
    return "passthrough"


def without_second_write(step: PlacedDict) -> None:
    """Leave out `updates_context` where the built-in has written to the context itself."""
    if step.get("uses") in _WRITES and step.get("updates_context") is True:
        step.take("updates_context")


def tool_of_agent(step: PlacedDict, path: str, expansion: Expansion) -> None:
    """Read `agent: {id: …}` as `uses`; its parameters are written beside it."""
    agent = step["agent"]
    if agent.get("params"):
        hint = "write them at the step, under arguments:"
        expansion.add(agent.key_place("params"), f"{path}.agent.params", "unknown_key", "unknown key 'params'", hint)
    expansion.correct_keys(_without(agent, "params"), ("id",), f"{path}.agent")
    step.take("agent")
    step.put("uses", agent["id"], agent.places["id"])


def _without(mapping: PlacedDict, key: str) -> PlacedDict:
    rest = mapping.copy()
    if key in rest:
        rest.take(key)
    return rest


def config_core(step: PlacedDict, path: str, expansion: Expansion) -> None:
    """Read `config: {timeout_s, max_retries}` as `timeout` and `retry`, and outputs in a list as a mapping."""
    original = step.get("config")
    if not isinstance(original, PlacedDict):
        return
    config = step["config"] = original.copy()
    if isinstance(config.get("outputs"), PlacedList):
        _outputs(config, f"{path}.config.outputs", expansion)
    if str(step.get("uses")).startswith("imports."):
        return
    for key in ("timeout_s", "timeout"):
        if key in config:
            _move(config, key, step, "timeout", path, expansion)
    if "max_retries" in config:
        _retries(config, step, path, expansion)
    for key in _SETTINGS:
        if key in config:
            message, hint = f"unknown key {key!r}", f"it belongs to the agent: settings: {{{key}: …}}"
            expansion.add(config.key_place(key), f"{path}.config.{key}", "unknown_key", message, hint)
            config.take(key)
    if original and not config:
        step.take("config")


def _outputs(config: PlacedDict, path: str, expansion: Expansion) -> None:
    pairs, places = config.take("outputs")
    outputs = PlacedDict(pairs.place)
    for index, (pair, place) in enumerate(zip(pairs, pairs.places, strict=True)):
        match pair:
            case {"child": str(child), "parent": str()} if len(pair) == 2 and child not in outputs:
                outputs.put(child, pair["parent"], (pair.value_place("child"), pair.value_place("parent")))
            case _:
                message = "an output is {child: path, parent: path}, each child once"
                expansion.add(
                    place, f"{path}[{index}]", "bad_value", message, "write outputs: {child.path: parent.path}"
                )
    config.put("outputs", outputs, places)


def _move(config: PlacedDict, key: str, step: PlacedDict, to: str, path: str, expansion: Expansion) -> None:
    value, places = config.take(key)
    if to in step:
        expansion.add(
            places[0], f"{path}.config.{key}", "conflict", f"{to!r} and config.{key} say the same", "keep one"
        )
    else:
        step.put(to, value, places)


def _retries(config: PlacedDict, step: PlacedDict, path: str, expansion: Expansion) -> None:
    """Read the number of retries as attempts, which are one more."""
    retries: JSON = config["max_retries"]
    if isinstance(retries, bool) or not isinstance(retries, int) or retries < 0:
        message = "'max_retries' must be a whole number, at least 0"
        place = config.value_place("max_retries")
        expansion.add(place, f"{path}.config.max_retries", "bad_value", message, "write retry: {attempts: …}")
        config.take("max_retries")
        return
    retry = PlacedDict(config.value_place("max_retries"))
    retry.put("attempts", retries + 1, config.places["max_retries"])
    config["max_retries"] = retry
    _move(config, "max_retries", step, "retry", path, expansion)
