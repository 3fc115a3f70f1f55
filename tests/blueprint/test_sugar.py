"""Short forms mean core forms."""

from pathlib import Path
from typing import Any

import pytest

from holdfast.blueprint.core import expand
from holdfast.blueprint.errors import BlueprintError, Problem
from holdfast.blueprint.kinds import Blueprint, Conditional, Hitl, Loop, LoopBlock, PlainStep
from holdfast.blueprint.load import loads

JOINED = "{{ context.scratchpad.history | join('\\n') }}"
FINISHED = "context.scratchpad.last_agent_command.action == 'finish'"
BODY = "body: [{name: a, agent: e}, {name: ask, kind: hitl, message: Well?}]"


def load(text: str, **how: Any) -> Blueprint:
    return loads("agents: {e: {model: echo}}\n" + text, **how)


def loop(keys: str, body: str = BODY, before: str = "") -> LoopBlock:
    step = load(f"steps: [{before}{{kind: loop, name: l, loop: {{{body}, {keys}}}}}]").steps[-1]
    assert isinstance(step, Loop)
    return step.loop


def only_problem(text: str, **how: Any) -> Problem:
    with pytest.raises(BlueprintError) as caught:
        load(text, **how)
    assert len(caught.value.problems) == 1, str(caught.value)
    return caught.value.problems[0]


def plain(keys: str, **how: Any) -> PlainStep:
    step = load(f"steps: [{{name: x, {keys}}}]", **how).steps[0]
    assert isinstance(step, PlainStep)
    return step


def test_a_step_without_a_kind_is_a_step() -> None:
    assert plain("uses: stringify").kind == "step"


@pytest.mark.parametrize("keys", ["agent: e", "agent: agents.e", "uses: agents.e"])
def test_an_agent_is_named_with_or_without_its_table(keys: str) -> None:
    step = plain(keys)
    assert (step.agent, step.uses) == ("e", None)


@pytest.mark.parametrize(
    "keys",
    ["uses: flujo.builtins.stringify", "uses: flujo.builtins.stringify_sync", "agent: {id: flujo.builtins.stringify}"],
)
def test_a_builtin_of_flujo_is_the_builtin_of_that_name(keys: str) -> None:
    assert plain(keys).uses == "stringify"


def test_an_agents_id_is_a_tool() -> None:
    assert plain("agent: {id: my_tool}").uses == "my_tool"


def test_an_unknown_builtin_of_flujo_is_an_error() -> None:
    problem = only_problem("steps: [{name: x, uses: flujo.builtins.stringfy}]")
    assert (problem.code, problem.hint) == ("unknown_name", "did you mean 'stringify'?")


def test_a_system_prompt_is_the_instructions() -> None:
    blueprint = loads("agents: {e: {model: echo, system_prompt: Be kind.}}\nsteps: [{name: x, agent: e}]")
    assert blueprint.agents["e"].instructions == "Be kind."


def test_instructions_are_read_from_a_file_beside_the_blueprint(tmp_path: Path) -> None:
    (tmp_path / "kind.txt").write_text("Be kind, é.", encoding="utf-8")
    step = plain("agent: {model: echo, instructions: {from_file: kind.txt}}", folder=tmp_path)
    assert step.agent.instructions == "Be kind, é."  # type: ignore[union-attr]


def test_instructions_that_cannot_be_read_are_an_error_at_their_place(tmp_path: Path) -> None:
    text = "steps:\n  - name: x\n    agent:\n      model: echo\n      system_prompt: {from_file: no.txt}"
    problem = only_problem(text, folder=tmp_path)
    assert (problem.code, problem.line, problem.column) == ("unreadable_file", 6, 34)
    assert problem.path == "steps[0].agent.instructions.from_file"


def test_a_text_without_a_folder_reads_no_files() -> None:
    problem = only_problem("steps: [{name: x, agent: {model: echo, instructions: {from_file: /etc/passwd}}}]")
    assert problem.code == "unreadable_file"


def test_a_script_is_found_beside_the_blueprint(tmp_path: Path) -> None:
    step = plain("agent: {model: 'scripted:replies.yaml'}", folder=tmp_path)
    assert step.agent.model == f"scripted:{tmp_path}/replies.yaml"  # type: ignore[union-attr]
    assert plain("agent: {model: 'scripted:replies.yaml'}").agent.model == "scripted:replies.yaml"  # type: ignore[union-attr]


