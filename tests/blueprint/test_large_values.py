"""What does not fit in a large value is found without an error for each of its items."""

from typing import Any

import pytest
from jsonschema_rs import ValidationErrorKind

from holdfast.blueprint.jsonschemas import _MOST_PARTS, _first_error, list_misfits

NUMBERS, TEXTS = {"items": {"type": "integer"}}, {"items": {"type": "string"}}
MIXED = [*range(_MOST_PARTS), "x"]
FITS_NONE = "fits none of the allowed forms"


@pytest.mark.parametrize(
    ("schema", "value", "problem"),
    [
        ({"anyOf": [NUMBERS, TEXTS]}, MIXED, ("", FITS_NONE)),
        ({"oneOf": [NUMBERS, TEXTS]}, MIXED, ("", "must fit exactly one of the allowed forms")),
        ({"properties": {"anyOf": {"anyOf": [NUMBERS, TEXTS]}}}, {"anyOf": MIXED}, ("anyOf", FITS_NONE)),
        ({"$ref": "#/$defs/all", "$defs": {"all": {"anyOf": [NUMBERS, TEXTS]}}}, MIXED, ("", FITS_NONE)),
        ({"allOf": [{"minItems": 1}], "anyOf": [NUMBERS, TEXTS]}, MIXED, ("", FITS_NONE)),
        ({"not": NUMBERS}, MIXED[:-1] + [1, 2], ("", "has a form that is not allowed")),
    ],
)
def test_a_large_value_that_fits_no_form_is_told_its_place(
    schema: dict[str, Any], value: Any, problem: tuple[str, str]
) -> None:
    assert list_misfits(schema, value) == [problem]
    assert isinstance(_first_error(schema, value).kind, ValidationErrorKind.Not)  # it holds no error for each item


@pytest.mark.slow
@pytest.mark.parametrize(
    "schema",
    [
        {"anyOf": [NUMBERS, {"$ref": "#/anyOf/2"}, TEXTS]},
        {"anyOf": [{"prefixItems": [{"const": 0}]}, TEXTS], "unevaluatedItems": {"type": "integer"}},
    ],
)
def test_forms_that_others_refer_to_are_checked_as_they_are_written(schema: dict[str, Any]) -> None:
    assert len(list_misfits(schema, MIXED)) == 1
    assert not isinstance(_first_error(schema, MIXED).kind, ValidationErrorKind.Not)


@pytest.mark.parametrize("schema", [{"anyOf": [NUMBERS, TEXTS]}, {"oneOf": [TEXTS, NUMBERS]}])
def test_a_large_value_that_fits_has_no_problem(schema: dict[str, Any]) -> None:
    assert list_misfits(schema, MIXED[:-1] + [0, 0]) == []
