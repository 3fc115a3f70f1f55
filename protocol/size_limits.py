"""Limits on values from outside, checked before anything walks them. Used by handlers, activities and clients.

Bytes are measured first, then parsed in C, then counted by a walk that stops at the limit. Temporal's deadlock detector
gives workflow code two seconds without a yield, and a payload that is in the history comes back with every replay: one
that takes longer to walk fails the workflow's task for ever.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

from pydantic import Field

from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.blueprint.jsonschemas import shown_path
from holdfast.protocol.answers import AnswerBatch, Refusal
from holdfast.protocol.values import Value

MOST_BYTES = 64 * 1024 * 1024
MOST_VALUES = 200_000
"""The highest limit that may be set: counting so many takes 0.1 s, and validators walk a value several times."""
MOST_LEVELS = 200
LARGEST_VALUE = 2_000_000
"""Bytes of a value that Temporal keeps: a server takes 2 MiB."""
LONGEST_KEY = 4096
"""Bytes. A key becomes part of the paths in messages."""
INTEGERS = range(-(2**63), 2**63)

_Place = tuple[Any, str | int]
"""The place of a value: that of its container, and its key or index there. The outermost is (None, name)."""


class SizeLimit(Value):
    """`[limits.answer]`: the limits of one value."""

    bytes: int = Field(1024 * 1024, ge=1, le=MOST_BYTES, strict=True)
    """Bytes of its JSON."""
    values: int = Field(10_000, ge=1, le=MOST_VALUES, strict=True)
    """Values in it, those inside others counted."""
    depth: int = Field(64, ge=1, le=MOST_LEVELS, strict=True)
    """Levels of nesting."""


class LargeLimit(SizeLimit):
    """`[limits.input]`, `[limits.result]`, `[limits.reply]`: the limits of a value that no person types."""

    bytes: int = Field(8 * 1024 * 1024, ge=1, le=MOST_BYTES, strict=True)
    values: int = Field(100_000, ge=1, le=MOST_VALUES, strict=True)


class SizeLimits(Value):
    """`[limits]`: the limits of a deployment (in its configuration) or of a run (in its definition)."""

    answer: SizeLimit = SizeLimit()
    """For answers and everything else that people send to a run: messages to agents, edits, changed plans."""
    input: LargeLimit = LargeLimit()
    """For the input of a run."""
    result: LargeLimit = LargeLimit()
    """For the result of a tool."""
    reply: LargeLimit = LargeLimit()
    """For the reply of a model."""


def read_json(data: bytes, limit: SizeLimit | None) -> JSON:
    """Return the value of a JSON text; only its bytes are checked, see `check_value`. Raises `Refusal`.

    Args:
        data: The text in UTF-8, without a byte-order mark.
        limit: None for data that was measured before: an update that its validator has accepted.
    """
    if limit is not None:
        check_bytes(len(data), limit)
    try:
        # Python's parser: pydantic's keeps the last of repeated keys in silence. 1e999 is read as infinity;
        # `check_value` finds it.
        return json.loads(data.decode(), parse_constant=_not_finite, object_pairs_hook=_object)
    except UnicodeDecodeError as error:
        raise Refusal("invalid_answer", f"this is not UTF-8 text (byte {error.start}); send JSON in UTF-8") from None
    except json.JSONDecodeError as error:
        place = f"line {error.lineno} column {error.colno}"
        raise Refusal("invalid_answer", f"this is not JSON: {error.msg} ({place})") from None
    except RecursionError:
        raise _too_deep(MOST_LEVELS) from None
    except _NotJson as error:
        raise Refusal("invalid_answer", f"this is not JSON: {error}") from None
    except ValueError:  # Python converts no number of more than 4,300 digits
        raise Refusal("invalid_answer", "this is not JSON: a number has thousands of digits") from None


def describe_excess(what: str, count: int, most: int, instead: str) -> str:
    """Return the message for more bytes than can be sent.

    Args:
        what: What has them, with its verb.
        count: How many they are.
        most: How many there may be.
        instead: What to do where large values are not stored outside.
    """
    way_out = f"store large values outside ([payloads] external), or {instead}"
    return f"{what} {count:,} bytes, and at most {most:,} can be sent: {way_out}"


def check_bytes(count: int, limit: SizeLimit) -> None:
    """Refuse data of too many bytes, before anything parses it. Raises `Refusal`."""
    if count > limit.bytes:
        raise Refusal("too_large", f"{count:,} bytes are too many; at most {limit.bytes:,}: send less, or a reference")


def check_value(value: object, limit: SizeLimit, name: str = "the value") -> None:
    """Refuse a value that has too many parts, or that JSON cannot represent. Raises `Refusal` with the path.

    Args:
        value: Made of dicts, lists, texts, numbers, booleans and None.
        limit: Its `values` and `depth` apply; the walk stops where one is exceeded.
        name: Name of the value in messages, where the path is empty.
    """
    check_values({name: value}, limit)


def check_answers(answers: AnswerBatch, limit: SizeLimit) -> None:
    """Refuse a batch whose contents are too large in all, or that JSON cannot represent. Raises `Refusal`."""
    contents = [answer.content for answer in answers.answers]
    names = [f"answers[{index}].content" for index in range(len(contents))] if len(contents) > 1 else ["content"]
    check_values(dict(zip(names, contents, strict=True)), limit)


def check_values(values: Mapping[str, JSON], limit: SizeLimit) -> None:
    """Refuse named values that exceed the limit in all; see `check_value`."""
    remaining = limit.values
    # A stack and no recursion: the depth is what a sender may choose.
    waiting: list[tuple[JSON, _Place, int]] = [(value, (None, name), 1) for name, value in values.items()]
    while waiting:
        item, place, level = waiting.pop()
        remaining -= 1
        if remaining < 0:
            raise _too_many(limit)
        match item:
            case None | bool():
                pass
            case str():
                _check_text(item, place)
            case dict() | list() | tuple():
                if level > limit.depth:
                    raise _too_deep(limit.depth)
                if len(item) > remaining:  # before they are put on the stack
                    raise _too_many(limit)
                waiting += _parts(item, place, level + 1)
            case _:
                _check_number(item, place)


def _parts(item: dict[Any, Any] | list[Any] | tuple[Any, ...], place: _Place, level: int) -> Any:
    """Return the values inside in reverse, so that the stack yields them in order."""
    if not isinstance(item, dict):
        return [(inner, (place, index), level) for index, inner in enumerate(item)][::-1]
    for key in item:
        if not isinstance(key, str):
            raise _unfit(place, f"the key {_brief(key)} is not text")
        _check_text(key, place)
        if len(key.encode()) > LONGEST_KEY:
            raise Refusal("too_large", f"{_path(place)}: a key is longer than {LONGEST_KEY:,} bytes")
    return [(inner, (place, key), level) for key, inner in item.items()][::-1]


def _check_text(text: str, place: _Place) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise _unfit(place, "half a character (a lone surrogate such as \\ud800) is not valid text") from None


def _check_number(item: object, place: _Place) -> None:
    match item:
        case int() if item not in INTEGERS:
            raise _unfit(place, "a whole number must fit in 64 bits (-2^63 to 2^63 - 1)")
        case float() if not math.isfinite(item):
            raise _unfit(place, "a number must be finite; JSON has no NaN and no infinity (1e999 is one)")
        case int() | float():
            pass
        case _:
            raise _unfit(place, f"a {type(item).__name__} is not a JSON value")


def _unfit(place: _Place, reason: str) -> Refusal:
    return Refusal("invalid_answer", f"{_path(place)}: {reason}")


def _path(place: _Place) -> str:
    """Return the path below the value's name, else the name."""
    inner, name = place
    path: list[str | int] = []
    while inner is not None:
        path.append(name)
        inner, name = inner
    return shown_path(tuple(reversed(path))) if path else str(name)


def _too_many(limit: SizeLimit) -> Refusal:
    return Refusal("too_large", f"more than {limit.values:,} values are too many")


def _too_deep(levels: int) -> Refusal:
    return Refusal("too_large", f"more than {levels} levels are nested too deep")


class _NotJson(ValueError):
    """Text that Python's parser accepts and JSON forbids."""


def _not_finite(constant: str) -> NoReturn:
    raise _NotJson(f"{constant} is not a number; numbers are finite")


def _object(pairs: list[tuple[str, JSON]]) -> JSONObject:
    # Of repeated keys Python keeps the last and others the first: what was checked might not be what is used.
    result = dict(pairs)
    if len(result) < len(pairs):
        raise _NotJson(f"the key {_brief(_first_repeated(key for key, _ in pairs))} appears twice in one object")
    return result


def _first_repeated(keys: Iterable[str]) -> str | None:
    seen: set[str] = set()
    for key in keys:
        if key in seen:
            return key
        seen.add(key)
    return None


def _brief(key: object) -> str:
    text = ascii(key)
    return text if len(text) <= 60 else f"{text[:60]}…"
