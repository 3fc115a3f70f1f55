"""What is known before a run is checked before it: each mistake with its place, its code and its way out."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from holdfast.blueprint.errors import Problem
from holdfast.blueprint.kinds.knowledge import ToolShapes
from holdfast.blueprint.load import parse, parse_file
from holdfast.blueprint.shape import Shape
from holdfast.blueprint.shapes import judge
from tests.repository import ROOT

DOCUMENT = """\
inputs:
  type: object
  additionalProperties: false
  properties:
    amount: {type: number}
    payee: {type: string}
    tags: {type: array, items: {enum: [new, late]}}
context: {paid: 0, log: []}
context_schema:
  type: object
  additionalProperties: false
  properties: {paid: {type: number}, log: {type: array}, names: {type: array, items: {type: string}}}
agents:
  judge:
    model: echo
    output_schema:
      $defs: {word: {type: object, additionalProperties: false, properties: {text: {type: string}}}}
      type: object
      additionalProperties: false
      properties: {score: {type: number}, words: {type: array, items: {$ref: "#/$defs/word"}}}
imports:
  other:
    inputs: {type: object, required: [topic]}
    steps: [{name: inner, agent: {model: echo}}]
    output: {text: "{{ steps.inner.output }}"}
steps:
  - {name: rate, agent: judge}
  - {kind: hitl, name: sign, ask: permission, message: "Pay?"}
  - {kind: hitl, name: pick, ask: decision, message: "Which?", options: [red, green]}
  - {kind: hitl, name: several, ask: decision, message: "Which?", options: [red, green], multiple: true}
  - {kind: hitl, name: who, message: "Who?"}
  - kind: hitl
    name: form
    message: "How much?"
    input_schema: {type: object, additionalProperties: false, properties: {amount: {type: integer, minimum: 1}}}
