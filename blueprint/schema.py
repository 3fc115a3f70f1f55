"""The language as a JSON Schema for editors, short forms included. Printed by `holdfast schema`."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue, models_json_schema

from holdfast.blueprint.json_values import JSON
from holdfast.blueprint.kinds import DEFAULT_KIND, KINDS, Blueprint
from holdfast.blueprint.kinds.hitl_kinds import allow_kinds
from holdfast.blueprint.kinds.schema_forms import (
    CONDITION,
    TEXT,
    TOOLS,
    Schema,
    annotate,
    describe_form,
    object_form,
    set_form,
)
from holdfast.blueprint.parts import Part, Template
from holdfast.blueprint.questions import QuestionKind
from holdfast.blueprint.reducers import REDUCERS


class FromFile(Part):
    """A text that stands in a file, in the place of the text."""

    from_file: str = Field(description="The file's path, relative to the blueprint.", examples=["editor.md"])


class ToolById(Part):
    """A tool, in the place of an agent."""

    id: str = Field(description="The tool's name.", examples=["search"])


class StartWith(Part):
    """The start of a conversation: the output of a step before the loop."""

    from_step: str = Field(description="The step's name.", examples=["get_goal"])
    prefix: str = Field("", description="What stands before the output.", examples=["User: "])


class FirstTurn(Part):
    """The first turn of a conversation."""

    start_with: StartWith = Field(
        description="Where it comes from.", examples=[{"from_step": "get_goal", "prefix": "User: "}]
    )


class FirstNotes(Part):
    """The value of `context.scratchpad.notes` before iteration 1."""

    set: Template = Field(description="A template, or a mapping of them.", examples=["{{ input.notes }}"])


SHORTHAND: tuple[type[Part], ...] = (FromFile, ToolById, StartWith, FirstTurn, FirstNotes)


_STEP: Schema = {"$ref": "#/$defs/Step"}
_STEPS: Schema = {"$ref": "#/$defs/Steps"}
_WRITE: Schema = {"$ref": "#/$defs/Write"}
_WRITES: Schema = {"anyOf": [_WRITE, {"type": "array", "items": _WRITE}]}
_INSTRUCTIONS: Schema = {"anyOf": [TEXT, {"$ref": "#/$defs/FromFile"}]}


def language_schema(question_kinds: Mapping[str, type[QuestionKind]] | None = None) -> Schema:
    """Return the JSON Schema (2020-12) of a blueprint as an author may write it.

    Args:
        question_kinds: The kinds of questions of the author's packages, by name.
    """
    parts: list[type[Part]] = [Blueprint, *SHORTHAND]
    _, schema = models_json_schema([(part, "validation") for part in parts], schema_generator=_UnsortedSchema)
    definitions: Schema = {name: _tidy(definition) for name, definition in schema["$defs"].items()}
    _add_steps(definitions)
    _allow_short_operations(definitions)
    _allow_short_agents(definitions)
    for kind in KINDS.values():
        set_form(definitions[kind.__name__], "when", CONDITION)
        kind.allow_short_forms(definitions)
    _allow_short_documents(definitions)
    allow_kinds(definitions, question_kinds or {})
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


def _tidy(node: JSON) -> JSON:
    """Return the schema without pydantic's titles; steps, and lists of steps, become references."""
    match node:
        case {"discriminator": _}:
            return describe_form(_STEP, node)
        case {"type": "array", "items": {"discriminator": _}}:
            return describe_form(_STEPS, node)
        case dict():
            kept = {key: value for key, value in node.items() if key != "title" or isinstance(value, dict)}
            return {key: value if key == "examples" else _tidy(value) for key, value in kept.items()}
        case list():
            return [_tidy(item) for item in node]
    return node


