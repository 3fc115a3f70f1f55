"""Rules of JSON Schemas: they are valid, refer to nothing outside, and the first context fits its own."""

from __future__ import annotations

from holdfast.blueprint.expressions.error import did_you_mean
from holdfast.blueprint.findings import Findings
from holdfast.blueprint.json_values import JSONObject
from holdfast.blueprint.jsonschemas import KEYWORDS, BadSchema, list_misfits, shown_path, validator
from holdfast.blueprint.kinds import Agent, AnyStep, Blueprint
from holdfast.blueprint.reducers import REDUCERS, iterate_misplaced, iterate_properties


def check_schemas(blueprint: Blueprint, findings: Findings) -> None:
    check_schema(blueprint.inputs, "inputs", findings)
    for name, agent in blueprint.agents.items():
        check_schema(agent.output_schema, f"agents.{name}.output_schema", findings)
    _check_reducers(blueprint.context_schema, findings)
    if check_schema(blueprint.context_schema, "context_schema", findings) and blueprint.context_schema is not None:
        for path, message in list_misfits(blueprint.context_schema, blueprint.context):
            value_path = f"context.{path}" if path else "context"
            findings.add(value_path, "bad_value", f"does not fit context_schema: {message}")


def _check_reducers(schema: JSONObject | None, findings: Findings) -> None:
    """Refuse a `reduce` that is unknown, does not fit the property's type, or stands at no property."""
    for path in iterate_misplaced(schema):
        message = "'reduce' belongs to a property of the context"
        hint = "write it under properties.NAME, beside the property's type"
        findings.add_key(".".join(["context_schema", *path]), "conflict", message, hint)
    for path, prop in iterate_properties(schema or {}):
        if "reduce" not in prop:
            continue
        reduce_path = f"context_schema.properties.{'.properties.'.join(path)}.reduce"
        reducer = prop["reduce"]
        if not isinstance(reducer, str) or reducer not in REDUCERS:
            hint = did_you_mean(str(reducer), REDUCERS) or f"known: {', '.join(REDUCERS)}"
            findings.add(reduce_path, "bad_value", f"unknown reducer {reducer!r}", hint)
        elif "type" in prop and not _types(prop["type"]) & _types(REDUCERS[reducer]):
            message = f"{reducer} joins values of type {REDUCERS[reducer]}, not {prop['type']}"
            findings.add(reduce_path, "conflict", message, "choose another reducer, or another type")


def _types(declared: object) -> set[str]:
    types = {str(type_) for type_ in declared} if isinstance(declared, list) else {str(declared)}
    return types | {"integer"} if "number" in types else types


def check_step_schemas(step: AnyStep, path: str, findings: Findings) -> None:
    for key, schema in step.schemas().items():
        check_schema(schema, f"{path}.{key}", findings)
    for used in step.agents():
        if isinstance(used.agent, Agent):
            check_schema(used.agent.output_schema, f"{path}.{used.path}.output_schema", findings)


def check_schema(schema: dict[str, object] | None, path: str, findings: Findings) -> bool:
    """Report a schema that is not valid; return whether it can be used."""
    if schema is None:
        return True
    try:
        validator(schema)
    except BadSchema as error:
        inside = shown_path(error.path)
        schema_path = path if not inside else f"{path}{inside}" if inside.startswith("[") else f"{path}.{inside}"
        findings.add(schema_path, "bad_schema", f"not a valid JSON Schema: {error.message}")
        return False
    return not _add_meaningless(schema, path, findings)


def _add_meaningless(schema: object, path: str, findings: Findings) -> bool:
    """Report each schema without any known keyword, such as `{name: string}`; return whether there is one.

    It is valid, as JSON Schema ignores what it does not know, and accepts every value.
    """
    if not isinstance(schema, dict):
        return False
    if schema and not any(key in KEYWORDS or key.startswith("x-") for key in schema):
        first = next(iter(schema))
        hint = did_you_mean(first, KEYWORDS) or f"write {{type: object, properties: {{{first}: …}}}}"
        findings.add_key(f"{path}.{first}", "bad_schema", f"{first!r} is not a keyword of JSON Schema", hint)
        return True
    properties = schema.get("properties")
    inner = {f"properties.{name}": value for name, value in properties.items()} if isinstance(properties, dict) else {}
    inner["items"] = schema.get("items")
    return any([_add_meaningless(value, f"{path}.{name}", findings) for name, value in inner.items()])
