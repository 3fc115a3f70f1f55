"""Rules of `hitl`: the question can be answered, and a deadline has a consequence."""

from __future__ import annotations

from typing import Any

from holdfast.blueprint.check.findings import Findings, is_literal
from holdfast.blueprint.check.people import check_people
from holdfast.blueprint.jsonschemas import BadSchema, problems_of
from holdfast.blueprint.kinds import Hitl, Option


def check_hitl(step: Hitl, path: str, findings: Findings) -> None:
    if isinstance(step.message, str) and not step.message.strip():
        message = "the message is empty: a person must see what is asked"
        findings.add(f"{path}.message", "bad_value", message, "leave it out to show the previous output")
    if isinstance(step.options, str) and is_literal(step.options):
        hint = 'write a list, or a template of one: "{{ … }}"'
        findings.add(f"{path}.options", "bad_value", f"options must be a list, not {step.options[:40]!r}", hint)
    if step.ask == "secret":
        _secret(step, path, findings)
    elif step.ask in ("permission", "review", "hold"):
        for key, value in (("options", step.options), ("multiple", step.multiple)):
            if value:
                message = f"{key!r} belongs to questions with a choice; what a {step.ask} takes is fixed"
                findings.add_key(f"{path}.{key}", "conflict", message, "remove it, or write ask: decision")
    if step.options and step.input_schema is not None and step.ask != "secret":
        message = "'options' and 'input_schema' both describe the answer"
        findings.add_key(f"{path}.input_schema", "conflict", message, "keep one of them")
    if not isinstance(step.multiple, bool) and step.multiple < 1:
        findings.add(f"{path}.multiple", "bad_value", f"'multiple' must be at least 1, not {step.multiple}")
    if not isinstance(step.options, str):
        _distinct(step.options, path, findings)
    _deadline(step, path, findings)
    check_people(step, path, findings)
    if step.default is None or step.ask == "secret":
        return
    if is_literal(step.default) and (reason := _misfit(step)):
        findings.add(f"{path}.default", "bad_value", f"the default is not a valid answer: {reason}")


_ANNOTATIONS = ("title", "description")
_NEVER_SECRET = {
    "options": "what can be chosen from is no secret",
    "multiple": "what can be chosen from is no secret",
    "default": "a value in the blueprint is no secret; it would stand in every history",
    "quorum": "nobody can see whether two secrets are the same",
}


def _secret(step: Hitl, path: str, findings: Findings) -> None:
    for key, reason in _NEVER_SECRET.items():
        if step.model_dump(include={key}, exclude_defaults=True):
            findings.add_key(
                f"{path}.{key}", "conflict", f"{key!r} does not go with ask: secret: {reason}", "remove it"
            )
    if step.on_timeout == "default":
        message = "'on_timeout: default' does not go with ask: secret: a secret has no default"
        findings.add(f"{path}.on_timeout", "conflict", message, "write on_timeout: skip, or remove it")
    if step.input_schema is not None:
        _names(step.input_schema, f"{path}.input_schema", findings)


def _names(schema: dict[str, Any], path: str, findings: Findings) -> None:
    """Check that the schema of a secret only names values: no value is ever seen that could be validated."""
    hint = "write {type: object, required: [NAME], properties: {NAME: {type: string, description: …}}}"
    properties = schema.get("properties")
    if schema.get("type") != "object" or not isinstance(properties, dict) or not properties:
        message = "the input_schema of ask: secret must be an object of the names that are asked for"
        findings.add(path, "bad_value", message, hint)
        return
    for key in schema:
        if key not in ("type", "properties", "required", *_ANNOTATIONS):
            message = f"{key!r} cannot be checked: nothing but tools gets to see a secret"
            findings.add_key(f"{path}.{key}", "bad_value", message, hint)
    required = schema.get("required")
    for name in required if isinstance(required, list) else []:
        if name not in properties:
            findings.add(f"{path}.required", "bad_value", f"{name!r} is required, but none of the properties", hint)
    for name, field in properties.items():
        if not isinstance(field, dict) or field.get("type") != "string" or field.keys() - {"type", *_ANNOTATIONS}:
            message = (
                f"{name!r} must be {{type: string}}, with a title or description: nothing else of it can be checked"
            )
            findings.add(f"{path}.properties.{name}", "bad_value", message)


def _deadline(step: Hitl, path: str, findings: Findings) -> None:
    if step.default is not None and step.timeout is None:
        message = "a default needs a deadline: without 'timeout' it is never used"
        findings.add_key(f"{path}.default", "conflict", message, "add timeout: 2d, or remove the default")
    elif step.on_timeout not in (None, "escalate") and step.timeout is None:
        message = "'on_timeout' needs a deadline: without 'timeout' it never happens"
        findings.add_key(f"{path}.on_timeout", "conflict", message, "add timeout: 2d, or remove it")
    if step.on_timeout == "default" and step.default is None:
        message = "'on_timeout: default' needs a 'default'"
        findings.add(f"{path}.on_timeout", "missing_key", message, "add the default, or write on_timeout: skip")


def _distinct(options: list[Option], path: str, findings: Findings) -> None:
    """Check that each id and label means one option, in any case: an answer may give either."""
    taken: dict[str, int] = {}
    for index, option in enumerate(options):
        for key, text in (("id", option.id), ("label", option.label)):
            if text and taken.setdefault(_folded(text), index) != index:
                option_path = f"{path}.options[{index}].{key}"
                hint = f"the same as option {taken[_folded(text)] + 1}"
                findings.add(option_path, "duplicate_name", f"the option {text!r} appears twice", hint)
                break


def _misfit(step: Hitl) -> str | None:
    """Return why the default would be refused as an answer, or None."""
    match step.ask, step.default:
        case ("permission", {"granted": False}) | ("review", {"verdict": "rejected"}):
            return None
        case "permission", _:
            return "it may not approve: write {granted: false, reason: …}"
        case "review", _:
            return "it may not approve: write {verdict: rejected, reason: …}"
    if step.input_schema is not None:
        return _schema_misfit(step.input_schema, step.default)
    if isinstance(step.options, str):
        return None
    if not step.multiple or step.multiple == 1 and step.multiple is not True:
        return _choice_misfit(step.default, step)
    if not isinstance(step.default, list) or not step.default:
        return "it must be a list of options"
    most = len(step.options) if step.multiple is True else step.multiple
    if step.options and len(step.default) > most:
        return f"at most {most} options"
    return next((reason for choice in step.default if (reason := _choice_misfit(choice, step))), None)


def _schema_misfit(schema: dict[str, Any], value: Any) -> str | None:
    try:
        return next((f"{path} {reason}".strip() for path, reason in problems_of(schema, value)), None)
    except BadSchema:
        return None  # reported at the schema


def _choice_misfit(value: Any, step: Hitl) -> str | None:
    if not isinstance(value, str):
        return "it must be text"
    options = step.options if isinstance(step.options, list) else []
    custom = step.ask == "clarification" if step.allow_custom is None else step.allow_custom
    if custom or not options or not all(is_literal(option.label) for option in options):
        return None
    accepted = {_folded(text) for option in options for text in (option.id, option.label)}
    ids = ", ".join(option.id for option in options)
    return None if _folded(value) in accepted else f"{value!r} is none of {ids}"


def _folded(text: str) -> str:
    return text.strip().casefold()
