"""JSON Schemas of pydantic models, without the titles that pydantic makes of names."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from typing import Any, get_args

from pydantic import BaseModel

from holdfast.blueprint.build.places import find_place
from holdfast.blueprint.errors import BlueprintError
from holdfast.blueprint.json_values import JSON, JSONObject

SchemaForm = JSONObject | type[BaseModel]
"""JSON Schema, or a pydantic model that has one."""
_DATA = ("default", "examples", "const", "enum")
"""Keys whose values are data, in which a title is a title."""


def read_form(form: SchemaForm) -> JSONObject:
    """Return the JSON Schema of a model, or the one that is given. Raises `BlueprintError` for anything else."""
    if isinstance(form, Mapping):
        return form
    if not (isinstance(form, type) and issubclass(form, BaseModel)):
        told = form.__name__ if isinstance(form, type) else repr(form)
        hint = 'in a schema a text is {"type": "string"}, a list {"type": "array"}'
        message = f"a schema is a pydantic model or a JSON Schema (a dict), not {told}"
        raise BlueprintError([find_place().problem("", "bad_schema", message, hint)])
    schema: JSONObject = _drop_titles(form.model_json_schema())
    return schema


def read_form_of_people(form: SchemaForm) -> JSONObject:
    """Return the JSON Schema by which a blueprint judges what people give.

    Warns, at the author's line, of a model with validators: a blueprint has no code, and cannot keep them.
    """
    if ruling := next((model.__name__ for model in _list_models(form) if _has_validators(model)), None):
        place = find_place()
        text = (
            f"a blueprint keeps the JSON Schema of {ruling}, and not its validators: say in the schema what must hold"
        )
        warnings.warn_explicit(text, UserWarning, place.source.file, place.line)
    return read_form(form)


def _has_validators(model: type[BaseModel]) -> bool:
    rules = model.__pydantic_decorators__
    return bool(rules.field_validators or rules.model_validators or rules.validators or rules.root_validators)


def _list_models(form: Any, seen: frozenset[Any] = frozenset()) -> Iterator[type[BaseModel]]:
    """Yield a model, and those of its fields."""
    if isinstance(form, type) and issubclass(form, BaseModel) and form not in seen:
        yield form
        for field in form.model_fields.values():
            yield from _list_models(field.annotation, seen | {form})
    for part in get_args(form):
        yield from _list_models(part, seen)


def _drop_titles(schema: JSON) -> JSON:
    match schema:
        case dict():
            kept = {key: value for key, value in schema.items() if key != "title" or not isinstance(value, str)}
            return {key: value if key in _DATA else _drop_titles(value) for key, value in kept.items()}
        case list():
            return [_drop_titles(one) for one in schema]
    return schema
