"""JSON Schemas of authors: compile a schema, and list what in a value does not fit it.

Nothing is ever fetched, formats are asserted, and the same schema and value give the same problems in the
same order: workflows ask on replay.
"""

import json
import re
from collections.abc import Collection
from functools import lru_cache
from typing import NoReturn

import jsonschema_rs
from jsonschema_rs import ValidationError

from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.blueprint.schema_messages import TYPE_NAMES, Path, brief, cut, list_messages

MAX_PROBLEMS = 20
MAX_LEVELS = 200
"""The deepest value: the validator recurses on the machine's stack, and overrunning that ends the process."""
_MOST_PARTS = 10_000
"""Parts of a value up to which all its problems are looked for: a larger one is told its first."""
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
KEYWORDS = frozenset(
    """
    $schema $id $ref $anchor $dynamicRef $dynamicAnchor $recursiveRef $recursiveAnchor $vocabulary $comment $defs
    definitions id type enum const title description default examples deprecated readOnly writeOnly errorMessage
    allOf anyOf oneOf not if then else dependentSchemas dependentRequired dependencies
    properties patternProperties additionalProperties unevaluatedProperties propertyNames required
    minProperties maxProperties
    items prefixItems additionalItems unevaluatedItems contains minContains maxContains minItems maxItems uniqueItems
    minLength maxLength pattern format contentEncoding contentMediaType contentSchema
    minimum maximum exclusiveMinimum exclusiveMaximum multipleOf discriminator nullable example reduce
    """.split()  # noqa: SIM905 a list of 70 strings says no more
)
"""The words of JSON Schema in all its drafts, with those of OpenAPI and `reduce` of ours."""
_DATA = ("const", "enum", "default", "examples")
_BY_NAME = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies")
"""Keywords with schemas by name: such a name may be that of a keyword, too."""
_BACKTRACKS = 100_000
NOT_NULL: JSONObject = {"type": ["object", "array", "string", "number", "boolean"]}
"""Schema of a result that a person enters: anything but null, which is the content of a plain resume."""

Validator = jsonschema_rs.Validator


class BadSchema(ValueError):
    """A schema that cannot be used; `path` leads to the fault in it."""

    def __init__(self, path: Path, message: str) -> None:
        super().__init__(f"{shown_path(path)}: {message}" if path else message)
        self.path = path
        self.message = message


def validator(schema: JSONObject) -> Validator:
    """Return the compiled schema (Draft 2020-12 unless `$schema` says otherwise). Raises `BadSchema`.

    >>> validator({"required": "topic"})
    Traceback (most recent call last):
    holdfast.blueprint.jsonschemas.BadSchema: required: must be a list, not 'topic'
    """
    return _compile(json.dumps(schema))


def list_misfits(schema: JSONObject, value: JSON) -> list[tuple[str, str]]:
    """Return what does not fit as (path, message), at most `MAX_PROBLEMS`; empty when the value fits.

    >>> list_misfits({"properties": {"items": {"items": {"required": ["name"]}}}}, {"items": [{}]})
    [('items[0].name', 'is missing')]
    >>> list_misfits({"type": "object"}, "abc")
    [('', "must be an object, not 'abc'")]
    """
    parts = _parts_in(value)
    if parts is None:
        return [("", f"is nested deeper than {MAX_LEVELS} levels")]
    compiled = validator(schema)
    try:
        if compiled.is_valid(value):
            return []
        # `iter_errors` makes every error before it gives the first: 100,000 wrong items took 3 s, and a task has two.
        errors = list(compiled.iter_errors(value)) if parts <= _MOST_PARTS else [_first_error(schema, value)]
    except ValueError as error:
        return [("", f"is not a JSON value: {cut(str(error))}")]
    problems = {(shown_path(path), message) for error in errors for path, message in list_messages(error, schema)}
    return sorted(problems)[:MAX_PROBLEMS]


def misfit(schema: JSONObject, value: JSON) -> str | None:
    """Return all problems in one sentence, as `list_misfits` finds them, or None when the value fits.

    >>> misfit({"required": ["topic", "n"]}, {}), misfit({"type": "integer"}, None)
    ('n is missing; topic is missing', 'the value must be a whole number, not null')
    """
    return "; ".join(f"{path or 'the value'} {message}" for path, message in list_misfits(schema, value)) or None


