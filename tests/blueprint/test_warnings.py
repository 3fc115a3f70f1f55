"""Warnings: what runs, and is hardly what was meant; and the comments that silence them."""

from pathlib import Path

import pytest

from holdfast.blueprint.codes import COMMENTS, WARNINGS
from holdfast.blueprint.errors import Problem
from holdfast.blueprint.load import load, parse, parse_file
from holdfast.blueprint.source import Source, comments
from tests.blueprint.written import yaml


@pytest.fixture
def warned(tmp_path):
    """Writes a blueprint, and gives its warnings; nothing else may be wrong with it."""

    def look(text: str) -> list[Problem]:
        path = tmp_path / "flow.yaml"
        path.write_text(yaml(text))
        parsed = parse_file(path)
        assert parsed.problems == []
        assert parse(yaml(text), file=str(path), folder=tmp_path).warnings == parsed.warnings
        assert {one.severity for one in parsed.warnings} <= {"warning"}
        return parsed.warnings

    return look


def told(warnings: list[Problem]) -> list[tuple[str, int, str]]:
    return [(one.code, one.line, one.path) for one in warnings]


AGENTS = """
    agents:
      used: {model: echo}
      summary: {model: echo}
      tool: {model: echo, tools: ["agent:inner"]}
      inner: {model: echo}
      old: {model: echo, tools: ["agent:older"]}
      older: {model: echo}
    steps:
      - {name: a, agent: used}
      - {name: b, agent: tool}
      - kind: loop
        name: talk
        loop:
          conversation: true
          max_loops: 3
          history_management: {strategy: summarize, max_turns: 10, agent: summary}
          body: [{name: c, agent: used}]
"""


def test_an_agent_that_nothing_uses_is_told_and_so_is_one_that_only_such_an_agent_uses(warned) -> None:
    assert told(warned(AGENTS)) == [("unused_agent", 6, "agents.old"), ("unused_agent", 7, "agents.older")]


def test_an_import_that_nothing_uses_is_told_in_the_file_that_imports_it(warned, tmp_path) -> None:
    (tmp_path / "inner.yaml").write_text("imports: {x: {steps: [{name: s}]}}\nsteps: [{name: a}]")
    found = warned("imports: {one: ./inner.yaml, two: ./inner.yaml}\nsteps: [{name: a, uses: imports.one}]")
    assert [(Path(one.file).name, one.code, one.path) for one in found] == [
        ("flow.yaml", "unused_import", "imports.two"),
        ("inner.yaml", "unused_import", "imports.x"),
    ]


CHOICE = """
    steps:
      - kind: conditional
        name: choose
        condition_expression: %s
        branches: {%s}%s
"""
DEFAULT = "\n        default_branch: [{name: other}]"


@pytest.mark.parametrize(
    ("expression", "keys", "default", "codes"),
    [
        ("input == 'yes'", "true: {name: a}, false: {name: b}", "", []),
        ("input", "yes: {name: a}", "", []),
        ("not input", "true: {name: a}", "", ["missing_branch"]),
        ("not input", "true: {name: a}", DEFAULT, []),
        ("\"'x' in input\"", "true: {name: a}, false: {name: b}", DEFAULT, ["unused_default"]),
        ("input is defined and input > 3", "true: {name: a}", "", ["missing_branch"]),
        ("input and input > 3", "yes: {name: a}", "", []),
    ],
)
def test_branches_fit_the_values_that_a_condition_can_have(warned, expression, keys, default, codes) -> None:
    assert sorted(one.code for one in warned(CHOICE % (expression, keys, default))) == codes


def test_a_condition_that_is_always_the_same_is_told(warned) -> None:
    rounds = "steps: [{kind: loop, name: l, loop: {max_loops: 3, exit_expression: iteration > 3, body: {name: a}}}]"
    assert told(warned(rounds)) == [("constant_condition", 1, "steps[0].loop.exit_expression")]
    assert warned(rounds.replace("> 3,", "> 2,")) == []
    assert warned(rounds.replace("iteration > 3,", "'false',")) == []
    assert [one.code for one in warned(rounds.replace("> 3,", ">= 1,"))] == ["constant_condition"]


JUDGED = """
    steps:
      - {name: rate, agent: {model: echo, output_schema: {type: object, required: [ok]}}%s}
      - {name: x, input: 1, when: %s}
"""


