"""Expressions and templates: what they mean, what they refuse, what they may cost."""

import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jinja2.sandbox import SandboxedEnvironment

from holdfast.blueprint.expressions.error import ExpressionError
from holdfast.blueprint.expressions.evaluation import (
    check_expression,
    check_template,
    evaluate,
    holds,
    names_in,
    names_in_expression,
    render,
)
from holdfast.blueprint.expressions.filters import FILTERS
from holdfast.blueprint.expressions.functions import METHODS
from holdfast.blueprint.expressions.parse import MAX_SOURCE
from holdfast.blueprint.expressions.predicates import TESTS
from holdfast.blueprint.expressions.values import write_text
from tests.effort import SECOND, effort

NAMES: dict[str, Any] = {
    "output": "stop",
    "number": 7,
    "nothing": None,
    "people": [{"name": "Ada", "age": 36, "at": {"city": "London"}}, {"name": "bob", "age": 9, "at": {"city": "Rome"}}],
    "context": {"items": [1, 2, 3], "goal": "Don't <stop>", "empty": {}, "last_agent_command": None},
    "steps": {"draft": {"output": {"score": 8.5, "ok": True}}},
}


def error_of(expression: str, names: dict[str, Any] = NAMES) -> ExpressionError:
    with pytest.raises(ExpressionError) as caught:
        evaluate(expression, names)
    return caught.value


def template_error(template: str, names: dict[str, Any] = NAMES) -> ExpressionError:
    with pytest.raises(ExpressionError) as caught:
        render(template, names)
    return caught.value


# Values


@pytest.mark.parametrize(
    "expression",
    """
    1 + 2 * 3 | 7 // 2 | 7 / 2 | -7 % 3 | 2 ** 10 | 2 ** 3 ** 2 | -2 ** 2 | 1.5 + 1 | 'a' + 'b' | [1] + [2]
    'a' ~ 1 ~ 'b' | 1 < 2 < 3 | 3 > 2 > 2 | 'a' in 'cat' | 2 in [1, 2] | 'x' not in {'x': 1} | not number
    number == 7 and output == 'stop' | output or 'x' | 0 or [] | 'a' if number > 3 else 'b' | true == 1
    [1, [2]] == [1, [2]]
    people[0].name | people[-1]['age'] | output[1:3] | context['items'][::-1] | people[1].at.city | {'a': {'b': 1}}.a.b
    context.get('x', 0) > 3 | context.goal.upper() | output.replace('s', 'S') | 'a,b'.split(',') | ' a '.strip()
    output.startswith('st') and output.endswith('op') | ', '.join(['a', 'b']) | 'x' 'y' | 0x10 + 1_000
    number is number and output is string | number is odd | number is divisibleby 7 | nothing is none | number is gt 3
    """.replace("\n", " | ").split(" | "),
)
def test_an_expression_means_what_it_means_in_jinja(expression: str) -> None:
    if expression.strip():
        expected = SandboxedEnvironment().compile_expression(expression)(**NAMES)
        assert evaluate(expression, NAMES) == expected
        assert type(evaluate(expression, NAMES)) is type(expected)


@pytest.mark.parametrize(
    "expression",
    [
        "[3, 1, 2] | sort",
        "['b', 'A', 'c'] | sort(reverse=true)",
        "['b', 'A', 'B'] | unique | list",
        "people | sort(attribute='age') | map(attribute='name') | list",
        "people | map(attribute='at.city') | join(', ')",
        "people | selectattr('age', 'gt', 10) | map(attribute='name') | first",
        "people | rejectattr('age', 'gt', 10) | list | length",
        "[1, 2, 3, 4] | select('even') | list",
        "[0, 1, '', 'a'] | reject | list",
        "people | sum(attribute='age')",
        "people | max(attribute='age')",
        "[3, 1, 2] | min",
        "['a', 'B'] | map('upper') | list",
        "[1, 2, 3, 4, 5] | batch(2, 0) | list",
        "[1, 2, 3, 4, 5] | slice(3, 0) | list",
        "'hello wORLD (of x-rays)' | title",
        "'hello wORLD' | capitalize",
        "'a b c d e f g' | truncate(5, leeway=0)",
        "'a b c d e f g' | truncate(6, true, '…', 0)",
        "'one\ntwo\n\nthree' | indent(2)",
        "'one\ntwo\n\nthree' | indent(2, true, true)",
        "'one, two three' | wordcount",
        "'xxaxx' | trim('x')",
        "'aaa' | replace('a', 'b', 2)",
        "'42' | int + '4.9' | int + 'x' | int(1)",
        "'ff' | int(base=16)",
        "'1.5' | float",
        "2.567 | round(2)",
        "2.1 | round(0, 'ceil')",
        "42 | round",
        "'abc' | reverse",
        "'abc' | list",
        "context.gaol | default('none')",
        "'' | d('none', true)",
        "-3 | abs",
        "[1, 2] | last",
        "number if number is in [7, 8] else 0",
    ],
)
def test_a_filter_gives_what_it_gives_in_jinja(expression: str) -> None:
    assert evaluate(expression, NAMES) == SandboxedEnvironment().compile_expression(expression)(**NAMES)