@pytest.mark.parametrize("branch", ["[{name: a}]", "{name: a}", "{steps: [{name: a}]}", "{steps: {name: a}}"])
def test_a_branch_is_a_list_one_step_or_steps(branch: str) -> None:
    text = f"steps: [{{kind: conditional, name: c, condition_expression: x, branches: {{k: {branch}}}}}]"
    step = load(text.replace("x,", "input,")).steps[0]
    assert isinstance(step, Conditional) and [inner.name for inner in step.branches["k"]] == ["a"]


def test_branch_keys_are_what_is_written() -> None:
    text = "steps: [{kind: conditional, name: c, condition_expression: input, branches: {true: [], 1: [], null: []}}]"
    step = load(text).steps[0]
    assert isinstance(step, Conditional) and list(step.branches) == ["true", "1", "null"]


@pytest.mark.parametrize("body", ["{name: a}", "[{name: a}]", "{steps: [{name: a}]}"])
def test_a_body_is_a_list_one_step_or_steps(body: str) -> None:
    assert [step.name for step in loop("max_loops: 1", f"body: {body}").body] == ["a"]


def test_options_are_texts_or_objects() -> None:
    step = load("steps: [{kind: hitl, name: h, options: [warm, {id: b, label: B}, 1.50, true, yes]}]").steps[0]
    assert isinstance(step, Hitl) and isinstance(step.options, list)
    ids = [(option.id, option.label) for option in step.options]
    assert ids == [("warm", "warm"), ("b", "B"), ("1.50", "1.50"), ("true", "true"), ("yes", "yes")]


def test_an_option_that_is_a_number_loses_its_anchor() -> None:
    step = load("steps: [{kind: hitl, name: h, options: [&most 2.5, 3], message: *most}]").steps[0]
    assert isinstance(step, Hitl) and isinstance(step.options, list)
    assert [option.id for option in step.options] == ["2.5", "3"]


def test_a_default_is_taken_at_the_deadline_unless_the_author_says_otherwise() -> None:
    steps = load("steps: [{kind: hitl, name: h, default: x, timeout: 1h}, {kind: hitl, name: i, timeout: 1h}]").steps
    assert [step.on_timeout for step in steps if isinstance(step, Hitl)] == ["default", None]
    other = load("steps: [{kind: hitl, name: h, default: x, timeout: 1h, on_timeout: skip}]").steps[0]
    assert isinstance(other, Hitl) and other.on_timeout == "skip"


def test_a_bare_boolean_is_a_condition() -> None:
    assert plain("when: false").when == "false"


def test_a_conversation_hands_on_the_context_and_ends_when_the_agent_has_finished() -> None:
    block = loop("conversation: true")
    assert block.conversation and block.propagation.next_input == "context"
    assert (block.exit_expression, block.ai_turn_source) == (FINISHED, "a")


def test_what_the_author_says_wins_over_a_conversation() -> None:
    block = loop(
        "conversation: true, propagation: previous_output, exit_expression: output == 'x', ai_turn_source: ask"
    )
    assert block.propagation.next_input == "previous_output"
    assert (block.exit_expression, block.ai_turn_source) == ("output == 'x'", "ask")


def test_a_conversation_leaves_an_exit_and_a_mapper_of_the_author_alone() -> None:
    block = loop("conversation: true, exit_condition: 'm:done', iteration_input_mapper: 'm:next'")
    assert block.exit_expression is None and "propagation" not in block.model_fields_set


def test_stop_when_is_an_exit_unless_there_is_one() -> None:
    assert loop("stop_when: agent_finished").exit_expression == FINISHED
    assert loop("stop_when: agent_finished, exit_expression: input.x").exit_expression == "input.x"


def test_stop_when_knows_one_word() -> None:
    problem = only_problem(f"steps: [{{kind: loop, name: l, loop: {{{BODY}, stop_when: agent_done}}}}]")
    assert (problem.code, problem.path) == ("bad_value", "steps[0].loop.stop_when")


