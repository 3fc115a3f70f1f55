"""The language as a JSON Schema for editors: what an author may write, short forms included."""

from __future__ import annotations

from typing import Any

from blueprint.grammar import KINDS, Blueprint

Schema = dict[str, Any]
_TEXT: Schema = {"type": "string"}
_CONDITION: Schema = {"type": ["string", "boolean", "number", "null"]}
_STEP: Schema = {"$ref": "#/$defs/Step"}
_STEPS: Schema = {"$ref": "#/$defs/Steps"}
_WRITE: Schema = {"$ref": "#/$defs/Write"}
_OPERATIONS: Schema = {"type": "array", "items": {"$ref": "#/$defs/Operation"}}
_INSTRUCTIONS: Schema = {"anyOf": [_TEXT, {"$ref": "#/$defs/FromFile"}]}


def language_schema() -> Schema:
    """JSON Schema (2020-12) of a blueprint as it may be written."""
    schema = Blueprint.model_json_schema()
    definitions: Schema = {name: _tidied(definition) for name, definition in schema["$defs"].items()}
    _add_steps(definitions)
    _allow_short_steps(definitions)
    _allow_short_loops(definitions)
    _allow_short_agents(definitions)
    _allow_short_documents(definitions)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Holdfast blueprint",
        "$ref": "#/$defs/Blueprint",
        "$defs": definitions,
    }


def _tidied(node: Any) -> Any:
    """Without pydantic's titles; a step of any kind, and a list of them, by reference."""
    match node:
        case {"discriminator": _}:
            return _described(_STEP, node)
        case {"type": "array", "items": {"discriminator": _}}:
            return _described(_STEPS, node)
        case dict():
            kept = {key: value for key, value in node.items() if key != "title" or isinstance(value, dict)}
            return {key: _tidied(value) for key, value in kept.items()}
        case list():
            return [_tidied(item) for item in node]
    return node


def _described(form: Schema, node: Schema) -> Schema:
    return {**form, "description": node["description"]} if "description" in node else dict(form)


def _add_steps(definitions: Schema) -> None:
    """A step by its kind, so that an editor tells what is wrong with that kind; without one it is a `step`."""
    chosen = [
        {
            "if": {"properties": {"kind": {"const": kind}}, "required": [] if kind == "step" else ["kind"]},
            "then": {"$ref": f"#/$defs/{model.__name__}"},
        }
        for kind, model in KINDS.items()
    ]
    kinds = " ".join(f"`{kind}`: {model.__doc__}" for kind, model in KINDS.items())
    definitions["Step"] = {
        "type": "object",
        "required": ["name"],
        "properties": {"kind": {"enum": list(KINDS), "default": "step", "description": kinds}},
        "allOf": chosen,
    }
    block = _object({"steps": {"$ref": "#/$defs/Steps"}}, ["steps"])
    is_block: Schema = {"required": ["steps"]}
    one: Schema = {"if": is_block, "then": block, "else": _STEP}
    definitions["Steps"] = {"if": {"type": "array"}, "then": {"type": "array", "items": _STEP}, "else": one}
    definitions["FromFile"] = _object({"from_file": _TEXT}, ["from_file"])


def _allow_short_steps(definitions: Schema) -> None:
    plain, hitl, conditional = (definitions[name] for name in ("PlainStep", "Hitl", "Conditional"))
    plain["required"].remove("kind")
    for model in KINDS.values():
        _set(definitions[model.__name__], "when", _CONDITION)
    _set(conditional, "condition_expression", _CONDITION)
    _set(definitions["MapBlock"], "iterable_input", {"type": ["string", "array"]})
    _set(definitions["MapBlock"], "init", _short_writes({}))
    _allow_nested_branches(definitions["Parallel"])
    tool = _object({"id": _TEXT}, ["id"])
    _set(plain, "agent", {"anyOf": [_TEXT, {"$ref": "#/$defs/Agent"}, tool, {"type": "null"}]})
    option = {"anyOf": [{"type": ["string", "number", "boolean"]}, {"$ref": "#/$defs/Option"}]}
    _set(hitl, "options", {"anyOf": [_TEXT, {"type": "array", "items": option}]})


def _allow_short_loops(definitions: Schema) -> None:
    block = definitions["LoopBlock"]
    inputs = {"enum": ["context", "previous_output", "auto"]}
    _set(block, "exit_expression", _CONDITION)
    _set(block, "propagation", {"anyOf": [inputs, {"$ref": "#/$defs/Propagation"}]})
    _set(block, "stop_when", {"const": "agent_finished", "description": "The exit that an agent's command gives."})
    short = {verb: {"anyOf": [_TEXT, _WRITE]} for verb in ("set", "append", "merge")}
    definitions["Operation"] = {
        **_object({**short, "value": {"description": "Beside a target written as text."}}, []),
        "description": definitions["Operation"].get("description", ""),
        "oneOf": [{"required": [verb]} for verb in short],
    }
    start = _object({"from_step": _TEXT, "prefix": _TEXT}, ["from_step"])
    presets = {"history": _object({"start_with": start}, ["start_with"]), "notes": _object({"set": {}}, ["set"])}
    _set(block, "init", _short_writes(presets))
    _set(block, "state", _short_writes({}))
    _set(block, "output", {"type": ["object", "null"]})


def _short_writes(presets: Schema) -> Schema:
    by_verb = {verb: {"anyOf": [_WRITE, {"type": "array", "items": _WRITE}]} for verb in ("set", "append", "merge")}
    return {"anyOf": [_OPERATIONS, _object({**by_verb, **presets}, []), {"$ref": "#/$defs/Operation"}]}


def _allow_nested_branches(parallel: Schema) -> None:
    """Its keys may stand under `parallel:` too."""
    own = ("branches", "merge_strategy", "reduce", "on_branch_failure", "field_mapping", "context_include_keys")
    nested = _object({key: parallel["properties"][key] for key in own}, ["branches"])
    parallel["required"].remove("branches")
    parallel["properties"]["parallel"] = {**nested, "description": "The same keys, nested."}


def _allow_short_agents(definitions: Schema) -> None:
    agent = definitions["Agent"]
    tools = {"type": "array", "items": {"anyOf": [_TEXT, {"$ref": "#/$defs/AgentTool"}]}}
    _set(agent, "tools", tools)
    _set(definitions["AgenticLoop"], "registry", tools)
    _set(definitions["AgentTool"], "approve", {"type": ["string", "boolean", "null"]})
    _set(agent, "instructions", _INSTRUCTIONS)
    _set(agent, "system_prompt", {**_INSTRUCTIONS, "description": "The same as `instructions`."})


def _allow_short_documents(definitions: Schema) -> None:
    document = definitions["Blueprint"]
    document["required"] = ["steps"]
    _set(document, "version", {"enum": ["0.1", 0.1]})
    imported = {"anyOf": [_TEXT, {"$ref": "#/$defs/Blueprint"}]}
    _set(document, "imports", {"type": "object", "additionalProperties": imported})


def _set(definition: Schema, key: str, form: Schema) -> None:
    """Another form for a key, which keeps its description."""
    described = {"description": old} if (old := definition["properties"].get(key, {}).get("description")) else {}
    definition["properties"][key] = {**described, **form}


def _object(properties: Schema, required: list[str]) -> Schema:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
