"""Hints for conditions that are written as in other languages."""

import pytest

from holdfast.blueprint.plan.conditions import parse_condition
from holdfast.blueprint.plan.references import BadText


@pytest.mark.parametrize(
    ("written", "hint"), [("is not None", "is not empty"), ("is null", "is empty"), ("is yes", "write equals")]
)
def test_a_comparison_with_nothing_is_told_as_empty(written: str, hint: str) -> None:
    with pytest.raises(BadText) as caught:
        parse_condition(f"RESULT_FROM_1 {written}")
    assert hint in str(caught.value.hint)
