"""The house: its walls, its tables, and the words it does not use."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path
from typing import get_args

from temporalio import activity

from activities import all_activities
from blueprint.grammar import KINDS
from blueprint.grammar import steps as plain
from protocol.questions import Asked
from workflows.builtins import BUILTINS
from workflows.calls import CACHE_GET, CACHE_PUT, CALL_MODEL, CALL_TOOL, DESCRIBE_TOOLS, FIND_TOOL
from workflows.steps import STEPS

HOME = Path(__file__).parent.parent
ROOMS = ("blueprint", "protocol", "workflows", "activities", "client", "testkit")
FILES = [*(path for room in ROOMS for path in sorted((HOME / room).rglob("*.py"))), HOME / "worker.py"]


def test_the_import_contracts_hold() -> None:
    """In a process of its own: the linter's logging would silence every logger that is there already."""
    command = Path(sys.executable).parent / "lint-imports"
    done = subprocess.run([command], cwd=HOME, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_the_door_and_the_activities_agree_on_names() -> None:
    names = {activity._Definition.must_from_callable(one).name for one in all_activities([], {})}
    assert names == {CACHE_GET, CACHE_PUT, CALL_MODEL, CALL_TOOL, DESCRIBE_TOOLS, FIND_TOOL}


def test_every_kind_of_the_grammar_has_a_deed() -> None:
    assert set(STEPS) == set(KINDS.values())


def test_every_builtin_that_the_checks_know_is_there() -> None:
    assert set(BUILTINS) == plain.BUILTINS


def test_every_kind_of_question_says_whether_it_accepts_an_answer() -> None:
    assert all("accept" in dir(kind) for kind in get_args(Asked))


def test_every_file_says_its_job_first() -> None:
    silent = [path for path in FILES if path.read_text().strip() and not ast.get_docstring(ast.parse(path.read_text()))]
    assert silent == []


def test_nothing_of_ours_is_imported_inside_a_function() -> None:
    """But by the command line, which loads what a command needs when it runs."""
    found = []
    for path in FILES:
        if path.is_relative_to(HOME / "client" / "cli"):
            continue
        for function in ast.walk(ast.parse(path.read_text())):
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                inner = [one for one in ast.walk(function) if isinstance(one, ast.Import | ast.ImportFrom)]
                found += [f"{path.name}:{one.lineno}" for one in inner]
    assert found == []