def test_an_object_is_no_condition_where_its_step_has_surely_run(warned) -> None:
    assert told(warned(JUDGED % ("", "steps.rate.output")))[0][::2] == ("constant_condition", "steps[1].when")
    assert warned(JUDGED % (", on_error: continue", "steps.rate.output")) == []
    assert warned(JUDGED % ("", "steps.rate.output.ok")) == []


@pytest.mark.parametrize(
    ("condition", "warns"),
    [
        ("previous_step", True),
        ("not output", True),
        ("output.ok", False),
        ("output.more", True),
        ("output.more is none", True),
        ("output.more == none", True),
        ("steps.rate.output.more is defined", True),
        ("output.ok is none", False),
        ("input.who is none", True),
        ("input.who is defined", True),
        ("input.note is none", False),
        ("input.note is defined", False),
        ("input.maybe is none", False),
        ("input.who == none or input.note", False),
    ],
)
def test_what_is_surely_there_is_no_question(warned, condition: str, warns: bool) -> None:
    properties = "{who: {type: string}, note: {}, maybe: {type: [string, 'null']}}"
    inputs = f"{{type: object, required: [who, maybe], properties: {properties}}}"
    more = "properties: {ok: {}, more: {type: object, required: [deep]}}, required: [ok, more]"
    step = (JUDGED % ("", condition)).replace("required: [ok]", more)
    found = warned(f"    inputs: {inputs}{step}")
    assert [one.code for one in found] == ["constant_condition"] * warns


def test_a_step_of_several_that_are_needed_may_have_been_skipped(warned) -> None:
    rate = "{name: rate, needs: [first], agent: {model: echo, output_schema: {type: object, required: [ok]}}}"
    first = "{name: first, when: input}, {name: other}"
    steps = f"steps: [{first}, {rate}, {{name: last, needs: [rate, other], input: 1, when: steps.rate.output}}]"
    assert warned(steps) == []


JOINED = 'steps: [{name: rate, input: {a: 1}}, {kind: hitl, name: who, message: Who?}, {name: x, input: "{{ %s }}"}]'


@pytest.mark.parametrize(
    ("value", "code"),
    [
        ("steps.rate.output | join", "joined_parts"),
        ("steps.rate.output.values() | join", None),
        ("steps.who.output | join(', ')", "joined_parts"),
        ("steps.who.output | join", None),
        ("steps.who.output.split() | join(', ')", None),
        ("input | join(', ')", None),
        ("steps.rate.output | int", "unread_number"),
        ("steps.who.output.split() | float(1)", "unread_number"),
        ("steps.who.output | int", None),
        ("input | int", None),
    ],
)
def test_a_filter_that_takes_a_value_for_another_is_told(warned, value: str, code: str | None) -> None:
    assert [one.code for one in warned(JOINED % value)] == ([code] if code else [])


def test_a_key_that_nothing_says_a_value_has_is_told(warned) -> None:
    agent = "{model: echo, output_schema: {type: object, properties: {score: {type: number}}}}"
    [one] = warned(f"steps: [{{name: rate, agent: {agent}}}, {{name: a, when: previous_step.scroe > 3}}]")
    assert (one.code, one.path, one.hint) == ("unlisted_key", "steps[1].when", "did you mean 'score'?")
    [one] = warned("context: {paid: 0}\nsteps: [{name: a, input: '{{ context.payed }}'}]")
    assert (one.code, one.hint) == ("unlisted_key", "did you mean 'paid'?")
    loop = "{max_loops: 2, body: [{name: a}], init: {merge: {target: context.best, value: {score: 1}}}}"
    steps = f"{{kind: loop, name: l, loop: {loop}}}, {{name: b, input: '{{{{ context.best.%s }}}}'}}"
    [one] = warned(f"steps: [{steps % 'scroe'}]")
    assert (one.code, warned(f"steps: [{steps % 'score'}]")) == ("unlisted_key", [])