def test_pairs_of_an_object_are_lists() -> None:
    assert evaluate("{'b': 1, 'A': 2}.items()", {}) == [["b", 1], ["A", 2]]
    assert evaluate("{'b': 1, 'A': 2} | dictsort", {}) == [["A", 2], ["b", 1]]
    assert evaluate("{'b': 1, 'A': 2} | dictsort(by='value', reverse=true)", {}) == [["A", 2], ["b", 1]]


def test_a_tuple_is_a_list_for_json_has_no_tuples() -> None:
    assert evaluate("(1, ('a',))", {}) == [1, ["a"]]


def test_null_is_bound_in_the_spellings_of_python_jinja_and_json() -> None:
    assert evaluate("[None, none, null]", {}) == [None, None, None]
    assert evaluate("[True, true, False, false]", {}) == [True, True, False, False]


def test_a_name_reads_a_key_and_a_method_only_when_called() -> None:
    assert evaluate("context.items", NAMES) == [1, 2, 3]
    assert evaluate("context.items()", NAMES)[0] == ["items", [1, 2, 3]]
    assert holds("context.empty.items", NAMES) == (False, None)


def test_newlines_in_strings_are_escapes() -> None:
    assert evaluate(r"history | join('\n')", {"history": ["a", 1, {"b": None}]}) == 'a\n1\n{"b":null}'


def test_json_goes_to_text_and_back() -> None:
    assert evaluate("steps | tojson | fromjson == steps", NAMES) is True
    assert evaluate("'<\\'é>' | tojson", {}) == '"<\'é>"'
    assert evaluate("[1] | tojson(indent=2)", {}) == "[\n  1\n]"


def test_numbers_are_not_booleans() -> None:
    assert evaluate("[true is number, true is integer, true is boolean, 1 is integer, 1.0 is float]", {}) == [
        False, False, True, True, True,
    ]  # fmt: skip


def test_values_that_are_only_read_are_the_very_same() -> None:
    assert evaluate("context.items", NAMES) is NAMES["context"]["items"]


# What is missing


def test_a_condition_on_a_missing_key_is_false_before_there_is_one() -> None:
    for context in ({}, {"scratchpad": {}}, {"scratchpad": {"last_agent_command": None}}):
        names = {"context": context}
        assert holds("context.scratchpad.last_agent_command.action == 'finish'", names) == (False, False)


def test_a_condition_on_the_finished_agent_is_true() -> None:
    names = {"context": {"scratchpad": {"last_agent_command": {"action": "finish"}}}}
    assert holds("context.scratchpad.last_agent_command.action == 'finish'", names) == (True, True)


def test_a_missing_key_can_be_tested_compared_and_replaced() -> None:
    assert evaluate("context.a.b is defined", NAMES) is False
    assert evaluate("context.a[0]['x'] is undefined", NAMES) is True
    assert evaluate("context.a != 'x' and context.a is ne 'x' and not context.a is eq 'x'", NAMES) is True
    assert evaluate("context.a == context.b and context.a != none", NAMES) is True
    assert evaluate("not context.a and not (context.a and true)", NAMES) is True
    assert evaluate("context.a or context.b | default('c')", NAMES) == "c"
    assert evaluate("context.a | default(context.b) | default(3)", NAMES) == 3


def test_an_undefined_condition_is_false() -> None:
    assert holds("context.missing.key", NAMES) == (False, None)
    assert holds("context.items", NAMES) == (True, [1, 2, 3])


@pytest.mark.parametrize(
    "expression",
    [
        "context.goals",
        "context.goals + 1",
        "1 < context.goals",
        "-context.goals",
        "'a' ~ context.goals",
        "'a' in context.goals",
        "context.goals in [1]",
        "[context.goals]",
        "{'a': context.goals}",
        "context.goals | length",
        "'a' | replace('a', context.goals)",
        "len(context.goals)",
        "context.goals.get('a')",
        "context.get(context.goals)",
        "context.goals is number",
        "context[context.goals]",
    ],
)
def test_any_other_use_of_a_missing_key_is_an_error_that_names_it(expression: str) -> None:
    assert error_of(expression).message == "context.goals is undefined"
    assert error_of(expression).hint == "did you mean 'goal'?"


