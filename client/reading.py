"""Parse typed and written text: inputs, answers, files of answers. Commands and `prompts` use it.

What text means depends on the question or on the schema: `42` is text where a string is wanted, else a number.
"""

from __future__ import annotations

import getpass
import json
import os
import sys
from pathlib import Path
from typing import NoReturn

from holdfast.blueprint.errors import BlueprintError
from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.blueprint.people import canonical_name
from holdfast.blueprint.questions import Asked, InvalidAnswer
from holdfast.protocol.answers import Refusal
from holdfast.protocol.questions import Question
from holdfast.protocol.size_limits import MOST_BYTES, MOST_LEVELS, MOST_VALUES, SizeLimit, check_value


class BadUsage(ValueError):
    """A command line or text that cannot be used; the message says what to type."""


def parse_value(text: str, schema: JSONObject | None) -> JSON:
    """Return the text itself where the schema wants a string; else its value as JSON, or the text if it is none.

    >>> [parse_value("42", {"type": "string"}), *(parse_value(text, None) for text in ("42", "a: b", "NaN"))]
    ['42', 42, 'a: b', 'NaN']
    """
    if schema is not None and says_string(schema):
        return text
    try:
        return from_json(text)
    except BadUsage:
        raise
    except ValueError:
        return text


def from_json(text: str) -> JSON:
    """Parse JSON as the standard defines it, without `NaN` and the like.

    Raises:
        ValueError: It is not JSON.
        BadUsage: It is JSON that cannot be kept as it is: a number out of range, half a surrogate pair, a repeated
            key. The message has the path.
    """
    try:
        value = json.loads(text, parse_constant=_no_json, object_pairs_hook=_object)
        check_value(value, WHATEVER_SIZE)
    except Refusal as refusal:
        raise BadUsage(refusal.message) from None
    except RecursionError:
        raise BadUsage("the value is nested too deep") from None
    return value


WHATEVER_SIZE = SizeLimit(bytes=MOST_BYTES, values=MOST_VALUES, depth=MOST_LEVELS)
"""The largest size there is: the limit of a run is checked where the value is sent."""


def _object(pairs: list[tuple[str, JSON]]) -> JSONObject:
    value = dict(pairs)
    for key, _ in pairs if len(value) < len(pairs) else ():
        if sum(other == key for other, _ in pairs) > 1:
            raise BadUsage(f"the key {key!r} appears twice in one object")
    return value