@pytest.mark.parametrize("source", ["", ", ai_turn_source: last"])
def test_the_assistant_speaks_by_the_last_agent_outside_inner_loops(source: str) -> None:
    chosen = "{kind: conditional, name: c, condition_expression: input, branches: {k: {name: b, agent: e}}}"
    inner = "{kind: loop, name: m, loop: {max_loops: 1, body: {name: z, agent: e}}}"
    body = f"body: [{{name: a, agent: e}}, {chosen}, {inner}, {{name: t, uses: tool}}]"
    assert loop(f"conversation: true{source}", body).ai_turn_source == "b"


def test_a_body_without_an_agent_has_no_last_one() -> None:
    assert loop("conversation: true", "body: {name: t}").ai_turn_source is None
    text = "steps: [{kind: loop, name: l, loop: {conversation: true, body: {name: t}, ai_turn_source: last}}]"
    assert only_problem(text).message == "no step of the body has an agent"


@pytest.mark.parametrize("preset", ["context", "previous_output"])
def test_propagation_is_written_short(preset: str) -> None:
    assert loop(f"max_loops: 1, propagation: {preset}").propagation.next_input == preset


@pytest.mark.parametrize("form", ["propagation: auto", "propagation: {next_input: auto}"])
def test_auto_hands_on_the_context_if_any_step_updates_it(form: str) -> None:
    deep = "{kind: loop, name: m, loop: {max_loops: 1, body: {name: z, uses: t, updates_context: true}}}"
    assert loop(f"max_loops: 1, {form}", f"body: [{{name: a}}, {deep}]").propagation.next_input == "context"
    assert loop(f"max_loops: 1, {form}").propagation.next_input == "previous_output"


def test_a_misspelt_preset_is_no_template() -> None:
    problem = only_problem(f"steps: [{{kind: loop, name: l, loop: {{{BODY}, max_loops: 1, propagation: contxt}}}}]")
    assert (problem.code, problem.hint) == ("bad_value", "did you mean 'context'?")


@pytest.mark.parametrize(
    "form",
    [
        "[{set: {target: context.n, value: 1}}, {append: {target: context.l, value: 2}}]",
        "[{set: context.n, value: 1}, {append: context.l, value: 2}]",
        "{set: [{target: context.n, value: 1}], append: [{target: context.l, value: 2}]}",
        "{set: {target: context.n, value: 1}, append: {target: context.l, value: 2}}",
    ],
)
@pytest.mark.parametrize("key", ["init", "state"])
def test_writes_have_a_list_form_and_a_map_form(key: str, form: str) -> None:
    block = loop(f"max_loops: 1, {key}: {form}")
    operations = block.init if key == "init" else block.state
    assert [(one.verb, one.write.target, one.write.value) for one in operations] == [
        ("set", "context.n", 1),
        ("append", "context.l", 2),
    ]


def test_the_keys_of_the_map_form_run_in_the_order_written() -> None:
    form = (
        "{notes: {set: N}, merge: {target: context.m, value: {}}, history: {start_with: {from_step: g, prefix: 'U: '}}}"
    )
    block = loop(f"max_loops: 1, init: {form}", before="{name: g}, ")
    assert [(one.verb, one.write.target, one.write.value) for one in block.init] == [
        ("set", "context.scratchpad.notes", "N"),
        ("merge", "context.m", {}),
        ("append", "context.scratchpad.history", "U: {{ steps.g.output }}"),
    ]


def test_a_first_turn_is_read_from_a_step_whatever_its_name() -> None:
    block = loop("max_loops: 1, init: {history: {start_with: {from_step: get-it}}}", before="{name: get-it}, ")
    assert block.init[0].write.value == "{{ steps['get-it'].output }}"


def test_a_first_turn_from_an_unknown_step_is_told_where_it_is_named() -> None:
    init = "init: {history: {start_with: {from_step: gt}}}"
    text = f"steps:\n - name: get\n - {{kind: loop, name: l, loop: {{max_loops: 1, {BODY}, {init}}}}}"
    problem = only_problem(text)
    column = text.splitlines()[2].index("gt}") + 1
    assert (problem.line, problem.column, problem.hint) == (4, column, "did you mean 'get'?")


