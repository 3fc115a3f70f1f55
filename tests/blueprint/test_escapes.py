"""Known ways out of templates and known bombs: each is refused or harmless, in every place that takes a template."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.activities import tool
from holdfast.blueprint.errors import BlueprintError
from holdfast.blueprint.expressions.error import ExpressionError
from holdfast.blueprint.expressions.evaluation import check_expression, check_template, evaluate, render
from holdfast.blueprint.json_values import JSON
from holdfast.blueprint.kinds.walk import steps_within
from holdfast.blueprint.load import load, loads
from holdfast.blueprint.source import plain, read
from tests.blueprint import escapes
from tests.fuzz.expressions import beyond
from tests.repository import EXAMPLES, ROOT

WORLD: dict[str, Any] = {
    "input": {
        "text": "plain",
        "list": [{"name": "Ada"}, {"name": "Bob"}],
        "dunder": {"__class__": "only a key", "__init__": {"__globals__": "only a key"}},
        "template": "{{ ''.__class__ }} {0.__class__}",
        "format": "{0.__class__}",
    }
}
ROOMS = ("blueprint", "protocol", "workflows", "activities", "runtime", "client", "server", "cli", "testkit")
PYTHON = ("<class", "<built-in", "<bound method", "<function", "<module", "object at 0x", "root:x:0", "uid=")
"""How texts of Python's own objects, of a password file and of a command begin."""


def harmless(value: JSON) -> bool:
    """Whether a value is JSON within the bounds, and no text of it comes from Python's objects."""
    text = json.dumps(value, allow_nan=False)
    return json.loads(text) == value and not beyond(value) and not any(mark in text for mark in PYTHON)


@pytest.mark.parametrize("expression", escapes.REFUSED)
def test_an_escape_is_refused(expression: str) -> None:
    for work, text in (
        (evaluate, expression),
        (render, f"{{{{ {expression} }}}}"),
        (render, f"a {{{{ {expression} }}}}"),
    ):
        with pytest.raises(ExpressionError):
            work(text, WORLD)


@pytest.mark.parametrize("expression", escapes.BEYOND)
def test_an_expression_does_not_end_its_braces(expression: str) -> None:
    with pytest.raises(ExpressionError):
        check_expression(expression)


@pytest.mark.parametrize("template", escapes.TAGS)
def test_an_escape_by_tags_is_refused_before_anything_runs(template: str) -> None:
    with pytest.raises(ExpressionError):
        check_template(template)


@pytest.mark.parametrize("expression", [*escapes.HARMLESS, *escapes.BOMBS])
def test_what_may_be_written_gives_json_or_an_error(expression: str) -> None:
    for work, text in (
        (evaluate, expression),
        (render, f"{{{{ {expression} }}}}"),
        (render, f"a {{{{ {expression} }}}}"),
    ):
        try:
            assert harmless(work(text, WORLD))
        except ExpressionError as error:
            assert not any(mark in str(error) for mark in PYTHON)


@pytest.mark.parametrize("template", escapes.TEMPLATE_BOMBS)
def test_a_bomb_of_tags_is_stopped(template: str) -> None:
    with pytest.raises(ExpressionError):
        render(template, WORLD)


def test_what_people_and_models_say_is_never_a_template() -> None:
    assert render("{{ input.template }} {{ input.format }}", WORLD) == (
        "{{ ''.__class__ }} {0.__class__} {0.__class__}"
    )


# Every place


def texts(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], str]]:
    """The texts of a document, each with its path."""
    match value:
        case str():
            yield path, value
        case dict() | list():
            for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
                yield from texts(inner, (*path, key))


def replaced(value: Any, path: tuple[Any, ...], text: str) -> Any:
    if not path:
        return text
    copy = value.copy()
    copy[path[0]] = replaced(value[path[0]], path[1:], text)
    return copy


def conditions(path: Path) -> set[str]:
    """The bare expressions of an example."""
    return {text for step in steps_within(load(path).steps) for text in step.conditions().values()}


def places(path: Path) -> Iterator[tuple[tuple[Any, ...], str]]:
    """Each place of an example that holds a template or an expression, with an escape of that shape."""
    bare = conditions(path)
    for at, text in texts(plain(read(path.read_text(), path.name)[0])):
        if text in bare:
            yield at, "''.__class__"
        elif "{{" in text:
            yield at, "{{ ''.__class__ }}"


