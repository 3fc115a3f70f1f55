"""The language as a JSON Schema for editors, short forms included. Printed by `holdfast schema`."""

from __future__ import annotations

from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue, models_json_schema

from holdfast.blueprint.kinds import KINDS, Blueprint
from holdfast.blueprint.kinds.parts import Part
from holdfast.blueprint.reducers import REDUCERS
from holdfast.blueprint.shorthand import SHORTHAND

Schema = dict[str, Any]
_TEXT: Schema = {"type": "string"}
_CONDITION: Schema = {"type": ["string", "boolean", "number", "null"]}
_STEP: Schema = {"$ref": "#/$defs/Step"}
_STEPS: Schema = {"$ref": "#/$defs/Steps"}
_WRITE: Schema = {"$ref": "#/$defs/Write"}
_OPERATIONS: Schema = {"type": "array", "items": {"$ref": "#/$defs/Operation"}}
_WRITES: Schema = {"anyOf": [_WRITE, {"type": "array", "items": _WRITE}]}
_INSTRUCTIONS: Schema = {"anyOf": [_TEXT, {"$ref": "#/$defs/FromFile"}]}
_ANNOTATIONS = ("description", "examples")


def language_schema() -> Schema:
    """Return the JSON Schema (2020-12) of a blueprint as an author may write it."""
    parts: list[type[Part]] = [Blueprint, *SHORTHAND]
    _, schema = models_json_schema([(part, "validation") for part in parts], schema_generator=_UnsortedSchema)
    definitions: Schema = {name: _tidied(definition) for name, definition in schema["$defs"].items()}
    _add_steps(definitions)
    _allow_short_steps(definitions)
    _allow_short_loops(definitions)
    _allow_short_agents(definitions)
    _allow_short_plans(definitions)
    _allow_short_documents(definitions)
    _add_examples(definitions)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Holdfast blueprint",
        "$ref": "#/$defs/Blueprint",
        "$defs": definitions,
    }


class _UnsortedSchema(GenerateJsonSchema):
    """A schema generator that keeps the order of keys in examples, which pydantic would sort."""

    def sort(self, value: JsonSchemaValue, parent_key: str | None = None) -> JsonSchemaValue:
        return value


def _tidied(node: Any) -> Any:
    """Return the schema without pydantic's titles; steps, and lists of steps, become references."""
    match node:
        case {"discriminator": _}:
            return _described(_STEP, node)
        case {"type": "array", "items": {"discriminator": _}}:
            return _described(_STEPS, node)
        case dict():
            kept = {key: value for key, value in node.items() if key != "title" or isinstance(value, dict)}
            return {key: value if key == "examples" else _tidied(value) for key, value in kept.items()}
        case list():
            return [_tidied(item) for item in node]
    return node


def _described(form: Schema, node: Schema) -> Schema:
    """Return the form with the description and examples of `node`."""
    return {**form, **{key: node[key] for key in _ANNOTATIONS if key in node}}


def _add_steps(definitions: Schema) -> None:
    """Add `Step`, which branches on `kind` so that an editor reports errors of that kind; the default is `step`."""
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
    for model in KINDS.values():
        _annotate(definitions[model.__name__], "kind", str(model.__doc__))
    is_block: Schema = {"required": ["steps"]}
    single: Schema = {"if": is_block, "then": {"$ref": "#/$defs/Block"}, "else": _STEP}
    definitions["Steps"] = {"if": {"type": "array"}, "then": {"type": "array", "items": _STEP}, "else": single}
    definitions["Block"] = _object("Steps, where a body or a branch stands.", {"steps": _STEPS}, ["steps"])
    _annotate(definitions["Block"], "steps", "What happens, in order.", [{"name": "draft", "agent": "editor"}])


