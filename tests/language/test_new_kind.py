"""A new leaf kind, added to a copy of the source as CONTRIBUTING.md says: every room knows it, and a run runs it."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
from pathlib import Path

import pytest

from tests.repository import ROOT

PARTS = Path(__file__).parent / "new_kind"
SOURCE = (
    "holdfast",
    "activities",
    "blueprint",
    "cli",
    "client",
    "protocol",
    "runtime",
    "server",
    "testkit",
    "workflows",
)
EXECUTOR = '''"""The `pause` kind: wait for a while."""

import asyncio


async def run_pause(step, frame):
    await asyncio.sleep(step.duration)
    return frame.read_input(step)
'''
ROWS = {
    "blueprint/kinds/__init__.py": {
        "from holdfast.blueprint.kinds.plan import Plan\n": "from holdfast.blueprint.kinds.pause import Pause\n",
        "    PlainStep": "    Pause | ",
    },
    "workflows/steps/__init__.py": {
        "from holdfast.workflows.steps.plan import": "from holdfast.workflows.steps.pause import run_pause\n",
        '    "plan": run_plan,\n': '    "pause": run_pause,\n',
    },
}
"""The rows of the two tables, each with the line that it stands before."""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of the source without the new kind."""
    for room in SOURCE:
        shutil.copytree(ROOT / room, tmp_path / room, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "worker.py", tmp_path)
    return tmp_path


def add_class(tree: Path) -> None:
    shutil.copy(PARTS / "pause.py", tree / "blueprint/kinds/pause.py")
    add_rows(tree, "blueprint/kinds/__init__.py")


def add_executor(tree: Path) -> None:
    (tree / "workflows/steps/pause.py").write_text(EXECUTOR)
    add_rows(tree, "workflows/steps/__init__.py")


def add_rows(tree: Path, file: str) -> None:
    text = (tree / file).read_text()
    for before, row in ROWS[file].items():
        assert before in text
        text = text.replace(before, f"{row}{before.lstrip() if row.endswith('| ') else before}", 1)
    (tree / file).write_text(text)


async def drive(tree: Path, server: str) -> tuple[str, str]:
    """Run `drive.py` on the tree; return what it prints, and its errors."""
    shutil.copy(PARTS / "pause.yaml", tree)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tree), str(ROOT)])}
    command = [sys.executable, "-P", PARTS / "drive.py", tree, server]
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, env=environment, cwd=tree, stdout=pipe, stderr=pipe)
    output, errors = await process.communicate()
    return output.decode(), errors.decode()


@pytest.mark.slow
async def test_a_leaf_kind_is_a_class_and_an_executor(tree: Path, server: str) -> None:
    add_class(tree)
    add_executor(tree)
    output, errors = await drive(tree, server)
    assert errors == ""
    seen = json.loads(output)
    assert seen["problems"] == ["<text>:3:41 steps[1].duration: a pause takes at most a day"]
    assert [problem for problem in seen["unknown"] if "did you mean 'pause'?" in problem]
    assert "2. rest: wait for a while." in seen["explained"]
    assert '["rest"]' in seen["graph"]
    assert seen["schema"] == ["duration"]
    assert "pause" in seen["kinds"]
    assert seen["output"] == "now and after"
    assert seen["addresses"][1] == "pipeline:test;pause:rest"


@pytest.mark.slow
async def test_a_worker_says_which_kind_has_no_executor(tree: Path, server: str) -> None:
    add_class(tree)
    output, errors = await drive(tree, server)
    assert output == ""
    assert "RuntimeError: no executor in workflows/steps for the step kinds: pause" in errors
