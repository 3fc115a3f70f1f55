"""The OpenAPI document of the API, made of the table of calls: what is not in it is no route."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, Literal

from pydantic import TypeAdapter

from holdfast.blueprint.json_values import JSONObject
from holdfast.server.web.api.routes import KEY_HEADER, KEY_PATTERN, LONGEST_KEY, PREFIX, ApiCall
from holdfast.server.web.problems import MEDIA_TYPE, ProblemJSON

REFERENCE = "#/components/schemas/{model}"
EVERYWHERE = (400, 401, 403, 429)
"""Statuses of the problems that every call may give."""
WITH_BODY = (413, 415)
HEAD = {
    "title": "Holdfast",
    "description": "Runs that stop for people, and their questions. Values are those of the commands with --json.",
    "version": "1",
}
_Key = tuple[str, Literal["validation", "serialization"]]


def document(calls: Sequence[ApiCall]) -> JSONObject:
    """Return the OpenAPI 3.1 document for a table of calls."""
    schemas, components = _schemas(calls)
    paths: dict[str, JSONObject] = {}
    for call in calls:
        paths.setdefault(PREFIX + call.path, {})[call.method.lower()] = _operation(call, schemas)
    return {
        "openapi": "3.1.0",
        "info": HEAD,
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}],
    }


def _schemas(calls: Sequence[ApiCall]) -> tuple[Mapping[_Key, JSONObject], JSONObject]:
    """Return the schema of each body and each value by call, and the components that they refer to."""
    # In validation mode throughout: a question writes itself, so its own schema is known of its reading only.
    inputs = [(f"{call.name}.gives", "validation", TypeAdapter(call.gives)) for call in calls]
    inputs += [(f"{call.name}.body", "validation", TypeAdapter(call.body)) for call in calls if call.body is not None]
    inputs += [("problem", "validation", TypeAdapter(ProblemJSON))]
    schemas, shared = TypeAdapter.json_schemas(inputs, ref_template=REFERENCE)  # type: ignore[arg-type]
    components = shared["$defs"]
    _complete(components)
    return schemas, components


def _complete(components: JSONObject) -> None:
    """Describe questions as they are on the wire: what holds them writes them itself, so that its type is too wide."""
    question, row = components["Question"], components["WaitingRow"]
    # It holds only what the question does not show in other fields.
    question["properties"]["asked"] = {"type": "object", "description": "The kind, and its own fields."}
    told = {"type": "string", "description": "Of the review of a plan, where it is read alone: the plan in words."}
    question["properties"]["proposal"] = told
    row["properties"] = {**question["properties"], **row["properties"]}
    components["RunJSON"]["properties"]["questions"]["items"] = {"$ref": REFERENCE.format(model="Question")}


def _operation(call: ApiCall, schemas: Mapping[_Key, JSONObject]) -> JSONObject:
    summary, _, rest = (call.answer.__doc__ or call.name).strip().partition("\n")
    operation: JSONObject = {
        "operationId": call.name,
        "summary": summary,
        "description": " ".join([*rest.split(), f"Scope: {call.scope}."]),
        "parameters": [*_path_parameters(call), *_query_parameters(call), *_header_parameters(call)],
        "responses": _responses(call, schemas),
    }
    if call.body is not None:
        schema = schemas[f"{call.name}.body", "validation"]
        is_required = any(field.is_required() for field in call.body.model_fields.values())
        operation["requestBody"] = {"required": is_required, "content": {"application/json": {"schema": schema}}}
    return operation


def _path_parameters(call: ApiCall) -> list[JSONObject]:
    schema = {"type": "string", "minLength": 1}
    return [
        {"name": name, "in": "path", "required": True, "schema": schema} for name in re.findall(r"\{(\w+)\}", call.path)
    ]


def _query_parameters(call: ApiCall) -> list[JSONObject]:
    schema = call.query.model_json_schema()
    parameters = []
    for name, form in schema.get("properties", {}).items():
        own = {key: value for key, value in form.items() if key not in ("title", "default")}
        own = next((option for option in own.get("anyOf", []) if option != {"type": "null"}), own)  # absent, never null
        parameters.append({"name": name, "in": "query", "required": False, "schema": own})
    return parameters


def _header_parameters(call: ApiCall) -> list[JSONObject]:
    names = [*([KEY_HEADER] if call.takes_key else []), *(["Last-Event-ID"] if "events" in call.path else [])]
    schema = {"type": "string", "minLength": 1, "maxLength": LONGEST_KEY, "pattern": KEY_PATTERN}
    return [{"name": name, "in": "header", "required": False, "schema": schema} for name in names]


def _responses(call: ApiCall, schemas: Mapping[_Key, JSONObject]) -> JSONObject:
    content = {call.media_type: {"schema": schemas[f"{call.name}.gives", "validation"]}}
    done: JSONObject = {"description": HTTPStatus(call.status).phrase, "content": content}
    responses: dict[str, Any] = {str(call.status): done}
    for status, text in call.others.items():
        responses[str(status)] = {"description": text, **({"content": content} if status == 202 else {})}
    problem = {MEDIA_TYPE: {"schema": schemas["problem", "validation"]}}
    statuses = {*EVERYWHERE, *call.problems, *(WITH_BODY if call.body is not None else ())}
    for status in sorted(statuses):
        responses[str(status)] = {"description": HTTPStatus(status).phrase, "content": problem}
    return responses