def test_printing_a_missing_key_names_the_path_and_where_it_breaks() -> None:
    error = template_error("So: {{ context.scratchpad.goal }}")
    assert error.message == "context.scratchpad.goal is undefined"
    assert error.hint == "there is no context.scratchpad"


def test_looping_over_a_missing_key_is_an_error() -> None:
    assert template_error("{% for x in context.list %}{% endfor %}").message == "context.list is undefined"


def test_an_element_without_a_mapped_attribute_is_an_error() -> None:
    assert "undefined" in error_of("people | map(attribute='nme')").message
    assert evaluate("people | map(attribute='nme', default=0) | sum", NAMES) == 0
    assert evaluate("people | selectattr('nme', 'defined')", NAMES) == []


def test_an_index_out_of_range_is_undefined() -> None:
    assert evaluate("context.items[9] is undefined and output[-9] is undefined", NAMES) is True
    assert evaluate("[] | first | default('none')", {}) == "none"


def test_an_unknown_name_is_an_error_with_a_suggestion() -> None:
    assert error_of("drfat == 1", {"draft": 1}).hint == "did you mean 'draft'?"
    assert error_of("zzz is defined", {"b": 1, "a": 1}).hint == "known: a, b"


def test_the_error_reads_as_one_line_with_its_place() -> None:
    error = template_error("Hello\n{{ context.gaol }}\n")
    assert (error.line, error.expression) == (2, "Hello\n{{ context.gaol }}\n")
    assert str(error) == ("Hello {{ context.gaol }} line 2: context.gaol is undefined (did you mean 'goal'?)")


# Templates


def test_one_whole_expression_keeps_its_type() -> None:
    assert render("{{ context.items }}", NAMES) == [1, 2, 3]
    assert render("{{- number -}}", NAMES) == 7
    assert render("{{ nothing }}", NAMES) is None


def test_two_expressions_are_not_one_whole_expression() -> None:
    assert render("{{ number }} and {{ number }}", NAMES) == "7 and 7"
    assert render("{{ number }}{{ number }}", NAMES) == "77"
    assert render(" {{ number }}", NAMES) == " 7"
    assert render("{{ '}} and {{' }}", NAMES) == "}} and {{"


def test_running_text_shows_text_as_itself_and_all_else_as_compact_json() -> None:
    text = render("{{ context.goal }} {{ nothing }} {{ true }} {{ people[0].at }} {{ 'é' }} {{ 1.0 }}", NAMES)
    assert text == 'Don\'t <stop> null true {"city":"London"} é 1.0'


def test_text_without_marks_comes_back_unchanged() -> None:
    for text in ("", "plain\r\n", "a { b } c", "ends in:\n\n", "100%}"):
        assert render(text, {}) == text


def test_newlines_around_a_hole_stay() -> None:
    assert render("\n a {{ 1 }}\n\n", {}) == "\n a 1\n\n"


def test_templates_in_objects_and_lists_are_filled_and_keys_stay() -> None:
    template = {"{{ key }}": ["{{ number }}", 3, None, {"x": "n={{ number }}"}]}
    assert render(template, NAMES) == {"{{ key }}": [7, 3, None, {"x": "n=7"}]}


def test_values_are_not_filled_again() -> None:
    assert render("{{ a }}!", {"a": "{{ b }}"}) == "{{ b }}!"


def test_branches_loops_and_names_of_its_own() -> None:
    template = (
        "{% set all = people %}{% for p in all if p.age > age %}{{ loop.index }}/{{ loop.length }} {{ p.name }}"
        "{% if not loop.last %}, {% endif %}{% else %}nobody{% endfor %}"
    )
    assert render(template, {**NAMES, "age": 1}) == "1/2 Ada, 2/2 bob"
    assert render(template, {**NAMES, "age": 99}) == "nobody"


def test_a_loop_takes_pairs_apart() -> None:
    assert render("{% for k, v in x.items() %}{{ k }}={{ v }};{% endfor %}", {"x": {"a": 1, "b": [2]}}) == "a=1;b=[2];"


def test_the_first_true_branch_is_taken() -> None:
    template = "{% if n > 5 %}big{% elif n > 2 %}middle{% else %}small{% endif %}"
    assert [render(template, {"n": n}) for n in (9, 3, 1)] == ["big", "middle", "small"]


def test_a_name_set_in_a_loop_is_gone_after_it() -> None:
    template = "{% set x = 1 %}{% for i in [1, 2] %}{{ x }}{% set x = 5 %}{% endfor %}{{ x }}"
    assert render(template, {}) == SandboxedEnvironment().from_string(template).render() == "111"


