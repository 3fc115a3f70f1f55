"""The language at work: init, propagation, outputs, conversations, errors."""

from __future__ import annotations

import pytest

import tests.tools  # noqa: F401 registers the tools
from tests.conftest import Harness
from tests.tools import calls


async def test_init_runs_once_in_order_before_the_first_step_and_not_again_after_a_question(house: Harness) -> None:
    run = await house.start(
        """
context: {n: 0}
steps:
  - kind: loop
    name: l
    loop:
      max_loops: 2
      init:
        - set: {target: context.n, value: "{{ context.n + 1 }}"}
        - append: {target: context.log, value: "init {{ context.n }}"}
        - merge: {target: context.slots, value: {a: 1}}
      body:
        - {kind: hitl, name: ask, message: "{{ context.log | join }} {{ context.slots.a }}"}
output: "{{ context }}"
"""
    )
    assert await house.answered(run, "a", "b") == ["init 1 1", "init 1 1"]
    assert await house.output(run) == {"n": 1, "log": ["init 1"], "slots": {"a": 1}}


PROPAGATION = {
    "context": [{"n": 1}, {"n": 1}],
    "previous_output": [1, 2],
    "auto": [{"n": 1}, {"n": 1}],
    '\'{"from": {{ iteration }}, "list": [1]}\'': [{"from": 1, "list": [1]}, {"from": 2, "list": [1]}],
}


@pytest.mark.first_row
@pytest.mark.parametrize("next_input", PROPAGATION)
async def test_propagation_says_what_the_next_iteration_gets(house: Harness, next_input: str) -> None:
    run = await house.start(
        f"""
steps:
  - kind: loop
    name: l
    loop:
      max_loops: 3
      propagation: {{next_input: {next_input}}}
      body:
        - name: got
          when: iteration > 1
          input: "{{{{ (context.got | default([])) + [previous_step] }}}}"
          sink_to: got
        - {{name: n, input: {{n: 1}}, updates_context: true}}
        - {{name: out, input: "{{{{ iteration }}}}"}}
output: "{{{{ context.got }}}}"
""",
        "start",
    )
    got = await house.output(run)
    assert [{"n": one["n"]} if isinstance(one, dict) and "n" in one else one for one in got] == PROPAGATION[next_input]


OUTPUTS = {
    "output_template: \"{{ context.scratchpad.history | join('|') }}\"": "User: a|User: b",
    'output: {last: "{{ output }}", n: "{{ iteration }}"}': {"last": "b", "n": 2},
    "output: {text: conversation_history}": "User: a\nUser: b",
    "output: {fields: {goal: initial_prompt, clarifications: conversation_history}}": {
        "goal": "tea",
        "clarifications": "User: a\nUser: b",
    },
}


@pytest.mark.first_row
@pytest.mark.parametrize("output", OUTPUTS)
async def test_a_loop_gives_what_its_output_says(house: Harness, output: str) -> None:
    run = await house.start(
        f"""
steps:
  - kind: loop
    name: l
    loop:
      max_loops: 2
      body:
        - {{kind: hitl, name: ask, message: Go?}}
        - {{name: keep, input: "{{{{ history + ['User: ' ~ steps.ask.output] }}}}", sink_to: scratchpad.history}}
        - {{name: out, input: "{{{{ steps.ask.output }}}}"}}
      {output}
""",
        "tea",
    )
    await house.answered(run, "a", "b")
    assert await house.output(run) == OUTPUTS[output]


CONVERSATION = """
agents: {think: {model: "scripted:replies.yaml", output_schema: {type: object}}}
steps:
  - {name: get_goal}
  - kind: loop
    name: clarification_loop
    loop:
      conversation: true
      body:
        - {name: think, agent: think, updates_context: true}
        - {name: say, input: "{{ context.say }}"}
        - {kind: hitl, name: ask, when: context.scratchpad.last_agent_command.action == 'ask'}
      ai_turn_source: say
      max_loops: 5
      output: {text: conversation_history}
"""
SCRIPT = """
think:
  - output: {say: "For whom?", scratchpad: {last_agent_command: {action: ask}}}
  - output: {say: Thanks., scratchpad: {last_agent_command: {action: finish}}}
"""


async def test_a_conversation_keeps_its_turns_in_order_and_ends_when_the_agent_has_finished(house: Harness) -> None:
    house.script(SCRIPT)
    run = await house.start(CONVERSATION, "A poem")
    assert await house.answered(run, "Ana") == ["For whom?"]
    assert await house.output(run) == "User: A poem\nAssistant: For whom?\nUser: Ana\nAssistant: Thanks."


async def test_a_conversation_that_init_begins_does_not_begin_twice(house: Harness) -> None:
    house.script(SCRIPT)
    start = "init: {history: {start_with: {from_step: get_goal, prefix: 'Goal: '}}, notes: {set: mine}}\n      body:"
    run = await house.start(CONVERSATION.replace("body:", start), "A poem")
    await house.answered(run, "Ana")
    outcome = await house.result(run)
    assert outcome.output.startswith("Goal: A poem\nAssistant: For whom?")
    assert outcome.context["scratchpad"]["notes"] == "mine"


@pytest.mark.slow
async def test_a_long_conversation_keeps_its_last_turns(house: Harness) -> None:
    run = await house.start(
        """
steps:
  - kind: loop
    name: l
    loop:
      conversation: true
      history_management: {strategy: truncate_turns, max_turns: 2}
      exit_expression: output == 'stop'
      body: [{kind: hitl, name: ask, message: "{{ history | join('/') }}"}]
""",
        "start",
    )
    assert await house.answered(run, "a", "b", "stop") == ["User: start", "User: start/User: a", "User: a/User: b"]
    assert (await house.result(run)).context["scratchpad"]["history"] == ["User: b", "User: stop"]


