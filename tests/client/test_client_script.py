"""`python -m holdfast.client` lists open questions, answers one, and sends a signal."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.client.command import TONE, Holdfast


def call_script(holdfast: Holdfast, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the script where the commands of a test run."""
    command = [sys.executable, "-m", "holdfast.client", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, **holdfast.place())


@pytest.mark.slow
def test_the_script_lists_answers_and_signals(holdfast: Holdfast) -> None:
    parked = holdfast.park(TONE)
    [question] = parked["questions"]
    listed = call_script(holdfast, "questions", parked["run"])
    assert listed.stdout.split("\t")[:3] == [parked["run"], question["id"], question["address"]]
    assert call_script(holdfast, "signal", parked["run"], "pause").stdout == "sent\n"
    refused = call_script(holdfast, "answer", parked["run"], "nothing", "formal")
    assert (refused.returncode, question["id"] in refused.stderr) == (1, True)
    assert call_script(holdfast, "answer", parked["run"], question["id"], "formal").stdout == "answered\n"
    assert holdfast("resume", parked["run"]).code == 0
    [asked_next] = holdfast.rest(parked["run"])["questions"]
    assert asked_next["message"] == "A title?"
