"""What is expected against what was there."""

import pytest

from holdfast.blueprint.source import PlacedDict, read
from holdfast.testkit.matching import NOTHING, At, Difference, differences


def found(expected: str, was: object) -> list[Difference]:
    value, _, problems = read(f"{{expected: {expected}}}", "x.test.yaml")
    assert problems == []
    assert isinstance(value, PlacedDict)
    return list(differences(value["expected"], was, At(value.value_place("expected"), "e")))


@pytest.mark.parametrize(
    ("expected", "was"),
    [
        ("text", "text"),
        ("3", 3.0),
        ("null", None),
        ("[1, {a: [true]}]", [1, {"a": [True]}]),
        ("{contains: short}", "a short text"),
        ("{contains: [a, short]}", "a short text"),
        ("{contains: 2}", [1, 2]),
        ("{contains: [{contains: {a: 1}}, 3]}", [3, {"a": 1, "b": 2}]),
        ("{contains: {a: {contains: x}}}", {"a": "xyz", "b": 2}),
        ("{contains: {}}", {"b": 2}),
        ("{a: {contains: x}, b: 2}", {"a": "xyz", "b": 2}),
        ("{equals: {contains: x}}", {"contains": "x"}),
        ("{contains: x, more: 1}", {"contains": "x", "more": 1}),
    ],
)
def test_what_fits(expected: str, was: object) -> None:
    assert found(expected, was) == []


@pytest.mark.parametrize(
    ("expected", "was", "path", "value", "seen"),
    [
        ("text", "Text", "e", "text", "Text"),
        ("true", 1, "e", True, 1),
        ("'1'", 1, "e", "1", 1),
        ("null", NOTHING, "e", None, NOTHING),
        ("{a: {b: [1, 2]}}", {"a": {"b": [1, 3]}}, "e.a.b[1]", 2, 3),
        ("[1, 2]", [1, 2, 3], "e", [1, 2], [1, 2, 3]),
        ("{a: 1}", {"a": 1, "b": None}, "e.b", NOTHING, None),
        ("{a: 1}", [1], "e", {"a": 1}, [1]),
        ("{contains: [short, long]}", "a short text", "e.contains[1]", {"contains": "long"}, "a short text"),
        ("{contains: 2}", "12", "e.contains", {"contains": 2}, "12"),
        ("{contains: 2}", [1, "2"], "e.contains", {"contains": 2}, [1, "2"]),
        ("{contains: {a: 1, c: 3}}", {"a": 1}, "e.contains.c", 3, NOTHING),
        ("{contains: a}", 7, "e.contains", {"contains": "a"}, 7),
        ("{contains: a}", {"a": 1}, "e.contains", {"contains": "a"}, {"a": 1}),
    ],
)
def test_what_does_not_fit_is_told_at_its_very_place(expected, was, path, value, seen) -> None:
    [one] = found(expected, was)
    assert (one.path, one.expected, one.was) == (path, value, seen)


def test_every_difference_is_told_with_its_place_in_the_file() -> None:
    two = found("{a: 1, b: {c: 2}}", {"a": 2, "b": {"c": 3}})
    assert [(one.path, one.place.line, one.place.column) for one in two] == [("e.a", 1, 16), ("e.b.c", 1, 26)]