async def test_functions_map_a_loop_s_input_output_and_exit(house: Harness) -> None:
    run = await house.start(
        """
steps:
  - kind: loop
    name: l
    loop:
      body: [{name: add, input: "{{ previous_step + 1 }}"}]
      initial_input_mapper: tests.language.functions:ten_times
      iteration_input_mapper: tests.language.functions:next_input
      exit_condition: tests.language.functions:over_a_hundred
      loop_output_mapper: tests.language.functions:as_text
""",
        1,
    )
    assert await house.output(run) == "it is 112"


async def test_a_failed_step_goes_on_as_on_error_says(house: Harness) -> None:
    run = await house.start(
        """
steps:
  - {name: bad, input: "{{ 1 / 0 }}", on_error: continue}
  - name: worse
    uses: tests.language.functions:explode
    on_error: {fallback: {name: instead, input: "{{ error.type }} instead"}}
output: [ "{{ steps.bad.output }}", "{{ steps.bad.error.type }}", "{{ steps.worse.output }}" ]
""",
        "x",
    )
    assert await house.output(run) == [None, "expression_error", "tool_error instead"]


async def test_a_failure_names_the_step_and_the_run_is_failed(house: Harness) -> None:
    run = await house.start("steps: [{name: a, uses: 'tests.language.functions:explode'}]", "x")
    outcome = await house.result(run)
    assert (outcome.status, outcome.error.type, outcome.error.address) == (
        "failed",
        "tool_error",
        "pipeline:test;step:a",
    )
    assert "ValueError: boom" in outcome.error.message


async def test_a_write_that_breaks_the_context_s_schema_fails_the_step_that_wrote(house: Harness) -> None:
    run = await house.start(
        """
context: {n: 0}
context_schema: {type: object, properties: {n: {type: integer}}}
steps: [{name: a, sink_to: n}]
""",
        "text",
    )
    outcome = await house.result(run)
    assert (outcome.error.type, outcome.error.address) == ("context_invalid", "pipeline:test;step:a")


async def test_a_run_keeps_its_blueprint_when_the_file_changes(house: Harness) -> None:
    child = house.folder / "child.yaml"
    child.write_text("steps: [{kind: hitl, name: ask, message: Old?}, {name: end, input: old}]\n")
    run = await house.start("imports: {c: child.yaml}\nsteps: [{name: call, uses: imports.c}]\n")
    await house.one(run)
    child.write_text("steps: [{name: end, input: new}]\n")
    await house.answer(run, "go")
    assert await house.output(run) == "old"


ATTACKS = [
    "{{ range(1000) | map('string') | join ~ 1 / 0 }}",
    "{% for a in range(1000) %}{% for b in range(1000) %}{% for c in range(1000) %}x{% endfor %}{% endfor %}"
    "{% endfor %}",
    "{{ 9 ** 9 ** 9 }}",
    "{{ input['__cl' ~ 'ass__'] }}",
]


@pytest.mark.parametrize("attack", ATTACKS)
async def test_an_expression_that_would_run_for_ever_or_reach_outside_fails_the_run_cleanly(
    house: Harness, attack: str
) -> None:
    run = await house.start(f'context: {{text: x}}\nsteps: [{{name: a, input: "{attack}"}}]', "x")
    outcome = await house.result(run)
    assert (outcome.status, outcome.error.type) == ("failed", "expression_error")


@pytest.mark.parametrize("written", ["{a: 1}", "'{\"a\": 1}'", "'{\"a\": {{ input }}}'"])
async def test_merge_and_updates_context_take_a_text_that_is_a_json_object(house: Harness, written: str) -> None:
    run = await house.start(
        f"""
steps:
  - {{name: update, input: {written}, updates_context: true}}
  - name: l
    kind: loop
    loop:
      max_loops: 2
      init: {{merge: {{target: context.first, value: {written}}}}}
      state: {{merge: {{target: context.metrics, value: {written}}}}}
      body: [{{name: b}}]
""",
        1,
    )
    assert (await house.result(run)).context == {"a": 1, "first": {"a": 1}, "metrics": {"a": 1}}


@pytest.mark.parametrize("text", ["no object", "[1]", '{"a": 1e999}', "{" * 5000])
async def test_a_text_that_is_no_json_object_fails_the_write(house: Harness, text: str) -> None:
    run = await house.start("steps: [{name: update, updates_context: true}]", text)
    assert (await house.result(run)).error.type == "bad_write"


async def test_a_tool_that_cannot_read_what_comes_back_has_acted_and_is_not_called_again(house: Harness) -> None:
    """The error is that of an argument that does not fit, and raised after its effect."""
    run = await house.start(f"steps: [{{name: a, uses: misreads, input: {{folder: '{house.folder}'}}}}]")
    error = (await house.result(run)).error
    assert error is not None and (error.type, calls(house.folder, "misreads")) == ("tool_error", 1)
    assert error.raised_at is not None and "tests/tools.py" in error.raised_at


@pytest.mark.slow
async def test_an_argument_that_does_not_fit_is_called_by_its_name(house: Harness) -> None:
    run = await house.start("steps: [{name: a, uses: stringy, input: [5]}]")
    error = (await house.result(run)).error
    assert error is not None and error.type == "tool_input"
    assert "stringy: text:" in error.message