def test_what_is_taken_over_of_an_import_or_known_already_is_listed(warned) -> None:
    inner = "{steps: [{name: a, sink_to: receipt}]}"
    step = "{name: pay, uses: imports.inner, config: {outputs: {%s: paid}}}"
    for source, codes in (("receipt", []), ("context.receipt", []), ("reciept", ["unlisted_key"])):
        assert [one.code for one in warned(f"imports: {{inner: {inner}}}\nsteps: [{step % source}]")] == codes
    schema = "{type: object, properties: {what: {type: string}}}"
    [one] = warned(f"steps: [{{kind: clarify, name: f, goal: g, schema: {schema}, known: {{wat: x}}}}]")
    assert (one.code, one.path, one.hint) == ("unlisted_key", "steps[0].known.wat", "did you mean 'what'?")


@pytest.mark.parametrize(
    ("condition", "warns"),
    [
        ("output == 'god'", True),
        ("output in ['good', 'bat']", True),
        ("output == 'good'", False),
        ("output == 'enough'", False),
    ],
)
def test_a_text_that_is_nearly_an_option_is_told(warned, condition: str, warns: bool) -> None:
    ask = "{kind: hitl, name: ask, message: Good?, ask: clarification, options: [good, bad]}"
    loop = f'{{kind: loop, name: l, loop: {{max_loops: 2, body: [{ask}], exit_expression: "{condition}"}}}}'
    assert [one.code for one in warned(f"steps: [{loop}]")] == ["near_option"] * warns
    machine = "{start: a, ends: [x, y], states: {a: {steps: [%s], next: {value: output, to: {%s: x}, else: y}}}}"
    key = "goood" if warns else "good"
    states = machine[1:-1] % (ask, key)
    assert [one.code for one in warned(f"steps: [{{kind: states, name: m, {states}}}]")] == ["near_option"] * warns


SKIPPED = "{name: x, input: 1, when: input.a}"
LATE = "{kind: hitl, name: x, message: Go?, timeout: 1h, on_timeout: skip}"
REVIEWED = "{kind: hitl, name: x, ask: review, message: Good?}"
CHOOSE = (
    "{kind: conditional, name: c, condition_expression: steps.x.output, branches: {a: %s}, default_branch: {name: z}}"
)
PRINT = "{name: y, input: 'It is {{ steps.x.output }}.'%s}"


@pytest.mark.parametrize(
    ("steps", "cause"),
    [
        (f"{SKIPPED}, {PRINT % ''}", "x is skipped where its `when` is false"),
        (f"{{name: x, uses: t, on_error: continue}}, {PRINT % ''}", "x may fail"),
        (f"{LATE}, {PRINT % ''}", "nobody may answer x in time"),
        (f"{REVIEWED}, {PRINT % ''}", "x may be rejected"),
        ("{kind: hitl, name: x, message: Go?, on_decline: continue}, " + PRINT % "", "a person may decline x"),
        (
            "{kind: wait, name: x, for: payment.received, key: a, timeout: 1h, on_timeout: skip}, " + PRINT % "",
            "no event may come for x",
        ),
        ("{kind: block, name: x, deadline: 1h, on_deadline: finish, steps: {name: a}}, " + PRINT % "", "its deadline"),
        (f"{SKIPPED}, {PRINT % ', needs: [x]'}", "x is skipped"),
        (f"{SKIPPED}, {PRINT % ', when: input.b'}", "x is skipped"),
        (f"{SKIPPED}, {PRINT % ', when: input.a'}", ""),
        (f"{SKIPPED}, {PRINT % ', when: steps.x.output'}", ""),
        (f"{LATE}, {{name: y, input: '{{{{ steps.x.output }}}}'}}", ""),
        (f"{LATE}, {{name: y, input: 'It is {{{{ steps.x.output or 1 }}}}.'}}", ""),
        (f"{LATE}, {{name: y, input: 'It is {{% if steps.x.output %}}{{{{ steps.x.output }}}}{{% endif %}}'}}", ""),
        (f"{LATE}, {CHOOSE % PRINT % ''}", ""),
        ("{kind: hitl, name: x, ask: permission, message: Go?}, " + PRINT % "", ""),
    ],
)
def test_an_output_that_may_be_null_in_a_text_is_told_with_its_cause(warned, steps: str, cause: str) -> None:
    found = [one for one in warned(f"steps: [{steps}]") if one.code == "null_in_text"]
    assert [cause in one.message for one in found] == [True] * bool(cause)