"""
CHOOSE = "{kind: conditional, name: c, condition_expression: %s, branches: {%s}}"
WHEN = '{name: x, when: "%s"}'
READ = '{name: x, input: "{{ %s }}"}'
EACH = "{kind: map, name: m, map: {iterable_input: %s, body: {name: x%s}}}"

RACE = "{kind: parallel, name: p, branches: {left: {name: a}, right: {name: b}}, %s}"

PLAN = "{kind: plan, name: work, plan: {goal: g, confirm: true, steps: [{id: '1', instruction: Do}]}}, "

MISTAKES = {
    # The eight that were planted in the blueprint of a user, none of which was found.
    READ % "input.amont": ("amont", "unknown_field", "did you mean 'amount'?"),
    READ % "context.payed": ("payed", "unknown_field", "did you mean 'paid'?"),
    CHOOSE % ("steps.sign.output", "true: {name: a}, flase: {name: b}"): (
        "steps.sign.output",
        "bad_consent",
        "name the branches true and false",
    ),
    WHEN % "steps.sign.output == 'true'": ("steps.sign.output", "bad_consent", "compare it with true or false"),
    READ % "steps.rate.output.scroe": ("scroe", "unknown_field", "did you mean 'score'?"),
    CHOOSE % ("steps.pick.output", "red: {name: a}, green: {name: b}, grean: {name: d}"): (
        "grean",
        "unreachable_branch",
        "did you mean 'green'?",
    ),
    CHOOSE % ("steps.pick.output", "red: {name: a}"): ("branches", "uncovered_value", "the key default_branch"),
    READ % "steps.who.output.id": ("id", "bad_shape", "steps.who.output is a text"),
    # Paths.
    READ % "steps.form.output.amuont": ("amuont", "unknown_field", "did you mean 'amount'?"),
    READ % "input['amont']": ("amont", "unknown_field", "did you mean 'amount'?"),
    READ % "input.payee ~ ' ' ~ input.payeee": ("payeee", "unknown_field", "did you mean 'payee'?"),
    READ % "steps.rate.output.words[0].txt": ("txt", "unknown_field", "did you mean 'text'?"),
    READ % "(steps.rate.output.words | first).txt": ("txt", "unknown_field", "did you mean 'text'?"),
    READ % "input.get('amount').cents": ("cents", "bad_shape", "is a number"),
    READ % "steps.rate.output.words.length": ("length", "bad_shape", "write `| length`"),
    EACH % ("steps.rate.output.words", ", input: '{{ item.txt }}'"): ("txt", "unknown_field", "did you mean 'text'?"),
    "{name: x, uses: imports.other, input: {topic: a}}, {name: y, input: '{{ previous_step.txet }}'}": (
        "txet",
        "unknown_field",
        "did you mean 'text'?",
    ),
    "{kind: map, name: m, map: {iterable_input: input.tags, body: {name: a}, "
    "finalize: {output: '{{ report[0].stauts }}'}}}": ("stauts", "unknown_field", "did you mean 'status'?"),
    "{kind: parallel, name: p, branches: {left: {name: a}, right: {name: b}}}, "
    "{name: x, input: '{{ steps.p.output.lefft }}'}": ("lefft", "unknown_field", "did you mean 'left'?"),
    "{kind: loop, name: l, loop: {max_loops: 2, body: {name: a, agent: judge}}}, "
    "{name: x, input: '{{ steps.l.output.words2 }}'}": ("words2", "unknown_field", "did you mean 'words'?"),
    "{kind: cache, name: k, wrapped_step: {name: a, agent: judge}}, {name: x, input: '{{ steps.k.output.skore }}'}": (
        "skore",
        "unknown_field",
        "did you mean 'score'?",
    ),
    # Comparisons.
    WHEN % "steps.pick.output == 'grene'": ("grene", "impossible_comparison", "did you mean 'green'?"),
    WHEN % "steps.pick.output != 'blue'": ("blue", "impossible_comparison", "it is 'red' or 'green'"),
    WHEN % "steps.pick.output in ['red', 'blue']": ("blue", "impossible_comparison", "it is 'red' or 'green'"),
    WHEN % "steps.rate.output.score == '5'": ("5", "impossible_comparison", "write it without quotes"),
    WHEN % "steps.who.output == 5": ("5", "impossible_comparison", "write '5'"),
    WHEN % "steps.form.output.amount == 0": ("0", "impossible_comparison", "of at least 1"),
    WHEN % "'red2' in steps.several.output": ("red2", "impossible_comparison", "did you mean 'red'?"),
    WHEN % "input.tags[0] == 'old'": ("old", "impossible_comparison", "it is 'new' or 'late'"),
    WHEN % "steps.pick.status == 'complete'": ("complete", "impossible_comparison", "did you mean 'completed'?"),
    WHEN % "steps.pick.reason == 'declind'": ("declind", "impossible_comparison", "did you mean 'declined'?"),
    WHEN % "steps.pick.reply.action == 'accepted'": ("accepted", "impossible_comparison", "did you mean 'accept'?"),
    WHEN % "input.payee == input.amount": ("input", "impossible_comparison", "values of one kind"),
    WHEN % "steps.who.output > 3": ("steps", "bad_shape", "`| int` reads one"),
    WHEN % "steps.rate.output.words > 3": ("steps", "bad_shape", "`| length` counts"),
    WHEN % "'a' in input.amount": ("a", "bad_shape", "`in` needs a list"),
    # Lists as they are written, tables, and what is compared by `min`.
    READ % "[input.amount, input.payee] | max": ("{{", "bad_shape", "they have no order"),
    WHEN % "min(input.amount, input.payee) > 3": ("min", "bad_shape", "input.amount is a number, and input.payee is"),
    WHEN % "steps.several.output == ['red2']": ("red2", "impossible_comparison", "did you mean 'red'?"),
    READ % "{'completed': 'ok', 'skiped': 'no'}[steps.rate.status]": (
        "skiped",
        "impossible_comparison",
        "steps.rate.status is never 'skiped' (did you mean 'skipped'?)",
    ),
    READ % "{'rot': 1, 'red': 2}.get(steps.pick.output, 3)": ("rot", "impossible_comparison", "it is 'red' or"),
    READ % "steps.form.output[steps.pick.output]": ("{{", "unknown_field", "has no 'red' (it has amount)"),
    RACE % "until: 1" + ", " + WHEN % "steps.p.output.winner == ['middle']": (
        "middle",
        "impossible_comparison",
        "'left' or",
    ),
    "{name: x, input: '{{ context.names + [1] }}', sink_to: names}": (
        "names",
        "bad_shape",
        "an element of it is a number",
    ),
    # Truth and branches.
    WHEN % "steps.pick.output": ("steps", "bad_consent", "== 'OPTION'"),
    CHOOSE % ("input.amount > 3", "yes: {name: a}, true: {name: b}, false: {name: d}"): (
        "yes",
        "unreachable_branch",
        "name it true or false",
    ),
    CHOOSE % ("\"'big' if input.amount > 3 else 'small'\"", "big: {name: a}, tiny: {name: b}, small: {name: d}"): (
        "tiny",
        "unreachable_branch",
        "name it 'big' or 'small'",
    ),
    # Arithmetic, calls, filters, lists.
    READ % "steps.who.output + 1": ("{{", "bad_shape", "`~` joins values as text"),
    READ % "steps.who.output * 2": ("{{", "bad_shape", "`| int` or `| float`"),
    READ % "steps.rate.output.score.upper()": ("{{", "bad_shape", "`| string` makes text"),
    READ % "input.amount | join(', ')": ("{{", "bad_shape", "a list, an object or a text is needed"),
    READ % "input.amount | length": ("{{", "bad_shape", "a text, a list or an object has one"),
    "{name: x, input: '{% for a in input.amount %}{{ a }}{% endfor %}'}": ("{%", "bad_shape", "is needed"),
    EACH % ("input.amount", ""): ("input.amount", "bad_shape", "a map goes through a list"),
    # What filters, tests and methods look at.
    READ % "steps.rate.output.words | map(attribute='txt') | list": ("txt", "unknown_field", "did you mean 'text'?"),
    READ % "(steps.rate.output.words | sort(attribute='txt') | first).text": ("txt", "unknown_field", "no element of"),
    READ % "steps.rate.output.words | selectattr('txt') | list": ("txt", "unknown_field", "did you mean 'text'?"),
    READ % "input.tags | map(attribute='name') | list": ("name", "unknown_field", "each is a text"),
    READ % "steps.rate.output.words | selectattr('text', 'equalto', 5) | list": (
        "5",
        "impossible_comparison",
        "each is a text",
    ),
    READ % "input.tags | select('in', ['new', 'old']) | list": (
        "old",
        "impossible_comparison",
        "it is 'new' or 'late'",
    ),
    READ % "(steps.rate.output.words | map(attribute='text') | first).length": ("length", "bad_shape", "`| length`"),
    READ % "input.get('amont', 0)": ("amont", "unknown_field", "did you mean 'amount'?"),
    WHEN % "'amont' in input": ("amont", "impossible_comparison", "did you mean 'amount'?"),
    WHEN % "steps.pick.output is in(['grene'])": ("grene", "impossible_comparison", "did you mean 'green'?"),
    WHEN % "steps.pick.output is ne('grene')": ("grene", "impossible_comparison", "did you mean 'green'?"),
    READ % "input.tags | sum": ("{{", "bad_shape", "what `sum` looks at in input.tags is a text: it needs numbers"),
    READ % "steps.rate.output.words | max": ("{{", "bad_shape", "is an object: it needs numbers or texts"),
    READ % "steps.rate.output.words | sort | list": ("{{", "bad_shape", "name the part of each: attribute='…'"),
    READ % "input.payee.startswith(5)": ("5", "bad_shape", "`| string` makes text"),
    READ % "input.payee | truncate(length='10')": ("10", "bad_shape", "write it without quotes"),
    READ % "context.log[:'3']": ("3", "bad_shape", "a slice needs a whole number"),
    READ % "steps.rate.output[0]": ("0", "bad_shape", "has keys, which are texts"),
    READ % "context.log | dictsort": ("{{", "bad_shape", "needs an object"),
    WHEN % "input.amount is divisibleby('2')": ("2", "bad_shape", "needs a number"),
    WHEN % "input.amount is gt('2')": ("input.amount", "bad_shape", "have no order"),
    CHOOSE % ("input.amount", "low: {name: a}, 5: {name: b}"): ("low", "unreachable_branch", "is a number"),
    # Races, routers and undos.
    "{kind: parallel, name: p, branches: {left: {name: a, input: 1}, right: {name: b}}, reduce: union}": (
        "left",
        "bad_shape",
        "branches.left cannot be joined: it is a number, not an object",
    ),
    RACE % "until: output.lefft is defined": ("lefft", "unknown_field", "did you mean 'left'?"),
    RACE % "choose: '{{ steps.pick.output }}'": ("{{", "bad_shape", "no branch is named 'red'"),
    RACE % "choose: \"{{ ['left', 'rigt'] }}\"": ("{{", "bad_shape", "no branch is named 'rigt'"),
    "{kind: block, name: b, steps: [{name: a, agent: judge, undo: {uses: t, input: '{{ output.scroe }}'}}]}": (
        "scroe",
        "unknown_field",
        "did you mean 'score'?",
    ),
    "{kind: block, name: b, steps: [{name: a}], finally: [{name: f, when: error.type == 5}]}": (
        "5",
        "impossible_comparison",
        "error.type is never 5",
    ),
    # Facts, options and merges.
    "{kind: clarify, name: f, goal: g, known: '{{ input.payee }}', schema: {type: object, properties: {a: {}}}}": (
        "{{",
        "bad_shape",
        "it is a text, not an object",
    ),
    "{kind: hitl, name: h, ask: decision, message: Which?, options: '{{ input.amount }}'}": (
        "{{",
        "bad_shape",
        "a list",
    ),
    # Replies.
    READ % "steps.sign.reply.bye": ("bye", "unknown_field", "did you mean 'by'?"),
    READ % "steps.sign.reply.verdict": ("verdict", "unknown_field", "it has action, by, at, proved_by, comment"),
    READ % "steps.pick.reply.scope": ("scope", "unknown_field", "steps.pick.reply has no 'scope'"),
    WHEN % "steps.sign.reply.scope == 'allways'": ("allways", "impossible_comparison", "did you mean 'always'?"),
    READ % "steps.several.reply.answers[0].who": ("who", "unknown_field", "it has by, at, content"),
    "{kind: wait, name: paid, for: paid, key: '1'}, {name: x, input: '{{ steps.paid.reply.event.nam }}'}": (
        "nam",
        "unknown_field",
        "did you mean 'name'?",
    ),
    # Plans.
    PLAN + "{name: x, input: '{{ output.stauts }}'}": ("stauts", "unknown_field", "did you mean 'status'?"),
    PLAN + WHEN % "output.status == 'failed'": ("failed", "impossible_comparison", "'completed_with_errors'"),
    PLAN + "{name: x, input: \"{{ output.steps['1'].date }}\"}": ("date", "unknown_field", "did you mean 'data'?"),
    PLAN + WHEN % "output.steps['1'].status == 'done'": ("done", "impossible_comparison", "it is 'completed'"),
    PLAN + WHEN % "steps.work.reply.verdict == 'revised'": ("revised", "impossible_comparison", "mean 'revise'?"),
    PLAN + "{kind: plan, name: again, plan: {from: '{{ input.amount }}'}}": ("{{", "bad_shape", "is a number, not"),
    "{kind: plan, name: again, plan: {from: '{{ steps.rate.output }}'}}": (
        "{{",
        "bad_shape",
        "has none of steps, plan",
    ),
    # Times and people.
    "{kind: timer, name: t, for: '{{ input.payee }} days'}": ("{{", "bad_shape", "whatever its values are"),
    "{kind: timer, name: t, for: 'in {{ input.payee }}'}": ("in {{", "bad_shape", "whatever its values are"),
    "{kind: timer, name: t, for: '{{ steps.pick.output }}h'}": ("{{", "bad_shape", "whatever its values are"),
    "{kind: hitl, name: h, message: Go?, quorum: '{{ input.payee }} people'}": ("{{", "bad_shape", "whatever its"),
    "{kind: timer, name: t, for: '{{ input.tags }}'}": ("{{", "bad_shape", "'for' does not fit: it is a list"),
    "{kind: timer, name: t, for: '{{ input.amount }} days'}": ("{{", "bad_shape", "'2 days' is not a duration"),
    "{kind: timer, name: t, until: '{{ input.amount }}'}": ("{{", "bad_shape", "it is a number, not a text"),
    "{kind: timer, name: t, until: '{{ input.amount }}d'}": ("{{", "bad_shape", "'2d' is not a time"),
    "{kind: block, name: b, deadline: '{{ input.tags }}', steps: [{name: a}]}": ("{{", "bad_shape", "it is a list"),
    "{kind: block, name: b, deadline: '{{ steps.pick.output }}', steps: [{name: a}]}": ("{{", "bad_shape", "'red'"),
    "{kind: loop, name: l, loop: {max_loops: 2, deadline: '{{ input.amount }} days', body: [{name: a}]}}": (
        "{{",
        "bad_shape",
        "'loop.deadline' does not fit: '2 days' is not a time",
    ),
    "{kind: hitl, name: h, message: Go?, assignees: '{{ steps.rate.output.words }}'}": (
        "{{",
        "bad_shape",
        "each element of it is an object, not a text",
    ),
    "{kind: hitl, name: h, message: Go?, assignees: ['user:ana', '{{ steps.form.output }}']}": (
        "{{",
        "bad_shape",
        "it is an object, not a list or a text",
    ),
    # What is given and written.
    "{name: x, input: 1, sink_to: payed}": ("payed", "unknown_field", "did you mean 'paid'?"),
    "{name: x, input: '{{ steps.who.output }}', sink_to: paid}": ("paid", "bad_shape", "it is a text, not a number"),
    "{name: x, input: {paid: '{{ input.payee }}'}, updates_context: true}": ("true", "bad_shape", "not a number"),
    "{kind: loop, name: l, loop: {max_loops: 2, body: {name: a}, state: {append: {target: context.paid, value: 1}}}}": (
        "context.paid",
        "bad_shape",
        "nothing can be appended to it",
    ),
    "{name: x, uses: imports.other, input: {topik: a}}": ("{topik", "bad_shape", "it lacks 'topic'"),
    "{name: x, input: '{{ input.payee }}', input_schema: {type: integer}}": ("{{", "bad_shape", "not a number"),
    "{kind: hitl, name: x, message: 'Who?', output_schema: {type: object}}": (
        "{type: object}",
        "bad_shape",
        "never fits output_schema: it is a text, not an object (write input_schema for the form of an answer)",
    ),
    "{name: x, input: '{{ input.tags }}', output_schema: {type: number}}": ("{type: number}", "bad_shape", "a list"),
    "{name: x, input: '{{ input.amount }}', updates_context: true}": ("true", "bad_shape", "write sink_to: NAME"),
}

FINE = [
    READ % "input.amount | default(0)",
    READ % "steps.rate.output.words | map(attribute='text') | join(', ')",
    READ % "steps.rate.output.words[0].text.upper()",
    READ % "input.get('amount', 0) + 1",
    READ % "'many' if input.amount > 3 else input.amount",
    READ % "input.amount.x if input.amount is mapping else 1",
    READ % "(input.payee | fromjson).any.key",
    READ % "steps.rate.output['sco' ~ 're']",
    READ % "steps.rate.output.words | map(attribute='txt', default='') | list",
    READ % "steps.rate.output.words | selectattr('text', 'equalto', none) | list",
    READ % "input.tags | reject('equalto', 'new') | list",
    READ % "input.payee | fromjson | map(attribute='any.key') | list",
    READ % "steps.rate.output.words | map('upper') | list",
    READ % "input.tags | max",
    WHEN % "input.amount is divisibleby(2.5)",
    READ % "min(input.amount, 3) if input.amount else max(steps.rate.output.score, 0)",
    READ % "{'completed': 1, 'skipped': 2}[steps.rate.status]",
    READ % "{'completed': 1}.get(steps.rate.status, 2)",
    READ % "{'red': {'price': 1}, 'green': {'price': 2}}[steps.pick.output].price",
    WHEN % "steps.several.output == ['red'] or steps.several.output == []",
    READ % "[input.amount, input.payee] + [1]",
    "{name: x, input: '{{ context.names + [input.payee] }}', sink_to: names}",
    READ % "input.tags | sort(reverse=true) | list",
    READ % "steps.rate.output.words | sum(attribute='text.length', start=0) if false else 1",
    READ % "steps.rate.output.words | map(attribute='text') | max",
    READ % "input.payee.startswith(['a', 'b'])",
    CHOOSE % ("input.amount", "5: {name: a}, 2.5: {name: b}, 'null': {name: d}"),
    RACE % "reduce: values",
    "{kind: hitl, name: h, ask: decision, message: Which?, options: '{{ input.tags }}'}",
    WHEN % "'amount' in input and steps.pick.output is in(['red', 'green'])",
    RACE % "until: output.left is defined and output.right == 'good'",
    RACE % "choose: '{{ input.payee }}'",
    WHEN % "steps.pick.output == none",
    WHEN % "steps.pick.output in ['red', 'green']",
    WHEN % "steps.sign.output and input.amount > 3",
    WHEN % "steps.rate.status == 'skipped'",
    WHEN % "steps.rate.reason == 'condition_false'",
    WHEN % "input.amount == 1 or input.amount == 2.5",
    WHEN % "'red' in steps.several.output",
    CHOOSE % ("steps.pick.output", "red: {name: a}, green: {name: b}, 'null': {name: d}"),
    "{name: x, input: '{{ input.amount }}', sink_to: paid}",
    "{name: x, uses: imports.other, input: {topic: a, more: 1}}",
    "{name: x, uses: any_tool, sink_to: paid}",
    READ % "steps.sign.reply.reason or steps.sign.reply.by or steps.sign.reply.scope",
    PLAN + "{name: x, input: \"{{ output.steps['1'].data or output.steps['2'].reason or output.note }}\"}",
    PLAN + WHEN % "steps.work.reply.verdict == 'edited' and output.status == 'completed_with_errors'",
    "{kind: timer, name: t, for: '{{ input.amount }}d'}",
    "{kind: timer, name: t, for: '{{ input.amount }}'}",
    "{kind: timer, name: t, until: '{{ input.payee }}'}",
    "{kind: timer, name: t, for: '{{ input.payee }}h'}",
    "{kind: timer, name: t, for: '{{ input.payee }}h30m'}",
    "{kind: timer, name: t, for: 'P{{ input.payee }}'}",
    "{kind: timer, name: t, for: 'PT{{ input.payee }}M'}",
    "{kind: timer, name: t, for: '{{ input.amount }}{{ input.payee }}'}",
    "{kind: hitl, name: h, message: Go?, quorum: '0{{ input.payee }}'}",
    "{kind: plan, name: again, plan: {from: '{{ steps.who.output }}'}}",
    "{kind: plan, name: again, plan: {from: '{{ input.tags }}'}}",
    "{kind: block, name: b, deadline: '{{ input.amount }}h30m', steps: [{name: a}]}",
    "{kind: hitl, name: h, message: Go?, assignees: '{{ input.tags }}'}",
    "{kind: hitl, name: h, message: Go?, assignees: ['user:ana', '{{ steps.who.reply.by }}']}",
    EACH % ("input.tags", ", when: item == 'new'"),
    EACH % ("input.payee", ", input: '{{ item.any }}'"),
]


EXAMPLES = [path for path in sorted(ROOT.glob("examples/*/*.yaml")) if path.stem == path.parent.name]
SHAPES = ("constant_condition", "unlisted_key", "unused_default")


def find_problems(steps: str) -> tuple[str, list[Problem]]:
    """Return the document with these steps at its end, and what is wrong with it."""
    text = DOCUMENT + "".join(f"  - {step}\n" for step in split(steps))
    return text, parse(text).problems


def split(steps: str) -> list[str]:
    """Return the steps of a line, each written as an object."""
    found, depth, start = [], 0, 0
    for index, letter in enumerate(steps):
        depth += {"{": 1, "}": -1}.get(letter, 0)
        if letter == "}" and depth == 0:
            found.append(steps[start : index + 1].lstrip(", "))
            start = index + 1
    return found


@pytest.mark.parametrize("steps", MISTAKES)
def test_what_cannot_be_is_told_with_its_place_and_a_way_out(steps: str) -> None:
    at, code, says = MISTAKES[steps]
    text, [problem] = find_problems(steps)
    written = text.splitlines()[problem.line - 1][problem.column - 1 :]
    assert (problem.code, written.lstrip("\"'")[: len(at)]) == (code, at.lstrip("\"'"))
    assert says in f"{problem.message} ({problem.hint})"


MAYBE = "{kind: hitl, name: maybe, ask: permission, message: Go?, when: input.amount > 3}"
REVIEW = "{kind: hitl, name: look, ask: review, message: Good?}"
AFTER_NO = [
    "steps.sign.status == 'completed'",
    "not steps.sign.status == 'skipped'",
    "steps.sign.output != none",
    "steps.sign.output is not none",
    "steps.sign.output in [true, false]",
    "steps.sign.output | string",
    "steps.sign.output ~ ''",
    "[steps.sign.output]",
    "len([steps.sign.output]) > 0",
    "steps.sign.output or true",
    "input.amount > 3 and steps.sign.status == 'completed'",
    "steps.sign.status == 'completed' or input.amount > 3",
    "steps.maybe.status == 'completed'",
    "steps.look.status == 'completed'",
    "steps.look.reply.verdict != 'edited'",
]
NOT_AFTER_NO = [
    "steps.sign.status == 'completed' and steps.sign.output",
    "steps.sign.status == 'completed' and input.amount > 3 and steps.sign.output",
    "steps.maybe.status != 'skipped'",
    "not steps.sign.output",
    "steps.look.reply.verdict == 'rejected'",
    "steps.sign.output and steps.sign.reply.by != 'user:ana'",
    "steps.sign.reply.comment",
    "steps.rate.status == 'completed'",
    "steps.sign.output and steps.maybe.output",
]


@pytest.mark.parametrize("condition", AFTER_NO)
def test_a_condition_that_holds_after_a_no_is_a_mistake_wherever_it_stands(condition: str) -> None:
    asked = f"{REVIEW}, {MAYBE}, "
    assert [one.code for one in find_problems(asked + WHEN % condition)[1]] == ["bad_consent"]


@pytest.mark.parametrize("condition", ["previous_step != none", "context.fine != none", "resume_input != none"])
def test_an_answer_that_goes_by_another_name_is_a_consent_too(condition: str) -> None:
    text = "steps: [{kind: hitl, name: sign, ask: permission, message: Go?, sink_to: fine}, %s]"
    assert [one.code for one in parse(text % WHEN % condition).problems] == ["bad_consent"]
    assert parse(text % WHEN % condition.replace(" != none", "")).problems == []


@pytest.mark.parametrize(
    "value",
    ["steps.sign.status == 'completed'", "steps.sign.status != 'completed'", "steps.sign.status == 'completed' or 1"],
)
def test_a_choice_that_is_the_same_after_a_no_is_a_mistake(value: str) -> None:
    chosen = CHOOSE % (f'"{value}"', "true: {name: a}, false: {name: b}")
    assert "bad_consent" in [one.code for one in find_problems(chosen)[1]]


@pytest.mark.parametrize("condition", NOT_AFTER_NO)
def test_a_condition_that_a_no_decides_or_that_tells_whether_somebody_was_asked_is_fine(condition: str) -> None:
    assert find_problems(f"{REVIEW}, {MAYBE}, " + WHEN % condition)[1] == []


def test_a_whole_step_is_no_condition() -> None:
    [problem] = find_problems(WHEN % "steps.sign")[1]
    assert (problem.code, problem.hint) == ("bad_shape", "write steps.sign.output")


def test_and_and_or_give_the_operand_that_decides() -> None:
    words = CHOOSE % ("input.amount > 5 and 'big' or 'small'", "big: {name: a}, small: {name: b}")
    assert find_problems(words)[1] == []
    found = find_problems(words.replace("small: {name: b}", "smal: {name: b}"))[1]
    assert [one.code for one in found] == ["unreachable_branch"]
    assert find_problems(CHOOSE % ("input.payee or 'nobody'", "nobody: {name: a}, ana: {name: b}"))[1] == []


@pytest.mark.parametrize("steps", FINE)
def test_what_may_be_is_no_mistake(steps: str) -> None:
    assert find_problems(steps)[1] == []


ANSWERED = """
context: {n: %s}
steps:
  - {kind: hitl, name: a, message: "?"}
  - kind: conditional
    name: c
    condition_expression: context.n > 1
    branches: {true: [{name: x, input: 1}], false: [{name: y, input: "{{ steps.a.output }}", sink_to: n}]}
