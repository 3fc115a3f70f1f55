"""The fuzz of the door knows every handler, and finds nothing in some seconds."""

import subprocess
import sys

import pytest
from temporalio import workflow

from holdfast.workflows import WORKFLOWS
from tests.fuzz.messages import PROPER, commands, queries
from tests.own_questions import Inquiry
from tests.repository import ROOT

SECONDS = "15"


def test_it_sends_to_every_handler() -> None:
    found = [workflow._Definition.must_from_class(cls) for cls in [*WORKFLOWS, Inquiry]]
    updates = {name for one in found for name in (*one.updates, *one.signals)}
    assert updates == PROPER.keys() == {*commands, "answer"}
    assert {name for one in found for name in one.queries} == queries.keys()


@pytest.mark.slow
def test_some_seconds_of_it_find_nothing() -> None:
    command = [sys.executable, "-m", "tests.fuzz.door", SECONDS]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-5000:]
    assert "'answered'" in done.stdout