WRITTEN = """
agents: {judge: {model: echo, output_schema: {type: object, properties: {why: {type: string}}}}}
steps:
  - {name: a, agent: judge, sink_to: verdict}
  - {name: b, input: "%s"}
"""


@pytest.mark.parametrize(
    ("text", "more", "codes"),
    [
        ("{{ context.verdict.why if context.verdict else '' }}", "", ["optional_key"]),
        ("{{ context.verdict.why if context.verdict.why else '' }}", "", []),
        ("{{ context.verdict.why }}", "  - {name: c, input: late, sink_to: verdict.why}\n", []),
    ],
)
def test_a_key_that_what_was_written_may_leave_out_is_told(warned, text: str, more: str, codes: list[str]) -> None:
    assert [one.code for one in warned(WRITTEN % text + more)] == codes


@pytest.mark.parametrize(
    ("reading", "warns"),
    [
        ("{name: b, input: '{{ steps.a.output.done }}'}", True),
        (
            "{kind: conditional, name: b, condition_expression: steps.a.output.done, "
            "branches: {'true': {name: c}, 'false': {name: d}}}",
            True,
        ),
        ("{name: b, input: \"{{ steps.a.output.done | default('no') }}\"}", False),
        ("{name: b, when: steps.a.output, input: '{{ steps.a.output.done }}'}", False),
    ],
)
def test_a_key_of_an_output_that_may_be_null_is_told(warned, reading: str, warns: bool) -> None:
    judge = JUDGE.replace("done: {}", "done: {type: boolean}").replace("{name: a", "{on_error: continue, name: a")
    assert ("optional_key" in [one.code for one in warned(f"steps: [{judge}, {reading}]")]) == warns


@pytest.mark.parametrize(
    ("step", "warns"),
    [
        ("{name: a, agent: {model: echo}, updates_context: true}", True),
        ("{name: a, agent: {model: echo, output_schema: {type: object}}, updates_context: true}", False),
        ("{name: a, uses: find, updates_context: true}", False),
        ("{name: a, input: '{\"b\": 1}', updates_context: true}", False),
    ],
)
def test_a_text_that_is_written_key_by_key_is_told(warned, step: str, warns: bool) -> None:
    assert [one.code for one in warned(f"steps: [{step}]")] == ["text_update"] * warns


LOOP = "%ssteps: [{kind: loop, name: l, loop: {exit_expression: input.x, body: [%s]%s}}]"
JUDGE = "{name: a, agent: {model: echo, output_schema: {type: object, required: [done], properties: {done: {}}}}}"
ANSWER = "{kind: hitl, name: h, message: Go on?}"
PERSON = "{kind: conditional, name: c, condition_expression: input, branches: {a: {kind: hitl, name: h, message: Go?}}}"


@pytest.mark.parametrize(
    ("before", "body", "more", "warns"),
    [
        ("", "{name: a}", "", True),
        ("", "{name: a}", ", max_loops: 5", False),
        ("limits: {tokens: 5000}\n", "{name: a}", "", False),
        ("", PERSON, "", False),
        ("", "{name: a, interrupt_before: true}", "", False),
    ],
)
def test_a_loop_that_nothing_ends_is_told(warned, before, body, more, warns) -> None:
    assert [one.code for one in warned(LOOP % (before, body, more))] == ["unlimited_loop"] * warns


@pytest.mark.parametrize(
    ("more", "warns"),
    [
        ("", True),
        (", max_loops: 51", True),
        (", max_loops: 50", False),
        (", history_management: {strategy: truncate_turns, max_turns: 20}", False),
    ],
)
def test_a_conversation_that_keeps_every_turn_is_told(warned, more, warns) -> None:
    assert [one.code for one in warned(LOOP % ("", PERSON, f", conversation: true{more}"))] == [
        "unlimited_history"
    ] * warns


@pytest.mark.parametrize(
    ("more", "warns"),
    [
        ("", False),
        ("max_questions: 1", True),
        ("max_questions: 2", False),
        ("max_questions: 1, known: {a: 1}", False),
        ("max_questions: 1, agent: {model: echo}", False),
    ],
)
def test_fewer_questions_than_facts_are_told(warned, more, warns) -> None:
    facts = "{properties: {a: {}, b: {}}}"
    text = f"steps: [{{kind: clarify, name: c, goal: g, schema: {facts}{', ' * bool(more)}{more}}}]"
    assert [one.code for one in warned(text)] == ["few_questions"] * warns


