"""The controls of a form: which field each part of a schema gets, and what is typed into them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.blueprint.json_values import JSONObject
from holdfast.blueprint.jsonschemas import list_misfits
from holdfast.client.forms import (
    ABSENT,
    Submission,
    change_list,
    check_typed,
    make_control,
    read_control,
    shows,
    texts_of_value,
)

PERSON = {
    "type": "object",
    "required": ["name"],
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
}
TRIP = {
    "type": "object",
    "required": ["title", "days"],
    "properties": {
        "title": {"type": "string", "title": "Title of the trip"},
        "days": {"type": "integer"},
        "guests": {"type": "array", "items": {"$ref": "#/$defs/Person"}},
        "hotel": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
    },
    "$defs": {"Person": PERSON},
}


@pytest.mark.parametrize(
    ("schema", "widget"),
    [
        ({"type": "string"}, "text"),
        ({"type": "string", "maxLength": 2000}, "long"),
        ({"type": "string", "default": "a\nb"}, "long"),
        ({"type": "string", "format": "date"}, "date"),
        ({"type": "string", "format": "date-time"}, "datetime"),
        ({"type": "integer"}, "number"),
        ({"type": "boolean"}, "boolean"),
        ({"enum": ["a", 1]}, "choice"),
        ({"oneOf": [{"const": "a", "title": "A"}]}, "choice"),
        ({"type": "array", "items": {"enum": ["a"]}, "uniqueItems": True}, "choices"),
        ({"type": "array", "items": {"enum": ["a"]}}, "list"),
        ({"type": "array", "items": {"type": "string"}}, "lines"),
        ({"type": "array", "x-widget": "lines"}, "lines"),
        ({"type": "array", "items": {"type": "integer"}}, "list"),
        (PERSON, "group"),
        ({"type": ["integer", "null"]}, "number"),
        ({"type": "object"}, "json"),
        ({"type": "object", "properties": {"a": {}}, "additionalProperties": {"type": "string"}}, "json"),
        ({"type": ["integer", "string"]}, "json"),
        ({"$ref": "#/nowhere"}, "json"),
        ({"$ref": "#"}, "json"),
        ({}, "json"),
    ],
)
def test_each_schema_has_its_control(schema: dict, widget: str) -> None:
    assert make_control(schema).widget == widget


def typed(schema: dict, texts: dict[str, str]):
    return read_control(make_control(schema), {f"f:{name}": [text] for name, text in texts.items()})


def test_what_is_typed_becomes_the_value() -> None:
    texts = {"title": "Rome", "days": "3", "guests#": "1", "guests[0].name": "Bob", "guests[0].age": " 40 "}
    submission = typed(TRIP, texts)
    assert submission.value == {"title": "Rome", "days": 3, "guests": [{"name": "Bob", "age": 40}]}
    assert not submission.problems


@pytest.mark.parametrize(
    ("type_", "text", "value"),
    [
        ("integer", "3.0", "3"),
        ("integer", "-3e2", "-300"),
        ("integer", "9007199254740993", "9007199254740993"),
        ("integer", "1e300", "1e+300"),
        ("integer", "3.5", "3.5"),
        ("number", "3.0", "3.0"),
    ],
)
def test_a_whole_number_is_an_integer_however_it_is_typed(type_: str, text: str, value: str) -> None:
    schema = {"type": "object", "properties": {"n": {"type": type_}}}
    assert repr(typed(schema, {"n": text}).value["n"]) == value


def test_each_problem_stands_at_its_control() -> None:
    submission = typed(TRIP, {"days": "three", "guests#": "1", "guests[0].age": "1"})
    assert submission.problems == {
        "f:title": ["this field is needed"],
        "f:days": ["write a whole number, such as 12"],
        "f:guests[0].name": ["this field is needed"],
    }


def test_an_optional_object_may_be_left_out_but_not_half() -> None:
    both = {"title": "Rome", "days": "3"}
    assert "hotel" not in typed(TRIP, both).value
    nested = {"properties": {"hotel": {**PERSON}}, "type": "object"}
    assert typed(nested, {"hotel.age": "3"}).problems == {"f:hotel.name": ["this field is needed"]}


@pytest.mark.parametrize(
    ("schema", "text", "value"),
    [
        ({"type": "number"}, "1.50", 1.5),
        ({"type": "integer"}, "12", 12),
        ({"type": "boolean"}, "no", False),
        ({"enum": ["1", 1, True]}, "1", 1),
        ({"enum": ["1", 1, True]}, "2", True),
        ({"type": "string"}, "'&<é\"", "'&<é\""),
        ({"type": "string", "format": "date-time"}, "2026-11-22T10:00", "2026-11-22T10:00:00Z"),
        ({"type": "string", "format": "time"}, "10:00", "10:00:00Z"),
        ({"type": ["string", "null"]}, "", None),
        ({"type": "array", "items": {"type": "string"}}, "a\r\n\r\n b ", ["a", "b"]),
        ({}, '{"a": [1]}', {"a": [1]}),
    ],
)
def test_text_becomes_a_value_of_its_type(schema: dict, text: str, value: object) -> None:
    submission = typed(schema, {"": text})
    assert submission.value == value and type(submission.value) is type(value) and not submission.problems


@pytest.mark.parametrize(
    ("schema", "text", "reason"),
    [
        ({}, '{"a": 1,}', "line 1, column 9"),
        ({}, '{"a": 1e999}', "a"),
        ({}, '{"a": 1, "a": 2}', "appears twice"),
        ({"type": "number"}, "1,5", "write a number"),
        ({"type": "number"}, "NaN", "write a number"),
        ({"type": "number"}, "1e999", "range"),
        ({"type": "integer"}, "9" * 400, "range"),
    ],
)
def test_text_that_is_no_value_says_what_to_type(schema: dict, text: str, reason: str) -> None:
    assert reason in typed(schema, {"": text}).problems["f:"][0]


def test_a_default_is_in_the_field_at_the_beginning() -> None:
    schema = {"type": "object", "properties": {"a": {"enum": ["x", "y"], "default": "y"}, "b": {"type": "string"}}}
    assert texts_of_value(make_control(schema)) == {"f:a": ["1"]}


def test_items_are_added_and_removed() -> None:
    control = make_control(TRIP)
    texts = texts_of_value(control, {"guests": [{"name": "Ana"}, {"name": "Bob"}, {"name": "Cem"}]})
    texts = change_list(control, change_list(control, texts, "remove:f:guests[1]"), "add:f:guests")
    names = [texts.get(f"f:guests[{index}].name") for index in range(3)]
    assert (names, texts["f:guests#"]) == ([["Ana"], ["Cem"], None], ["3"])


@pytest.mark.parametrize("change", ["remove:f:guests", "remove:x[99999999999]", "what", "add:", "remove:f:guests[5]"])
def test_a_change_that_a_form_does_not_send_breaks_nothing(change: str) -> None:
    control = make_control(TRIP)
    assert change_list(control, {"f:guests#": ["many"]}, change)["f:guests#"] in (["many"], ["0"])


def test_a_problem_is_shown_at_the_nearest_control() -> None:
    control = make_control(TRIP)
    problems = [("guests[0].name", "is missing"), ("guests[7].age", "bad"), ('hotel["a b"]', "odd"), ("", "whole")]
    submission = Submission()
    check_typed(control, {"f:guests#": ["1"]}, submission, problems)
    assert submission.problems == {
        "f:guests[0].name": ["is missing"],
        "f:guests": ["[7].age bad"],
        "f:hotel": ['["a b"] odd'],
        "f:": ["whole"],
    }


@pytest.mark.parametrize(
    ("value", "whole"),
    [
        ({"title": "a", "days": 1}, True),
        ({"title": "a", "days": 1, "more": 1}, False),
        ({"title": "a\nb", "days": 1}, True),
        ({"title": "a", "days": 1, "guests": [{"name": "x", "age": True}]}, False),
        ({"title": "", "days": 1}, False),
    ],
)
def test_a_form_says_whether_it_shows_all_of_a_value(value: dict, whole: bool) -> None:
    assert shows(make_control(TRIP), value) is whole


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.slow
@given(_VALUES, st.sampled_from([{}, TRIP, PERSON, {"type": "array", "items": PERSON}, {"type": "string"}]))
def test_any_value_is_shown_by_any_form_without_an_error(value: object, schema: dict) -> None:
    control = make_control(schema)
    if shows(control, value):
        assert read_control(control, texts_of_value(control, value)).value == value


def test_nothing_typed_is_absent() -> None:
    assert typed({"type": "object", "properties": {"a": {"type": "string"}}}, {}).value == {}
    assert read_control(make_control({"type": "string"}, is_required=False), {}).value is ABSENT


def told_of(schema: JSONObject, **fields: str) -> dict[str, list[str]]:
    """All problems of what is typed, by field."""
    control = make_control(schema)
    texts = {f"f:{name}": [text] for name, text in fields.items()}
    submission = read_control(control, texts)
    check_typed(control, texts, submission, list_misfits(schema, submission.value))
    return {name.removeprefix("f:"): reasons for name, reasons in submission.problems.items()}


ORDER: JSONObject = {
    "type": "object",
    "required": ["name", "zip", "when"],
    "properties": {
        "name": {"type": "string", "minLength": 2},
        "zip": {"type": "string", "pattern": "^[0-9]{5}$"},
        "mail": {"type": "string", "format": "email"},
        "nights": {"type": "integer"},
        "when": {"type": "string", "format": "date"},
    },
}


def test_all_problems_are_told_at_once_whatever_found_them() -> None:
    assert told_of(ORDER, name="A", zip="12", mail="nope", nights="thirty") == {
        "name": ["must have at least 2 characters, not 1"],
        "zip": ["must be 5 digits, not '12'"],
        "mail": ["must be an e-mail address, such as ana@example.com, not 'nope'"],
        "nights": ["write a whole number, such as 12"],
        "when": ["this field is needed"],
    }


def test_an_empty_text_is_told_in_plain_words() -> None:
    assert list_misfits({"type": "string", "minLength": 1}, "") == [("", "must not be empty")]


def test_an_item_that_is_not_filled_in_leaves_the_others_at_their_places() -> None:
    control = make_control({"type": "array", "items": {"type": "integer", "minimum": 1}})
    texts = {"f:#": ["2"], "f:[1]": ["0"]}
    submission = read_control(control, texts)
    check_typed(control, texts, submission, list_misfits(control.schema, submission.value))
    assert submission.problems == {"f:[0]": ["fill it in, or remove it"], "f:[1]": ["must be at least 1, not 0"]}


@pytest.mark.parametrize("words", [{"errorMessage": "Ask the desk."}, {"x-error": "Ask the desk."}])
def test_the_authors_words_are_said_for_a_field(words: JSONObject) -> None:
    schema: JSONObject = {
        "type": "object",
        "properties": {
            "nights": {"type": "integer", **words},
            "zip": {"$ref": "#/$defs/zip", **words},
            "code": {"allOf": [{"type": "string", "minLength": 3}], **words},
        },
        "$defs": {"zip": {"type": "string", "pattern": "^[0-9]{5}$"}},
    }
    assert told_of(schema, nights="many", zip="1", code="x") == {
        name: ["Ask the desk."] for name in ("nights", "zip", "code")
    }


def test_the_authors_words_are_said_for_a_keyword() -> None:
    schema: JSONObject = {
        **ORDER,
        "required": ["name", "zip"],
        "properties": {"name": {"type": "string", "minLength": 2, "errorMessage": {"minLength": "Your whole name."}}},
        "errorMessage": {"required": {"name": "Who are you?"}},
    }
    assert (told_of(schema), told_of(schema, name="A")["name"]) == ({"name": ["Who are you?"]}, ["Your whole name."])
