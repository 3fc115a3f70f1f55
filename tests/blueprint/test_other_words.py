"""Words of other systems in a blueprint: each is reported once, with the word that means the same here."""

from __future__ import annotations

import pytest

from holdfast.blueprint.load import parse

WORDS = {
    "steps: [{name: a, tool: pay}]": "did you mean 'uses'?",
    "steps: [{id: a}]": "did you mean 'name'?",
    "steps: [{name: a, if: input}]": "did you mean 'when'?",
    "steps: [{name: a, model: echo}]": "it belongs to the agent, as agent.model",
    "steps: [{name: a, agent: {model: echo, temperature: 0}}]": "it belongs under `settings:`, as settings.temperature",
    "steps: [{name: a, agent: {model: echo, prompt: hi}}]": "did you mean 'instructions'?",
    "steps: [{name: a, kind: hitl, question: What?}]": "did you mean 'message'?",
    "steps: [{name: a, kind: hitl, message: What?, ask: decision, choices: [x, y]}]": "did you mean 'options'?",
    "steps: [{name: a, kind: human, message: What?}]": "did you mean 'hitl'?",
    "steps: [{name: a, kind: sleep, for: 3s}]": "did you mean 'timer'?",
    "steps: [{name: a, kind: switch, condition: 'm:f', branches: {x: [{name: b}]}}]": "did you mean 'conditional'?",
    "steps: [{name: a, kind: conditional, condition: 'm:f', cases: {x: [{name: b}]}}]": "did you mean 'branches'?",
    "steps: [{name: a, kind: loop, loop: {body: [{name: b}], max_iterations: 3}}]": "did you mean 'max_loops'?",
    "steps: [{name: a, kind: map, map: {iterable_input: input}, steps: [{name: b}]}]": "as map.body",
    "steps: [{name: a, when: input = 1}]": "write == to compare",
    "steps: [{name: a, when: input && true}]": "write `and`",
    "{inputs: {name: string}, steps: [{name: a}]}": "write {type: object, properties: {name: …}}",
    "{inputs: {items: {typ: string}}, steps: [{name: a}]}": "did you mean 'type'?",
}


@pytest.mark.parametrize("text", WORDS)
def test_a_word_of_others_is_an_error_that_names_ours(text: str) -> None:
    [problem] = parse(text).problems
    assert WORDS[text] in (problem.hint or "")


def test_the_keys_of_a_block_beside_the_step_are_one_mistake_each() -> None:
    problems = parse("steps: [{name: a, kind: map, over: input, steps: [{name: b, uses: stringify}]}]").problems
    assert [(one.path, one.hint) for one in problems] == [
        ("steps[0].over", "it belongs under `map:`, as map.iterable_input"),
        ("steps[0].steps", "it belongs under `map:`, as map.body"),
    ]


@pytest.mark.parametrize(
    "schema",
    ["{}", "{x-unit: EUR}", "{title: Name}", "{properties: {name: {}}}", "{$ref: '#/$defs/a', $defs: {a: {}}}"],
)
def test_a_schema_with_a_keyword_or_without_keys_is_valid(schema: str) -> None:
    assert parse(f"{{inputs: {schema}, steps: [{{name: a}}]}}").problems == []