@pytest.mark.parametrize(
    ("many", "write", "warns"),
    [
        (2, "sink_to: total", ["steps[0].map.body[0].sink_to"]),
        (2, "updates_context: true", ["steps[0].map.body[0].updates_context"]),
        (2, "input: x", []),
        (1, "sink_to: total", []),
    ],
)
def test_what_items_that_run_at_once_all_write_is_told(warned, many, write, warns) -> None:
    block = f"{{iterable_input: input.all, max_concurrency: {many}, body: [{{name: a, {write}}}]}}"
    found = warned(f"steps: [{{kind: map, name: m, map: {block}}}]")
    assert [(one.code, one.path) for one in found] == [("shared_write", path) for path in warns]


@pytest.mark.parametrize(
    ("more", "one", "other", "warns"),
    [
        ("", "sink_to: k, input: '{{ input.a }}'", "sink_to: k", True),
        ("", "sink_to: k.a", "sink_to: context.k", True),
        (", merge_strategy: error_on_conflict", "sink_to: k", "sink_to: k", True),
        (", merge_strategy: overwrite", "sink_to: k", "sink_to: k", False),
        (", until: first", "sink_to: k", "sink_to: k", False),
        (", field_mapping: {b: [other]}", "sink_to: k", "sink_to: k", False),
        ("", "sink_to: k.a", "sink_to: k.b", False),
        ("", "sink_to: k, input: 1", "sink_to: k, input: 1", False),
    ],
)
def test_branches_that_write_one_path_are_told(warned, more, one, other, warns) -> None:
    branches = f"{{a: [{{name: x, {one}}}], b: [{{name: y, {other}}}]}}"
    found = warned(f"steps: [{{kind: parallel, name: p, branches: {branches}{more}}}]")
    assert [(one.code, one.path) for one in found] == [("shared_write", "steps[0].branches.b[0].sink_to")] * warns


@pytest.mark.parametrize(
    ("head", "needs", "warns"), [("", "", True), ("", "needs: [a], ", False), ("max_parallel: 1\n", "", False)]
)
def test_steps_beside_one_another_that_write_one_path_are_told(warned, head, needs, warns) -> None:
    first = "{name: a, sink_to: k}"
    second = f"{{name: b, {needs}sink_to: k, input: '{{{{ input.x }}}}'}}"
    found = warned(f"{head}steps: [{first}, {second}, {{name: c, needs: [a, b]}}]")
    assert [(one.code, one.path) for one in found] == [("shared_write", "steps[1].sink_to")] * warns


@pytest.mark.parametrize(
    ("body", "exit", "warns"),
    [
        (ANSWER, "output", True),
        (ANSWER, "iteration > 3 or output", True),
        ("{name: a, agent: {model: echo}}", "steps.a.output", True),
        (JUDGE, "output", True),
        (JUDGE, "not output", True),
        (JUDGE, "output.done", False),
        (ANSWER, "output == 'stop'", False),
        (ANSWER, "not output", False),
        ("{name: a, uses: any_tool}", "output", False),
        ("{name: a, agent: {model: echo, output_schema: {type: boolean}}}", "output", False),
    ],
)
def test_a_loop_that_any_output_ends_is_told(warned, body, exit, warns) -> None:
    block = f'{{max_loops: 5, exit_expression: "{exit}", body: [{body}]}}'
    found = warned(f"steps: [{{kind: loop, name: l, loop: {block}}}]")
    assert [one.code for one in found] == ["any_output"] * warns


def test_a_comment_silences_the_warnings_of_its_line_or_of_the_line_below(warned) -> None:
    at_the_end = AGENTS.replace('"agent:older"]}', '"agent:older"]}  # holdfast: ignore unused_agent')
    assert told(warned(at_the_end)) == [("unused_agent", 7, "agents.older")]
    above = at_the_end.replace(
        "      older:", "      # holdfast: ignore unused_agent, unlimited_loop\n\n      # old\n      older:"
    )
    assert told(warned(above)) == [("unneeded_ignore", 7, "")]


def test_a_reason_may_stand_behind_a_second_mark(warned) -> None:
    text = "agents: {a: {model: echo}}  #holdfast:ignore unused_agent  # for the demo\nsteps: [{name: s}]"
    assert warned(text) == []


