"""`holdfast create --from-flujo`: what was turned runs, and what was not is told by line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from holdfast.blueprint.load import load, loads
from holdfast.cli.flujo.convert import convert
from tests.client.command import Holdfast


def turned(text: str) -> str:
    return convert(text, "theirs.yaml", Path(), Path("ours.yaml")).text


def one_step(text: str) -> dict[str, object]:
    [step] = loads(turned(f"steps: [{text}]")).steps
    return step.model_dump(exclude_defaults=True)


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("{name: Two words}", {"name": "Two_words"}),
        ("{name: a, agent: {id: my_tool, params: {n: 1}}}", {"uses": "my_tool", "arguments": {"n": 1}}),
        ("{name: a, agent: {id: flujo.builtins.flatten, params: {value: [[1]]}}}", {"uses": "flatten", "input": [[1]]}),
        (
            "{name: a, agent: {id: flujo.builtins.context_set, params: {path: b, value: 1}}}",
            {"uses": "context_set", "input": {"path": "b", "value": 1}},
        ),
        ("{name: a, agent: {id: flujo.builtins.ask_user}, input: Who?}", {"kind": "hitl", "message": "Who?"}),
        ("{name: a, input: '{{ previous_step.output }}'}", {"name": "a"}),
        ("{name: a, input: '{{ context.initial_prompt | to_json }}'}", {"input": "{{ input | tojson }}"}),
        ("{name: a, meta: {is_adapter: true}, processing: {x: 1}}", {"name": "a"}),
        (
            "{name: a, uses: t, fallback: {name: b, meta: {}}}",
            {"on_error": {"fallback": {"name": "b", "kind": "step"}}},
        ),
    ],
)
def test_a_step_says_the_same_in_our_words(theirs: str, ours: dict[str, object]) -> None:
    step = one_step(theirs)
    assert {key: step[key] for key in ours} == ours


def test_references_follow_the_names_of_their_steps() -> None:
    text = """
steps:
  - {name: Find it, uses: find}
  - kind: map
    name: each
    map:
      iterable_input: steps["Find it"].output
      body: [{name: look, input: "{{ this }}"}]
  - {name: all, input: "{{ steps.each }} and {{ steps.get('Find it').output }}"}
"""
    _, each, last = loads(turned(text)).steps
    assert each.map.iterable_input == "steps.Find_it.output"
    assert each.map.body[0].input == "{{ item }}"
    assert last.input == "{{ steps.each.output }} and {{ steps.Find_it.output }}"


MACHINE = """
steps:
  - kind: StateMachine
    name: order
    start_state: ask
    end_states: [done]
    states:
      ask: {steps: [{kind: hitl, name: ask it, message: Go?}]}
      review: [{name: look}]
      done: {steps: []}
    transitions:
      - {from: ask, on: pause, to: ask}
      - {from: ask, on: success, to: done, when: output == 'no'}
      - {from: ask, on: success, to: review}
      - {from: review, on: success, to: done}
      - {from: "*", on: failure, to: done}
