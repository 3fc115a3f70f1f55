"""Conditions of plans are compiled to expressions; what cannot be one is refused with a way out."""

import pytest

from holdfast.blueprint.expressions.bounds import MAX_STEPS, Bounds
from holdfast.blueprint.expressions.comparisons import alike, contains, empty, size
from holdfast.blueprint.expressions.error import ExpressionError
from holdfast.blueprint.expressions.evaluation import evaluate
from holdfast.blueprint.plan.conditions import parse_condition
from holdfast.blueprint.plan.references import BadText
from holdfast.blueprint.words.text import Vocabulary, condition
from tests.blueprint.plan_texts import evaluate_condition


@pytest.mark.parametrize(
    ("written", "hint"), [("is not None", "is not empty"), ("is null", "is empty"), ("is yes", "write equals")]
)
def test_a_comparison_with_nothing_is_told_as_empty(written: str, hint: str) -> None:
    with pytest.raises(BadText) as caught:
        parse_condition(f"RESULT_FROM_1 {written}")
    assert hint in str(caught.value.hint)


@pytest.mark.parametrize("operand", ['a "quoted" \\ word', "l'été\ttoday", "{{ input }}", "\u2028🙂\\n", "\\"])
def test_an_operand_is_compared_as_it_is_written(operand: str) -> None:
    assert evaluate_condition(f"RESULT_FROM_1 equals {operand}", operand)
    assert not evaluate_condition(f"RESULT_FROM_1 equals {operand}", operand + "x")


@pytest.mark.parametrize(("written", "holds"), [("> -1e3", True), ("< 1_000", True), (">= 1e+22", False)])
def test_a_number_is_compared_as_python_reads_it(written: str, holds: bool) -> None:
    assert evaluate_condition(f"RESULT_FROM_1 {written}", 7) is holds


@pytest.mark.parametrize(
    ("written", "value", "holds"),
    [
        ("[1, 2]", [1.0, 2], True),
        ("[1]", [True], False),
        ('{"paid": true}', {"paid": True}, True),
        ('{"paid": true}', {"paid": 1}, False),
        ('{"paid": [0]}', {"paid": [False]}, False),
    ],
)
def test_lists_and_objects_are_compared_as_json_where_true_is_no_number(
    written: str, value: object, holds: bool
) -> None:
    assert evaluate_condition(f"RESULT_FROM_1 equals {written}", value) is holds


def test_a_condition_in_thousands_of_negations_is_read() -> None:
    even = "NOT(" * 2000 + "RESULT_FROM_1 equals a" + ")" * 2000
    assert parse_condition(even).write("input") == 'input is alike("a")'


def test_a_condition_too_long_for_an_expression_is_refused() -> None:
    with pytest.raises(BadText, match="is longer than 64 KiB"):
        parse_condition(f"RESULT_FROM_1 equals {'a' * 70_000}")


def test_a_condition_is_told_in_the_words_of_expressions() -> None:
    names = Vocabulary({"input": "the output of step 1"})
    assert condition(parse_condition("NOT(RESULT_FROM_1 contains yes)").write("input"), names) == (
        "the output of step 1 does not contain 'yes'"
    )
    assert condition(parse_condition("RESULT_FROM_1 <= -5").write("input"), names) == (
        "the output of step 1, or its length, is at most -5"
    )


@pytest.mark.parametrize(
    "expression",
    ["x is alike('YES')", "x is containing('e')", "x is not empty", "y | size > 1", "y is containing('B')"],
)
def test_authors_may_write_what_conditions_are_compiled_to(expression: str) -> None:
    assert evaluate(expression, {"x": " Yes", "y": '[{"n": "a b"}, 2]'}) is True


def test_a_comparison_is_bounded_as_every_expression() -> None:
    with pytest.raises(ExpressionError, match="evaluation steps"):
        evaluate("x is containing('b')", {"x": ["a"] * 200_000})


def test_a_text_is_paid_for_by_its_length_before_it_is_read_as_json() -> None:
    text = f"[{'1, ' * 50_000}1]"
    for compare in (empty, size):
        bounds = Bounds()
        compare(bounds, text)
        assert MAX_STEPS - bounds.remaining >= len(text) >> 4
    for compare_with in (alike, contains):
        bounds = Bounds()
        compare_with(bounds, "x", text)
        assert MAX_STEPS - bounds.remaining >= len(text) >> 6