@pytest.mark.parametrize(
    ("comment", "code", "says"),
    [
        ("ignore unused_agnet", "unknown_ignore", "did you mean 'unused_agent'?"),
        ("ignore xyz", "unknown_ignore", "warnings: any_output, constant_condition, few_questions"),
        ("ignore", "unknown_ignore", "write # holdfast: ignore CODE"),
        ("please ignore", "unknown_ignore", "write # holdfast: ignore CODE"),
        ("ignore unused_agent", "unneeded_ignore", "line 1 has no unused_agent"),
        ("ignore unknown_name", "unneeded_ignore", "unknown_name cannot be silenced"),
        ("ignore unneeded_ignore", "unneeded_ignore", "unneeded_ignore cannot be silenced"),
    ],
)
def test_a_comment_that_silences_nothing_is_told(warned, comment, code, says) -> None:
    [one] = warned(f"steps: [{{name: s}}]  # holdfast: {comment}")
    assert (one.code, one.line, one.column) == (code, 1, 21)
    assert says in str(one)
    assert str(one).endswith(f"[{code}]")


def test_a_comment_below_everything_silences_nothing(warned) -> None:
    [one] = warned("steps: [{name: s}]\n# holdfast: ignore unused_agent\n\n# end")
    assert one.message == "nothing stands below this comment"


def test_text_that_looks_like_a_comment_is_none(warned) -> None:
    found = warned(
        """
        agents:
          a: {model: echo, instructions: "# holdfast: ignore unused_agent"}
          b:  # holdfast: ignore unused_agent
            model: echo
            instructions: |
              # holdfast: ignore x
        steps: [{name: s}]
        """
    )
    assert told(found) == [("unused_agent", 2, "agents.a")]


def test_every_comment_of_a_text_is_found_and_nothing_else() -> None:
    text = "a: 'x # no' # 1\nb: |  # 2\n  # no\n# 3\nc: d#no # 4\ne: [1, # 5\n  2]\nf: >-\n  # no\n# 6"
    found = comments(Source("x", text))
    assert [one.text for one in found] == [f"# {n}" for n in range(1, 7)]
    assert [one.alone for one in found] == [False, False, True, False, False, True]
    assert [(one.place.line, one.place.column) for one in found][:3] == [(1, 13), (2, 7), (4, 1)]


def test_a_blueprint_with_errors_has_no_warnings_and_one_with_warnings_loads(tmp_path) -> None:
    path = tmp_path / "flow.yaml"
    path.write_text("agents: {a: {model: echo}}\nsteps: [{name: s, wen: true}]")
    assert (parse_file(path).warnings, len(parse_file(path).problems)) == ([], 1)
    path.write_text("agents: {a: {model: echo}}\nsteps: [{name: s}]")
    assert load(path).agents.keys() == {"a"}


def test_revisions_that_nobody_is_asked_about_are_told(warned) -> None:
    plan = '{goal: g, agent: {model: echo}, max_revisions: 2, steps: [{id: "1", instruction: Go}]}'
    [found] = warned(f"steps:\n  - kind: plan\n    name: p\n    plan: {plan}")
    assert found.code == "unused_revisions"


def test_replans_without_a_planner_are_told(warned) -> None:
    plan = '{goal: g, agent: {model: echo}, max_replans: 2, steps: [{id: "1", instruction: Go}]}'
    [found] = warned(f"steps:\n  - kind: plan\n    name: p\n    plan: {plan}")
    assert found.code == "unused_replans"


def test_who_answered_is_proved_or_warned_of(warned) -> None:
    sign = "{kind: hitl, name: sign, ask: permission, message: 'Pay?'%s}"
    second = "{kind: hitl, name: second, message: 'Pay?', not_by: ['{{ steps.sign.reply.by }}']}"
    assert told(warned(f"steps: [{sign % ''}, {second}]")) == [("unproved_person", 1, "steps[1].not_by")]
    assert warned(f"steps: [{sign % ', proof: person'}, {second}]") == []


