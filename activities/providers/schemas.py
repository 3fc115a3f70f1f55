"""Conversion of JSON Schemas to those that providers accept for the arguments of a tool. Used to build requests.

The schema on the wire may be looser than the author's, never different: arguments are checked against the author's, so
a looser one costs at most one correction by the model.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, TypeAlias

from pydantic_ai.models import Model

from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.blueprint.schema_references import find_reference

Schema = JSONObject
ProviderModel: TypeAlias = Model[Any]
"""A model of any provider: the parameter is the class of its client."""

_SUBSCHEMAS = ("additionalProperties", "items", "contains", "not", "if", "then", "else", "propertyNames")
_MAPS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems", "items")
_BRANCHES = ("anyOf", "oneOf", "allOf")
_NOT_AT_ROOT = (*_BRANCHES, "not", "enum", "const")
"""OpenAI and Anthropic answer 400 to these at the top of a tool's arguments, strict or not."""
_STRICT = frozenset(
    {
        *("type", "properties", "required", "additionalProperties", "items", "anyOf", "$ref", "$defs", "definitions"),
        *("enum", "const", "description", "title", "$schema", "format", "pattern", "minLength", "maxLength"),
        *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minItems", "maxItems"),
    }
)
"""The keywords of OpenAI's strict mode. pydantic-ai checks for some of the others, not for all."""
_KINDS = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}
_LONGEST_NOTE = 2_000
_MOST_REFERENCES = 20


def wire_schema(schema: Schema) -> Schema:
    """Return the schema as a plain object schema in which every free object explicitly allows any key.

    >>> wire_schema({"type": "object", "properties": {"data": {"type": "object"}}})["properties"]
    {'data': {'type': 'object', 'additionalProperties': True}}
    """
    root = _plain_root(_resolve(schema, schema))
    # At the root, no properties means no arguments; further inside, it means any keys.
    opened: Schema = _open_objects(root, is_free=_is_unsaid(root) and root.get("properties") != {})
    return opened


def strictness(schema: Schema, model: ProviderModel) -> bool | None:
    """Return None if the provider may enforce the schema, False if that would change its meaning.

    Gemini enforces any schema as it is, but then returns `{}` for a free object.
    """
    if model.profile.get("google_supports_strict_tool_definition"):
        return False if any(_is_free(node) for node in _nodes(schema)) else None
    return None if all(_fits_strict(node) for node in _nodes(schema)) else False


def native_strictness(schema: Schema, model: ProviderModel) -> bool | None:
    """Return the same as `strictness` for an output in the provider's own format.

    Anthropic has no loose form of it, and closes free objects only.
    """
    if model.system == "anthropic":
        return False if any(_is_free(node) for node in _nodes(schema)) else None
    return strictness(schema, model)


def _resolve(node: Schema, root: Schema) -> Schema:
    """Return the node with a reference at its top replaced by what it refers to."""
    for _ in range(_MOST_REFERENCES):
        reference = node.get("$ref")
        if not isinstance(reference, str):
            break
        more = {key: value for key, value in node.items() if key != "$ref"}
        target = find_reference(reference, root)
        # A reference to the root would only be resolved to itself.
        node = {**(target if isinstance(target, dict) and target is not root else {}), **more}
    return node


def _plain_root(schema: Schema) -> Schema:
    """Return an object schema without the keywords that no root may have; the description tells the model of them."""
    removed = {key: schema[key] for key in _NOT_AT_ROOT if key in schema}
    plain = {key: value for key, value in schema.items() if key not in removed} | {"type": "object"}
    if not removed:
        return plain
    branches = [
        _resolve(branch, schema) for key in _BRANCHES for branch in removed.get(key, ()) if isinstance(branch, dict)
    ]
    if plain.get("additionalProperties") is not False:
        plain["properties"] = _unite(branches) | plain.get("properties", {})
        plain.setdefault("additionalProperties", True)
    # Of the branches only those of `allOf` must all fit, so only theirs are required.
    all_of = [_resolve(branch, schema) for branch in removed.get("allOf", ()) if isinstance(branch, dict)]
    if required := [key for part in (plain, *all_of) for key in part.get("required", ())]:
        plain["required"] = list(dict.fromkeys(required))
    note = json.dumps(removed, ensure_ascii=False)
    if len(note) <= _LONGEST_NOTE:
        plain["description"] = f"{plain.get('description', '')}\nMust also fit this JSON Schema: {note}".strip()
    return plain


