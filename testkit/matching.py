"""Matchers of expected against actual values: every difference, at its position in the test file.

A value must be equal. `{contains: X}` asks for less: of a text that X stands in it, of a list that X is among its
items, of an object that it has the keys of X; a list X means each of its items. `{equals: X}` takes X as it is written.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from holdfast.blueprint.json_values import JSON, JSONObject, same
from holdfast.blueprint.source import PlacedDict, PlacedList, Position, plain

CONTAINS, EQUALS = "contains", "equals"


class AbsentValue:
    """The type of `NOTHING`, which stands for a value that is absent."""

    def __repr__(self) -> str:
        return "nothing"


NOTHING: Final = AbsentValue()


@dataclass(frozen=True)
class Difference:
    """An expectation that was not met; `note` adds what the values alone do not show."""

    place: Position
    path: str
    expected: JSON = NOTHING
    was: JSON = NOTHING
    note: str | None = None


@dataclass(frozen=True)
class At:
    """The position and path of an expected value."""

    place: Position
    path: str

    def key(self, holder: PlacedDict, key: str) -> At:
        return At(holder.value_place(key), f"{self.path}.{key}")

    def item(self, holder: PlacedList, index: int) -> At:
        return At(holder.places[index], f"{self.path}[{index}]")

    def differs(self, expected: object, was: object, note: str | None = None) -> Difference:
        return Difference(self.place, self.path, plain(expected), was, note)


def differences(expected: object, was: object, at: At) -> Iterator[Difference]:
    """Yield the differences between an expected and an actual value."""
    match expected:
        case PlacedDict() if list(expected) == [CONTAINS]:
            yield from iterate_missing(expected[CONTAINS], was, at.key(expected, CONTAINS))
        case PlacedDict() if list(expected) == [EQUALS]:
            if not same(plain(expected[EQUALS]), was):
                yield at.differs(expected[EQUALS], was)
        case PlacedDict() if isinstance(was, dict):
            yield from _of_objects(expected, was, at)
        case PlacedList() if isinstance(was, list) and len(was) == len(expected):
            for index, item in enumerate(expected):
                yield from differences(item, was[index], at.item(expected, index))
        case _:
            if not same(plain(expected), was):
                yield at.differs(expected, was)


def iterate_missing(wanted: object, was: object, at: At) -> Iterator[Difference]:
    """Yield the wanted parts that a text, a list or an object does not contain."""
    match was:
        case str():
            yield from (
                difference for part, part_at in each_part(wanted, at) for difference in _in_text(part, was, part_at)
            )
        case list():
            yield from (
                difference for part, part_at in each_part(wanted, at) for difference in _in_list(part, was, part_at)
            )
        case dict() if isinstance(wanted, PlacedDict):
            for key in wanted:
                yield from differences(wanted[key], was.get(key, NOTHING), at.key(wanted, key))
        case _:
            yield at.differs({CONTAINS: wanted}, was)


def each_part(wanted: object, at: At) -> Iterator[tuple[JSON, At]]:
    """Yield what `contains` asks for, one by one."""
    if isinstance(wanted, PlacedList):
        yield from ((part, at.item(wanted, index)) for index, part in enumerate(wanted))
    else:
        yield wanted, at


def _in_text(part: object, was: str, at: At) -> Iterator[Difference]:
    if not isinstance(part, str) or part not in was:
        yield at.differs({CONTAINS: part}, was)


def _in_list(part: object, was: list[JSON], at: At) -> Iterator[Difference]:
    if not any(meets(part, item, at) for item in was):
        yield at.differs({CONTAINS: part}, was)


def meets(expected: object, was: object, at: At) -> bool:
    return next(differences(expected, was, at), None) is None


def _of_objects(expected: PlacedDict, was: JSONObject, at: At) -> Iterator[Difference]:
    for key in expected:
        yield from differences(expected[key], was.get(key, NOTHING), at.key(expected, key))
    for key in was:
        if key not in expected:
            yield Difference(at.place, f"{at.path}.{key}", NOTHING, was[key])
