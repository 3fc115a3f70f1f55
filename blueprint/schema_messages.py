"""The messages of JSON Schema: what does not fit, in words for people, or in those that the author of a schema wrote.

`jsonschemas` makes them of the validator's errors; forms take the author's words for what is not a value yet.
"""

import json
import re
from collections.abc import Iterator

from jsonschema_rs import ValidationError, ValidationErrorKind

from holdfast.blueprint.amounts import say_count
from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.blueprint.schema_references import find_reference

Path = tuple[str | int, ...]
_SHOWN = 60
_LISTED = 10
TYPE_NAMES = {
    "object": "an object",
    "array": "a list",
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "null": "null",
}

PATTERNS_IN_WORDS = {
    r"^[A-Za-z][A-Za-z0-9_-]{0,59}$": "a name (a letter, then letters, digits, - and _; at most 60 characters)",
    r"^ *[A-Za-z]\w*( *, *[A-Za-z]\w*)* *$": "names with commas between them, such as: audience, length, tone",
    r"^(never|([1-9][0-9]{0,2}[smhdw]){1,3})$": "never, or a time such as 30m, 2d or 1h30m",
    r"^\S+$": "a text without spaces",
}
"""What the patterns of the wizard's questions allow, for people who do not read regular expressions."""
_FORMATS = {
    "email": "an e-mail address, such as ana@example.com",
    "date": "a date, such as 2026-11-30",
    "time": "a time, such as 14:30:00Z",
    "date-time": "a date and a time, such as 2026-11-30T14:30:00Z",
    "duration": "a duration, such as P3D or PT2H",
    "uri": "a web address, such as https://example.com",
    "hostname": "the name of a computer, such as www.example.com",
    "ipv4": "an address such as 192.0.2.1",
    "ipv6": "an address such as 2001:db8::1",
    "uuid": "an id such as 123e4567-e89b-12d3-a456-426614174000",
}
_CLASSES = {
    r"\d": ("digit", "digits"),
    "[0-9]": ("digit", "digits"),
    "[A-Z]": ("capital letter", "capital letters"),
    "[a-z]": ("small letter", "small letters"),
    "[A-Za-z]": ("letter", "letters"),
    "[a-zA-Z]": ("letter", "letters"),
    "[A-Za-z0-9]": ("letter or digit", "letters or digits"),
    "[a-zA-Z0-9]": ("letter or digit", "letters or digits"),
    "[A-Z0-9]": ("capital letter or digit", "capital letters or digits"),
    "[a-z0-9]": ("small letter or digit", "small letters or digits"),
}
"""Classes of characters in patterns that have a name."""
_PART = re.compile(r"(?P<class>\\d|\[[^\]]*\])(?P<times>\{\d+(,\d*)?\}|\+)?|(?P<plain>[ \w:/-]|\\[./-])")
_SIDEWAYS = ("allOf", "anyOf", "oneOf", "$ref", "if", "then", "else")
"""Keywords whose schemas are about the same value."""


def list_messages(error: ValidationError, schema: JSONObject) -> list[tuple[Path, str]]:
    """Return a validation error as (path, message); missing and unexpected keys each have a path of their own.

    Args:
        error: What the validator found.
        schema: The whole schema, whose author may have written the words: see `own_words`.
    """
    path = tuple(error.instance_path)
    match error.kind:
        case ValidationErrorKind.Required(property=key):
            return [((*path, str(key)), _own(error, schema, str(key)) or "is missing")]
        case ValidationErrorKind.AdditionalProperties(unexpected=keys):
            return [((*path, key), "is not an allowed key") for key in keys]
        case ValidationErrorKind.UnevaluatedProperties(unexpected=keys):
            return [((*path, key), "is not an allowed key") for key in keys]
        case ValidationErrorKind.PropertyNames(error=inner):
            return [((*path, str(inner.instance)), f"as a key {list_messages(inner, {})[0][1]}")]
    return [(path, _own(error, schema) or _message(error.kind, error.instance))]


