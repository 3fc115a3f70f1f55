"""The fuzz of the door finds nothing in some seconds."""

import subprocess
import sys

import pytest

from tests.test_architecture import HOME

pytestmark = pytest.mark.slow

SECONDS = "15"


def test_some_seconds_of_it_find_nothing() -> None:
    command = [sys.executable, "-m", "tests.fuzz.door", SECONDS]
    done = subprocess.run(command, cwd=HOME, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-5000:]
    assert "'answered'" in done.stdout
