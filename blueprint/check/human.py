"""Rules of `hitl`: what a person is asked can be answered, and a deadline says what happens then."""

from __future__ import annotations

from typing import Any

from blueprint.check.findings import Findings, is_literal
from blueprint.check.people import check_people
from blueprint.grammar import Hitl, Option
from blueprint.jsonschemas import BadSchema, problems_of


def check_hitl(step: Hitl, path: str, findings: Findings) -> None:
    if isinstance(step.message, str) and not step.message.strip():
        told = "the message is empty: a person must see what is asked"
        findings.add(f"{path}.message", "bad_value", told, "leave it out to show the previous output")
    if isinstance(step.options, str) and is_literal(step.options):
        hint = 'write a list, or a template of one: "{{ … }}"'
        findings.add(f"{path}.options", "bad_value", f"options must be a list, not {step.options[:40]!r}", hint)
    if step.ask in ("permission", "review", "hold"):
        for key, value in (("options", step.options), ("multiple", step.multiple)):
            if value:
                told = f"{key!r} belongs to questions with a choice; what a {step.ask} takes is fixed"
                findings.add_key(f"{path}.{key}", "conflict", told, "remove it, or write ask: decision")
    if step.options and step.input_schema is not None:
        told = "'options' and 'input_schema' both describe the answer"
        findings.add_key(f"{path}.input_schema", "conflict", told, "keep one of them")
    if not isinstance(step.multiple, bool) and step.multiple < 1:
        findings.add(f"{path}.multiple", "bad_value", f"'multiple' must be at least 1, not {step.multiple}")
    if not isinstance(step.options, str):
        _distinct(step.options, path, findings)
    _deadline(step, path, findings)
    check_people(step, path, findings)
    if step.default is not None and is_literal(step.default) and (why := _misfit(step)):
        findings.add(f"{path}.default", "bad_value", f"the default is no answer to the question: {why}")


def _deadline(step: Hitl, path: str, findings: Findings) -> None:
    if step.default is not None and step.timeout is None:
        told = "a default needs a deadline: without 'timeout' it is never used"
        findings.add_key(f"{path}.default", "conflict", told, "add timeout: 2d, or remove the default")
    elif step.on_timeout not in (None, "escalate") and step.timeout is None:
        told = "'on_timeout' needs a deadline: without 'timeout' it never happens"
        findings.add_key(f"{path}.on_timeout", "conflict", told, "add timeout: 2d, or remove it")
    if step.on_timeout == "default" and step.default is None:
        told = "'on_timeout: default' needs a 'default'"
        findings.add(f"{path}.on_timeout", "missing_key", told, "add the default, or write on_timeout: skip")


def _distinct(options: list[Option], path: str, findings: Findings) -> None:
    """An answer may give an id or a label, in any case: each must mean one option."""
    taken: dict[str, int] = {}
    for index, option in enumerate(options):
        for key, text in (("id", option.id), ("label", option.label)):
            if text and taken.setdefault(_folded(text), index) != index:
                where = f"{path}.options[{index}].{key}"
                hint = f"the same as option {taken[_folded(text)] + 1}"
                findings.add(where, "duplicate_name", f"the option {text!r} is there twice", hint)
                break


def _misfit(step: Hitl) -> str | None:
    """Why the default would be refused as an answer."""
    match step.ask, step.default:
        case ("permission", {"granted": False}) | ("review", {"verdict": "rejected"}):
            return None
        case "permission", _:
            return "silence is no yes: it must be {granted: false, reason: …}"
        case "review", _:
            return "silence is no yes: it must be {verdict: rejected, reason: …}"
    if step.input_schema is not None:
        return _schema_misfit(step.input_schema, step.default)
    if isinstance(step.options, str):
        return None
    if not step.multiple or step.multiple == 1 and step.multiple is not True:
        return _one_misfit(step.default, step)
    if not isinstance(step.default, list) or not step.default:
        return "it must be a list of options"
    most = len(step.options) if step.multiple is True else step.multiple
    if step.options and len(step.default) > most:
        return f"at most {most} options"
    return next((why for one in step.default if (why := _one_misfit(one, step))), None)


def _schema_misfit(schema: dict[str, Any], value: Any) -> str | None:
    try:
        return next((f"{where} {why}".strip() for where, why in problems_of(schema, value)), None)
    except BadSchema:
        return None  # told at the schema


def _one_misfit(value: Any, step: Hitl) -> str | None:
    if not isinstance(value, str):
        return "it must be text"
    options = step.options if isinstance(step.options, list) else []
    custom = step.ask == "clarification" if step.allow_custom is None else step.allow_custom
    if custom or not options or not all(is_literal(option.label) for option in options):
        return None
    known = {_folded(text) for option in options for text in (option.id, option.label)}
    ids = ", ".join(option.id for option in options)
    return None if _folded(value) in known else f"{value!r} is none of {ids}"


def _folded(text: str) -> str:
    return text.strip().casefold()