def _unite(branches: list[Schema]) -> Schema:
    """Return the properties of all branches; one that differs between them may have any of its forms."""
    forms: dict[str, list[JSON]] = {}
    for branch in branches:
        for name, form in branch.get("properties", {}).items():
            if form not in forms.setdefault(name, []):
                forms[name].append(form)
    return {name: schemas[0] if len(schemas) == 1 else {"anyOf": schemas} for name, schemas in forms.items()}


def _open_objects(node: JSON, *, is_free: bool | None = None) -> JSON:
    """Return the node with free objects explicitly open, their required keys listed, and a type for every enum."""
    if not isinstance(node, dict):
        return node
    opened = {key: _opened_keyword(key, value) for key, value in node.items()} | _type_of_values(node)
    if not (_is_unsaid(node) if is_free is None else is_free):
        return opened
    needed: Schema = {key: {} for key in node.get("required", ())}
    named = {"properties": needed | opened.get("properties", {})} if needed else {}
    return opened | named | {"additionalProperties": True}


def _type_of_values(node: Schema) -> Schema:
    """Return the type of an enum's values, which strict mode and Gemini require."""
    values = node.get("enum", [node["const"]] if "const" in node else [])
    kinds = list(dict.fromkeys(_KINDS.get(type(value)) for value in values))
    if not kinds or None in kinds or node.keys() & {"type", *_BRANCHES, "$ref"}:
        return {}
    return {"type": kinds[0] if len(kinds) == 1 else kinds}


def _opened_keyword(key: str, value: JSON) -> JSON:
    match value:
        case dict() if key in _MAPS:
            return {name: _open_objects(part) for name, part in value.items()}
        case list() if key in _LISTS:
            return [_open_objects(part) for part in value]
        case dict() if key in _SUBSCHEMAS:
            return _open_objects(value)
    return value


def _is_unsaid(node: Schema) -> bool:
    """Return whether a node is an object that implicitly takes keys which it does not list."""
    if "object" not in _types(node) or "additionalProperties" in node or "unevaluatedProperties" in node:
        return False
    properties = node.get("properties") or {}
    return not properties or any(key not in properties for key in node.get("required", ()))


def _is_free(node: JSON) -> bool:
    return isinstance(node, dict) and "object" in _types(node) and node.get("additionalProperties", False) is not False


def _fits_strict(node: JSON) -> bool:
    """Return whether OpenAI's strict mode accepts a node, its parts aside, without changing its meaning."""
    if not isinstance(node, dict) or not node.keys() <= _STRICT or not node.keys() & {"type", "anyOf", "$ref"}:
        return False
    types = _types(node)
    if len({*types} - {"null"}) > 1 or "array" in types and not isinstance(node.get("items"), dict):
        return False
    if "object" not in types:
        return True
    # pydantic-ai closes a node whose type is exactly "object" and that says nothing of other keys.
    is_closed = node.get("additionalProperties", types != ["object"]) is False
    return is_closed and "required" in node and set(node["required"]) == set(node.get("properties", {}))


def _types(node: Schema) -> list[str]:
    types = node.get("type", [])
    return types if isinstance(types, list) else [types]


def _nodes(node: JSON) -> Iterator[JSON]:
    """Yield every schema in a schema, itself first."""
    yield node
    for key, value in node.items() if isinstance(node, dict) else ():
        for part in _parts(key, value):
            yield from _nodes(part)


def _parts(key: str, value: JSON) -> list[JSON]:
    match value:
        case dict() if key in _MAPS:
            return list(value.values())
        case list() if key in _LISTS:
            return value
        case bool() if key == "additionalProperties":
            return []
    return [value] if key in _SUBSCHEMAS else []