"""
"""Reads a key of the context before a person's answer is written there."""


@pytest.mark.parametrize(("first", "codes"), [("1", []), ("'1'", ["bad_shape"]), ("null", ["bad_shape"])])
def test_what_a_key_begins_with_is_read_before_an_answer(first: str, codes: list[str]) -> None:
    assert [problem.code for problem in parse(ANSWERED % first).problems] == codes


COUNTED = """
context: {total: 0, name: "", found: [], at: {}}
steps:
  - kind: loop
    name: l
    loop: {max_loops: 3, body: [{kind: hitl, name: a, message: "?"}, %s]}
"""


@pytest.mark.parametrize(
    ("step", "said"),
    [
        ("{name: x, input: '{{ context.total + output }}', sink_to: total}", "they cannot be added"),
        ("{name: x, input: '{{ context.name + 1 }}', sink_to: name}", "they cannot be added"),
        ("{name: x, input: '{{ context.found + output }}', sink_to: found}", "they cannot be added"),
        ("{name: x, input: 1, sink_to: total.first}", "context.total begins as 0, and holds no keys"),
        ("{name: x, input: 1, sink_to: found.x}", "context.found begins as a list, and holds no keys"),
        ("{name: x, input: '{{ context.total + (output | int) }}', sink_to: total}", None),
        ("{name: x, input: '{{ context.found + [output] }}', sink_to: found}", None),
        ("{name: x, input: 1, sink_to: at.first}", None),
        ("{name: y, input: {a: 1}, sink_to: total}, {name: x, input: 1, sink_to: total.first}", None),
        ("{name: y, uses: any_tool, sink_to: total}, {name: x, input: '{{ context.total + output }}'}", None),
    ],
)
def test_what_a_key_begins_with_says_what_may_be_written_and_added(step: str, said: str | None) -> None:
    problems = parse(COUNTED % step).problems
    assert [said is not None and said in problem.message for problem in problems] == [True] * (said is not None)


