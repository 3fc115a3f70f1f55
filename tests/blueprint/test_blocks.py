"""Blocks, undos and deadlines: what is refused."""

from __future__ import annotations

import pytest

from tests.blueprint.written import problems

UNDO = "undo: {uses: back}"


def block(steps: str, keys: str = "") -> str:
    return f"steps: [{{kind: block, name: b, steps: [{steps}]{keys}}}]"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (f"steps: [{{name: a, uses: pay, {UNDO}}}]", "steps[0].undo: conflict: nothing keeps the undo of a here"),
        (
            block(f"{{kind: cache, name: c, wrapped_step: {{name: a, uses: pay, {UNDO}}}}}"),
            "steps[0].steps[0].wrapped_step[0].undo: conflict: nothing keeps the undo of a here (c keeps none",
        ),
        (
            block("{name: b1}", f", finally: {{name: a, uses: pay, {UNDO}}}"),
            "steps[0].finally[0].undo: conflict: nothing keeps the undo of a here (what finally of b does",
        ),
        (block(f"{{name: a, {UNDO}}}"), "steps[0].steps[0].undo: conflict: 'undo' belongs to steps that do something"),
        (block("{name: a, uses: pay, undo: {uses: stringify}}"), "steps[0].steps[0].undo.uses: bad_value"),
        (
            block("{name: a, uses: pay, undo: {uses: x, input: 1, arguments: {}}}"),
            "steps[0].steps[0].undo.input: conflict",
        ),
        (
            block("{name: a}", ", deadline: soon"),
            "steps[0].deadline: bad_value: 'soon' is neither a duration nor a time",
        ),
        (block("{name: a}", ", on_deadline: ask"), "steps[0].on_deadline: conflict"),
        (block("{name: a}", ", on_undo_error: continue"), "steps[0].on_undo_error: conflict"),
        (block("{name: a, input: '{{ error }}'}"), "steps[0].steps[0].input: unknown_name: unknown name 'error'"),
        ("deadline: tomorrow\nsteps: [{name: a}]", "deadline: bad_value"),
        (
            "steps: [{kind: loop, name: l, loop: {max_loops: 1, deadline: x, body: {name: a}}}]",
            "steps[0].loop.deadline",
        ),
    ],
)
def test_what_cannot_be_is_refused(text: str, problem: str) -> None:
    [found] = problems(text)
    assert found.startswith(problem)


@pytest.mark.parametrize(
    "text",
    [
        block(f"{{name: a, uses: pay, {UNDO}}}", ", finally: {name: z, input: '{{ error.type }}'}"),
        block("{name: a, uses: pay, undo: {uses: x, arguments: {id: '{{ output.id }} {{ input }}'}}}"),
        block(f"{{kind: map, name: m, map: {{iterable_input: input, body: {{name: a, uses: pay, {UNDO}}}}}}}"),
        block("{name: a}", f", finally: {{kind: block, name: c, steps: [{{name: d, uses: pay, {UNDO}}}]}}"),
        block(
            f"{{kind: parallel, name: p, branches: {{x: {{name: a, uses: pay, {UNDO}}}}}}}", ", deadline: '{{ input }}'"
        ),
    ],
)
def test_what_can_be_is_not(text: str) -> None:
    assert problems(text) == []
