"""Rules of the whole blueprint: names, exclusions, schemas, what goes together."""

import pytest

from holdfast.blueprint.errors import BlueprintError, Problem
from holdfast.blueprint.jsonschemas import list_misfits, misfit
from holdfast.blueprint.load import loads
from tests.blueprint.written import yaml

LOOP = "steps: [{{kind: loop, name: l, loop: {{body: [{{name: a, agent: e}}], {}}}}}]"
HITL = "steps: [{{kind: hitl, name: h, {}}}]"
STEP = "steps: [{{name: s, {}}}]"
CONDITIONAL = "steps: [{{kind: conditional, name: c, {}}}]"


def found(text: str) -> list[Problem]:
    try:
        loads("agents: {e: {model: echo}, editor: {model: echo}}\n" + text)
    except BlueprintError as error:
        return error.problems
    return []


def only(text: str) -> Problem:
    problems = found(text)
    assert len(problems) == 1, "\n".join(map(str, problems))
    return problems[0]


@pytest.mark.parametrize("value", ["no object", "'[1]'", "[1]", "3"])
def test_a_constant_that_is_no_object_cannot_be_merged(value: str) -> None:
    merge = f"init: {{merge: {{target: context.metrics, value: {value}}}}}, max_loops: 1"
    problem = only(LOOP.format(merge))
    assert (problem.path, problem.code) == ("steps[0].loop.init[0].merge.value", "bad_value")
    assert "value: {count: 1}" in str(problem.hint)
    problem = only(STEP.format(f"updates_context: true, input: {value}"))
    assert (problem.path, problem.code) == ("steps[0].updates_context", "bad_shape")
    assert "input: {count: 1}" in str(problem.hint)


NAMES = yaml(
    """
    steps:
      - name: draft
      - kind: conditional
        name: choose
        condition_expression: previous_step
        branches:
          left: [{name: inside}, {name: after, input: "{{ steps.inside.output }}"}]
          right: {name: other}
      - name: read
        input: "READ {{ EXPRESSION }}"
      - name: late
    """
)


@pytest.mark.parametrize("expression", ["input.x", "context.a.b", "steps.draft.output.z", "previous_step", "output"])
def test_what_is_known_can_be_read(expression: str) -> None:
    assert found(NAMES.replace("EXPRESSION", expression)) == []


@pytest.mark.parametrize(
    "expression", ["steps['draft'].status", "steps.choose.error", "resume_input", "steps | length"]
)
def test_steps_that_ran_before_and_the_last_answer_can_be_read(expression: str) -> None:
    assert found(NAMES.replace("EXPRESSION", expression)) == []


@pytest.mark.parametrize(
    ("expression", "column", "message", "hint"),
    [
        ("drfat", 21, "unknown name 'drfat'", "did you mean 'steps.draft.output'?"),
        ("draft.x", 21, "unknown name 'draft'", "did you mean 'steps.draft.output'?"),
        ("contxt.x", 21, "unknown name 'contxt'", "did you mean 'context'?"),
        ("1 + steps.drfat.output", 31, "unknown name 'drfat'", "did you mean 'draft'?"),
        ("steps['drfat'].output", 28, "unknown name 'drfat'", "did you mean 'draft'?"),
        ("steps.zz.output", 27, "unknown name 'zz'", "steps known here: choose, draft"),
        ("steps.draft.outptu", 33, "unknown name 'outptu' of step 'draft'", "did you mean 'output'?"),
        ("steps.late.output", 27, "the step 'late' has not run here yet", "it runs later, as steps[3]"),
        ("steps.read.output", 27, "the step 'read' reads its own output", "its input is `previous_step`"),
        ("iteration", 21, "unknown name 'iteration'", "it is known only inside a loop"),
        ("report", 21, "unknown name 'report'", "it is known only in the `finalize` of a map"),
        (
            "error",
            21,
            "unknown name 'error'",
            "it is known only in the fallback of `on_error`, and in the `finally` of a block",
        ),
    ],
)
def test_an_unknown_name_is_told_at_its_column(expression: str, column: int, message: str, hint: str) -> None:
    problem = only(NAMES.replace("EXPRESSION", expression))
    assert (problem.line, problem.column) == (11, column)
    assert (problem.code, problem.message, problem.hint) == ("unknown_name", message, hint)