def test_comments_and_raw_text_are_as_in_jinja() -> None:
    assert render("a{# {{ x }} #}b{% raw %}{{ x }}{% endraw %}", {}) == "ab{{ x }}"


def test_whitespace_marks_are_as_in_jinja() -> None:
    assert render("a \n{%- if true -%}\n b {%- endif %}\n", {}) == "ab\n"


def test_text_of_shows_text_as_itself() -> None:
    assert [write_text(value) for value in ("a", None, {"b": [1.5, "é"]})] == ["a", "null", '{"b":[1.5,"é"]}']


# Names


def test_names_are_read_as_chains() -> None:
    assert names_in("{{ steps.draft.output.x }}") == {("steps", "draft", "output", "x")}
    assert names_in_expression("steps['draft'].output") == {("steps", "draft", "output")}


def test_a_dynamic_index_ends_a_chain_and_is_read_itself() -> None:
    assert names_in_expression("steps[input.name].output") == {("steps",), ("input", "name")}
    assert names_in_expression("history[-3:] and messages[0].text") == {("history",), ("messages",)}


def test_methods_functions_and_constants_are_not_names() -> None:
    assert names_in_expression("len(context.get('a', b.c).items()) > null") == {("context",), ("b", "c")}


def test_names_of_the_template_itself_are_not_free() -> None:
    template = (
        "{% set a = b %}{% for x, y in c.d if x and e %}{{ x.z }}{{ a }}{{ loop.index }}{% else %}{{ x }}{% endfor %}"
    )
    assert names_in(template) == {("b",), ("c", "d"), ("e",), ("x",)}


def test_a_name_set_after_it_is_read_is_free() -> None:
    assert names_in("{{ a }}{% set a = 1 %}{{ a }}") == {("a",)}


def test_a_name_is_the_templates_own_if_every_branch_sets_it() -> None:
    branches = "{% if c %}{% set a = 1 %}{% else %}BRANCH{% endif %}{{ a }}"
    assert names_in(branches.replace("BRANCH", "{% set a = 2 %}")) == {("c",)}
    assert names_in(branches) == {("c",), ("a",)}


def test_names_of_nested_templates_come_together() -> None:
    assert names_in({"{{ k }}": ["{{ a }}", {"x": "{{ b }}"}], "n": 3}) == {("a",), ("b",)}


# What is refused


