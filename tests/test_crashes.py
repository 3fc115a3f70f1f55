"""A process of the test run that crashes: its report names the signal and the line, and no other test fails."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.python_environment import WITHOUT_PLUGINS
from tests.repository import ROOT

CONFTEST = """
import pytest
from tests.crashes import note_threads, pytest_handlecrashitem

@pytest.fixture(scope="session", autouse=True)
def noted(tmp_path_factory):
    note_threads(tmp_path_factory.getbasetemp())
"""
TESTS = """
import os

def test_dies():
    os.kill(os.getpid(), {signal})

def test_lives():
    pass
"""


@pytest.mark.slow
@pytest.mark.parametrize(("signal", "name", "stack"), [(11, "SIGSEGV", "in test_dies"), (9, "SIGKILL", "")])
def test_a_crash_is_told_with_its_signal_and_its_line(tmp_path: Path, signal: int, name: str, stack: str) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_both.py").write_text(TESTS.format(signal=signal))
    (tmp_path / "pytest.ini").write_text("[pytest]")
    command = [sys.executable, "-m", "pytest", "-p", "xdist", "--numprocesses", "1", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, env=os.environ | WITHOUT_PLUGINS, capture_output=True, text=True)
    assert "1 failed, 1 passed" in done.stdout, done.stdout + done.stderr
    assert f"It was ended by {name}." in done.stdout and stack in done.stdout