BEGUN = """
context: {name: "", found: [], at: {}}
steps:
  - {kind: loop, name: l, loop: {max_loops: 3, body: [{name: a, input: 1%s}], %s}}
"""


@pytest.mark.parametrize(
    ("body", "writes", "said"),
    [
        (
            "",
            "state: [{append: {target: context.name, value: 1}}]",
            "context.name begins as '', and nothing can be app",
        ),
        ("", "state: [{append: {target: context.at, value: 1}}]", "context.at begins as an object, and nothing can be"),
        (
            "",
            "state: [{merge: {target: context.found, value: {a: 1}}}]",
            "context.found begins as a list, and holds no",
        ),
        ("", "state: [{merge: {target: context.at, value: '{{ iteration }}'}}]", "is a number, and no object"),
        ("", "init: [{set: context.n, value: x}], state: [{append: {target: context.n, value: 1}}]", "begins as 'x'"),
        ("", "init: [{set: context.n, value: x}, {append: {target: context.n, value: 1}}]", "begins as 'x'"),
        (", sink_to: n.key", "init: [{set: context.n, value: x}]", "context.n begins as 'x', and holds no keys"),
        (", sink_to: n.key", "init: [{set: context.n, value: {key: x}}]", None),
        ("", "init: [{append: {target: context.n, value: 1}}, {set: context.n, value: x}]", None),
        ("", "init: [{set: context.n, value: []}], state: [{append: {target: context.n, value: 1}}]", None),
        ("", "init: [{set: context.name, value: []}], state: [{append: {target: context.name, value: 1}}]", None),
        ("", "init: [{set: context.n, value: '{{ input }}'}], state: [{append: {target: context.n, value: 1}}]", None),
        (", input: [1], sink_to: name", "state: [{append: {target: context.name, value: 1}}]", None),
        (", uses: any, sink_to: name", "state: [{append: {target: context.name, value: 1}}]", None),
        ("", "state: [{append: {target: context.new, value: 1}}, {merge: {target: context.at, value: {a: 1}}}]", None),
    ],
)
def test_what_a_value_begins_with_says_what_can_be_appended_to_it(body: str, writes: str, said: str | None) -> None:
    problems = parse(BEGUN.replace("input: 1%s", "%s").replace("{name: a, %s", "{name: a%s") % (body, writes)).problems
    assert [said is not None and said in problem.message for problem in problems] == [True] * (said is not None)