@pytest.mark.first_row
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_place_of_an_example_refuses_an_escape(path: Path) -> None:
    """The examples have every key of the language: tests/test_examples_language.py."""
    document = plain(read(path.read_text(), path.name)[0])
    for at, escape in places(path):
        with pytest.raises(BlueprintError) as caught:
            loads(json.dumps(replaced(document, at, escape)), file=str(path), folder=path.parent)
        assert any("__class__" in problem.message for problem in caught.value.problems), at


@pytest.mark.slow
def test_the_examples_have_many_such_places() -> None:
    assert sum(1 for path in EXAMPLES for _ in places(path)) > 100


@pytest.mark.slow
def test_expressions_texts_pages_and_notices_have_the_only_environments() -> None:
    """Another environment of jinja2 would need a corpus of its own. That of texts renders templates of ours alone."""
    files = [path for path in ROOT.glob("*/**/*.py") if path.relative_to(ROOT).parts[0] in ROOMS]
    users = {path.relative_to(ROOT).as_posix() for path in files if re.search(r"Environment\(", path.read_text())}
    assert {user for user in users if "jinja2" in (ROOT / user).read_text()} == {
        "blueprint/expressions/parse.py",
        "blueprint/words/text.py",
        "server/notices/messages.py",
        "server/web/pages/templating.py",
    }


@pytest.mark.parametrize(
    "approve", ["args.__class__()", "args | attr('x')", "''.__class__", "lipsum()", "args.format(1)"]
)
def test_a_rule_of_a_tools_owner_refuses_an_escape(approve: str) -> None:
    with pytest.raises(ValueError, match="approve="):
        tool(name="escaping", approve=approve)(len)


@pytest.mark.parametrize(
    "approve", ["args.__class__()", "args | attr('x')", "''.__class__", "lipsum()", "args.format(1)"]
)
def test_a_condition_of_an_agents_tool_refuses_an_escape(approve: str) -> None:
    agent = {"model": "echo", "tools": [{"name": "pay", "approve": approve}]}
    with pytest.raises(BlueprintError):
        loads(json.dumps({"steps": [{"name": "a", "agent": agent}]}))


# At random

_DUNDERS = st.sampled_from(
    ["__class__", "__mro__", "__base__", "__subclasses__", "__init__", "__globals__", "__builtins__", "__dict__"]
    + ["__call__", "__self__", "__func__", "__code__", "__getattribute__", "__import__", "__reduce__", "__format__"]
    + ["format", "format_map", "mro", "environment", "_module", "gi_frame", "f_globals", "cr_frame", "tb_frame"]
)
_ROOTS = st.sampled_from(
    [
        "''",
        "[]",
        "{}",
        "1",
        "true",
        "none",
        "input",
        "input.text",
        "input.list",
        "input.dunder",
        "range(3)",
        "self",
        "lipsum",
    ]
    + [
        "cycler",
        "namespace()",
        "loop",
        "missing",
        "len",
        "('a' | upper)",
        "(input | items)",
        "(input.list | map('string'))",
    ]
)


def _deeper(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.builds("{}.{}".format, inner, _DUNDERS),
        st.builds("{}['{}']".format, inner, _DUNDERS),
        st.builds("{}[{}]".format, inner, st.integers(-2, 400)),
        st.builds("{}()".format, inner),
        st.builds("{}({})".format, inner, inner),
        st.builds("({} | attr('{}'))".format, inner, _DUNDERS),
        st.builds("({} | map(attribute='{}') | list)".format, inner, _DUNDERS),
        st.builds("({} | map('{}') | list)".format, inner, _DUNDERS),
        st.builds("({} ~ {})".format, inner, inner),
        st.builds("('{{0.{}}}'.format({}))".format, _DUNDERS, inner),
        st.builds("({} | default({}))".format, inner, inner),
    )


@pytest.mark.slow
@settings(max_examples=500)
@given(st.recursive(_ROOTS, _deeper, max_leaves=8))
def test_no_chain_of_attributes_reaches_python(expression: str) -> None:
    for work, text in ((evaluate, expression), (render, f"{{% for x in [{expression}] %}}{{{{ x }}}}{{% endfor %}}")):
        try:
            assert harmless(work(text, WORLD))
        except ExpressionError as error:
            assert not any(mark in str(error) for mark in PYTHON)
