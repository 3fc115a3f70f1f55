"""JSON Schemas of pydantic models, without the titles that pydantic makes of names."""

from __future__ import annotations

from pydantic import BaseModel

from holdfast.blueprint.json_values import JSON, JSONObject

SchemaForm = JSONObject | type[BaseModel]
"""JSON Schema, or a pydantic model that has one."""
_DATA = ("default", "examples", "const", "enum")
"""Keys whose values are data, in which a title is a title."""


def read_form(form: SchemaForm) -> JSONObject:
    """Return the JSON Schema of a model, or the one that is given."""
    if not isinstance(form, type):
        return form
    schema: JSONObject = _drop_titles(form.model_json_schema())
    return schema


def _drop_titles(schema: JSON) -> JSON:
    match schema:
        case dict():
            kept = {key: value for key, value in schema.items() if key != "title" or not isinstance(value, str)}
            return {key: value if key in _DATA else _drop_titles(value) for key, value in kept.items()}
        case list():
            return [_drop_titles(one) for one in schema]
    return schema
