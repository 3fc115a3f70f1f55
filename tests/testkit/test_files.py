"""A file of tests is read with every mistake in it at once, each with its place and a way out."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.blueprint.errors import BlueprintError, Problem
from holdfast.testkit.files import files_in
from tests.testkit.conftest import Desk

FLOW = """
    agents:
      writer: {model: echo, tools: [look_up, "agent:other", "my.tools:find"]}
      other: {model: echo}
    steps:
      - {name: write, agent: writer}
      - kind: loop
        name: again
        loop: {max_loops: 2, body: [{name: pay, uses: pay_out}]}
"""


def problems(desk: Desk, tests: str, blueprint: str | None = FLOW) -> list[Problem]:
    with pytest.raises(BlueprintError) as caught:
        desk.read(tests, blueprint)
    return caught.value.problems


def one(desk: Desk, test: str) -> tuple[str, str, str | None]:
    """Code, path and hint of the only problem of a test."""
    [problem] = problems(desk, f"tests: [{{name: a, {test}}}]")
    assert problem.file.endswith("flow.test.yaml")
    assert problem.line == 1
    return problem.code, problem.path, problem.hint


def test_a_test_is_read_with_what_the_file_says_for_all(desk: Desk) -> None:
    file = desk.read(
        """
        model: {writer: [one]}
        tools: {pay_out: [1]}
        tests:
          - {name: a, input: 3, answers: [{question: x, content: 1, by: user:ana}]}
          - {name: b, model: {write: [two]}, tools: {look_up: [{error: no}]}, expect: {error: {type: x}}}
        """,
        FLOW,
    )
    a, b = file.cases
    assert (file.blueprint.name, [one.name for one in file.cases]) == ("flow", ["a", "b"])
    assert (a.input, a.model.replies, a.tools, a.status) == (3, {"writer": ["one"]}, {"pay_out": [1]}, "completed")
    assert (b.model.replies, b.tools, b.status) == ({"write": ["two"]}, {"look_up": [{"error": "no"}]}, "failed")
    assert (a.place.line, a.path) == (4, "tests[0]")


def test_the_blueprint_is_the_one_beside_the_tests_or_the_one_that_is_named(desk: Desk) -> None:
    desk.write("other.yaml", "name: another\nsteps: [{name: s}]")
    assert desk.read("blueprint: ./other.yaml\ntests: [{name: a}]").blueprint.name == "another"
    [missing] = problems(desk, "tests: [{name: a}]", None)
    assert (missing.code, Path(missing.file).name) == ("unreadable_file", "flow.yaml")


def test_the_mistakes_of_a_blueprint_are_told_with_those_of_its_tests(desk: Desk) -> None:
    found = problems(desk, "tests: [{nmae: a}]", "steps: [{name: a, wen: true}]")
    assert [(Path(one.file).name, one.path) for one in found] == [
        ("flow.test.yaml", "tests[0].name"),
        ("flow.test.yaml", "tests[0].nmae"),
        ("flow.yaml", "steps[0].wen"),
    ]


@pytest.mark.parametrize(
    ("test", "code", "path", "hint"),
    [
        ("inptu: 1", "unknown_key", "tests[0].inptu", "did you mean 'input'?"),
        ("name2: 1", "unknown_key", "tests[0].name2", "did you mean 'name'?"),
        ("tools: {'agent:other': [1]}", "unknown_name", "tests[0].tools.agent:other", None),
        ("model: 3", "bad_value", "tests[0].model", None),
        ("model: {wrote: [a]}", "unknown_name", "tests[0].model.wrote", "did you mean 'write'?"),
        ("model: {write: a}", "bad_value", "tests[0].model.write", "write: [the first, the second]"),
        ("model: {write: []}", "bad_value", "tests[0].model.write", "write: [the first, the second]"),
        ("model: {write: [{out: a}]}", "unknown_key", "tests[0].model.write[0].out", "did you mean 'output'?"),
        ("model: ./none.yaml", "unreadable_file", "tests[0].model", "paths are relative to this file"),
        ("tools: {pay_oot: [1]}", "unknown_name", "tests[0].tools.pay_oot", "did you mean 'pay_out'?"),
        ("tools: {pay_out: 1}", "bad_value", "tests[0].tools.pay_out", "pay_out: [{output: …}]"),
        ("tools: {pay_out: [{paid: 1}]}", "bad_value", "tests[0].tools.pay_out[0]", "write {output: {…}}"),
        ("answers: 3", "bad_value", "tests[0].answers", None),
        ("answers: [{question: x, contnet: 1}]", "bad_entry", "tests[0].answers[0]", None),
        ("expect: [1]", "bad_value", "tests[0].expect", None),
        ("expect: {outptu: 1}", "unknown_key", "tests[0].expect.outptu", "did you mean 'output'?"),
        ("expect: {status: complete}", "bad_value", "tests[0].expect.status", "did you mean 'completed'?"),
        ("expect: {context: 1}", "bad_value", "tests[0].expect.context", None),
        ("expect: {error: {kind: 1}}", "unknown_key", "tests[0].expect.error.kind", None),
        ("expect: {questions: 1}", "bad_value", "tests[0].expect.questions", None),
        ("expect: {questions: [{mesage: 1}]}", "unknown_key", "tests[0].expect.questions[0].mesage", None),
        ("expect: {questions: {contains: [{x: 1}]}}", "unknown_key", "tests[0].expect.questions.contains[0].x", None),
        ("expect: {questions: [{history: [remindet]}]}", "bad_value", "tests[0].expect.questions[0].history[0]", None),
        ("expect: {events: [{timeout: soon}]}", "bad_value", "tests[0].expect.events[0].timeout", None),
        ("answers: [{question: x, decline: true, after: 3x}]", "bad_value", "tests[0].answers[0].after", None),
        ("answers: [{question: x, decline: true, refused: not}]", "bad_value", "tests[0].answers[0].refused", None),
        ("expect: {trace: {agian: {}}}", "unknown_name", "tests[0].expect.trace.agian", "did you mean 'again'?"),
        ("expect: {trace: {pay: 1}}", "bad_value", "tests[0].expect.trace.pay", None),
        ("expect: {trace: {pay: {time: 1}}}", "unknown_key", "tests[0].expect.trace.pay.time", "did you mean 'times'?"),
        ("expect: {calls: {pay: []}}", "unknown_name", "tests[0].expect.calls.pay", "did you mean 'pay_out'?"),
    ],
)
def test_a_mistake_is_told_with_a_way_out(desk: Desk, test: str, code: str, path: str, hint: str | None) -> None:
    if code == "bad_entry":
        found = problems(desk, f"tests: [{{name: a, {test}}}]")
        assert (code, path) in [(one.code, one.path) for one in found]
        return
    found_code, found_path, found_hint = one(desk, test)
    assert (found_code, found_path) == (code, path)
    assert hint is None or found_hint == hint


@pytest.mark.parametrize(
    "expect",
    [
        "trace: {find: {}}",
        "trace: {other: {}}",
        "trace: {look_up: {}}",
        "trace: {'*;tool:x:*': {}}",
        "calls: {look_up: []}",
    ],
)
def test_tools_are_called_as_the_blueprint_or_the_trace_calls_them(desk: Desk, expect: str) -> None:
    assert desk.read(f"tests: [{{name: a, expect: {{{expect}}}}}]", FLOW).cases


def test_a_name_is_given_once(desk: Desk) -> None:
    [problem] = problems(desk, "tests: [{name: a}, {name: a}]")
    assert (problem.code, problem.path, problem.hint) == ("duplicate_name", "tests[1].name", "first in line 1")


@pytest.mark.parametrize("text", ["", "[1]", "tests: []", "tests: 3", "tests: [3]", "a: [", "blueprint: 3\ntests: []"])
def test_what_is_no_file_of_tests_is_told(desk: Desk, text: str) -> None:
    assert problems(desk, text)


def test_a_model_that_costs_is_never_asked(desk: Desk) -> None:
    flow = 'agents: {a: {model: "openai:gpt-5.2"}}\nsteps: [{name: s, agent: a}, {name: t, agent: {model: fast}}]'
    found = problems(desk, "tests: [{name: a}]", flow)
    assert [one.message for one in found] == [
        "a would ask the model 'openai:gpt-5.2'",
        "t would ask the model 'fast'",
    ]
    assert desk.read("tests: [{name: a, model: {a: [x], t: [y]}}]", flow).cases
    desk.write("holdfast.toml", '[models.fast]\nmodel = "echo"\n')
    assert len(problems(desk, "tests: [{name: a}]", flow)) == 1


def test_a_function_that_is_an_agent_is_stood_in_for_as_a_tool_is(desk: Desk) -> None:
    flow = 'agents: {a: {from: "tests.team_agents:prophet"}}\nsteps: [{name: s, agent: a, input: Hi}]'
    [problem] = problems(desk, "tests: [{name: a}]", flow)
    assert problem.message == "a is an agent of your code, which would ask models of its own"
    assert str(problem.hint).endswith("what it returns under `tools`: {prophet: [reply]}")
    assert desk.read("tests: [{name: a, tools: {prophet: [Yes]}}]", flow).cases


def test_an_agent_or_a_context_may_have_any_name(desk: Desk) -> None:
    flow = """
        context: {kind: {a: 1}, tools: [x], agents: [y], model: z}
        agents: {kind: {model: echo}, tools: {model: echo}}
        steps: [{name: s, agent: kind}]
    """
    assert desk.read("tests: [{name: a, expect: {trace: {s: {times: 1}}}}]", flow).cases


def test_files_are_found_in_folders_and_what_is_hidden_is_not(tmp_path: Path) -> None:
    for name in ("b/y.test.yaml", "a.test.yaml", ".venv/z.test.yaml", "b/flow.yaml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    found = list(files_in([tmp_path, tmp_path / "b" / "flow.yaml"]))
    assert [path.name for path in found] == ["a.test.yaml", "y.test.yaml", "flow.yaml"]
