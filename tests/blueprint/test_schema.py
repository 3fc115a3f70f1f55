"""The JSON Schema of the language: what loads fits it, what is misspelt does not."""

from typing import Any

import jsonschema_rs
import pytest

from blueprint import expand, loads
from blueprint.schema import language_schema
from blueprint.source import plain, read
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


def test_every_key_has_a_description_but_those_that_explain_themselves() -> None:
    own = {"target", "value", "id", "label", "description", "recommended", "risk", "cost", "time", "risks", "kind"}
    for name, definition in language_schema()["$defs"].items():
        if name in ("Operation", "Steps", "FromFile"):
            continue
        keys: dict[str, Any] = definition["properties"]
        assert {key for key, form in keys.items() if "description" not in form} <= own | {"loop", "map"}, name


def test_the_schema_is_a_schema() -> None:
    assert jsonschema_rs.meta.is_valid(language_schema())