def test_a_step_inside_a_branch_is_not_seen_outside() -> None:
    problem = only(NAMES.replace("EXPRESSION", "steps.inside.output"))
    assert problem.message == "the step 'inside' is not visible here: it is inside steps[1].branches.left"


def test_a_loops_body_reads_its_own_steps_and_those_around_it() -> None:
    first, second = (
        "{name: a, when: iteration == 1 or steps.b.output}",
        "{name: b, input: '{{ history }} {{ steps.x }}'}",
    )
    body = f"body: [{first}, {second}]"
    keys = "max_loops: 2, exit_expression: steps.a.output, state: {set: context.n, value: '{{ steps.b.output }}'}"
    assert found(f"steps: [{{name: x}}, {{kind: loop, name: l, loop: {{{body}, {keys}}}}}]") == []


def test_init_runs_before_the_body() -> None:
    problem = only(LOOP.format("max_loops: 2, init: {set: context.n, value: '{{ steps.a.output }}'}"))
    assert problem.path == "steps[0].loop.init[0].set.value"
    assert problem.message == "the step 'a' has not run here yet"


def test_steps_of_a_body_are_not_seen_after_the_loop() -> None:
    text = LOOP.format("max_loops: 2").replace("}}]", "}}, {name: z, input: '{{ steps.a.output }}'}]")
    assert "is inside steps[0].loop.body" in only(text).message


def test_a_fallback_reads_the_error_and_the_failed_step() -> None:
    fallback = "{name: f, input: '{{ error.message }} {{ steps.s.error }}'}"
    assert found(STEP.format(f"uses: t, on_error: {{fallback: {fallback}}}")) == []


def test_the_documents_output_reads_every_step_of_the_top() -> None:
    assert found("steps: [{name: a}]\noutput: {x: '{{ steps.a.output }}'}") == []
    assert only("steps: [{name: a}]\noutput: {x: '{{ steps.b.output }}'}").path == "output.x"


def test_instructions_are_checked_where_their_agent_works() -> None:
    text = (
        "agents: {w: {model: echo, instructions: 'On {{ steps.a.output }}'}}\nsteps: [{name: b, agent: w}, {name: a}]"
    )
    with pytest.raises(BlueprintError) as caught:
        loads(text)
    assert [(one.line, one.path) for one in caught.value.problems] == [(1, "agents.w.instructions")]


@pytest.mark.parametrize(
    ("steps", "path"),
    [
        ("[{name: a}, {name: a}]", "steps[1].name"),
        ("[{name: a, uses: t, on_error: {fallback: {name: a}}}]", "steps[0].on_error.fallback.name"),
        ("[{kind: loop, name: a, loop: {max_loops: 1, body: {name: a}}}]", "steps[0].loop.body[0].name"),
        ("[{kind: loop, name: l, loop: {max_loops: 1, body: {name: a}}}, {name: a}]", "steps[0].loop.body[0].name"),
    ],
)
def test_a_name_is_unique_in_its_list_and_those_around_it(steps: str, path: str) -> None:
    problem = only(f"steps: {steps}")
    assert (problem.code, problem.path) == ("duplicate_name", path)


def test_branches_beside_each_other_may_use_the_same_names() -> None:
    assert found(CONDITIONAL.format("condition_expression: input, branches: {x: {name: a}, y: {name: a}}")) == []


@pytest.mark.parametrize(
    ("keys", "line", "column", "code"),
    [
        ("when: 'input =='", 2, 25, "bad_expression"),
        ("when: '{{ input }}'", 2, 25, "bad_expression"),
        ("input: '{{ input | jion }}'", 2, 38, "unknown_filter"),
        ("input: '{{ input.__class__ }}'", 2, 26, "bad_expression"),
        ("input: {a: ['{% nope %}']}", 2, 35, "bad_expression"),
        ("input: '{{ range(1).fomat() }}'", 2, 39, "bad_expression"),
    ],
)
def test_an_expression_that_does_not_parse_is_told_at_its_place(keys: str, line: int, column: int, code: str) -> None:
    problem = only(STEP.format(keys))
    assert (problem.line, problem.column, problem.code) == (line, column, code)


