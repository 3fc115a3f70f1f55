"""A consent that is tested the wrong way, and a text that is taken for an object, are errors when they are loaded."""

from __future__ import annotations

import pytest

from holdfast.blueprint.errors import BlueprintError, Problem
from holdfast.blueprint.load import loads

SIGN = "{kind: hitl, name: sign, ask: permission, message: 'Pay?'}"
PICK = "{kind: hitl, name: pick, ask: decision, message: 'Which?', options: [red, green]}"
LOOK = "{kind: hitl, name: look, ask: review, message: 'Right?', input: '{{ input }}'}"
TYPE = "{kind: hitl, name: type, message: 'Who?'}"
BRANCHES = "{kind: conditional, name: c, condition_expression: %s, branches: {%s}}"
TRUTH = BRANCHES % ("%s", "true: {name: a}, false: {name: b}")
OR_RED = """"steps.pick.output or 'red'\""""
DECLARED = "{properties: {verdict: {}}}"
AGENT = "{name: write, agent: {model: echo}}"

WRONG = {
    f"{SIGN}, {{name: pay, when: steps.sign.output.granted}}": "write steps.sign.output; who",
    f"{SIGN}, {{name: pay, input: '{{{{ steps.sign.output.reason }}}}'}}": "steps.sign.reply",
    f"{SIGN}, {{name: pay, when: previous_step.granted}}": "write steps.sign.output",
    f"{SIGN}, {{name: pay, when: steps.sign.output == 'yes'}}": "true or false",
    f"{SIGN}, {BRANCHES % ('steps.sign.output', 'yes: {name: a}, no: {name: b}')}": "name the branches true and false",
    f"{SIGN}, {BRANCHES % ('steps.sign.output', 'true: {name: a}')}": "add a branch false",
    f"{SIGN}, {{name: pay, when: steps.sign.reply.action == 'accept'}}": "test steps.sign.output",
    f"{SIGN}, {{name: pay, when: not steps.sign.reply}}": "test steps.sign.output",
    f"{SIGN}, {{name: pay, when: steps.sign.reply.by}}": "test steps.sign.output",
    f"{SIGN}, {{name: pay, when: steps.sign.output is defined}}": "test steps.sign.output",
    f"{SIGN}, {{name: pay, when: \"steps.sign.output not in ['no', 'denied']\"}}": "compare it with true or false",
    f"{LOOK}, {{name: pay, when: steps.look.reply.action == 'accept'}}": "steps.look.reply.verdict in",
    f"{LOOK}, {{name: pay, when: steps.look.reply.verdict}}": "steps.look.reply.verdict in",
    f"{LOOK}, {{name: pay, when: steps.look.output is defined}}": "steps.look.reply.verdict in",
    f"{LOOK}, {{name: pay, when: steps.look.output.verdict == 'unchanged'}}": "steps.look.reply.verdict",
    f"{LOOK}, {{name: pay, input: '{{{{ steps.look.output.payload }}}}'}}": "write steps.look.output",
    f"{LOOK}, {{name: pay, when: steps.look.output}}": "steps.look.reply.verdict in",
    f"{PICK}, {{name: pay, when: steps.pick.output}}": "== 'OPTION'",
    f"{PICK}, {{name: pay, when: not steps.pick.output}}": "== 'OPTION'",
    f"{PICK}, {{name: pay, when: input.x and (steps.pick.output or input.y)}}": "== 'OPTION'",
    f"{PICK}, {{name: pay, when: steps.pick.output == true}}": "== 'OPTION'",
    f"{PICK}, {{name: pay, when: previous_step}}": "== 'OPTION'",
    f"{PICK}, {{name: pay, when: resume_input}}": "== 'OPTION'",
    f"{PICK}, {{name: on}}, {{name: pay, when: previous_step}}": "== 'OPTION'",
    f"{PICK}, {TRUTH % 'steps.pick.output'}": "== 'OPTION'",
    f"{PICK}, {{name: pay, input: '{{{{ 1 if steps.pick.output else 2 }}}}'}}": "== 'OPTION'",
    f"{PICK}, {{name: pay, input: '{{% if steps.pick.output %}}1{{% endif %}}'}}": "== 'OPTION'",
    f"{PICK[:-1]}, sink_to: colour}}, {{name: pay, when: context.colour}}": "== 'OPTION'",
    f"{{kind: loop, name: l, loop: {{body: {PICK}, exit_expression: output}}}}": "== 'OPTION'",
    f"{TYPE}, {{name: a, input: '{{{{ previous_step.output }}}}'}}": "write previous_step",
    f"{AGENT}, {{name: a, input: '{{{{ previous_step.output }}}}'}}": "write previous_step",
    f"{AGENT}, {{name: a, input: '{{{{ steps.write.output.id }}}}'}}": "read it as a whole",
    f"{TYPE}, {{name: a, updates_context: true}}": "write sink_to",
    "{name: a}, {name: b, input: '{{ steps.a.reply.by }}'}": "asks nobody",
    f"{SIGN[:-1]}, updates_context: true}}": "write sink_to",
}
RIGHT = [
    f"{SIGN}, {{name: pay, when: steps.sign.output}}",
    f"{SIGN}, {{name: pay, when: steps.sign.output == true}}",
    f"{SIGN}, {TRUTH % 'steps.sign.output'}",
    f"{SIGN}, {{name: pay, when: steps.sign.reply.scope == 'run'}}",
    f"{PICK}, {{name: pay, when: steps.pick.output == 'red'}}",
    f"{PICK}, {{name: pay, when: steps.pick.output is not none}}",
    f"{PICK}, {BRANCHES % ('steps.pick.output', 'red: {name: a}, green: {name: b}')}",
    f"{PICK[:-1]}, when: input.x}}, {BRANCHES % (OR_RED, 'red: {name: a}, green: {name: b}')}",
    f"{LOOK}, {{name: pay, when: steps.look.reply.verdict != 'rejected'}}",
    f"{LOOK}, {{name: pay, when: steps.look.output is not none}}",
    f"{LOOK[:-1]}, input_schema: {DECLARED}}}, {{name: a, when: steps.look.output.verdict == 1}}",
    f"{TYPE}, {{name: pay, when: previous_step}}",
    f"{TYPE}, {{name: pay, input: '{{{{ previous_step.upper() }}}}'}}",
    "{name: a, uses: tool}, {name: b, input: '{{ previous_step.output }}'}",
    "{name: a, agent: {model: echo, output_schema: {type: object}}}, {name: b, input: '{{ previous_step.output }}'}",
    "{name: a, uses: tool, updates_context: true}, {name: b, updates_context: true}",
]


def problems(steps: str) -> list[Problem]:
    try:
        loads(f"steps: [{steps}]")
    except BlueprintError as error:
        return list(error.problems)
    return []


@pytest.mark.parametrize("steps", WRONG)
def test_what_cannot_be_meant_is_an_error_with_its_way_out(steps: str) -> None:
    [problem] = problems(steps)
    assert problem.code in ("bad_consent", "bad_shape")
    assert WRONG[steps] in f"{problem.message} ({problem.hint})"


@pytest.mark.parametrize("steps", RIGHT)
def test_what_may_be_meant_is_none(steps: str) -> None:
    assert problems(steps) == []