def _allow_short_steps(definitions: Schema) -> None:
    plain, hitl, conditional = (definitions[name] for name in ("PlainStep", "Hitl", "Conditional"))
    plain["required"].remove("kind")
    for model in KINDS.values():
        _set(definitions[model.__name__], "when", _CONDITION)
    _set(conditional, "condition_expression", _CONDITION)
    _set(definitions["MapBlock"], "iterable_input", {"type": ["string", "array"]})
    _set(definitions["MapBlock"], "init", _short_writes("Writes"))
    _allow_nested_branches(definitions["Parallel"])
    forms = ({"$ref": f"#/$defs/{name}"} for name in ("Agent", "ToolById"))
    _set(plain, "agent", {"anyOf": [_TEXT, *forms, {"type": "null"}]})
    option = {"anyOf": [{"type": ["string", "number", "boolean"]}, {"$ref": "#/$defs/Option"}]}
    _set(hitl, "options", {"anyOf": [_TEXT, {"type": "array", "items": option}]})


def _allow_short_loops(definitions: Schema) -> None:
    block = definitions["LoopBlock"]
    inputs = {"enum": ["context", "previous_output", "auto"]}
    _set(block, "exit_expression", _CONDITION)
    _set(block, "propagation", {"anyOf": [inputs, {"$ref": "#/$defs/Propagation"}]})
    _set(block, "stop_when", {"const": "agent_finished", "description": "The exit that an agent's command gives."})
    _allow_short_operations(definitions)
    _set(block, "init", _short_writes("FirstWrites"))
    _set(block, "state", _short_writes("Writes"))
    _set(block, "output", {"type": ["object", "null"]})


def _allow_short_operations(definitions: Schema) -> None:
    """Allow a target written as text, and several writes by verb, in the order written."""
    operation = definitions["Operation"]
    verbs: Schema = operation["properties"]
    short = {verb: _described({"anyOf": [_TEXT, _WRITE]}, form) for verb, form in verbs.items()}
    value = {**definitions["Write"]["properties"]["value"], "description": "Beside a target written as text."}
    description = operation["description"]
    one_of = [{"required": [verb]} for verb in short]
    definitions["Operation"] = {**_object(description, {**short, "value": value}, []), "oneOf": one_of}
    several = {verb: _described(_WRITES, form) for verb, form in verbs.items()}
    definitions["Writes"] = _object("Writes by what they do, in the order written.", several, [])
    presets = {"history": {"$ref": "#/$defs/FirstTurn"}, "notes": {"$ref": "#/$defs/FirstNotes"}}
    first = _object("Writes before iteration 1, by what they do, in the order written.", {**several, **presets}, [])
    _annotate(first, "history", "How the conversation starts.", {"start_with": {"from_step": "get_goal"}})
    _annotate(first, "notes", "How `context.scratchpad.notes` starts.", {"set": "{{ input.notes }}"})
    definitions["FirstWrites"] = first


def _short_writes(name: str) -> Schema:
    return {"anyOf": [_OPERATIONS, {"$ref": f"#/$defs/{name}"}, {"$ref": "#/$defs/Operation"}]}


def _allow_nested_branches(parallel: Schema) -> None:
    """Allow the keys of `parallel` under `parallel:` too."""
    own = ("branches", "merge_strategy", "reduce", "on_branch_failure", "field_mapping", "context_include_keys")
    keys: Schema = parallel["properties"]
    nested = _object("The same keys, nested.", {key: keys[key] for key in own}, ["branches"])
    keys["parallel"] = {**nested, "examples": [{"branches": branches} for branches in keys["branches"]["examples"]]}
    parallel["required"].remove("branches")


def _allow_short_agents(definitions: Schema) -> None:
    agent = definitions["Agent"]
    tools = {"type": "array", "items": {"anyOf": [_TEXT, {"$ref": "#/$defs/AgentTool"}]}}
    _set(agent, "tools", tools)
    _set(definitions["AgenticLoop"], "registry", tools)
    _set(definitions["AgentTool"], "approve", {"type": ["string", "boolean", "null"]})
    _set(agent, "output_schema", {"anyOf": [{"type": "object"}, {"const": "plan"}, {"type": "null"}]})
    _set(agent, "instructions", _INSTRUCTIONS)
    _set(agent, "system_prompt", _described(_INSTRUCTIONS, agent["properties"]["instructions"]))
    _annotate(agent, "system_prompt", "The same as `instructions`.")


