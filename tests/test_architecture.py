"""The house: its walls, its tables, and the words it does not use."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
from temporalio import activity

from benchmarks.measure import classes_named_twice, nodes_of
from holdfast.activities import all_activities
from holdfast.blueprint.kinds import KINDS
from holdfast.blueprint.kinds import step as plain
from holdfast.protocol.agent_objects import DESCRIBE_AGENT
from holdfast.protocol.agents import CACHE_GET, CACHE_PUT, CALL_MODEL, CALL_TOOL, DESCRIBE_TOOLS, FIND_TOOL
from holdfast.protocol.attachments import READ_FILE
from holdfast.protocol.checkup import CHECK_WORKER
from holdfast.protocol.event_delivery import DELIVER_EVENT
from holdfast.protocol.lookup import LOOK_UP
from holdfast.workflows.builtins import BUILTINS
from holdfast.workflows.patches import PATCHES
from holdfast.workflows.steps import EXECUTORS, check_executors
from tests.repository import ROOT

ROOMS = ("blueprint", "protocol", "workflows", "activities", "runtime", "client", "server", "cli", "testkit")
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
FILES = [*(path for room in ROOMS for path in sorted((ROOT / room).rglob("*.py"))), ROOT / "worker.py"]


@pytest.mark.slow
def test_the_import_contracts_hold() -> None:
    """In a process of its own: the linter's logging would silence every logger that is there already."""
    command = Path(sys.executable).parent / "lint-imports"
    done = subprocess.run([command], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_the_door_and_the_activities_agree_on_names() -> None:
    called = {CACHE_GET, CACHE_PUT, CALL_MODEL, CALL_TOOL, DESCRIBE_TOOLS, FIND_TOOL, LOOK_UP, READ_FILE}
    names = {activity._Definition.must_from_callable(one).name for one in all_activities([], {})}
    assert names == {CHECK_WORKER, DELIVER_EVENT, DESCRIBE_AGENT, *called}


def test_every_step_kind_has_an_executor() -> None:
    assert EXECUTORS.keys() == KINDS.keys()


def test_a_worker_does_not_start_without_an_executor(monkeypatch) -> None:
    monkeypatch.delitem(EXECUTORS, "cache")
    with pytest.raises(RuntimeError, match="for the step kinds: cache$"):
        check_executors()


def test_every_builtin_that_the_checks_know_is_there() -> None:
    assert set(BUILTINS) == plain.BUILTINS


def test_every_file_says_its_job_first() -> None:
    silent = [path for path in FILES if not path.read_text().lstrip().startswith(('"""', 'r"""'))]
    assert [path for path in silent if path.read_text().strip()] == []


@pytest.mark.slow
def test_nothing_of_ours_is_imported_inside_a_function() -> None:
    """But where a line says why, as the command line does: it loads what a command needs when it runs."""
    found = []
    for path in FILES:
        for function in nodes_of(path):
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                inner = [one for one in ast.walk(function) if isinstance(one, ast.Import | ast.ImportFrom)]
                lines = path.read_text().splitlines() if inner else []
                inner = [one for one in inner if "# noqa: PLC0415" not in lines[one.lineno - 1]]
                found += [f"{path.name}:{one.lineno}" for one in inner]
    assert found == []


def test_every_gate_of_workflow_code_stands_in_its_table() -> None:
    """A gate without a row would never be removed."""
    calls = []
    for path in sorted((ROOT / "workflows").rglob("*.py")):
        for node in nodes_of(path):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("patched"):
                calls.append(ast.literal_eval(node.args[0]))
    assert sorted(calls) == sorted(patch.id for patch in PATCHES)


@pytest.mark.slow
def test_every_bare_request_to_the_server_is_sent_again_over_a_lost_connection() -> None:
    """The SDK's own methods retry by default; the services behind them only when they are told to."""
    bare = []
    for path in FILES:
        calls = [node for node in nodes_of(path) if isinstance(node, ast.Call)]
        bare += [f"{path.relative_to(ROOT)}:{call.lineno}" for call in calls if _is_bare_request(call)]
    assert bare == []


def _is_bare_request(call: ast.Call) -> bool:
    match call.func:
        case ast.Attribute(value=ast.Attribute(attr="workflow_service" | "operator_service")):
            return all(keyword.arg != "retry" for keyword in call.keywords)
    return False


def test_no_class_name_stands_in_two_files() -> None:
    assert classes_named_twice(FILES) == []


def test_no_test_module_is_imported() -> None:
    """What tests share stands in a module of helpers, so that a test module can be moved or deleted."""
    sources = [path for folder in ("tests", "benchmarks", "drills", "docs") for path in (ROOT / folder).rglob("*.py")]
    found = []
    for path in sources:
        imports = re.finditer(r"^\s*(?:from|import) tests\b(?:[^(\n]*\([^)]*\)|.*)", path.read_text(), re.MULTILINE)
        found += [f"{path.relative_to(ROOT)}: {one[0]}" for one in imports if re.search(r"\btest_\w+", one[0])]
    assert found == []


@pytest.mark.slow
def test_every_page_that_the_source_names_is_there() -> None:
    """A document outside the repository tells its reader nothing."""
    pages = {path.name for path in ROOT.rglob("*.md") if not any(part.startswith(".") for part in path.parts)}
    sources = [path for folder in ("tests", "benchmarks", "drills") for path in sorted((ROOT / folder).rglob("*.py"))]
    found = []
    for path in (path for path in [*FILES, *sources] if ".md" in path.read_text()):
        docstrings = [ast.get_docstring(node) or "" for node in nodes_of(path) if isinstance(node, DOCUMENTED)]
        found += [
            f"{path.relative_to(ROOT)}: {name}" for text in docstrings for name in re.findall(r"[\w-]+\.md\b", text)
        ]
    assert [one for one in found if one.rpartition(" ")[2] not in pages] == []