def _add_steps(definitions: Schema) -> None:
    """Add `Step`, which branches on `kind` so that an editor reports errors of that kind; the default is `step`."""
    chosen = [
        {
            "if": {"properties": {"kind": {"const": kind}}, "required": [] if kind == DEFAULT_KIND else ["kind"]},
            "then": {"$ref": f"#/$defs/{model.__name__}"},
        }
        for kind, model in KINDS.items()
    ]
    kinds = " ".join(f"`{kind}`: {model.__doc__}" for kind, model in KINDS.items())
    definitions["Step"] = {
        "type": "object",
        "required": ["name"],
        "properties": {"kind": {"enum": list(KINDS), "default": DEFAULT_KIND, "description": kinds}},
        "allOf": chosen,
    }
    for model in KINDS.values():
        annotate(definitions[model.__name__], "kind", str(model.__doc__))
    is_block: Schema = {"required": ["steps"]}
    single: Schema = {"if": is_block, "then": {"$ref": "#/$defs/Block"}, "else": _STEP}
    definitions["Steps"] = {"if": {"type": "array"}, "then": {"type": "array", "items": _STEP}, "else": single}
    definitions["Block"] = object_form("Steps, where a body or a branch stands.", {"steps": _STEPS}, ["steps"])
    annotate(definitions["Block"], "steps", "What happens, in order.", [{"name": "draft", "agent": "editor"}])


def _allow_short_operations(definitions: Schema) -> None:
    """Allow a target written as text, and several writes by verb, in the order written."""
    operation = definitions["Operation"]
    verbs: Schema = operation["properties"]
    short = {verb: describe_form({"anyOf": [TEXT, _WRITE]}, form) for verb, form in verbs.items()}
    value = {**definitions["Write"]["properties"]["value"], "description": "Beside a target written as text."}
    description = operation["description"]
    one_of = [{"required": [verb]} for verb in short]
    definitions["Operation"] = {**object_form(description, {**short, "value": value}, []), "oneOf": one_of}
    several = {verb: describe_form(_WRITES, form) for verb, form in verbs.items()}
    definitions["Writes"] = object_form("Writes by what they do, in the order written.", several, [])
    presets = {"history": {"$ref": "#/$defs/FirstTurn"}, "notes": {"$ref": "#/$defs/FirstNotes"}}
    first = object_form("Writes before iteration 1, by what they do, in the order written.", {**several, **presets}, [])
    annotate(first, "history", "How the conversation starts.", {"start_with": {"from_step": "get_goal"}})
    annotate(first, "notes", "How `context.scratchpad.notes` starts.", {"set": "{{ input.notes }}"})
    definitions["FirstWrites"] = first


def _allow_short_agents(definitions: Schema) -> None:
    agent = definitions["Agent"]
    agent["anyOf"] = [{"required": ["model"]}, {"required": ["from"]}]
    set_form(agent, "model", {"anyOf": [TEXT, {"type": "array", "items": TEXT, "minItems": 1, "maxItems": 6}]})
    set_form(agent, "tools", TOOLS)
    set_form(definitions["AgentTool"], "approve", {"type": ["string", "boolean", "null"]})
    set_form(agent, "output_schema", {"anyOf": [{"type": "object"}, {"const": "plan"}, {"type": "null"}]})
    set_form(agent, "instructions", _INSTRUCTIONS)
    set_form(agent, "system_prompt", describe_form(_INSTRUCTIONS, agent["properties"]["instructions"]))
    annotate(agent, "system_prompt", "The same as `instructions`.")


def _allow_short_documents(definitions: Schema) -> None:
    document = definitions["Blueprint"]
    document["required"] = ["steps"]
    set_form(document, "version", {"enum": ["0.1", 0.1]})
    _allow_reducers(definitions)
    set_form(document, "context_schema", {"anyOf": [{"$ref": "#/$defs/ContextSchema"}, {"type": "null"}]})
    imported = {"anyOf": [TEXT, {"$ref": "#/$defs/Blueprint"}]}
    set_form(document, "imports", {"type": "object", "additionalProperties": imported})


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


def _examples(form: Schema, definitions: Schema) -> list[JSON]:
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
            examples: list[JSON] = definitions[reference.removeprefix("#/$defs/")].get("examples", [])
            return examples
        case {"anyOf": list(forms)}:
            return [example for inner in forms for example in _examples(inner, definitions)]
    return []