def test_a_line_of_a_block_text_is_told() -> None:
    problem = only("steps:\n  - name: a\n    input: |\n      one\n      {% nope %}\n      {{ 1 + }}\n")
    assert problem.line == 6


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        (STEP.format("uses: agents.edtor"), "unknown_name", "unknown agent 'edtor' (did you mean 'editor'?)"),
        (STEP.format("uses: imports.r"), "unknown_name", "unknown import 'r' (this blueprint names no imports)"),
        (STEP.format("uses: t, agent: e"), "conflict", "'uses' and 'agent' both say what runs"),
        (
            STEP.format("uses: 'my tools:f'"),
            "bad_value",
            "'my tools:f' does not name a function (write package.module:",
        ),
        (STEP.format("uses: ''"), "bad_value", "'uses' is empty"),
        (STEP.format("uses: t, config: {}"), "conflict", "'config' belongs to steps that run an import"),
        (STEP.format("timeout: 5s"), "conflict", "this one only passes its input on"),
        (STEP.format("uses: stringify, retry: {}"), "conflict", "stringify runs in the workflow itself"),
        (STEP.format("sink_to: a..b"), "bad_value", "'a..b' is not a path in the context"),
        (STEP.format("sink_to: context"), "bad_value", "'context' is not a path in the context"),
        (STEP.format("sink_to: 'a.{{ input }}'"), "bad_value", "is not a path in the context"),
        (CONDITIONAL.format("branches: {a: []}"), "missing_key", "'condition_expression' is missing"),
        (CONDITIONAL.format("condition: nope, branches: {a: []}"), "bad_value", "'nope' does not name a function"),
        (CONDITIONAL.format("condition: 'm:f', condition_expression: input, branches: {a: []}"), "conflict", "both"),
        (CONDITIONAL.format("condition: 'm:f', branches: {}"), "bad_value", "'branches' is empty"),
    ],
)
def test_rules_of_steps_and_conditionals(text: str, code: str, said: str) -> None:
    problem = only(text)
    assert problem.code == code and said in str(problem)


@pytest.mark.parametrize(
    ("keys", "code", "path", "said"),
    [
        ("on_max_loops: fail", "missing_key", "max_loops", "required unless an exit is given"),
        ("max_loops: 1, output: {a: b}, output_template: x", "conflict", "output", "both say what the loop gives"),
        ("exit_expression: output, exit_condition: 'm:f'", "conflict", "exit_condition", "both say when"),
        ("max_loops: 1, init: [], initial_input_mapper: 'm:f'", "conflict", "initial_input_mapper", "'init' and"),
        ("max_loops: 1, propagation: auto, iteration_input_mapper: 'm:f'", "conflict", "iteration_input_mapper", ""),
        ("max_loops: 1, output: {a: b}, loop_output_mapper: 'm:f'", "conflict", "loop_output_mapper", "'output' and"),
        ("max_loops: 1, loop_output_mapper: f", "bad_value", "loop_output_mapper", "'f' does not name a function"),
        ("max_loops: 1, output: text", "bad_value", "output", "must be an object of templates"),
        ("max_loops: 1, ai_turn_source: a", "conflict", "ai_turn_source", "belongs to loops with a conversation"),
        ("conversation: true, ai_turn_source: b", "unknown_name", "ai_turn_source", "no step 'b' in the loop's body"),
        (
            "max_loops: 1, history_management: {strategy: truncate_turns, max_turns: 2}",
            *("conflict", "history_management", "belongs to loops with a conversation"),
        ),
        ("max_loops: 1, state: {set: n, value: 1}", "bad_target", "state[0].set.target", "is outside the context"),
        ("max_loops: 1, state: {set: 'context.', value: 1}", "bad_value", "state[0].set.target", "is not a path"),
        (
            "max_loops: 1, init: [{set: context.a, append: context.a, value: 1}]",
            "bad_value",
            "init[0]",
            "exactly one of",
        ),
    ],
)
def test_rules_of_loops(keys: str, code: str, path: str, said: str) -> None:
    problem = only(LOOP.format(keys))
    assert (problem.code, problem.path) == (code, f"steps[0].loop.{path}")
    assert said in problem.message


