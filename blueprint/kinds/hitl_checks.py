"""Rules of `hitl`: the question can be answered, a deadline has a consequence, its people can be reached."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from holdfast.blueprint.expressions.values import write_text
from holdfast.blueprint.findings import Findings, is_literal
from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.blueprint.jsonschemas import BadSchema
from holdfast.blueprint.kinds.attachments import check_contents
from holdfast.blueprint.kinds.hitl_fields import HitlFields
from holdfast.blueprint.kinds.people_lists import check_people
from holdfast.blueprint.kinds.question_times import find_time_problems
from holdfast.blueprint.parts import Option
from holdfast.blueprint.people import USER, canonical_name, say_too_few
from holdfast.blueprint.questions import Asked, InvalidAnswer, KindDefinition
from holdfast.blueprint.questions.options import find_repeated

_LADDER = "escalate: [{after: 2d, assignees: [group:heads]}]"
_ANNOTATIONS = ("title", "description")
_OF_HIDDEN = {
    "type",
    "secret",
    "writeOnly",
    "format",
    "placeholder",
    "x-placeholder",
    "errorMessage",
    "x-error",
    "pattern",
    "minLength",
    "maxLength",
    *_ANNOTATIONS,
}
_NEVER_SECRET = {
    "options": "a choice among options is not secret",
    "multiple": "a choice among options is not secret",
    "default": "a value in the blueprint is not secret: it would be in every history",
    "quorum": "nobody can see whether two secrets are the same",
    "verify": "no agent may see a secret",
}


def check_hitl(step: HitlFields, path: str, findings: Findings) -> None:
    if isinstance(step.message, str) and not step.message.strip():
        message = "the message is empty: a person must see what is asked"
        findings.add(f"{path}.message", "bad_value", message, "leave it out to show the previous output")
    question = step.question
    if question.hidden:
        _secret(step, path, findings)
    elif not question.takes_options:
        _check_without_options(step, path, findings)
    if not question.permits:
        _check_unweighed(step, path, findings)
    _check_options(step, path, findings)
    check_contents(step.attachments, path, findings)
    _deadline(step, path, findings)
    _check_people(step, path, findings)
    if step.default is None or question.hidden or question.is_pause:
        return
    if is_literal(step.default) and (reason := _misfit(step)):
        findings.add(f"{path}.default", "bad_value", f"the default is not a valid answer: {reason}")


# Checks of the question


def _check_options(step: HitlFields, path: str, findings: Findings) -> None:
    if not isinstance(step.options, str):
        _distinct(step.options, path, findings)
    elif is_literal(step.options):
        hint = 'write a list, or a template of one: "{{ … }}"'
        findings.add(f"{path}.options", "bad_value", f"options must be a list, not {step.options[:40]!r}", hint)
    if step.question.offers_nothing:
        hint = "write options: [yes, no], or ask: input for any text, or a form"
        message = f"a {step.question.shown_kind} needs 'options' to choose from"
        findings.add(f"{path}.options", "missing_key", message, hint)
    if step.options and step.input_schema is not None and not step.question.hidden:
        message = "'options' and 'input_schema' both describe the answer"
        findings.add_key(f"{path}.input_schema", "conflict", message, "keep one of them")
    if not isinstance(step.multiple, bool) and step.multiple < 1:
        findings.add(f"{path}.multiple", "bad_value", f"'multiple' must be at least 1, not {step.multiple}")


def _check_without_options(step: HitlFields, path: str, findings: Findings) -> None:
    form = step.input_schema if isinstance(step.ask, KindDefinition) else None
    for key, value in (("options", step.options), ("multiple", step.multiple), ("input_schema", form)):
        if value:
            message = f"{key!r} belongs to questions with a choice; what a {step.question.shown_kind} takes is fixed"
            findings.add_key(f"{path}.{key}", "conflict", message, "remove it, or write ask: decision")


def _check_unweighed(step: HitlFields, path: str, findings: Findings) -> None:
    for key in ("risk", "action", "details"):
        if _differs(step, key):
            hint = "remove it, or write ask: permission"
            if step.options:
                hint = "an option has a risk of its own; or write ask: permission"
            findings.add_key(f"{path}.{key}", "conflict", f"{key!r} belongs to ask: permission", hint)


def _differs(step: HitlFields, key: str) -> bool:
    """Return whether a field has another value than its default."""
    return bool(getattr(step, key) != type(step).model_fields[key].get_default(call_default_factory=True))


def _secret(step: HitlFields, path: str, findings: Findings) -> None:
    for key, reason in _NEVER_SECRET.items():
        if _differs(step, key):
            findings.add_key(
                f"{path}.{key}", "conflict", f"{key!r} cannot be combined with ask: secret: {reason}", "remove it"
            )
    if step.on_timeout == "default":
        message = "'on_timeout: default' cannot be combined with ask: secret: a secret has no default"
        findings.add(f"{path}.on_timeout", "conflict", message, "write on_timeout: skip, or remove it")
    if step.answer_schema is not None:
        place = "ask.answer" if isinstance(step.ask, KindDefinition) else "input_schema"
        _names(step.answer_schema, f"{path}.{place}", findings)


def _names(schema: JSONObject, path: str, findings: Findings) -> None:
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
            findings.add(
                f"{path}.required", "bad_value", f"{name!r} is required, but is not among the properties", hint
            )
    for name, field in properties.items():
        _check_hidden_field(field, f"{path}.properties.{name}", findings)
    if all(isinstance(field, dict) and field.get("secret") is False for field in properties.values()):
        findings.add(
            path, "bad_value", "no field of ask: secret is one", "write ask: input, or leave secret: false out"
        )


def _check_hidden_field(field: object, path: str, findings: Findings) -> None:
    """Check a field of a secret: a plain one says `secret: false`, of another only its form can be checked."""
    match field:
        case {"secret": False}:
            return
        case {"secret": other} if other is not True:
            findings.add(f"{path}.secret", "bad_value", f"'secret' must be true or false, not {write_text(other)[:40]}")
        case {"type": "string", **more} if not more.keys() - _OF_HIDDEN:
            return
        case _:
            can = "title, description, placeholder, pattern, minLength, maxLength, errorMessage"
            message = f"{path.rpartition('.')[2]!r} must be {{type: string}}, with at most {can}"
            findings.add(path, "bad_value", message, "a field that may be seen says secret: false, and any schema")


def _deadline(step: HitlFields, path: str, findings: Findings) -> None:
    has_no_deadline = step.timeout is None and not findings.is_unread(f"{path}.timeout")
    if step.default is not None and has_no_deadline:
        message = "a default needs a deadline: without 'timeout' it is never used"
        findings.add_key(f"{path}.default", "conflict", message, "add timeout: 2d, or remove the default")
    elif step.on_timeout not in (None, "escalate") and has_no_deadline:
        message = "'on_timeout' needs a deadline: without 'timeout' it never happens"
        findings.add_key(f"{path}.on_timeout", "conflict", message, "add timeout: 2d, or remove it")
    if step.on_timeout == "default" and step.default is None:
        message = "'on_timeout: default' needs a 'default'"
        findings.add(f"{path}.on_timeout", "missing_key", message, "add the default, or write on_timeout: skip")


def _distinct(options: list[Option], path: str, findings: Findings) -> None:
    """Check that each id and label means one option."""
    for index, key, text, first in find_repeated(options):
        option_path = f"{path}.options[{index}].{key}"
        findings.add(
            option_path, "duplicate_name", f"the option {text!r} appears twice", f"the same as option {first + 1}"
        )


def _misfit(step: HitlFields) -> str | None:
    """Return why the default would be refused as an answer, or None."""
    question = step.question
    if question.yes_or_no:
        write = ", ".join(f"{key}: {write_text(value)}" for key, value in question.no("…").items())
        return None if _refuses(question, step.default) else f"it may not approve: write {{{write}}}"
    if isinstance(step.options, str) or not all(is_literal(option.label) for option in step.options):
        return None  # what is offered is known only in a run
    try:
        question.accept(step.default)
    except InvalidAnswer as error:
        return str(error)
    except BadSchema:
        return None  # reported at the schema
    return None


def _refuses(question: Asked, default: JSON) -> bool:
    try:
        return question.says_no(question.accept(default))
    except InvalidAnswer:
        return False


# Checks of its people


def _check_people(step: HitlFields, path: str, findings: Findings) -> None:
    if step.question.is_pause:
        _check_hold(step, path, findings)
        return
    for key, names in _lists(step):
        is_given = key in step.model_fields_set or key not in HitlFields.model_fields
        check_people(names, key, f"{path}.{key}", findings, is_given=is_given)
    _quorum(step, path, findings)
    _ladder(step, path, findings)
    for problem in find_time_problems(step.known_times, has_default=step.default is not None):
        if problem.key == "default":
            findings.add_key(f"{path}.default", "conflict", problem.message, problem.hint)
        else:
            code = "conflict" if problem.key == "timeout" else "bad_value"
            findings.add(f"{path}.{problem.key}", code, problem.message, problem.hint)


def _check_hold(step: HitlFields, path: str, findings: Findings) -> None:
    reason = "a hold asks no one"
    for key in (
        "assignees",
        "not_by",
        "quorum",
        "proof",
        "remind_every",
        "escalate",
        "notify",
        "verify",
        "attachments",
        "on_decline",
    ):
        if _differs(step, key):
            findings.add_key(
                f"{path}.{key}", "conflict", f"{key!r} cannot be combined with ask: hold: {reason}", "remove it"
            )
    if step.on_timeout == "escalate":
        findings.add(
            f"{path}.on_timeout", "conflict", f"'on_timeout: escalate' cannot be combined with ask: hold: {reason}"
        )


def _lists(step: HitlFields) -> Iterator[tuple[str, Sequence[str] | str]]:
    yield "assignees", step.assignees
    yield "not_by", step.not_by
    for index, rung in enumerate(step.escalate):
        yield f"escalate[{index}].assignees", rung.assignees


def _quorum(step: HitlFields, path: str, findings: Findings) -> None:
    """Check that enough people may answer; only possible if all are plain users."""
    if not step.assignees or not all(_are_users(names) for key, names in _lists(step) if key != "not_by"):
        return
    named = {canonical_name(name) for key, names in _lists(step) if key != "not_by" for name in names}
    allowed = named - (set() if isinstance(step.not_by, str) else set(map(canonical_name, step.not_by)))
    if isinstance(step.quorum, int) and len(allowed) < step.quorum:
        key = "quorum" if step.quorum > 1 else "not_by"
        hint = "name more people, or lower the quorum"
        findings.add(f"{path}.{key}", "bad_value", say_too_few(step.quorum, allowed), hint)


def _are_users(names: Sequence[str] | str) -> bool:
    return not isinstance(names, str) and all(is_literal(name) and name.startswith(USER) for name in names)


def _ladder(step: HitlFields, path: str, findings: Findings) -> None:
    climbs = step.on_timeout == "escalate"
    if climbs and not step.escalate and not findings.is_repaired_within(f"{path}.escalate"):
        findings.add(f"{path}.on_timeout", "missing_key", "'on_timeout: escalate' needs 'escalate'", f"add {_LADDER}")
    if step.escalate and not climbs:
        hint = "write on_timeout: escalate, or remove 'escalate'"
        findings.add_key(f"{path}.escalate", "conflict", "'escalate' needs on_timeout: escalate", hint)
