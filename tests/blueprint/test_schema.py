"""The JSON Schema of the language: what loads fits it, what is misspelt does not."""

from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import pytest

from holdfast.blueprint.core import expand
from holdfast.blueprint.expressions.evaluation import check_expression, check_template
from holdfast.blueprint.load import loads
from holdfast.blueprint.schema import language_schema
from holdfast.blueprint.source import plain, read
from tests.blueprint.written import ALL

VALIDATOR = jsonschema_rs.Draft202012Validator(language_schema())


def fits(text: str) -> bool:
    return VALIDATOR.is_valid(plain(read(text, "f.yaml")[0]))


@pytest.mark.parametrize("name", ALL)
def test_an_example_fits_as_it_is_written_and_in_core_form(name: str) -> None:
    assert [error.message for error in VALIDATOR.iter_errors(plain(read(ALL[name], "f.yaml")[0]))] == []
    assert fits(expand(loads(ALL[name], name="example")))


@pytest.mark.parametrize(
    "text",
    [
        "steps: [{name: a}]",
        "steps: {name: a}",
        "steps: {steps: [{name: a, when: true, timeout: 3, uses: t}]}",
        "imports: {r: ./r.yaml, s: {steps: [{name: a}]}}\nsteps: [{name: a, agent: {id: t}}]",
        "steps: [{kind: hitl, name: h, options: [a, 1, true, {id: b}], timeout: 1h, default: '1'}]",
        "steps: [{kind: loop, name: l, loop: {body: {name: a}, stop_when: agent_finished, propagation: auto}}]",
        "agents: {e: {model: echo, system_prompt: {from_file: x}}}\nsteps: [{name: a}]",
        "steps: [{name: a, on_error: {fallback: {name: b}}}]",
    ],
)
def test_short_forms_fit(text: str) -> None:
    assert fits(text)


@pytest.mark.parametrize(
    "text",
    [
        "stps: []",
        "steps: [{nme: a}]",
        "steps: [{name: a, usees: t}]",
        "steps: [{kind: aproval, name: a}]",
        "steps: [{kind: map, name: a}]",
        "steps: [{kind: loop, name: l, loop: {body: {name: a}, max_lops: 3}}]",
        "steps: [{kind: loop, name: l, loop: {body: [{nme: a}], max_loops: 3}}]",
        "steps: [{kind: loop, name: l, loop: {body: {steps: [{name: a}], x: 1}, max_loops: 3}}]",
        "steps: [{kind: loop, name: l, loop: {body: {name: a}, stop_when: done}}]",
        "steps: [{kind: loop, name: l, loop: {body: {name: a}, init: {histroy: {}}}}]",
        "steps: [{kind: hitl, name: h, ask: reveiw}]",
        "steps: [{name: a, agent: {modl: echo}}]",
        "steps: [{name: a, on_error: contineu}]",
        "steps: [{name: a, when: [1]}]",
        "version: '0.2'\nsteps: [{name: a}]",
        "steps: [{name: a, interrupt_befor: true}]",
    ],
)
def test_what_is_misspelt_does_not_fit(text: str) -> None:
    assert not fits(text)


def keys(node: Any, at: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every key of every object of a schema, as `Loop.loop`, with what the schema says of it."""
    match node:
        case {"properties": properties}:
            for key, form in properties.items():
                yield f"{at}.{key}", form
                yield from keys(form, f"{at}.{key}")
    for word in ("items", "additionalProperties", "then", "else", "anyOf", "oneOf", "allOf"):
        inner = node.get(word, [])
        for one in inner if isinstance(inner, list) else [inner]:
            if isinstance(one, dict):
                yield from keys(one, at)


DEFINITIONS: dict[str, Any] = language_schema()["$defs"]
KEYS = {key: form for name, definition in DEFINITIONS.items() for key, form in keys(definition, name)}


def test_every_key_of_every_object_has_a_description() -> None:
    silent = [key for key, form in KEYS.items() if not form.get("description")]
    assert not silent, f"no description: {', '.join(silent)}"


def test_every_key_of_every_object_has_an_example() -> None:
    """If not: `examples=` of its field in the kind, or of its type."""
    bare = [key for key, form in KEYS.items() if not form.get("examples")]
    assert not bare, f"no example: {', '.join(bare)}"


@pytest.mark.slow
def test_every_example_fits_the_schema_of_its_key() -> None:
    wrong = [
        f"{key}: {example}: {error.message}"
        for key, form in KEYS.items()
        for example in form.get("examples", [])
        for error in jsonschema_rs.Draft202012Validator({**form, "$defs": DEFINITIONS}).iter_errors(example)
    ]
    assert not wrong, "\n".join(wrong)


def test_every_template_and_condition_among_the_examples_can_be_parsed() -> None:
    conditions = {"when", "exit_expression", "condition_expression", "iterable_input"}
    for key, form in KEYS.items():
        for example in form.get("examples", []):
            check_template(example)
            if key.rpartition(".")[2] in conditions:
                check_expression(example)


def test_the_schema_is_a_schema() -> None:
    assert jsonschema_rs.meta.is_valid(language_schema())
