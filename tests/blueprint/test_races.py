"""`until` and `choose` of a `parallel`: what is refused."""

from __future__ import annotations

import pytest

from tests.blueprint.written import problems

BRANCHES = "branches: {a: [{name: x}], b: [{name: y}]}"


def race(keys: str, more: str = "") -> str:
    return f"steps: [{{kind: parallel, name: race, {keys}, {BRANCHES}}}{more}]"


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ("until: 3", "steps[0].until: bad_value: 'until' waits for 3 branches, but there are 2"),
        ("until: '2'", "steps[0].until: bad_value: 'until' is a number from 1 to 2 without quotes"),
        ("until: 0", "steps[0].until: bad_value"),
        ("until: true", "steps[0].until: bad_value"),
        ("until: outputs.a", "steps[0].until: unknown_name: unknown name 'outputs' (did you mean 'output'?)"),
        ("until: steps.x.output", "steps[0].until: unknown_name: the step 'x' is not visible here"),
        ("choose: [a, c]", "steps[0].choose: unknown_name"),
        ("choose: c", "steps[0].choose: unknown_name"),
        ("choose: '{{ steps.x.output }}'", "steps[0].choose: unknown_name: the step 'x' is not visible here"),
    ],
)
def test_what_cannot_be_is_refused(keys: str, problem: str) -> None:
    [found] = problems(race(keys))
    assert found.startswith(problem)


def test_the_output_of_a_race_has_a_shape() -> None:
    [found] = problems(race("until: first", ", {name: z, updates_context: true, input: '{{ previous_step.output }}'}"))
    assert "is the output of the step before already" in found