def shown_path(path: Path) -> str:
    """Return a path as text, as problems show it.

    >>> shown_path(("items", 0, "first name", "x"))
    'items[0]["first name"].x'
    """
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        elif re.fullmatch(r"[\w$-]+", part):
            text += f".{part}" if text else part
        else:
            text += f"[{json.dumps(cut(part), ensure_ascii=False)}]"
    return text


def _first_error(schema: JSONObject, value: JSON) -> ValidationError:
    """Return an error of a large value that does not fit."""
    text = json.dumps(schema)
    # Those of an `anyOf` hold all errors of each form: with 50,000 items they took 1.3 s, and without 0.03 s.
    for compiled in (_without_forms(text), _compile(text)):
        try:
            if compiled is not None:
                compiled.validate(value)
        except ValidationError as error:
            return error
    raise AssertionError("a value that does not fit has an error")


@lru_cache(maxsize=64)
def _without_forms(text: str) -> Validator | None:
    """Return the schema with each `anyOf` and `oneOf` negated twice, so that its error holds no others.

    None where that would mean something else: what is evaluated in a negation does not count for `unevaluated…`, and
    references may lead into the forms.
    """
    if "unevaluated" in text:
        return None
    try:
        return _compile(json.dumps(_negated_twice(json.loads(text))))
    except (BadSchema, ValueError):
        return None


def _negated_twice(schema: JSON) -> JSON:
    if isinstance(schema, list):
        return [_negated_twice(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    whole = {key: _part_negated_twice(key, part) for key, part in schema.items()}
    forms = [{"not": {"not": {key: whole.pop(key)}}} for key in ("anyOf", "oneOf") if key in whole]
    return {**whole, "allOf": [*whole.get("allOf", []), *forms]} if forms else whole


def _part_negated_twice(key: str, part: JSON) -> JSON:
    if key in _BY_NAME and isinstance(part, dict):
        return {name: _negated_twice(schema) for name, schema in part.items()}
    return part if key in _DATA else _negated_twice(part)


@lru_cache(maxsize=512)
def _compile(text: str) -> Validator:
    schema = json.loads(text)
    _check_references(schema)
    try:
        return jsonschema_rs.validator_for(
            schema,
            validate_formats=True,
            retriever=_refuse,  # without it `http:` and `file:` references are fetched while validating
            pattern_options=jsonschema_rs.FancyRegexOptions(backtrack_limit=_BACKTRACKS),
        )
    except ValidationError as error:
        raise BadSchema(tuple(error.instance_path), _schema_message(error)) from None
    except ValueError as error:
        raise BadSchema((), cut(str(error))) from None


def _schema_message(error: ValidationError) -> str:
    """Return what is wrong with a schema, from the meta-schema or from the compiler."""
    if error.kind.name == "anyOf" and error.instance_path[-1:] == ["type"]:
        return f"must be one of {', '.join(TYPE_NAMES)}, not {brief(error.instance)}"
    return cut(error.message.split("\n")[0]) if not error.schema_path else list_messages(error, {})[0][1]


def _refuse(uri: str) -> NoReturn:
    raise ValueError(f"nothing is fetched: {uri}")


def _check_references(schema: JSON) -> None:
    waiting: list[tuple[Path, JSON]] = [((), schema)]
    while waiting:
        path, part = waiting.pop()
        if isinstance(part, list):
            waiting += [((*path, index), item) for index, item in enumerate(part)]
        elif isinstance(part, dict):
            for key, value in part.items():
                if key in _REFERENCES and isinstance(value, str) and not value.startswith("#"):
                    raise BadSchema((*path, key), f"a reference must start with '#', not {brief(value)}")
                # A `$ref` in data is a word like any other.
                if key not in _DATA:
                    waiting.append(((*path, key), value))


def _parts_in(value: JSON) -> int | None:
    """Return how many values there are inside a value; None if it is nested deeper than `MAX_LEVELS`."""
    level, count = [value], 0
    for _ in range(MAX_LEVELS):
        inside = [_inside(whole) for whole in level if isinstance(whole, dict | list | tuple)]
        count += sum(len(parts) for parts in inside)
        level = [part for parts in inside for part in parts if isinstance(part, (dict, list, tuple))]
        if not level:
            return count
    return None


def _inside(value: JSON) -> Collection[JSON]:
    return value.values() if isinstance(value, dict) else value