"""


@pytest.mark.parametrize("reference", ["steps.make plan.output", "steps.make plan", "steps.get('make plan')"])
def test_a_name_with_a_blank_is_found_without_quotes(reference: str) -> None:
    text = 'steps: [{name: make, uses: t}, {name: make plan, uses: t}, {name: b, input: "{{ %s }}"}]'
    assert "steps.make_plan.output }}" in turned(text % reference)


@pytest.mark.parametrize(
    "writes",
    [
        "{kind: hitl, name: w, message: What?, sink_to: initial_prompt}",
        "{kind: hitl, name: w, message: What?, sink_to: context.initial_prompt}",
        "{name: w, agent: {id: flujo.builtins.context_set, params: {path: initial_prompt, value: 1}}}",
        "{name: w, agent: {id: flujo.builtins.context_merge, params: {path: x, value: {initial_prompt: 1}}}}",
    ],
)
def test_a_prompt_that_the_blueprint_writes_stays(writes: str) -> None:
    text = f"steps: [{writes}, {{name: a, input: '{{{{ context.initial_prompt }}}}'}}]"
    converted = convert(text, "theirs.yaml", Path(), Path("ours.yaml"))
    assert "{{ context.initial_prompt }}" in converted.text
    assert any("initial_prompt is written" in note.text for note in converted.notes.left)


@pytest.mark.parametrize("kind", ["dynamic_router", "tree_search", "TreeSearch", "dynamic_parallel_router"])
def test_a_kind_without_an_equal_is_left_with_the_way_to_write_it(kind: str) -> None:
    converted = convert(f"steps: [{{kind: {kind}, name: t}}]", "theirs.yaml", Path(), Path("ours.yaml"))
    assert [note.text.partition(":")[2].split(" is ")[0] for note in converted.notes.left] == [f" {kind}"]


def test_a_state_machine_keeps_its_states_and_the_order_of_its_rules() -> None:
    converted = convert(MACHINE, "theirs.yaml", Path(), Path("ours.yaml"))
    [step] = loads(converted.text).steps
    assert (step.kind, step.start, step.ends, list(step.states)) == ("states", "ask", ["done"], ["ask", "review"])
    assert step.states["ask"].next.value == "('done' if output == 'no' else 'review')"
    assert step.states["review"].next == "done"
    assert [note.line for note in converted.notes.left] == [16, 16]


@pytest.fixture
def create(tmp_path: Path) -> Holdfast:
    """Commands in a folder of its own: no server is needed."""
    return Holdfast(tmp_path)


def test_the_command_writes_it_with_its_imports_and_tells_each_line(create: Holdfast, tmp_path: Path) -> None:
    create.write("child.yaml", "steps:\n  - {name: A b, input: x}\n")
    create.write("same.yaml", "steps:\n  - {name: a, input: x}\n")
    create.write(
        "main.yaml", "imports: {c: child.yaml, d: same.yaml}\nsteps:\n  - {name: i, uses: imports.c, plugins: [x]}\n"
    )
    done = create("create", "--from-flujo", "main.yaml", "--json")
    assert done.code == 0, done.err
    printed = json.loads(done.out)
    assert printed["command"] == "holdfast run main.holdfast.yaml"
    assert sorted(printed["files"]) == ["main.holdfast.c.yaml", "main.holdfast.yaml"]
    assert [(note["file"], note["line"]) for note in printed["turned"]] == [("child.yaml", 2)]
    assert [(note["file"], note["line"]) for note in printed["left"]] == [("main.yaml", 3)]
    blueprint = load(tmp_path / "main.holdfast.yaml")
    assert [step.name for step in blueprint.imports["c"].steps] == ["A_b"]


def test_what_does_not_load_yet_is_written_and_its_problems_are_told(create: Holdfast, tmp_path: Path) -> None:
    create.write("odd.yaml", "steps:\n  - {kind: tree_search, name: t}\n")
    done = create("create", "--from-flujo", "odd.yaml")
    assert done.code == 2
    assert "unknown kind 'tree_search'" in done.err
    assert (tmp_path / "odd.holdfast.yaml").exists()


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [("none.yaml", None, "cannot be read"), ("list.yaml", "[1]", "no blueprint"), ("bad.yaml", "a: [", "bad.yaml:2:1")],
)
def test_a_file_that_is_none_is_refused(create: Holdfast, file: str, text: str | None, message: str) -> None:
    if text is not None:
        create.write(file, text)
    done = create("create", "--from-flujo", file)
    assert done.code == 2
    assert message in done.err


@pytest.mark.parametrize(
    ("step", "kept"),
    [
        ("{name: a, updates_context: true}", False),
        ("{name: a, uses: stringify, updates_context: true}", False),
        ("{name: a, uses: agents.writer, updates_context: true}", True),
        ("{name: a, agent: writer, updates_context: true}", False),
        ("{name: a, agent: judge, updates_context: true}", True),
        ("{kind: hitl, name: a, message: Who?, updates_context: true}", False),
        ("{name: a, uses: find, updates_context: true}", True),
        ("{name: a, input: {b: 1}, updates_context: true}", True),
        ("{name: a, input: '{{ previous_step }}', updates_context: true}", True),
        ("{kind: hitl, name: q, message: Who?}, {name: a, uses: passthrough, updates_context: true}", False),
    ],
)
def test_a_text_that_flujo_does_not_write_to_the_context_is_not_written(step: str, kept: bool) -> None:
    judge = "{model: echo, output_schema: {type: object, properties: {b: {}}}}"
    text = f"agents: {{writer: {{model: echo}}, judge: {judge}}}\nsteps: [{step}]"
    assert ("updates_context: true" in turned(text)) is kept


def test_what_nothing_writes_to_the_context_is_given_at_the_start() -> None:
    text = "steps: [{name: a, sink_to: own}, {name: b, input: '{{ context.goal }} {{ context.own }}'}]"
    first, *_ = loads(turned(text)).steps
    assert (first.name, first.when, first.updates_context) == ("given_context", "input is mapping", True)
    conversion = convert(text, "theirs.yaml", Path(), Path("ours.yaml"))
    assert 'the context is given at the start, as the input: {"goal": …}' in [
        one.text for one in conversion.notes.changed
    ]


def test_the_context_is_given_at_the_start_also_where_an_agent_writes_other_keys() -> None:
    agent = "{model: echo, output_schema: {type: object, properties: {mood: {}}}}"
    use = "{name: a, agent: judge, input: '{{ context.text }} {{ context.mood }}', updates_context: true}"
    conversion = convert(f"agents: {{judge: {agent}}}\nsteps: [{use}]", "theirs.yaml", Path(), Path("ours.yaml"))
    assert 'the context is given at the start, as the input: {"text": …}' in [
        one.text for one in conversion.notes.changed
    ]


def test_a_router_that_says_its_agent_and_branches_is_a_block() -> None:
    branches = "{law: [{name: A b, input: x}], money: [{name: c}]}"
    text = f"steps: [{{kind: dynamic_router, name: r, router: {{router_agent: 'team:choose', branches: {branches}}}}}]"
    [block] = loads(turned(text)).steps
    choice, runs = block.steps
    assert (block.name, choice.uses, runs.choose) == ("r", "team:choose", "{{ steps.r_choice.output }}")
    assert [step.name for steps in runs.branches.values() for step in steps] == ["A_b", "c"]


def test_an_end_that_only_a_failure_led_to_is_left_out() -> None:
    rules = "[{from: a, on: success, to: done}, {from: '*', on: failure, to: failed}]"
    machine = "kind: StateMachine, name: m, start_state: a, end_states: [done, failed], states: {a: [{name: x}]}"
    [step] = loads(turned(f"steps: [{{{machine}, transitions: {rules}}}]")).steps
    assert step.ends == ["done"]


def test_a_condition_that_is_a_template_is_an_expression() -> None:
    branches = "{'true': [{name: a}], 'false': [{name: b}]}"
    condition = "condition: \"{{ initial_prompt == 'x' }}\""
    [step] = loads(turned(f"steps: [{{kind: conditional, name: c, {condition}, branches: {branches}}}]")).steps
    assert (step.condition, step.condition_expression) == (None, "input == 'x'")


def test_a_conversation_without_an_agent_ends_and_has_a_speaker() -> None:
    loop = "{conversation: true, ai_turn_source: named_steps, history_management: {strategy: summarize}, body: %s}"
    body = "[{kind: hitl, name: q, message: Go?}, {name: plan it}]"
    [step] = loads(turned(f"steps: [{{kind: loop, name: l, loop: {loop % body}}}]")).steps
    assert (step.loop.ai_turn_source, step.loop.max_loops, step.loop.at_the_limit) == ("plan_it", 5, "finish")
    assert step.loop.history_management.strategy == "truncate_turns"
    body = "[{kind: parallel, name: both, branches: {a: [{name: b}], c: [{name: d}]}}]"
    [step] = loads(turned(f"steps: [{{kind: loop, name: l, loop: {loop % body}}}]")).steps
    assert step.loop.ai_turn_source == "both"


def test_the_artifacts_of_imports_begin_empty() -> None:
    text = "steps: [{name: a, when: \"context.import_artifacts.get('x')\"}]"
    assert loads(turned(text)).context == {"import_artifacts": {}}


def test_an_import_that_updates_the_context_gives_back_what_it_writes(create: Holdfast, tmp_path: Path) -> None:
    create.write("child.yaml", "steps: [{kind: hitl, name: ask, message: What?, sink_to: goal}]")
    create.write("silent.yaml", "steps: [{name: say, input: hi}]")
    uses = "{name: %s, uses: imports.%s, updates_context: true}"
    steps = f"steps: [{uses % ('one', 'child')}, {uses % ('two', 'silent')}]"
    create.write("main.yaml", f"imports: {{child: child.yaml, silent: silent.yaml}}\n{steps}")
    assert create("create", "--from-flujo", "main.yaml").code == 0
    one, two = load(tmp_path / "main.holdfast.yaml").steps
    assert (one.config.outputs, one.updates_context) == ({"goal": "goal"}, False)
    assert (two.config, two.updates_context) == (None, False)


@pytest.mark.parametrize(
    ("loop", "limit"),
    [
        ("max_loops: 2, exit_expression: output == 'x'", (2, "finish")),
        ("exit_expression: output == 'x'", (5, "finish")),
        ("propagation: context", (1, None)),
    ],
)
def test_a_loop_ends_and_goes_on_after_its_last_iteration_as_in_flujo(loop: str, limit: tuple[int, str | None]) -> None:
    [step] = loads(turned(f"steps: [{{kind: loop, name: l, loop: {{{loop}, body: [{{name: a}}]}}}}]")).steps
    assert (step.loop.max_loops, step.loop.on_max_loops) == limit


def test_what_a_loop_writes_outside_the_context_is_left_out() -> None:
    state = "state: {set: [{target: x, value: 1}]}, init: [{set: y, value: 1}, {append: {target: context.z, value: 3}}]"
    conversion = convert(
        f"steps: [{{kind: loop, name: l, loop: {{max_loops: 2, body: [{{name: a}}], {state}}}}}]",
        "theirs.yaml",
        Path(),
        Path("ours.yaml"),
    )
    [step] = loads(conversion.text).steps
    assert (step.loop.state, [one.verb for one in step.first_writes]) == ([], ["append"])
    assert [note.text.partition(" ")[0] for note in conversion.notes.left] == ["y", "x"]


@pytest.mark.parametrize(
    ("agent", "read"),
    [
        ("max_retries: '2', timeout: '30'", (3, 30.0)),
        ("max_retries: three, timeout: ten seconds", (4, None)),
    ],
)
def test_what_is_no_number_is_what_flujo_puts_in_its_place(agent: str, read: tuple[int, float | None]) -> None:
    text = f"agents: {{a: {{model: echo, {agent}}}}}\nsteps: [{{name: s, agent: a}}]"
    written = loads(turned(text)).agents["a"]
    assert (written.retry.attempts, written.timeout) == read


def test_a_conditional_without_a_condition_takes_the_branch_that_is_named_or_the_first() -> None:
    step = one_step("{kind: conditional, name: c, branches: {ok: [{name: a}], other: [{name: b}]}}")
    assert step["condition_expression"] == "previous_step if previous_step in ['ok', 'other'] else 'ok'"


def test_a_machine_that_begins_at_an_end_does_nothing() -> None:
    step = one_step("{kind: StateMachine, name: m, start_state: a, end_states: [a], states: {a: []}}")
    assert step == {"name": "m", "kind": "step", "input": None}
