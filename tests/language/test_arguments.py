"""The arguments of a tool by their names."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.blueprint.errors import BlueprintError
from holdfast.blueprint.load import loads
from tests.conftest import Harness
from tests.tools import calls

PAY = """
steps:
  - name: pay
    uses: pay_out
    arguments: {folder: "{{ input.folder }}", payee: "{{ input.who }}", amount: "{{ input.amount * 2 }}"}
"""


async def test_arguments_are_rendered_by_name_and_keep_their_types(house: Harness, tmp_path: Path) -> None:
    run = await house.start(PAY, {"folder": str(tmp_path), "who": "Ana", "amount": 4})
    assert await house.output(run) == {"paid": 8, "to": "Ana"}


async def test_a_tool_of_one_parameter_gets_it_by_name_too(house: Harness) -> None:
    run = await house.start('steps: [{name: s, uses: stringy, arguments: {text: "{{ input }}!"}}]', "hi")
    assert await house.output(run) == "hi!"


@pytest.mark.parametrize("arguments", ["{folder: f, payee: Ana}", "{folder: f, payee: Ana, amount: 1, extra: 1}"])
async def test_what_does_not_fit_the_tool_is_a_failure_and_nothing_is_called(house: Harness, arguments: str) -> None:
    run = await house.start(f"steps: [{{name: pay, uses: pay_out, arguments: {arguments}}}]")
    assert (await house.result(run)).error.type == "tool_input"


async def test_a_person_may_correct_the_arguments_of_a_call_that_failed(house: Harness, tmp_path: Path) -> None:
    text = PAY.replace("input.amount * 2", "input.amount") + "    on_error: ask\n"
    run = await house.start(text, {"folder": str(tmp_path), "who": "Ana", "amount": "much"})
    question = await house.one(run)
    assert question.info["input"] == {"folder": str(tmp_path), "payee": "Ana", "amount": "much"}
    edited = {**question.info["input"], "amount": 3}
    await house.answer(run, {"action": "edit", "input": edited})
    assert await house.output(run) == {"paid": 3, "to": "Ana"}
    assert calls(tmp_path, "pay") == 1


async def test_a_rejected_review_is_no_argument(house: Harness) -> None:
    text = """
    steps:
      - {kind: hitl, name: letter, ask: review, message: "Fine?", input: {to: Ana}}
      - {name: send, uses: pay_out, arguments: {folder: f, payee: "{{ steps.letter.output }}", amount: 1}}
    """
    run = await house.start(text)
    await house.answer(run, {"verdict": "rejected", "reason": "no"})
    assert (await house.result(run)).error.type == "not_approved"


@pytest.mark.parametrize(
    ("step", "path", "message"),
    [
        ("{name: s, uses: search, input: x, arguments: {}}", "steps[0].input", "both say what the tool gets"),
        ("{name: s, agent: {model: echo}, arguments: {}}", "steps[0].arguments", "steps that call a tool"),
        ("{name: s, uses: stringify, arguments: {}}", "steps[0].arguments", "steps that call a tool"),
        ("{name: s, arguments: {a: 1}}", "steps[0].arguments", "steps that call a tool"),
        ("{name: s, uses: search, arguments: {a: '{{ drfat }}'}}", "steps[0].arguments.a", "unknown name"),
        ("{name: s, uses: search, params: {a: 1}}", "steps[0].params", "unknown key"),
    ],
)
def test_what_arguments_may_not_say_is_an_error(step: str, path: str, message: str) -> None:
    with pytest.raises(BlueprintError) as caught:
        loads(f"steps: [{step}]")
    [problem] = caught.value.problems
    assert (problem.path, message in problem.message) == (path, True)
