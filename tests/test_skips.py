"""A skip on the machine of continuous integration is a failure, unless its reason is listed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.repository import ROOT
from tests.skips import IN_TMP, VARIABLE

TESTS = f"""
import pytest

@pytest.mark.skipif(True, reason="no such program")
def test_marked(): ...

def test_called():
    pytest.skip("no such program")

@pytest.mark.skipif(True, reason={IN_TMP!r})
def test_allowed(): ...

def test_passes(): ...
"""


@pytest.mark.parametrize(
    ("value", "outcome"),
    [("1", "1 failed, 1 passed, 1 skipped, 1 error"), ("", "1 passed, 3 skipped")],
    ids=["ci", "elsewhere"],
)
def test_a_skip_is_a_failure_where_nothing_may_be_missing(tmp_path: Path, value: str, outcome: str) -> None:
    (tmp_path / "conftest.py").write_text("from tests.skips import pytest_runtest_makereport")
    (tmp_path / "test_some.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", str(tmp_path)],
        cwd=ROOT,
        env=os.environ | {VARIABLE: value, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
    )
    assert outcome in done.stdout, done.stdout + done.stderr