def test_a_mapper_beside_a_conversation_is_no_conflict_with_what_nobody_wrote() -> None:
    assert found(LOOP.format("conversation: true, iteration_input_mapper: 'm:f'")) == []


@pytest.mark.parametrize(
    ("keys", "code", "path", "said"),
    [
        ("options: [a, b], input_schema: {}", "conflict", "input_schema", "both describe the answer"),
        ("default: x", "conflict", "default", "a default needs a deadline"),
        ("on_timeout: skip", "conflict", "on_timeout", "'on_timeout' needs a deadline"),
        ("timeout: 1h, on_timeout: default", "missing_key", "on_timeout", "needs a 'default'"),
        ("timeout: 1h, options: [a, b], default: c", "bad_value", "default", "'c' is not one of the options: a, b"),
        (
            "timeout: 1h, options: [a, b], multiple: true, default: a",
            "bad_value",
            "default",
            "expected a list of 1 to 2 options",
        ),
        ("timeout: 1h, options: [a, b, c], multiple: 2, default: [a, b, c]", "bad_value", "default", "at most 2"),
        ("timeout: 1h, input_schema: {type: integer}, default: x", "bad_value", "default", "must be a whole number"),
        ("timeout: 1h, default: 5", "bad_value", "default", "expected text, got 5"),
        ("options: [a, A]", "duplicate_name", "options[1].id", "the option 'A' appears twice"),
        ("options: [{id: a, label: X}, {id: b, label: x}]", "duplicate_name", "options[1].label", "'x' appears twice"),
        ("message: ' '", "bad_value", "message", "the message is empty"),
        ("multiple: 0", "bad_value", "multiple", "must be at least 1"),
        ("ask: decision", "missing_key", "options", "a decision needs 'options'"),
        ("ask: decision, input_schema: {type: string}", "missing_key", "options", "a decision needs 'options'"),
        ("options: a", "bad_value", "options", "options must be a list"),
    ],
)
def test_rules_of_questions(keys: str, code: str, path: str, said: str) -> None:
    problem = only(HITL.format(keys))
    assert (problem.code, problem.path) == (code, f"steps[0].{path}")
    assert said in problem.message


@pytest.mark.parametrize(
    "keys",
    [
        "ask: decision, options: '{{ input }}'",
        "ask: decision, allow_custom: true",
        "timeout: 1h, options: [a, B], default: ' b '",
        "timeout: 1h, options: [a], ask: clarification, default: own words",
        "timeout: 1h, options: [a, b], default: '{{ input }}'",
        "options: '{{ input }}', timeout: 1h, default: x",
        "timeout: 1h, input_schema: {type: object}, default: {a: 1}",
    ],
)
def test_questions_that_can_be_asked(keys: str) -> None:
    assert found(HITL.format(keys)) == []


@pytest.mark.parametrize(
    ("text", "path", "said"),
    [
        ("inputs: {type: strng}\nsteps: [{name: a}]", "inputs.type", "must be one of object, array"),
        (STEP.format("output_schema: {properties: {a: {type: 5}}}"), "steps[0].output_schema.properties.a.type", ""),
        (STEP.format("input_schema: {$ref: 'http://x/y'}"), "steps[0].input_schema.$ref", "must start with '#'"),
        (STEP.format("input_schema: {$ref: '#/$defs/no'}"), "steps[0].input_schema", "does not exist"),
        (
            STEP.format("agent: {model: echo, output_schema: {pattern: '('}}"),
            "steps[0].agent.output_schema.pattern",
            "",
        ),
        ("context: {n: x}\ncontext_schema: {properties: {n: {type: integer}}}\nsteps: [{name: a}]", "context.n", ""),
    ],
)
def test_schemas_are_valid_refer_to_nothing_outside_and_fit(text: str, path: str, said: str) -> None:
    problem = only(text)
    assert problem.path == path and said in problem.message


def test_a_schema_fetches_nothing() -> None:
    with pytest.raises(ValueError, match="must start with '#'"):
        list_misfits({"$ref": "file:///etc/passwd"}, {})