@pytest.mark.parametrize(
    ("expression", "hint"),
    [
        ("x | jion(', ')", "did you mean 'join'?"),
        ("x | map('uper')", "did you mean 'upper'?"),
        ("x is defind", "did you mean 'defined'?"),
        ("x | select('nmber')", "did you mean 'number'?"),
        ("x | selectattr('a', 'eqq')", "did you mean 'eq'?"),
        ("lenn(x)", "did you mean 'len'?"),
        ("x.startwith('a')", "did you mean 'startswith'?"),
        ("{{ x }}", "a condition is a bare expression, without {{ }}"),
    ],
)
def test_a_slip_is_refused_at_check_with_a_suggestion(expression: str, hint: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        check_expression(expression)
    assert caught.value.hint == hint


@pytest.mark.parametrize(
    "expression",
    [
        "", " ", "a }} {{ b", "a) + (b", "a b", "a, b", "a +", "(a", "'a", "a & b", "a = 1", 
        "x.__class__", "''.__class__.__mro__", "x['a']()", "x()()", "(x.y or z)(1)", "cycler('a')", "lipsum()",
        "namespace()", "dict(a=1)", "x.format(1)", "x.pop()", "x | random", "x | pprint", "x | urlize", "x | safe",
        "x | escape", "x | format", "x | center(2000000000)", "x | attr('a')", "len(*x)", "x | join(**y)",
        "x | join(1, 2, 3)", "x | replace('a')", "x | join(glue=1)", "x is divisibleby", "x.get()", "x[1:2, 3]",
        "9999999999999999999999", "1e999", "'\\ud800'", "9" * 5000,
    ],
)  # fmt: skip
def test_what_the_language_does_not_have_is_refused_at_check(expression: str) -> None:
    with pytest.raises(ExpressionError):
        check_expression(expression)


@pytest.mark.parametrize(
    "template",
    [
        "{% macro a() %}{% endmacro %}", "{% import 'a' as b %}", "{% from 'a' import b %}", "{% include 'a' %}",
        "{% extends 'a' %}", "{% block a %}{% endblock %}", "{% call a() %}{% endcall %}", "{% do a %}",
        "{% filter upper %}{% endfilter %}",
        "{% autoescape true %}{% endautoescape %}", "{% with a = 1 %}{% endwith %}",
        "{% set a %}{% endset %}", "{% set a.b = 1 %}", "{% print a %}", "{% for a in b recursive %}{% endfor %}",
        "{% if a %}", "{% endif %}", "{% for a in b %}", "{{ a", "{# a", "{% raw %}a", "{{ }}", "{% set null = 1 %}",
        "{% break %}", "{{ self }}{{ x.__init__ }}",
    ],
)  # fmt: skip
def test_a_template_has_if_for_and_set_and_no_other_tag(template: str) -> None:
    with pytest.raises(ExpressionError):
        check_template({"a": ["fine", template]})


def test_a_refused_tag_is_named() -> None:
    with pytest.raises(ExpressionError, match="line 2: no tag 'include' here: a template has `if`, `for` and `set`"):
        check_template("a\n{% include 'x' %}")


@pytest.mark.parametrize(
    "expression",
    [
        "output.foo", "context.items.foo", "number.real", "output['__class__']", "context.items['append']",
        "people | map(attribute='name.__class__')", "people | sort(attribute='at')", "output['x']", "context[1]",
        "context.items[true]", "context.items[{}]", "number[0]", "number.upper()", "context.goal.get('a')",
        "people.items()", "{1: 2}", "{[]: 2}", "self", "range", "len(1)", "context | upper", "7 | upper",
        "'a' - 'b'", "[1] - [1]", "{} + {}", "1 + 'a'", "'a' + 1", "none + 1", "'%s' % 1", "'a' < 1", "[1] < [2]",
        "none < 1", "1 in 2", "1 in 'a'", "[1, 'a'] | sort", "[1, none] | max", "min('a', 1)", "[[1]] | sort",
        "{'a': 1, 'b': 'c'} | dictsort(by='value')", "[1, 'a'] | unique", "min([])", "max()", "abs('a')",
        "range('a')", "range(1, 5, 0)", "1 / 0", "1 // 0", "1 % 0", "0 ** -1", "(-8) ** 0.5",
        "1e308 * 10", "2.0 ** 5000", "'nan' | float", "'1e999' | float", "'{' | fromjson", "'NaN' | fromjson",
        "'1e999' | fromjson", "'\"\\\\ud800\"' | fromjson",
        "context.items[::0]", "'a'.split('')", "', '.join([1])", "'a'.join('abc', 1)", "[1] | map(attribute=none)",
        "[1] | map", "[1] | map(output)", "[1] | select(output)", "[1] | batch(0)", "1 | round(1000000000)",
        "1 | round(0, 'x')", "1 is divisibleby 0", "'a' is even", "'a' | truncate('x')",
        "'a' | indent(-1)", "'a' | int(base=99)",
    ],
)  # fmt: skip
def test_a_use_without_a_meaning_is_an_error(expression: str) -> None:
    with pytest.raises(ExpressionError):
        evaluate(expression, NAMES)


def test_a_dunder_key_of_an_object_is_only_a_key() -> None:
    assert evaluate("x['__class__']", {"x": {"__class__": 1}}) == 1


def test_a_bomb_of_braces_is_not_read_as_python() -> None:
    assert "unknown name" in error_of("__import__").message


# What it may cost


@pytest.fixture(scope="module")
def heavy() -> dict[str, Any]:
    """Values that are large, made once: making them takes longer than most expressions on them."""
    deep: list[Any] = []
    for _ in range(5000):
        deep = [deep]
    return {
        "big": "a" * 200_000, "newlines": "\n" * 60_000, "list": [0] * 60_000, "wide": [[n] for n in range(100_000)],
        "copy": [[n] for n in range(100_000)], "huge": 10**5000, "deep": deep, "brackets": "[" * 100_000,
    }  # fmt: skip


@pytest.mark.first_row
@pytest.mark.parametrize(
    "expression",
    [
        "range(10**9)", "range(1001)", "'a' * 10**9", "[0] * 10**9", "9**9**9", "9**(9**9)", "2**64", "-(2**63) - 1",
        "9223372036854775807 + 9223372036854775807", "9223372036854775807 * 9223372036854775807",
        "big ~ big", "big + big", "[big, big] | join", "big | replace('a', 'bb')", "big.replace('', 'x')",
        "'a'.replace('', big).replace('', big)", "', '.join([big, big])", "[big, big] | string",
        "newlines | indent(1000)", "big | truncate(999999999, leeway=999999999)",
        "list + list", "big | list", "wide | sort", "[1] | batch(1000000000, 0)", "[1] | slice(1000000000)",
        "range(1000) | map('tojson', indent=1000000)", "wide | tojson(indent=16)", "huge + 1", "huge ~ ''", "[huge]",
        "big.strip(big)", "deep | tojson", "[deep, 1]", "deep ~ ''", "'[' * 10", "brackets | fromjson",
        "newlines.split('\\n') + list",
    ],
)  # fmt: skip
def test_a_bomb_is_stopped_before_it_goes_off(expression: str, heavy: dict[str, Any]) -> None:
    def go_off() -> None:
        with pytest.raises(ExpressionError):
            evaluate(f"[{expression}, {expression}, {expression}]", heavy)

    assert effort(go_off) < 2 * SECOND


@pytest.mark.first_row
@pytest.mark.parametrize(
    "template",
    [
        "{% for a in range(1000) %}{% for b in range(1000) %}{% for c in range(1000) %}" + "{% endfor %}" * 3,
        "{% set a = 'aaaaaaaaaa' %}" + "{% set a = a ~ a %}" * 40 + "{{ a }}",
        "{% set a = [1] %}" + "{% set a = a + a %}" * 40 + "{{ a }}",
        "{% set a = [1] %}" + "{% set a = [a, a] %}" * 40 + "{{ a }}",
        "{% set a = [1] %}{% set b = [1] %}" + "{% set a = [a, a] %}{% set b = [b, b] %}" * 40 + "{{ a == b }}",
        "{% set a = [1] %}{% set b = [1] %}" + "{% set a = [a, a] %}{% set b = [b, b] %}" * 40 + "{{ a in [b] }}",
        "{% set a = 9 %}" + "{% set a = a * a %}" * 40 + "{{ a }}",
        "{% for a in range(1000) %}{{ big }}{% endfor %}",
        "{% for a in range(1000) %}{% if big in bigger %}x{% endif %}{% endfor %}",
        "{% for a in range(1000) %}{% if wide == copy %}x{% endif %}{% endfor %}",
        "{% for a in range(1000) %}{% for b in range(99) %}{{ big == same }}{% endfor %}{% endfor %}",
        "{% for a in range(1000) %}{{ (big | upper | lower).split() | length }}{% endfor %}",
        "".join(f"{{% set x{n} = 1 %}}" for n in range(2000)) + "{% for a in range(1000) %}{% endfor %}" * 100,
    ],
)
def test_a_template_bomb_is_stopped(template: str) -> None:
    wide = [[n] for n in range(9999)]
    names = {"big": "a" * 200_000, "same": "a" * 200_000, "bigger": "b" * 250_000, "wide": wide, "copy": [*wide]}

    def go_off() -> None:
        with pytest.raises(ExpressionError):
            render(template, names)

    assert effort(go_off) < 2 * SECOND


@pytest.mark.first_row
@pytest.mark.parametrize(
    "expression",
    [
        "tree.missing[wide]", "tree.missing[big]", "tree.missing['" + "a" * 60_000 + "']", "deep" + "[0]" * 90,
        "tree.missing" + ".a" * 90, "tree.missing" + "[:]" * 90, "almost in copies", "almost not in copies",
        "rows | map(attribute='" + "a." * 99 + "a', default=0)", "rows | selectattr('" + "a." * 99 + "a', 'defined')",
        "rows | rejectattr('" + "a." * 99 + "a')",
    ],
)  # fmt: skip
def test_what_takes_time_takes_steps(expression: str) -> None:
    big, deep = "a" * 200_000, [1]
    for _ in range(95):
        deep = [deep]
    names = {
        "big": big, "almost": big[:-1] + "b", "copies": [big] * 60_000, "rows": [{}] * 90_000, "tree": {}, "deep": deep,
        "wide": [[number] for number in range(20_000)],
    }  # fmt: skip
    condition = "{% if (" + expression + ") is defined %}{% endif %}"

    def go_on() -> None:
        with pytest.raises(ExpressionError, match="more than 100,000 evaluation steps"):
            render("{% for a in range(1000) %}{% for b in range(1000) %}" + condition + "{% endfor %}" * 2, names)

    assert effort(go_on) < 2 * SECOND


def test_a_key_in_a_message_is_no_longer_than_it_can_be_read() -> None:
    missing = {"tree": {}, "big": "a" * 200_000, "wide": [0] * 10_000}
    assert error_of("tree.missing[wide] + 1", missing).message == "tree.missing[a list] is undefined"
    assert len(error_of("tree.missing[big] + 1", missing).message) < 80


@pytest.mark.slow
def test_names_of_many_branches_take_little_memory() -> None:
    template = (
        "".join(f"{{% set a{n} = 1 %}}" for n in range(1500)) + "{% if b %}" + "{% elif b %}" * 2500 + "{% endif %}"
    )
    tracemalloc.start()
    assert names_in(template) == {("b",)}
    assert tracemalloc.get_traced_memory()[1] < 64 << 20
    tracemalloc.stop()


def test_shared_parts_are_measured_as_often_as_they_would_be_written() -> None:
    assert "MiB" in error_of("{'a': [" + "big, " * 5000 + "]}", {"big": ["a" * 10_000]}).message
    assert "MiB" in error_of("{'a': [" + "big, " * 5000 + "]}.a", {"big": ["a" * 10_000]}).message


def test_a_built_value_nests_at_most_a_hundred_levels() -> None:
    deep: Any = 1
    for _ in range(99):
        deep = [deep]
    assert evaluate("[deep]", {"deep": deep}) == [deep]
    for expression in ("[[[deep]]]", "[[deep]] ~ ''", "[[deep]] | tojson(indent=1)"):
        assert "nested deeper than 100 levels" in error_of(expression, {"deep": [deep]}).message


def test_a_large_value_may_pass_through() -> None:
    names = {"context": {"page": "a" * 1_000_000, "rows": list(range(200_000)), "id": 2**70}}
    assert evaluate("context", names) is names["context"]
    assert render("{{ context.page }}", names) is names["context"]["page"]
    assert evaluate("context.rows | length", names) == 200_000


def test_running_text_over_the_limit_is_an_error() -> None:
    assert "256 KiB" in template_error("{{ a ~ '' }}{{ a }}", {"a": "x" * 140_000}).message
    assert len(render("{{ a ~ '' }}{{ a }}", {"a": "x" * 130_000})) == 260_000


@pytest.mark.parametrize(
    "template", ["{{ a.b }} {{ a.b }}", "{{ a.c | join('\n') }}", "x {{ a.c | join }} {{ a.c[0] }}"]
)
def test_a_text_that_only_copies_is_bounded_as_a_value(template: str) -> None:
    names = {"a": {"b": "x" * 400_000, "c": ["x" * 100_000] * 10}}
    assert len(render(template, names)) > 800_000
    huge = {"a": {"b": "x" * 5_000_000, "c": ["x" * 5_000_000] * 2}}
    assert "8 MiB" in template_error(template, huge).message


def test_several_copied_texts_fit_into_one_mapping() -> None:
    names = {"a": ["x" * 100_000] * 20}
    assert [*map(len, render({"one": "{{ a | join }}", "two": "{{ a | join }}"}, names).values())] == [2_000_000] * 2


def test_numbers_up_to_two_to_the_63_are_fine() -> None:
    assert evaluate("2 ** 62 + (2 ** 62 - 1) + 1", {}) == 2**63
    assert error_of("2 ** 63 + 1", {}).message == "a number is over 2^63"


def test_the_steps_of_a_whole_render_are_counted_together() -> None:
    template = "{% for a in range(1000) %}{% for b in range(10) %}{{ b }}{% endfor %}{% endfor %}"
    assert len(render(template, {})) == 10_000
    with pytest.raises(ExpressionError, match="more than 100,000 evaluation steps"):
        render([template, template, template], {})


@pytest.mark.first_row
@pytest.mark.parametrize(
    "expression",
    [
        "(" * 5000 + "1" + ")" * 5000, "not " * 5000 + "1", "-" * 5000 + "1", "[" * 5000, "1" + " + 1" * 5000,
        "a" + ".a" * 5000, "a" + "|upper" * 5000, "1 if 1 else " * 3000 + "1", "a" + " or a" * 5000,
        "a" + "[a" * 3000 + "]" * 3000, "a" + "|default(a" * 3000 + ")" * 3000, "a" * (MAX_SOURCE + 1),
        "a" + "()" * 5000, "1" + " ** 1" * 5000, "a is " + "not " * 5000,
    ],
)  # fmt: skip
def test_deep_nesting_is_refused_by_the_check(expression: str) -> None:
    with pytest.raises(ExpressionError):
        check_expression(expression)
    with pytest.raises(ExpressionError):
        check_template("{{ " + expression + " }}")


@pytest.mark.parametrize("opened", ["{% if a %}", "{% for a in b %}", "{% for a in " + "(" * 50])
def test_deeply_nested_tags_are_refused_by_the_check(opened: str) -> None:
    with pytest.raises(ExpressionError, match="nested too deeply"):
        check_template(opened * 61)


def test_deeply_nested_templates_are_refused_by_the_check() -> None:
    template: Any = "{{ a }}"
    for _ in range(500):
        template = [template]
    with pytest.raises(ExpressionError):
        check_template(template)
    with pytest.raises(ExpressionError):
        render(template, {"a": 1})


def test_what_the_check_passes_can_be_walked_far_down_the_stack() -> None:
    def at(depth: int, expression: str) -> Any:
        return evaluate(expression, {"a": 1}) if depth == 0 else at(depth - 1, expression)

    for expression in ("(" * 28 + "1" + ")" * 28, "not " * 56 + "a", "1" + " + 1" * 97):
        check_expression(expression)
        at(250, expression)


def test_a_small_expression_is_fast_once_parsed() -> None:
    names = {"context": {"scratchpad": {"last_agent_command": {"action": "finish"}}}}

    def a_thousand_times() -> None:
        for _ in range(1000):
            holds("context.scratchpad.last_agent_command.action == 'finish'", names)

    a_thousand_times()
    assert effort(a_thousand_times) < 0.2 * SECOND


# Anything at all


_ATOMS = st.sampled_from(
    ["1", "0", "-3", "2.5", "'a'", "'ab c'", "true", "none", "[]", "{}", "[1, 'a']", "{'a': 1}", "9223372036854775807"]
    + ["text", "list", "tree", "tree.a", "tree.missing", "tree.missing.x", "unknown", "range(1000)", "'\\n'", "huge"]
)
_BINARY = st.sampled_from(
    ["+", "-", "*", "/", "//", "%", "**", "~", "==", "!=", "<", "<=", ">", ">=", "in", "not in", "and", "or", "is eq"]
)


def _larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    filters, tests = st.sampled_from(sorted(FILTERS)), st.sampled_from(sorted(TESTS))
    methods = st.sampled_from(sorted(METHODS))
    args = st.lists(inner, max_size=3).map(", ".join)
    return st.one_of(
        st.builds("({} {} {})".format, inner, _BINARY, inner),
        st.builds("({} | {}({}))".format, inner, filters, args),
        st.builds("({} | map('{}', {}))".format, inner, filters, inner),
        st.builds("({} | sort(attribute={}))".format, inner, inner),
        st.builds("({} is {})".format, inner, tests),
        st.builds("({}).{}({})".format, inner, methods, args),
        st.builds("{}({})".format, st.sampled_from(["len", "min", "max", "abs", "range"]), args),
        st.builds("({})[{}]".format, inner, inner),
        st.builds("({})[{}:{}:{}]".format, inner, inner, inner, inner),
        st.builds("({} if {} else {})".format, inner, inner, inner),
        st.builds("[{}, {}]".format, inner, inner),
        st.builds("{{'k': {}}}.k".format, inner),
    )


_EXPRESSIONS = st.recursive(_ATOMS, _larger, max_leaves=12)
_WORLD = {
    "text": "Hello, wörld " * 50,
    "list": list(range(300)),
    "tree": {"a": [{"b": 1}, {"b": "x"}]},
    "huge": 10**400,
}


@pytest.mark.slow
@settings(max_examples=300)
@given(_EXPRESSIONS)
def test_a_well_formed_expression_gives_json_or_an_expression_error(expression: str) -> None:
    try:
        value = evaluate(expression, _WORLD)
    except ExpressionError as error:
        assert str(error)
    else:
        assert json.loads(json.dumps(value, allow_nan=False)) == value


@pytest.mark.slow
@settings(max_examples=300)
@given(_EXPRESSIONS, _EXPRESSIONS)
def test_a_well_formed_template_gives_text_or_an_expression_error(first: str, second: str) -> None:
    template = (
        f"{{% for x in {first} %}}{{{{ x }}}}{{% set y = {second} %}}{{% if y %}}{{{{ y }}}}{{% endif %}}{{% endfor %}}"
    )
    try:
        assert isinstance(render(template, _WORLD), str)
    except ExpressionError as error:
        assert error.expression == template


_PIECES = st.sampled_from(
    ["{{", "}}", "{%", "%}", "{#", "#}", "-", "+", "if", "for", "in", "set", "else", "endif", "endfor", "raw", "is"]
    + ["(", ")", "[", "]", "|", ".", ",", "'", '"', "\\", ":", "1", "9e9", "_", "\n", "x"]
)  # fmt: skip


@pytest.mark.slow
@settings(max_examples=300)
@given(st.one_of(st.text(), st.lists(st.one_of(_PIECES, st.text(max_size=3))).map(" ".join)))
def test_any_text_at_all_gives_a_value_or_an_expression_error(text: str) -> None:
    for attempt in (check_expression, check_template, names_in, names_in_expression):
        try:
            attempt(text)
        except ExpressionError as error:
            assert error.expression == text
    for work in (evaluate, holds, render):
        try:
            work(text, {"x": [1, "a"]})
        except ExpressionError as error:
            assert str(error)
