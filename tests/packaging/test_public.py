"""One importable package: its public names, and no module under two names."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

import holdfast
from benchmarks.measure import nodes_of
from tests.repository import ROOT

ROOMS = sorted(path.stem for path in (ROOT / "holdfast").iterdir() if path.is_symlink())
PUBLIC = [
    *(
        "Answer",
        "Answering",
        "BadAnswer",
        "Blueprint",
        "BlueprintError",
        "Clarification",
        "Decision",
        "Hold",
        "HumanInTheLoop",
    ),
    *(
        "Input",
        "Interrupt",
        "Permission",
        "Plugin",
        "Problem",
        "Question",
        "QuestionKind",
        "Receipt",
        "Refusal",
        "Review",
        "Runs",
        "agent",
        "connect",
    ),
    *("AskCancelled", "AskDeclined", "AskError", "AskExpired", "ask"),
    *("keeper", "level", "load", "loads", "question_kind", "report_usage", "resumed", "secret", "tool"),
]
LOADED = "import sys, json; print(json.dumps(sorted(sys.modules)))"


def python(*arguments: str) -> str:
    done = subprocess.run([sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout


def twice(modules: list[str]) -> list[str]:
    """Return our modules that were imported without the package's name in front."""
    return [name for name in modules if name.partition(".")[0] in ROOMS]


def test_the_public_names_are_these() -> None:
    assert sorted(holdfast.__all__) == sorted(PUBLIC)


@pytest.mark.parametrize("name", PUBLIC)
def test_each_public_name_is_there(name: str) -> None:
    assert getattr(holdfast, name).__module__.startswith("holdfast.")


def test_an_unknown_name_is_an_import_error() -> None:
    with pytest.raises(ImportError, match="no_such_name"):
        exec("from holdfast import no_such_name")


def test_the_package_is_typed() -> None:
    assert (ROOT / "holdfast" / "py.typed").is_file()


def test_importing_the_package_loads_no_engine() -> None:
    loaded = json.loads(python("-c", f"import holdfast; {LOADED}"))
    assert not {"temporalio", "pydantic", "rich"} & set(loaded)


def test_no_module_is_loaded_under_two_names_by_pytest() -> None:
    assert twice(list(sys.modules)) == []


@pytest.mark.slow
def test_no_module_is_loaded_under_two_names_by_the_worker() -> None:
    """In the root of the repository the folders of the rooms can be imported, too."""
    asks = "import runpy, sys; sys.argv = ['worker.py']; runpy.run_path('worker.py', run_name='worker_script')"
    assert twice(json.loads(python("-c", f"{asks}; {LOADED}"))) == []


@pytest.mark.slow
def test_no_module_is_loaded_under_two_names_by_a_replay(tmp_path: Path) -> None:
    """Its workflows are loaded as they are for a worker, and the sandbox imports the classes of authors."""
    asks = "import holdfast.worker, holdfast.testkit.running, holdfast.cli.operations"
    assert twice(json.loads(python("-P", "-c", f"{asks}; {LOADED}"))) == []


def imported_by_text(path: Path) -> list[str]:
    """Return the modules that a file names in texts for `import_module`, called or handed on to be called."""
    names = []
    for node in nodes_of(path):
        if isinstance(node, ast.Call) and "importlib.import_module" in [
            ast.unparse(one) for one in (node.func, *node.args)
        ]:
            names += [one.value for one in node.args if isinstance(one, ast.Constant)]
    return names


@pytest.mark.slow
def test_every_module_that_is_imported_by_a_text_is_one_of_the_package() -> None:
    """No type checker and no linter sees such a name."""
    files = [path for room in ROOMS for path in (ROOT / room).rglob("*.py")]
    names = [name for path in files for name in imported_by_text(path)]
    assert "apprise" in names
    assert [name for name in names if name.partition(".")[0] in ROOMS] == []
