"""JSON Schemas of a blueprint are valid, refer to nothing outside, and the first context fits its own."""

from __future__ import annotations

from blueprint.check.findings import Findings
from blueprint.grammar import Agent, AgenticLoop, AnyStep, Blueprint, Clarify, PlainStep
from blueprint.jsonschemas import BadSchema, problems_of, shown_path, validator


def check_schemas(blueprint: Blueprint, findings: Findings) -> None:
    check_schema(blueprint.inputs, "inputs", findings)
    for name, agent in blueprint.agents.items():
        check_schema(agent.output_schema, f"agents.{name}.output_schema", findings)
    if check_schema(blueprint.context_schema, "context_schema", findings) and blueprint.context_schema is not None:
        for path, message in problems_of(blueprint.context_schema, blueprint.context):
            where = f"context.{path}" if path else "context"
            findings.add(where, "bad_value", f"does not fit context_schema: {message}")


def check_step_schemas(step: AnyStep, path: str, findings: Findings) -> None:
    check_schema(step.input_schema, f"{path}.input_schema", findings)
    check_schema(step.output_schema, f"{path}.output_schema", findings)
    if isinstance(step, Clarify):
        check_schema(step.facts, f"{path}.schema", findings)
    match step:
        case PlainStep(agent=Agent() as agent) | Clarify(agent=Agent() as agent):
            check_schema(agent.output_schema, f"{path}.agent.output_schema", findings)
        case AgenticLoop(planner=Agent() as agent):
            check_schema(agent.output_schema, f"{path}.planner.output_schema", findings)


def check_schema(schema: dict[str, object] | None, path: str, findings: Findings) -> bool:
    """Whether it can be used."""
    if schema is None:
        return True
    try:
        validator(schema)
    except BadSchema as error:
        inside = shown_path(error.path)
        where = path if not inside else f"{path}{inside}" if inside.startswith("[") else f"{path}.{inside}"
        findings.add(where, "bad_schema", f"no valid JSON Schema: {error.message}")
        return False
    return True