def _allow_short_plans(definitions: Schema) -> None:
    """Allow a number as an id and a text as an option."""
    step, loop = definitions["PlanStep"], definitions["PlanLoop"]
    id_: Schema = {"type": ["string", "integer"]}
    ids: Schema = {"type": "array", "items": id_}
    for holder, key in ((step, "id"), (step, "start_step"), (loop, "id")):
        _set(holder, key, id_)
    for holder, key in ((step, "dependencies"), (loop, "dependencies"), (loop, "steps")):
        _set(holder, key, ids)
    _set(step, "options", {"type": "array", "items": {"anyOf": [_TEXT, {"$ref": "#/$defs/PlanOption"}]}})


def _allow_short_documents(definitions: Schema) -> None:
    document = definitions["Blueprint"]
    document["required"] = ["steps"]
    _set(document, "version", {"enum": ["0.1", 0.1]})
    _allow_reducers(definitions)
    _set(document, "context_schema", {"anyOf": [{"$ref": "#/$defs/ContextSchema"}, {"type": "null"}]})
    imported = {"anyOf": [_TEXT, {"$ref": "#/$defs/Blueprint"}]}
    _set(document, "imports", {"type": "object", "additionalProperties": imported})


def _allow_reducers(definitions: Schema) -> None:
    """Allow `reduce` at the properties of the context's schema."""
    inner: Schema = {"type": "object", "additionalProperties": {"$ref": "#/$defs/ContextProperty"}}
    reduce: Schema = {
        "enum": list(REDUCERS),
        "description": "How branches and items that both changed the property are joined.",
    }
    summary = "JSON Schema of the context."
    properties = {**inner, "description": "The keys of the context.", "examples": [{"notes": {"reduce": "append"}}]}
    definitions["ContextSchema"] = {"type": "object", "description": summary, "properties": {"properties": properties}}
    own = "JSON Schema of a value in the context."
    below = {**properties, "description": "The keys of the object."}
    definitions["ContextProperty"] = {
        "type": ["object", "boolean"],
        "description": own,
        "properties": {"reduce": reduce, "properties": below},
    }


def _add_examples(definitions: Schema) -> None:
    """Add examples to every key: its own, else those of its type, else its allowed values."""
    for definition in definitions.values():
        for form in definition.get("properties", {}).values():
            if examples := _examples(form, definitions):
                form["examples"] = examples


def _examples(form: Schema, definitions: Schema) -> list[Any]:
    match form:
        case {"examples": list(own)}:
            return own
        case {"enum": list(values)}:
            return values
        case {"const": value}:
            return [value]
        case {"type": "boolean"}:
            return [True, False]
        case {"$ref": str(reference)}:
            examples: list[Any] = definitions[reference.removeprefix("#/$defs/")].get("examples", [])
            return examples
        case {"anyOf": list(forms)}:
            return [example for inner in forms for example in _examples(inner, definitions)]
    return []


def _set(definition: Schema, key: str, form: Schema) -> None:
    """Replace the form of a key; its description and examples stay."""
    definition["properties"][key] = {**_described({}, definition["properties"].get(key, {})), **form}


def _annotate(definition: Schema, key: str, description: str, *examples: Any) -> None:
    """Replace the description of a key, and its examples, if any are given."""
    annotations = {"description": description, **({"examples": [*examples]} if examples else {})}
    definition["properties"][key] = {**definition["properties"][key], **annotations}


def _object(description: str, properties: Schema, required: list[str]) -> Schema:
    header = {"type": "object", "description": description}
    return {**header, "properties": properties, "required": required, "additionalProperties": False}
