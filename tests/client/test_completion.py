"""Completion in the shell, as the script that it installs asks for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.client.command import TONE, Holdfast


def completed(holdfast: Holdfast, *words: str) -> list[str]:
    """What the shell offers for the last word."""
    line = " ".join(["holdfast", *words])
    shell = holdfast.having(_HOLDFAST_COMPLETE="complete_bash", COMP_WORDS=line, COMP_CWORD=str(len(words)))
    return shell.as_process()().out.split()


def test_commands_are_completed(holdfast: Holdfast) -> None:
    assert completed(holdfast, "re") == ["release", "reassign", "result", "resume", "retry", "replay"]


@pytest.mark.slow
def test_runs_and_their_questions_are_completed(holdfast: Holdfast) -> None:
    parked = holdfast.park(TONE, "--id", "to-complete")
    assert completed(holdfast, "show", "to-comp") == ["to-complete"]
    [question] = parked["questions"]
    for command in ("answer", "claim", "comment"):
        assert completed(holdfast, command, "to-complete", question["id"][:4]) == [question["id"]]


@pytest.mark.slow
def test_without_a_server_nothing_is_offered_and_nothing_is_started(tmp_path: Path) -> None:
    assert completed(Holdfast(tmp_path), "show", "a") == []
    assert list(tmp_path.iterdir()) == []