@pytest.mark.slow
def test_formats_are_asserted_and_problems_are_sorted_and_bounded() -> None:
    schema = {"items": {"format": "email", "maxLength": 2}}
    assert list_misfits(schema, ["abc"]) == [
        ("[0]", "must be an e-mail address, such as ana@example.com, not 'abc'"),
        ("[0]", "must have at most 2 characters, not 3"),
    ]
    assert len(list_misfits(schema, ["abc"] * 5000)) == 20


def test_of_a_large_value_only_the_first_problem_is_looked_for() -> None:
    schema = {"properties": {"rows": {"items": {"type": "integer"}}}}
    assert list_misfits(schema, {"rows": ["x"] * 20_000}) == [("rows[0]", "must be a whole number, not 'x'")]


def test_a_value_too_deep_for_the_validator_is_a_problem_not_a_crash() -> None:
    value: list[object] = []
    for _ in range(100_000):
        value = [value]
    assert misfit({"items": {"$ref": "#"}}, value) == "the value is nested deeper than 200 levels"


SECRET = "steps: [{{kind: hitl, name: h, ask: secret, {}}}]"


@pytest.mark.parametrize(
    ("keys", "path", "told"),
    [
        ("options: [a, b]", "options", "a choice among options is not secret"),
        ("multiple: 2", "multiple", "a choice among options is not secret"),
        ("default: x, timeout: 1h, on_timeout: fail", "default", "it would be in every history"),
        ("quorum: 2", "quorum", "nobody can see whether two secrets are the same"),
        ("input_schema: {type: string}", "input_schema", "must be an object of the names"),
        ("input_schema: {type: object, properties: {}}", "input_schema", "must be an object of the names"),
        (
            "input_schema: {type: object, properties: {A: {type: string, enum: [a]}}}",
            "input_schema.properties.A",
            "with at most title, description, placeholder, pattern, minLength, maxLength, errorMessage",
        ),
        (
            "input_schema: {type: object, properties: {A: {type: string}}, required: [B]}",
            "input_schema.required",
            "'B' is required, but is not among the properties",
        ),
        (
            "input_schema: {type: object, properties: {A: {type: string}}, minProperties: 2}",
            "input_schema.minProperties",
            "'minProperties' cannot be checked",
        ),
    ],
)
def test_a_secret_is_no_choice_has_no_default_and_is_not_looked_into(keys: str, path: str, told: str) -> None:
    problem = only(SECRET.format(keys))
    assert problem.path == f"steps[0].{path}"
    assert told in problem.message


def test_secrets_are_asked_for_by_name_or_one_without() -> None:
    assert found(SECRET.format("timeout: 1h, on_timeout: skip, assignees: [user:ana], not_by: [requester]")) == []
    assert found(SECRET.format("input_schema: {type: object, properties: {A: {type: string, title: T}}}")) == []


def test_a_fact_that_is_required_is_one_of_those_that_are_asked() -> None:
    schema = "{required: [q, a], properties: {a: {type: string}}}"
    problem = only(f"steps: [{{kind: clarify, name: c, goal: g, schema: {schema}}}]")
    assert (problem.path, problem.code) == ("steps[0].schema.required", "bad_value")
    assert "'q' is required, but is not among the properties" in problem.message


@pytest.mark.parametrize(
    ("schema", "path", "code"),
    [
        ("{properties: {n: {reduce: apend}}}", "properties.n.reduce", "bad_value"),
        ("{properties: {n: {reduce: 3}}}", "properties.n.reduce", "bad_value"),
        ("{properties: {n: {type: integer, reduce: append}}}", "properties.n.reduce", "conflict"),
        ("{properties: {n: {items: {reduce: append}}}}", "properties.n.items.reduce", "conflict"),
        ("{reduce: append}", "reduce", "conflict"),
    ],
)
def test_a_reducer_that_cannot_work_is_told_at_its_place(schema: str, path: str, code: str) -> None:
    problem = only(f"context_schema: {schema}\n{STEP.format('input: 1')}")
    assert (problem.path, problem.code) == (f"context_schema.{path}", code)


