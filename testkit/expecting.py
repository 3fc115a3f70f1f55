"""What was expected against what was there: every difference, at its place in the file of tests.

A value must be equal. `{contains: X}` asks for less: of a text that X stands in it, of a list that X is among its
items, of an object that it has the keys of X; a list X means each of its items. `{equals: X}` takes X as it is written.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from blueprint.source import Place, PlacedDict, PlacedList, plain

CONTAINS, EQUALS = "contains", "equals"


class Nothing:
    """Stands for a value that is not there."""

    def __repr__(self) -> str:
        return "nothing"


NOTHING: Final = Nothing()


@dataclass(frozen=True)
class Difference:
    """One expectation that was not met; `note` says what the two values alone do not tell."""

    place: Place
    path: str
    expected: Any = NOTHING
    was: Any = NOTHING
    note: str | None = None


@dataclass(frozen=True)
class At:
    """Where an expected value stands in its file."""

    place: Place
    path: str

    def key(self, holder: PlacedDict, key: str) -> At:
        return At(holder.value_place(key), f"{self.path}.{key}")

    def item(self, holder: PlacedList, index: int) -> At:
        return At(holder.places[index], f"{self.path}[{index}]")

    def differs(self, expected: Any, was: Any, note: str | None = None) -> Difference:
        return Difference(self.place, self.path, plain(expected), was, note)


def differences(expected: Any, was: Any, at: At) -> Iterator[Difference]:
    """Where a value is not what is expected of it."""
    match expected:
        case PlacedDict() if list(expected) == [CONTAINS]:
            yield from contained(expected[CONTAINS], was, at.key(expected, CONTAINS))
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


def contained(wanted: Any, was: Any, at: At) -> Iterator[Difference]:
    """Where a text, a list or an object does not contain what is wanted."""
    match was:
        case str():
            yield from (found for part, here in _each(wanted, at) for found in _in_text(part, was, here))
        case list():
            yield from (found for part, here in _each(wanted, at) for found in _in_list(part, was, here))
        case dict() if isinstance(wanted, PlacedDict):
            for key in wanted:
                yield from differences(wanted[key], was.get(key, NOTHING), at.key(wanted, key))
        case _:
            yield at.differs({CONTAINS: wanted}, was)


def _each(wanted: Any, at: At) -> Iterator[tuple[Any, At]]:
    if isinstance(wanted, PlacedList):
        yield from ((part, at.item(wanted, index)) for index, part in enumerate(wanted))
    else:
        yield wanted, at


def _in_text(part: Any, was: str, at: At) -> Iterator[Difference]:
    if not isinstance(part, str) or part not in was:
        yield at.differs({CONTAINS: part}, was)


def _in_list(part: Any, was: list[Any], at: At) -> Iterator[Difference]:
    if not any(meets(part, item, at) for item in was):
        yield at.differs({CONTAINS: part}, was)


def meets(expected: Any, was: Any, at: At) -> bool:
    return next(differences(expected, was, at), None) is None


def _of_objects(expected: PlacedDict, was: dict[str, Any], at: At) -> Iterator[Difference]:
    for key in expected:
        yield from differences(expected[key], was.get(key, NOTHING), at.key(expected, key))
    for key in was:
        if key not in expected:
            yield Difference(at.place, f"{at.path}.{key}", NOTHING, was[key])


def same(one: Any, other: Any) -> bool:
    """Whether two JSON values are equal; 1 is 1.0, and true is no number.

    >>> same({"a": [1, None]}, {"a": [1.0, None]}), same(True, 1), same([1], [1, 2])
    (True, False, False)
    """
    match one, other:
        case dict(), dict():
            return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
        case list(), list():
            return len(one) == len(other) and all(map(same, one, other))
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)