def own_words(schema: JSONObject, keyword: str, key: str = "") -> str | None:
    """Return what the author of a schema wants to be said when a value does not fit it; None if nothing.

    Args:
        schema: The schema, with `errorMessage` (a text, or texts by keyword) or `x-error` (a text).
        keyword: The keyword that the value does not fit.
        key: Of `required`, the key that is missing: `errorMessage: {required: {key: text}}`.

    >>> own_words({"errorMessage": {"required": {"zip": "Where to?"}}}, "required", "zip")
    'Where to?'
    >>> own_words({"x-error": "Five digits, please."}, "pattern"), own_words({"x-error": "It must fit."}, "required")
    ('Five digits, please.', None)
    """
    match schema.get("errorMessage"):
        case str() as text if keyword != "required":
            return text
        case {**texts}:
            by_key = texts.get(keyword)
            wanted = by_key.get(key) if isinstance(by_key, dict) else by_key
            if isinstance(wanted, str):
                return wanted
    always = schema.get("x-error")
    return always if isinstance(always, str) and keyword != "required" else None


def _own(error: ValidationError, schema: JSONObject, key: str = "") -> str | None:
    """Return the author's words for an error, of the nearest schema around it that is about the same value."""
    steps = list(error.evaluation_path)
    keyword = str(steps.pop()) if steps else ""
    around = list(_walk(schema, steps))
    if len(around) != len(steps) + 1:
        return None
    while True:
        part = around.pop()
        if isinstance(part, dict) and (text := own_words(part, keyword, key)):
            return text
        while steps and isinstance(steps[-1], int):
            steps.pop()
            around.pop()
        if not steps or steps.pop() not in _SIDEWAYS:
            return None


def _walk(schema: JSONObject, steps: list[str | int]) -> Iterator[JSON]:
    """Yield the parts of a schema on an evaluation path, references followed; it ends where one is unknown."""
    part: JSON = schema
    yield part
    for step in steps:
        if step == "$ref":
            part = find_reference(str(part["$ref"]), schema)
        elif isinstance(part, dict):
            part = part.get(str(step))
        elif isinstance(part, list) and isinstance(step, int) and step < len(part):
            part = part[step]
        else:
            return
        yield part


def words_for_pattern(pattern: str) -> str | None:
    """Return what a pattern allows, for people who do not read regular expressions; None if it is not that simple.

    >>> words_for_pattern("^[0-9]{5}$"), words_for_pattern("^[A-Z]{2}-[0-9]+$"), words_for_pattern("^(a|b)$")
    ('5 digits', "2 capital letters, '-', digits", None)
    """
    if pattern in PATTERNS_IN_WORDS or not (pattern.startswith("^") and pattern.endswith("$")):
        return PATTERNS_IN_WORDS.get(pattern)
    rest, words, plain = pattern[1:-1], [], ""
    while rest:
        part = _PART.match(rest)
        if part is None or (part["class"] and part["class"] not in _CLASSES):
            return None
        rest = rest[part.end() :]
        if part["plain"]:
            plain += part["plain"].removeprefix("\\")
        else:
            words += [f"'{plain}'"] if plain else []
            plain = ""
            words.append(_amount(part["times"] or "", *_CLASSES[part["class"]]))
    return ", ".join([*words, *([f"'{plain}'"] if plain else [])]) or None


def _amount(times: str, one: str, many: str) -> str:
    """Return how many characters of a class a pattern wants."""
    least, comma, most = times.strip("{}").partition(",")
    if times in ("", "+"):
        return many if times else f"1 {one}"
    if comma:
        return f"{least} to {most} {many}" if most else f"at least {least} {many}"
    return f"{least} {one if least == '1' else many}"