@pytest.mark.parametrize(
    ("body", "is_wrong"),
    [
        ("{name: a, input: x, sink_to: log}", True),
        ("{name: a, input: x, sink_to: log}, {name: b}", True),
        ("{name: a, input: x, sink_to: log, when: input}", False),
        ("{name: a, input: x, sink_to: log}, {name: b, input: [x], sink_to: log}", False),
        (
            "{name: a, input: x, sink_to: log}, {kind: block, name: b, steps: [{name: c, input: [x], sink_to: log}]}",
            False,
        ),
        ("{name: a, input: '{{ input }}', sink_to: log}", False),
    ],
)
@pytest.mark.parametrize("key", ["state", "init"])
def test_nothing_is_appended_to_what_a_step_before_writes_as_a_text(body: str, is_wrong: bool, key: str) -> None:
    before, inside = ("", body) if key == "state" else (f"{body}, ", "{name: in}")
    append = f"{key}: [{{append: {{target: context.log, value: x}}}}]"
    loop = f"{{kind: loop, name: l, loop: {{max_loops: 2, body: [{inside}], {append}}}}}"
    problems = parse(f"context: {{log: []}}\nsteps: [{before}{loop}]").problems
    assert [one.path.partition(".")[2] for one in problems] == [f"loop.{key}[0].append.target"] * is_wrong, problems