def _no_json(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def says_string(schema: JSONObject) -> bool:
    """Return whether a schema takes only text.

    >>> says_string({"enum": ["1", "2"]}), says_string({"type": ["string", "null"]})
    (True, False)
    """
    if "type" in schema:
        return bool(schema["type"] == "string")
    values = schema.get("enum", [schema["const"]] if "const" in schema else [])
    return bool(values) and all(isinstance(value, str) for value in values)


def parse_content(text: str, question: Question | None) -> JSON:
    """Return the content of a typed answer; `a,b` is a list where several options may be chosen.

    Raises as `in_short`.
    """
    if question is None:
        return parse_value(text, None)
    asked = question.asked
    if asked.hidden:
        return _parse_secret(text, asked)
    if (short := in_short(text, question)) is not None:
        return short
    if not asked.needs_data and not text.strip():
        return None
    if asked.most_choices == 1:
        if asked.value_schema != question.requestedSchema:
            return _parse_part(text, asked)
        if text.strip() in list_words(question.requestedSchema):
            return {question.requestedSchema["required"][0]: text.strip()}
        return text if question.options else parse_value(text, question.requestedSchema)
    try:
        listed = from_json(text)
    except ValueError:
        listed = None
    if isinstance(listed, list):
        return listed
    names = {name for option in question.options for name in (option.id, option.label)}
    return [text] if text in names else [part.strip() for part in text.split(",")]


def list_words(schema: JSONObject) -> list[str]:
    """Return the words that answer a form: those of its only required field, if it is an enum of words; else [].

    >>> list_words({"type": "object", "required": ["action"], "properties": {"action": {"enum": ["retry", "abort"]}}})
    ['retry', 'abort']
    """
    match schema:
        case {"type": "object", "required": [str(name)], "properties": dict(fields)} if isinstance(
            fields.get(name), dict
        ):
            words = fields[name].get("enum", [])
            return list(words) if all(isinstance(word, str) for word in words) else []
    return []


def in_short(text: str, question: Question) -> JSON:
    """Return the content that short words or an object of corrections stand for; None if they stand for none.

    Raises `Refusal` for words that the question's kind cannot read.
    """
    try:
        changes = from_json(text)
    except ValueError:
        changes = None
    try:
        short = question.asked.read(text)
    except InvalidAnswer as error:
        if not isinstance(changes, dict):
            raise _refuse(question, error) from None
        short = None
    if short is not None:
        return short
    return question.asked.read_corrections(changes) if isinstance(changes, dict) else None


def complete(content: JSON, question: Question) -> JSON:
    """Return the content that a text or corrections stand for, else the content itself. Raises as `in_short`."""
    try:
        return question.asked.read_short(content)
    except InvalidAnswer as error:
        raise _refuse(question, error) from None


def _refuse(question: Question, error: InvalidAnswer) -> Refusal:
    return Refusal("invalid_answer", f"question {question.id}: {error}", list(error.problems), question.id)


def yes_or_no(question: Question | None, yes: bool, reason: str = "") -> JSON:
    """Return the content that says yes or no to a question that can be answered so. Raises `BadUsage`."""
    if question is not None:
        content = question.asked.yes() if yes else question.asked.no(reason)
        if content is not None:
            return content
    flag = "--yes" if yes else "--no"
    raise BadUsage(f"{flag} answers permissions, reviews, booleans, and options of which one says so; give a VALUE")


def _parse_secret(text: str, asked: Asked) -> JSON:
    """Return the content of a typed secret: literal text, or for a form a JSON object or the text of its only field."""
    if not asked.fields:
        return text
    try:
        value = from_json(text)
    except ValueError:
        value = text
    names = list(asked.fields)
    return value if isinstance(value, dict) or len(names) > 1 else {names[0]: text}


def _parse_part(text: str, asked: Asked) -> JSON:
    """Return the content of a value that is typed where an object may hold it with others."""
    try:
        value = from_json(text)
    except ValueError:
        value = None
    return value if isinstance(value, dict) else parse_value(text, asked.value_schema)


def parse_input(text: str | None, schema: JSONObject | None) -> JSON:
    """Return the value of `--input`: `@FILE` is read, as JSON or YAML by its suffix; else see `parse_value`."""
    if text is None:
        return None
    return value_of_file(Path(text[1:])) if text.startswith("@") else _typed_input(text, schema)


def value_of_file(path: Path) -> JSON:
    """Return the value of a JSON or YAML file, by its suffix, or the text of another one.

    Raises:
        BadUsage: It cannot be read.
        BlueprintError: It is no JSON or YAML; with every problem and its place.
    """
    content, suffix = text_of_file(path), path.suffix.lower()
    if suffix == ".json":
        try:
            return from_json(content)
        except ValueError as error:
            if not is_readable(content):
                raise BadUsage(f"{path}: {error}") from None
    return document(content, str(path)) if suffix in (".json", ".yaml", ".yml") else content


def _typed_input(text: str, schema: JSONObject | None) -> JSON:
    """Return the value of an input that was typed. Raises `BadUsage` for broken JSON where an object or a list is due.

    >>> _typed_input('{"a": 1}', {"type": "object"}), _typed_input("{a", None)
    ({'a': 1}, '{a')
    """
    value = parse_value(text, schema)
    due = {"object": "{", "array": "["}.get(str((schema or {}).get("type")))
    if isinstance(value, str) and due is not None and text.lstrip().startswith(due):
        try:
            from_json(text)
        except ValueError as error:
            raise BadUsage(f"--input: broken JSON: {error}") from None
    return value


def text_of_file(path: Path) -> str:
    """Return the text of a UTF-8 file, unchanged. Raises `BadUsage`."""
    try:
        return path.read_bytes().decode()
    except OSError as error:
        raise BadUsage(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise BadUsage(f"{path} is not UTF-8 text (byte {error.start})") from error


def text_of_input() -> str:
    """Return all of standard input as text. Raises `BadUsage`."""
    if sys.stdin is None or sys.stdin.closed:
        raise BadUsage("there is no standard input to read from")
    try:
        return sys.stdin.buffer.read().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadUsage(f"standard input is not UTF-8 text (byte {error.start})") from error


def person(name: str | None) -> str:
    """Return the person who answers: `name`, else `HOLDFAST_USER`, else the login; a bare name means a user.

    >>> person("Ana"), person("group:editors")
    ('user:ana', 'group:editors')
    """
    name = name or os.environ.get("HOLDFAST_USER") or _login()
    return canonical_name(name if ":" in name else f"user:{name}")


def _login() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # the user of a container may have no name
        return str(os.getuid())


def is_readable(text: str) -> bool:
    """Return whether the reader of YAML, which tells each fault with its place, takes a text of this length."""
    from holdfast.blueprint.source import MAX_BYTES  # noqa: PLC0415  it loads PyYAML

    return len(text.encode()) <= MAX_BYTES


def document(text: str, file: str) -> JSON:
    """Return the plain value of a JSON or YAML document. Raises `BlueprintError` with every problem."""
    from holdfast.blueprint.source import plain  # noqa: PLC0415  it loads PyYAML

    return plain(read_placed(text, file))


def read_placed(text: str, file: str) -> JSON:
    """Return the value of a JSON or YAML document with its places. Raises `BlueprintError` with every problem."""
    from holdfast.blueprint.source import read  # noqa: PLC0415  it loads PyYAML

    value, _, problems = read(text, file)
    if problems:
        raise BlueprintError(problems)
    return value
