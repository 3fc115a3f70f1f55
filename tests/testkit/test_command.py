"""`holdfast test` as a process, and `*.test.yaml` files in pytest."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.client.command import Process, Ran
from tests.python_environment import WITHOUT_PLUGINS

pytestmark = pytest.mark.slow

FLOW = "steps: [{kind: hitl, name: ask, message: Go?, timeout: 1d, default: nobody}, {name: say, uses: shout}]"
TOOL = """
from holdfast.activities import tool

@tool
def shout(text: str) -> str:
    print("shouting", flush=True)
    return text.upper()
"""
PASSES = """
tests:
  - {name: somebody, answers: [{question: ask, content: me}], expect: {output: ME}}
  - {name: nobody, expect: {output: NOBODY}}
"""
FAILS = """
blueprint: ./flow.yaml
tests:
  - {name: good, expect: {output: NOBODY}}
  - name: bad
    expect:
      output: SOMEBODY
      context: {a: {b: [1, 2]}}
"""


@pytest.fixture
def project(tmp_path: Path) -> Process:
    """A project with a tool that prints, and tests in two folders."""
    project = Process(tmp_path)
    (tmp_path / "more").mkdir()
    keys = '[encryption]\nkeys = [{id = "k1", env = "NOT_SET_WHERE_TESTS_RUN"}]\n'
    project.write("holdfast.toml", f'[worker]\nimports = ["loud"]\n{keys}')
    project.write("loud.py", TOOL)
    for folder in (".", "more"):
        project.write(f"{folder}/flow.yaml", FLOW)
    project.write("flow.test.yaml", PASSES)
    project.write("more/bad.test.yaml", FAILS)
    return project


def test_what_passes_and_what_fails_is_told_with_lines(project: Process) -> None:
    ran = project("test")
    assert ran.code == 1
    lines = ran.out.splitlines()
    assert [line.partition("  (")[0] for line in lines[:6]] == [
        *("flow.test.yaml", "  ✓ somebody", "  ✓ nobody"),
        *("more/bad.test.yaml", "  ✓ good", "  ✗ bad"),
    ]
    assert lines[6:-1] == [
        "      more/bad.test.yaml:7:15 tests[1].expect.output",
        "        expected  'SOMEBODY'",
        "        was       'NOBODY'",
        "      more/bad.test.yaml:8:20 tests[1].expect.context.a",
        '        expected  {"b": [1, 2]}',
        "        was       nothing",
    ]
    assert lines[-1].startswith("1 failed, 3 passed in ")
    assert "shouting" in ran.err


def test_json_is_one_value_whatever_a_tool_prints(project: Process) -> None:
    shown = project("test", "more", "--json").json
    assert (shown["ok"], shown["passed"], shown["failed"]) == (False, 1, 1)
    good, bad = shown["tests"]
    assert (good["file"], good["line"], good["ok"], good["differences"]) == ("more/bad.test.yaml", 4, True, [])
    assert bad["differences"][0] == {
        "file": "more/bad.test.yaml",
        "line": 7,
        "column": 15,
        "path": "tests[1].expect.output",
        "expected": "SOMEBODY",
        "was": "NOBODY",
    }
    assert "was" not in bad["differences"][1]


def test_a_blueprint_is_tested_by_the_tests_beside_it_and_what_passes_is_exit_code_0(project: Process) -> None:
    ran = project("test", "flow.yaml")
    assert (ran.code, ran.out.splitlines()[0]) == (0, "flow.test.yaml")
    assert ran.out.splitlines()[-1].startswith("2 passed in ")


def test_a_failure_that_the_test_has_written_is_not_told_beside_it(project: Process) -> None:
    case = "{name: it, tools: {shout: [{error: boom}]}, expect: {error: {type: tool_error}}}"
    project.write("more/bad.test.yaml", f"blueprint: ./flow.yaml\ntests: [{case}]")
    ran = project("test", "more")
    assert (ran.code, "boom" in ran.err, "Traceback" in ran.err) == (0, False, False)


def test_a_tool_that_raises_is_told_with_its_line_and_not_by_the_frameworks(project: Process) -> None:
    project.write("loud.py", TOOL.replace("return text.upper()", "return text.uper()"))
    ran = project("test", "flow.test.yaml")
    told = ran.out + ran.err
    assert (ran.code, "loud.py:7 in shout" in told) == (1, True)
    assert "temporalio" not in told and "Traceback" not in told


def test_a_bad_file_is_told_before_anything_runs(project: Process) -> None:
    project.write("x.test.yaml", "blueprint: flow.yaml\ntests: [{nmae: a}]")
    ran = project("test", "--json")
    assert (ran.code, ran.json["error"]["type"]) == (2, "blueprint_invalid")
    assert [one["path"] for one in ran.json["error"]["problems"]] == ["tests[0].name", "tests[0].nmae"]
    assert ran.err.startswith("x.test.yaml:2:9 tests[0].name: 'name' is missing")


def test_a_folder_without_tests_and_a_project_that_cannot_be_imported_are_told(project: Process) -> None:
    (project.folder / "none").mkdir()
    nothing = project("test", "none")
    assert (nothing.code, nothing.err) == (2, "no tests in none: test files end in .test.yaml\n")
    project.write("holdfast.toml", '[worker]\nimports = ["louder"]\n')
    ran = project("test", "flow.test.yaml")
    assert (ran.code, "worker.imports: 'louder' cannot be imported" in ran.err) == (2, True)


def in_pytest(project: Process, *words: str) -> Ran:
    command = [sys.executable, "-m", "pytest", "-p", "holdfast.testkit.plugin", "-p", "no:cacheprovider", *words]
    place = project.having(**WITHOUT_PLUGINS).place()
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, **place)
    return Ran(done.returncode, done.stdout, done.stderr)


def test_pytest_collects_the_files_and_shows_what_differs(project: Process) -> None:
    project.write("test_more.py", "def test_python(): pass")
    ran = in_pytest(project, "-v", "--tb=short", "-k", "not good")
    assert ran.code == 1
    assert "flow.test.yaml::somebody PASSED" in ran.out
    assert "test_more.py::test_python PASSED" in ran.out
    assert "more/bad.test.yaml::bad FAILED" in ran.out
    assert "more/bad.test.yaml:7:15 tests[1].expect.output\n  expected  'SOMEBODY'\n  was       'NOBODY'" in ran.out
    assert "1 failed, 3 passed, 1 deselected" in ran.out


def test_pytest_tells_a_bad_file_when_it_collects(project: Process) -> None:
    project.write("x.test.yaml", "blueprint: flow.yaml\ntests: [{nmae: a}]")
    ran = in_pytest(project)
    assert (ran.code, "x.test.yaml:2:9 tests[0].name: 'name' is missing" in ran.out) == (2, True)


def test_the_plugin_costs_nothing_where_there_are_no_such_files(project: Process) -> None:
    (project.folder / "empty").mkdir()
    project.write(
        "empty/test_it.py",
        "import sys\ndef test_it():\n    assert 'holdfast.testkit.plugin' in sys.modules\n"
        "    assert not {'temporalio', 'pydantic', 'holdfast.testkit.running'} & set(sys.modules)\n",
    )
    ran = in_pytest(project, "empty")
    assert ran.code == 0, ran.out


def test_a_blueprint_without_tests_says_where_they_belong(project: Process) -> None:
    ran = project("test", "more/flow.yaml")
    assert (ran.code, "flow.yaml.yaml" in ran.err) == (2, False)
    assert "this is no file of tests (write its tests into flow.test.yaml" in ran.err
