"""Text to values that remember where they stood."""

from typing import Any

import pytest

from holdfast.blueprint.errors import Problem
from holdfast.blueprint.source import MAX_NODES, plain, read


def value_of(text: str) -> Any:
    value, _, problems = read(text, "f.yaml")
    assert problems == []
    return plain(value)


def only_problem(text: str) -> Problem:
    _, _, problems = read(text, "f.yaml")
    assert len(problems) == 1, problems
    return problems[0]


@pytest.mark.parametrize("text", ["yes", "no", "on", "off", "Y", "1:30", "2026-01-01", "1_000", "0b1", "tRUE"])
def test_what_yaml_1_1_makes_of_it_is_text_in_1_2(text: str) -> None:
    assert value_of(f"a: {text}") == {"a": text}


def test_only_the_words_of_1_2_are_booleans_and_null() -> None:
    assert value_of("[true, True, FALSE, null, ~, Null]") == [True, True, False, None, None, None]
    assert value_of("a:") == {"a": None}


def test_numbers_of_1_2_are_numbers() -> None:
    assert value_of("[1, -3, +4, 012, 0x1F, 0o17, 1.5, .5, 4., 1e3]") == [1, -3, 4, 12, 31, 15, 1.5, 0.5, 4.0, 1000.0]


def test_quoted_scalars_are_text() -> None:
    assert value_of("""{a: "1", b: 'true', c: "null"}""") == {"a": "1", "b": "true", "c": "null"}


def test_keys_that_are_no_strings_mean_their_source_text() -> None:
    assert list(value_of("{true: 1, 1: 2, null: 3, 1.50: 4}")) == ["true", "1", "null", "1.50"]


@pytest.mark.parametrize("keys", ["a: 1\na: 2", 'true: 1\n"true": 2', "1: x\n'1': y"])
def test_a_duplicate_key_is_an_error_at_the_second(keys: str) -> None:
    problem = only_problem(keys)
    assert (problem.code, problem.line, problem.column) == ("duplicate_key", 2, 1)
    assert problem.hint == "first in line 1: keep one of them"


def test_every_duplicate_key_is_told() -> None:
    _, _, problems = read("a: 1\na: 2\nb: {c: 1, c: 2}", "f.yaml")
    assert [problem.line for problem in problems] == [2, 3]


def test_keys_and_values_know_their_places() -> None:
    value, _, _ = read("a:\n  - x: |\n      text\n    y: 2\n", "f.yaml")
    item = value["a"][0]
    assert (item.key_place("x").line, item.key_place("x").column) == (2, 5)
    assert (item.value_place("y").line, item.value_place("y").column) == (4, 8)
    assert item.value_place("y").raw == "2"


def test_columns_count_characters() -> None:
    value, _, _ = read('{é😀: "ü", b: 1}', "f.yaml")
    assert value.value_place("b").column == 14 and value.value_place("b").raw == "1"


def test_an_alias_is_its_anchors_value() -> None:
    assert value_of("a: &x [1, 2]\nb: *x\nc: &k key\n*k : d") == {"a": [1, 2], "b": [1, 2], "c": "key", "key": "d"}


def test_the_nodes_behind_aliases_are_counted() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    problem = only_problem("\n".join(lines))
    assert "10,000" in problem.message and problem.line == 5


def test_more_nodes_than_allowed_are_refused() -> None:
    assert "10,000" in only_problem("[" + "1, " * MAX_NODES + "1]").message


@pytest.mark.parametrize("text", ["[" * 100_000, "{a: " * 100_000, "- " * 50_000 + "a", "[" * 5000 + "]" * 5000])
def test_deep_nesting_is_refused_before_the_stack_ends(text: str) -> None:
    assert "nested deeper than 100 levels" in only_problem(text).message


def test_a_document_over_a_mebibyte_is_refused() -> None:
    assert "more than 1,048,576" in only_problem("a: " + "é" * 600_000).message


@pytest.mark.parametrize(
    ("text", "line", "column", "said"),
    [
        ("a: !!python/object:os.system x", 1, 4, "tags such as '!!python/object:os.system'"),
        ("a: !!str 1", 1, 4, "tags such as '!!str'"),
        ("<<: {a: 1}", 1, 1, "merge keys (<<) are not part of YAML 1.2"),
        ("a: 1\n---\nb: 2", 2, 1, "a second document starts here"),
        ("", 1, 1, "the document is empty"),
        ("a: *x", 1, 4, "the alias *x has no anchor before it"),
        ("a: &x [*x]", 1, 8, "the alias *x stands inside its own anchor"),
        ("a: 1\n? [b]\n: 2", 2, 3, "a key must be text"),
        ("a: 'x", 1, 6, "invalid YAML: found unexpected end of stream"),
        ("a:\n  b: \x07", 2, 6, "the character U+0007 cannot stand in YAML"),
        ("a: .nan", 1, 4, "'.nan' is not a number in JSON"),
        ("a: 1e999", 1, 4, "'1e999' is not a number in JSON"),
        ("a: 99999999999999999999", 1, 4, "the number '99999999999999999999' is over 2^63"),
    ],
)
def test_what_cannot_be_read_is_told_with_its_place(text: str, line: int, column: int, said: str) -> None:
    problem = only_problem(text)
    assert (problem.line, problem.column) == (line, column)
    assert problem.message.startswith(said)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("input: {{ x }}", 'put a template into quotes: "{{ … }}"'),
        ("input: {{ x }} and more", 'put a template into quotes: "{{ … }}"'),
        ("message: Well: what now?", "a text with ': ' in it needs quotes"),
        (
            "- kind: hitl\n  name: b\n   message: Hi",
            "it begins further right than the key above it, which has its value: put both in one column",
        ),
        (
            "- kind: hitl\n  name: b\n message: Hi",
            "no key above it begins in this column: put it below the key that it belongs to",
        ),
        ("steps:\n\t- a", "indent with spaces, not with tabs"),
        ("name: @x", "a text that begins with @ needs quotes"),
    ],
)
def test_frequent_slips_come_with_a_way_out(text: str, hint: str) -> None:
    assert only_problem(text).hint == hint


def test_json_is_read_with_tabs_and_halved_characters() -> None:
    text = '{\n\t"a":\t"\\ud83d\\ude00 \\\\ud83d \\/",\n\t"b": [1.5e3, null, true]\n}'
    assert value_of(text) == {"a": "😀 \\ud83d /", "b": [1500.0, None, True]}


def test_half_a_character_is_refused() -> None:
    _, _, problems = read('{"a": "\\ud83d"}', "f.json")
    assert problems and problems[0].code == "bad_yaml"
