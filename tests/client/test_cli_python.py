"""Commands take `pkg.mod:name`, a pipeline that Python builds, wherever they take a file."""

from __future__ import annotations

import pytest

from tests.client.command import Holdfast

FLOWS = """
from holdfast.build import Pipeline, ask, step

with Pipeline("tea") as tea:
    kind = ask.decision("kind", "Which tea?", options=["green", "black"])
    step("made", input=f"A cup of {kind.output} tea")
"""
TESTS = """
blueprint: flows_of_tea:tea
tests:
- {name: it is made, answers: [{question: kind, content: green}], expect: {output: A cup of green tea}}
"""


@pytest.fixture
def flows(holdfast: Holdfast) -> Holdfast:
    holdfast.write("flows_of_tea.py", FLOWS)
    return holdfast


def test_a_pipeline_runs_and_is_answered(flows: Holdfast) -> None:
    parked = flows("run", "flows_of_tea:tea", "--json").json
    [question] = parked["questions"]
    assert question["message"] == "Which tea?"
    assert flows("answer", parked["run"], question["id"], "green").code == 0
    assert flows.rest(parked["run"])["output"] == "A cup of green tea"


def test_a_pipeline_is_validated_explained_and_drawn(flows: Holdfast) -> None:
    assert flows("validate", "flows_of_tea:tea").code == 0
    assert "1. kind: asks a person" in flows("explain", "flows_of_tea:tea").out
    assert "Which tea?" in flows("graph", "flows_of_tea:tea").out


@pytest.mark.slow
def test_a_pipeline_is_tested(flows: Holdfast) -> None:
    flows.write("tea.test.yaml", TESTS)
    ran = flows.as_process()("test", "tea.test.yaml")
    assert ran.code == 0, ran


def test_a_mistake_is_told_with_its_place(holdfast: Holdfast) -> None:
    lines = ["from holdfast.build import Pipeline, step", "with Pipeline('w') as w:", "    step('x', 'agents.y')"]
    holdfast.write("wrong_flows.py", "\n".join(lines))
    ran = holdfast("validate", "wrong_flows:w")
    assert (ran.code, "wrong_flows.py:3:1 steps[0].agent: " in ran.err) == (2, True), ran


HEAD = (
    "from holdfast.build import Pipeline, step\nfrom pydantic import BaseModel\nclass T(BaseModel):\n    title: str\n"
)


@pytest.mark.parametrize(
    ("name", "line", "told"),
    [
        ("truth", "with Pipeline('w') as w: step('x', when=w.input and True)", ":5:1: TypeError: input has no value"),
        (
            "field",
            "with Pipeline('w', inputs=T) as w: step('x', w.input.titel)",
            ":5:1: AttributeError: input: T",
        ),
        ("syntax", "with Pipeline('w') as", ":5:"),
        ("package", "import no_such_package", ":5:1: ModuleNotFoundError: No module named 'no_such_package'"),
        ("library", "import json; json.loads('{')", ":5:1: JSONDecodeError: "),
    ],
)
def test_a_module_that_cannot_be_imported_is_told_with_the_line(
    holdfast: Holdfast, name: str, line: str, told: str
) -> None:
    holdfast.write(f"flows_with_{name}.py", HEAD + line)
    ran = holdfast("validate", f"flows_with_{name}:w")
    assert (ran.code, f"flows_with_{name}.py{told}" in ran.err) == (2, True), ran


@pytest.mark.parametrize(
    ("target", "told"),
    [
        ("no_such_flows:x", "cannot import it: No module named 'no_such_flows'"),
        ("flows_of_tea:coffee", "has no 'coffee'"),
        ("flows_of_tea:ask", "is no blueprint, but QuestionBuilder"),
    ],
)
def test_what_is_no_pipeline_is_told(flows: Holdfast, target: str, told: str) -> None:
    ran = flows("run", target)
    assert (ran.code, told in ran.err) == (2, True), ran