@pytest.mark.parametrize(
    "text",
    [
        "steps: [{kind: clarify, name: c, goal: g, schema: {required: [[a]], properties: {a: {type: string}}}}]",
        f"context_schema: {{properties: {{n: {{type: [{{a: 1}}], reduce: append}}}}}}\n{STEP.format('input: 1')}",
    ],
)
def test_a_schema_with_an_object_in_place_of_a_name_is_a_problem(text: str) -> None:
    assert "bad_schema" in [problem.code for problem in found(text)]


@pytest.mark.parametrize("type_", ["", "type: integer, ", "type: number, ", "type: [number, 'null'], "])
def test_a_reducer_that_fits_its_property_is_taken(type_: str) -> None:
    schema = f"{{properties: {{reduce: {{properties: {{n: {{{type_}reduce: sum}}}}}}}}}}"
    assert found(f"context_schema: {schema}\n{STEP.format('input: 1')}") == []


MANY = ", ".join(f"b{n}: {{name: s{n}}}" for n in range(51))
FILES = ", ".join(f"{{name: f{n}, text: x}}" for n in range(21))
ASK = "steps: [{kind: hitl, name: ask, message: '?', %s}]"
OUT_OF_BOUNDS = {
    f"steps: [{{kind: parallel, name: p, branches: {{{MANY}}}}}]": "at most 50 branches, not 51",
    ASK % f"attachments: [{FILES}]": "at most 20 attachments, not 21",
    ASK % "quorum: 101": "at most 100, not 101",
    ASK % "quorum: 0": "at least 1, not 0",
    ASK % "verify: {agent: {model: echo}, rounds: 6}": "at most 5, not 6",
    ASK % "attachments: [{name: a, type: 'TEXT', text: x}]": "'TEXT' does not fit the pattern ^[a-z]+/",
    f"steps: [{{name: {'n' * 101}}}]": "'name': at most 100 characters, not 101",
    f"steps: [{{kind: wait, name: w, for: {'n' * 101}, key: k}}]": "at most 100 characters, not 101",
    "steps: [{kind: wait, name: w, for: 'a b', key: k}]": "'a b' does not fit the pattern ^[A-Za-z0-9_]",
    "agents: {a: {model: echo, fallback_models: [a, b, c, d, e, f]}}\nsteps: [{name: s, agent: a}]": (
        "at most 5 fallback_models, not 6"
    ),
}


@pytest.mark.parametrize("text", OUT_OF_BOUNDS)
def test_a_bound_of_the_schema_is_said(text: str) -> None:
    with pytest.raises(BlueprintError) as caught:
        loads(text)
    assert OUT_OF_BOUNDS[text] in caught.value.problems[0].message


@pytest.mark.parametrize(
    "keys",
    [
        "kind: hitl, name: ask, message: Go?, timeout: 0s, default: x",
        "kind: hitl, name: ask, message: Go?, timeout: soon, on_timeout: skip",
        "kind: hitl, name: ask, message: Go?, on_timeout: escalate, escalate: soon",
        "kind: wait, name: paid, for: paid, key: k, timeout: 0s, default: x",
        "kind: block, name: b, steps: [{name: s}], deadline: [1], on_deadline: finish",
        "kind: hitl, name: ask, message: Go?, timout: 2d, default: x",
    ],
)
def test_a_value_that_does_not_fit_is_no_missing_one(keys: str) -> None:
    assert len(found(f"steps: [{{{keys}}}]")) == 1


@pytest.mark.parametrize(
    ("around", "path"),
    [
        ("kind: loop, name: l, loop: {max_loops: 2, body: [%s]}", "loop.body[0]"),
        ("kind: block, name: b, steps: [%s]", "steps[0]"),
        ("kind: block, name: b, steps: [{name: s}], finally: [%s]", "finally[0]"),
        ("kind: parallel, name: p, branches: {a: [%s]}", "branches.a[0]"),
        ("kind: states, name: m, start: s, ends: [e], states: {s: {steps: [%s], next: e}}", "states.s.steps[0]"),
    ],
)
def test_a_value_inside_a_step_is_told_at_its_place(around: str, path: str) -> None:
    problem = only(f"steps: [{{{around % '{kind: hitl, name: ask, message: Go?, on_decline: stop}'}}}]")
    assert problem.path == f"steps[0].{path}.on_decline"
    assert problem.message == "'on_decline' must be 'fail', 'continue' or 'abort', not 'stop'"