@pytest.mark.parametrize(
    ("steps", "is_wrong"),
    [
        ("{name: a, input: x, sink_to: log}, {name: b, input: 1, sink_to: log.first}", True),
        ("{name: a, input: x, sink_to: log.first}, {name: b, input: 1, sink_to: log.last}", False),
        ("{name: a, input: x, sink_to: log}, {name: b, input: {}, sink_to: log}, {name: c, sink_to: log.c}", False),
        ("{name: a, input: x, sink_to: log}, {name: b, uses: context_set}, {name: c, sink_to: log.c}", False),
    ],
)
def test_nothing_is_written_below_what_a_step_before_writes_as_a_text(steps: str, is_wrong: bool) -> None:
    assert ["holds no keys" in one.message for one in parse(f"steps: [{steps}]").problems] == [True] * is_wrong


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_no_example_has_a_mistake_or_reads_a_key_that_is_not_listed(path: Path) -> None:
    found = parse_file(path)
    assert (found.problems, [one for one in found.warnings if one.code in SHAPES]) == ([], [])


STATUS = "{kind: conditional, name: c, condition_expression: steps.a.status, branches: {%s}}"


@pytest.mark.parametrize(
    ("on_error", "branches", "codes"),
    [
        ("fail", "completed: {name: x}, skipped: {name: y}", []),
        ("fail", "completed: {name: x}, skipped: {name: y}, failed: {name: z}", ["unreachable_branch"]),
        ("continue", "completed: {name: x}, skipped: {name: y}", ["uncovered_value"]),
        (
            "{fallback: {name: b, when: steps.a.status == 'failed'}}",
            "completed: {name: x}, skipped: {name: y}, failed: {name: z}",
            [],
        ),
    ],
)
def test_a_step_can_have_failed_only_where_its_failure_is_handled(
    on_error: str, branches: str, codes: list[str]
) -> None:
    steps = f"[{{name: a, on_error: {on_error}}}, {STATUS % branches}]"
    assert [problem.code for problem in parse(f"steps: {steps}").problems] == codes