def test_an_output_text_is_the_conversation() -> None:
    block = loop("max_loops: 1, output: {text: conversation_history}")
    assert (block.output, block.output_template) == (None, JOINED)


def test_output_fields_know_the_prompt_and_the_conversation() -> None:
    fields = "{goal: initial_prompt, said: conversation_history, n: '{{ context.n }}', k: 3}"
    block = loop(f"max_loops: 1, output: {{fields: {fields}}}")
    assert block.output == {"goal": "{{ input }}", "said": JOINED, "n": "{{ context.n }}", "k": 3}


@pytest.mark.parametrize("output", [{"text": "x"}, {"text": "conversation_history", "n": "y"}, {"fields": "x"}])
def test_an_output_of_any_other_shape_is_plain_fields(output: dict[str, str]) -> None:
    assert loop(f"max_loops: 1, output: {output}").output == output


@pytest.mark.parametrize(
    ("more", "path", "hint"),
    [
        ("output: {text: conversation_histroy}", "output.text", "did you mean 'conversation_history'?"),
        ("output: {text: context.draft}", "output.text", "a template has {{ … }}: {{ context.draft }}"),
        ("output: {fields: {a: intial_prompt}}", "output.fields.a", "did you mean 'initial_prompt'?"),
        ("output: {fields: {a: steps.c.output}}", "output.fields.a", "a template has {{ … }}: {{ steps.c.output }}"),
        ("output: {fields: {a: 'output | upper'}}", "output.fields.a", "a template has {{ … }}: {{ output | upper }}"),
        (
            "output: {fields: {a: done}}",
            "output.fields.a",
            "known here: initial_prompt, conversation_history; a text of your own is {{ 'done' }}",
        ),
        ("propagation: {next_input: steps.c.output}", "propagation.next_input", "a template has {{ … }}"),
    ],
)
def test_what_is_neither_a_preset_nor_a_template_is_refused(more: str, path: str, hint: str) -> None:
    text = f"steps:\n - {{kind: loop, name: l, loop: {{max_loops: 1, {BODY}, {more}}}}}"
    problem = only_problem(text)
    assert (problem.code, problem.path, problem.hint) == ("bad_value", f"steps[0].loop.{path}", hint)
    assert (problem.line, problem.column) == (3, text.splitlines()[1].index(more) + more.rindex(": ") + 3)


def test_a_sentence_in_output_fields_is_a_constant() -> None:
    assert loop("max_loops: 1, output: {fields: {a: 'All is done.'}}").output == {"a": "All is done."}


def test_an_input_that_names_the_step_before_is_kept_in_a_conversation() -> None:
    text = "steps: [{kind: loop, name: l, loop: {conversation: true, body: [{name: a, input: '{{ previous_step }}'}]}}]"
    blueprint = load(text)
    assert blueprint.steps[0].loop.body[0].input == "{{ output }}"  # type: ignore[union-attr]
    assert loads(expand(blueprint)) == blueprint


def test_output_fields_named_fields_survive_the_core_form() -> None:
    text = f"steps: [{{kind: loop, name: l, loop: {{{BODY}, max_loops: 1, output: {{fields: {{fields: {{a: b}}}}}}}}}}]"
    blueprint = load(text)
    assert loads(expand(blueprint)) == blueprint


def test_a_fallback_step_has_short_forms_too() -> None:
    step = plain("uses: t, on_error: {fallback: {name: f, uses: agents.e}}")
    assert step.on_error.fallback.agent == "e"  # type: ignore[union-attr]


def test_unknown_keys_of_short_forms_are_told() -> None:
    first = "histroy: {start_with: {form_step: s}}, sett: []"
    text = (
        f"steps: [{{name: s}}, {{kind: loop, name: l, loop: {{body: {{name: a}}, max_loops: 1, init: {{{first}}}}}}}]"
    )
    with pytest.raises(BlueprintError) as caught:
        loads(text)
    assert [(one.path, one.hint) for one in caught.value.problems] == [
        ("steps[1].loop.init.histroy", "did you mean 'history'?"),
        ("steps[1].loop.init.history.start_with.form_step", "did you mean 'from_step'?"),
        ("steps[1].loop.init.sett", "did you mean 'set'?"),
    ]