@pytest.mark.parametrize(("ask", "warns"), [("permission", True), ("input", False)])
def test_a_consent_that_would_be_kept_is_warned_of(warned, ask: str, warns: bool) -> None:
    wrapped = f"{{kind: block, name: w, steps: [{{kind: hitl, name: sign, ask: {ask}, message: Pay?}}]}}"
    found = warned(f"steps: [{{kind: cache, name: c, wrapped_step: {wrapped}}}]")
    assert told(found) == [("kept_consent", 1, "steps[0].wrapped_step")] * warns


LOG = """
context: {log: []}
steps:
  - kind: loop
    name: l
    loop:
      max_loops: 3
      body: [{name: say, uses: t}]
      state: {append: {target: context.log, value: "{{ output }}"}}
%s
"""


@pytest.mark.parametrize(
    "after",
    [
        '      output_template: "{{ context.log }}"',
        '  - {name: vote, input: "{{ context.log }}"}',
        'output: "{{ context.log }}"',
    ],
)
def test_a_list_that_misses_the_last_iteration_is_told(warned, after) -> None:
    assert told(warned(LOG % after)) == [("late_append", 8, "steps[0].loop.state[0].append.target")]


def test_a_list_that_only_the_loop_reads_is_fine(warned) -> None:
    assert warned(LOG % '  - {name: after, input: "{{ context.scratchpad }}"}') == []


def test_each_warning_is_seen_in_these_tests() -> None:
    text = Path(__file__).read_text()
    assert [code for code in (*WARNINGS, *COMMENTS) if f'"{code}"' not in text] == []


def test_access_of_an_import_is_told_where_it_is_imported(warned, tmp_path) -> None:
    (tmp_path / "inner.yaml").write_text('access: {steer: ["group:ops"]}\nsteps: [{name: a}]')
    inline = 'three: {access: {steer: ["user:ana"]}, steps: [{name: a}]}'
    uses = [f"{{name: s{n}, uses: imports.{name}}}" for n, name in enumerate(("one", "three"))]
    found = warned(f"imports: {{one: ./inner.yaml, {inline}}}\nsteps: [{', '.join(uses)}]")
    assert told(found) == [("unused_access", 1, "imports.one"), ("unused_access", 1, "imports.three")]


INPUTS = "inputs: {type: object, required: [must], properties: {must: {}, may: {type: string}, has: {default: 1}}}\n"
FORM = "{kind: hitl, name: f, message: Go?, input_schema: {type: object, properties: {may: {type: string}}}}"
CLARIFY = "{kind: clarify, name: k, goal: g, schema: {type: object, properties: {may: {type: string}}}}"


@pytest.mark.parametrize(
    ("steps", "missing"),
    [
        ("{name: a, input: 'It is {{ input.may }}.'}", ["input.may"]),
        ("{name: a, input: '{{ input.may }}'}", ["input.may"]),
        ("{name: a, input: '{{ input.may | upper }}'}", ["input.may"]),
        ("{name: a, input: '{{ [input.may] }}'}", ["input.may"]),
        ("{name: a, when: input.may in input.must}", ["input.may"]),
        ("{name: a, when: input.must and input.may > 'c'}", ["input.may"]),
        (FORM + ", {name: a, input: '{{ steps.f.output.may }}'}", ["steps.f.output.may"]),
        (FORM + ", {name: a, input: '{{ previous_step.may }}'}", ["previous_step.may"]),
        (CLARIFY + ", {name: a, input: '{{ steps.k.output.may }}'}", []),
        ("{name: a, input: '{{ input.must }} {{ input.has }} {{ input.must.more }}'}", []),
        ("{name: a, input: \"{{ input.may | default('-') }} {{ input.may or '-' }}\"}", []),
        ("{name: a, input: \"{{ input.may if input.may is defined else '-' }}\"}", []),
        ("{name: a, input: '{% if input.may %}{{ input.may }}{% endif %}'}", []),
        ("{name: a, when: input.may == 'x', input: '{{ input.may }}'}", []),
        ("{name: a, when: input.may and input.may | length > 3}", []),
        ("{name: a, when: input.may}, {name: b, when: input.may is defined}", []),
    ],
)
def test_a_key_that_may_be_missing_is_told_where_that_fails(warned, steps: str, missing: list[str]) -> None:
    found = [one for one in warned(f"{INPUTS}steps: [{steps}]") if one.code == "optional_key"]
    assert [one.message.partition(" ")[0] for one in found] == missing