TOOLS = ToolShapes(
    {
        "book": Shape(
            {
                "type": "object",
                "required": ["what"],
                "properties": {"what": {"type": "string"}, "day": {"type": "string"}},
                "additionalProperties": False,
            }
        )
    }
)


AGENT_OF_TOOL = ("agents: {a: {model: echo, tools: [%s]}}\nsteps: [{name: s, agent: a}]", "agents.a.tools[0].approve")
INLINE_AGENT_OF_TOOL = ("steps: [{name: s, agent: {model: echo, tools: [%s]}}]", "steps[0].agent.tools[0].approve")


@dataclass
class Heard:
    """The places and messages of mistakes."""

    told: list[tuple[str, str]] = field(default_factory=list)

    def add(self, path: str, code: str, message: str, hint: str | None = None, *, at: str | None = None) -> None:
        self.told.append((path, message))

    def add_key(self, path: str, code: str, message: str, hint: str | None = None) -> None:
        self.add(path, code, message, hint)

    def warn(self, path: str, code: str, message: str, hint: str, *, at: str | None = None) -> None: ...

    def warn_key(self, path: str, code: str, message: str, hint: str) -> None: ...


@pytest.mark.parametrize(
    ("step", "path"),
    [
        ("{name: b, uses: book, arguments: %s}", "steps[0].arguments"),
        (
            "{kind: plan, name: b, plan: {goal: g, steps: [{id: a, instruction: Book, tools: [book], arguments: %s}]}}",
            "steps[0].plan.steps[0].arguments",
        ),
    ],
)
def test_arguments_are_those_that_the_tool_takes(step: str, path: str) -> None:
    wrong = [(f"{path}.waht", "the tool takes no argument 'waht'"), (path, "the tool needs the argument 'what'")]
    for arguments, told in (("{what: trip}", []), ("{waht: trip, day: Monday}", wrong)):
        heard, blueprint = Heard(), parse(f"steps: [{step % arguments}]").blueprint
        assert blueprint is not None
        judge(blueprint, heard, TOOLS)
        assert heard.told == told