def _message(kind: ValidationErrorKind, value: JSON) -> str:
    match kind:
        case ValidationErrorKind.Type(types=types):
            return f"must be {' or '.join(TYPE_NAMES.get(name, name) for name in sorted(types))}, not {brief(value)}"
        case ValidationErrorKind.Enum(options=options):
            return f"must be one of {_list_brief(options)}, not {brief(value)}"
        case ValidationErrorKind.Constant(expected_value=expected):
            return f"must be {brief(expected)}, not {brief(value)}"
        case ValidationErrorKind.Format(format=name):
            return f"must be {_FORMATS.get(name, f'of the format {name}')}, not {brief(value)}"
        case ValidationErrorKind.Pattern(pattern=pattern):
            words = words_for_pattern(pattern)
            form = f"be {words}" if words else f"have the form {brief(pattern)}"
            return f"must {form}, not {brief(value)}"
        case ValidationErrorKind.AnyOf() | ValidationErrorKind.OneOfNotValid():
            return "fits none of the allowed forms"
        case ValidationErrorKind.OneOfMultipleValid():
            return "fits more than one of the forms, but must fit exactly one"
        case ValidationErrorKind.Contains():
            return "has no item of the required kind"
        case ValidationErrorKind.FalseSchema():
            return "is not allowed here"
        case ValidationErrorKind.Not(schema={"not": {"anyOf": _}}):
            return "fits none of the allowed forms"
        case ValidationErrorKind.Not(schema={"not": {"oneOf": _}}):
            return "must fit exactly one of the allowed forms"
        case ValidationErrorKind.Not():
            return "has a form that is not allowed"
        case ValidationErrorKind.UniqueItems():
            return "must not contain duplicates"
        case ValidationErrorKind.MultipleOf(multiple_of=factor):
            return f"must be a multiple of {factor}, not {brief(value)}"
        case ValidationErrorKind.BacktrackLimitExceeded() | ValidationErrorKind.RegexEngineFailure():
            return "cannot be matched: the pattern takes too many steps"
    return _describe_bound(kind, value) or f"does not fit: {kind.name}"


def _describe_bound(kind: ValidationErrorKind, value: JSON) -> str | None:
    match kind:
        case ValidationErrorKind.Minimum(limit=limit):
            return f"must be at least {limit}, not {brief(value)}"
        case ValidationErrorKind.Maximum(limit=limit):
            return f"must be at most {limit}, not {brief(value)}"
        case ValidationErrorKind.ExclusiveMinimum(limit=limit):
            return f"must be more than {limit}, not {brief(value)}"
        case ValidationErrorKind.ExclusiveMaximum(limit=limit):
            return f"must be less than {limit}, not {brief(value)}"
        case ValidationErrorKind.MinLength() if value == "":
            return "must not be empty"
        case ValidationErrorKind.MinLength(limit=limit):
            return f"must have at least {say_count(limit, 'character')}, not {len(value):,}"
        case ValidationErrorKind.MaxLength(limit=limit):
            return f"must have at most {say_count(limit, 'character')}, not {len(value):,}"
        case ValidationErrorKind.MinItems(limit=limit):
            return f"must have at least {say_count(limit, 'item')}, not {len(value):,}"
        case ValidationErrorKind.MaxItems(limit=limit):
            return f"must have at most {say_count(limit, 'item')}, not {len(value):,}"
        case ValidationErrorKind.MinProperties(limit=limit):
            return f"must have at least {say_count(limit, 'key')}, not {len(value):,}"
        case ValidationErrorKind.MaxProperties(limit=limit):
            return f"must have at most {say_count(limit, 'key')}, not {len(value):,}"
    return None


def _list_brief(options: list[JSON]) -> str:
    more = f" and {len(options) - _LISTED} more" if len(options) > _LISTED else ""
    return ", ".join(brief(option) for option in options[:_LISTED]) + more


def brief(value: JSON) -> str:
    match value:
        case str():
            return repr(cut(value))
        case dict() | list():
            return TYPE_NAMES["object"] if isinstance(value, dict) else TYPE_NAMES["array"]
        case None | bool():
            return json.dumps(value)
    return cut(str(value))


def cut(text: str) -> str:
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