@pytest.mark.parametrize(
    ("approve", "said"),
    [
        ("args.waht == 'trip'", "args has no 'waht' (did you mean 'what'?)"),
        ("args.what > 100", "args.what is a text, and 100 is a number: they have no order"),
        ("args.get('day') == 'Monday'", None),
        ("always", None),
    ],
)
@pytest.mark.parametrize(("document", "path"), [AGENT_OF_TOOL, INLINE_AGENT_OF_TOOL])
def test_an_approval_is_judged_by_the_arguments_of_its_tool(
    document: str, path: str, approve: str, said: str | None
) -> None:
    heard, blueprint = Heard(), parse(document % f"{{name: book, approve: {json.dumps(approve)}}}").blueprint
    assert blueprint is not None
    judge(blueprint, heard, TOOLS)
    assert [(at, message) for at, message in heard.told] == ([(path, said.partition(" (")[0])] if said else [])


PAGE = ToolShapes(
    {
        "page": Shape(
            {
                "type": "object",
                "required": ["who", "text"],
                "properties": {"who": {"type": "string"}, "text": {"type": "string"}, "loud": {"type": "boolean"}},
                "additionalProperties": False,
            }
        ),
        "look": Shape({"properties": {"who": {"type": "string"}}, "required": ["who"], "additionalProperties": False}),
    }
)


@pytest.mark.parametrize(
    ("steps", "wrong"),
    [
        ("{name: p, uses: page, input: hello}", ("steps[0].input", "page takes several arguments (who, text, loud), ")),
        (
            "{kind: hitl, name: a, message: Who?, ask: input}, {name: p, uses: page}",
            ("steps[1].input", "page takes several arguments (who, text, loud), and its input is a text"),
        ),
        ("{name: p, uses: page, input: {who: Ana}}", ("steps[0].input", "the tool needs the argument 'text'")),
        (
            "{name: p, uses: page, input: {who: Ana, text: Hi, too: 1}}",
            ("steps[0].input.too", "the tool takes no argument 'too'"),
        ),
        ("{name: p, uses: page, input: {who: Ana, text: Hi}}", None),
        ("{name: p, uses: page}", None),
        ("{name: p, uses: page, input: '{{ input.all }}'}", None),
        ("{name: p, uses: page, input: hello, on_error: ask}", None),
        ("{name: b, uses: book, input: trip}", None),
        (
            "{name: l, uses: look, input: {whom: Ana}}",
            ("steps[0].input", "look takes who, which is a text, and its inpu"),
        ),
        ("{name: l, uses: look, input: {who: Ana}}", None),
        ("{name: l, uses: look, input: {whom: Ana}, on_error: ask}", None),
        (
            "{kind: block, name: k, steps: [{name: b, input: x, undo: {uses: page, arguments: {whom: Ana}}}]}",
            ("steps[0].steps[0].undo.arguments", "the tool "),
        ),
    ],
)
def test_a_tool_is_given_what_it_takes(steps: str, wrong: tuple[str, str] | None) -> None:
    heard, blueprint = Heard(), parse(f"steps: [{steps}]").blueprint
    assert blueprint is not None
    judge(blueprint, heard, ToolShapes({**TOOLS.parameters, **PAGE.parameters}))
    assert bool(heard.told) is (wrong is not None)
    assert all(path.startswith(wrong[0]) and message.startswith(wrong[1]) for path, message in heard.told if wrong)
