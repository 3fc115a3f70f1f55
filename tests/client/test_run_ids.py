"""Ids of runs: printed commands quote those with blanks, and one that no command could name is refused."""

from __future__ import annotations

import re

import pytest

from tests.client.command import TONE, Holdfast

RUN = "two words"
COMMAND = re.compile(rf"holdfast [a-z]+ (?:--\S+ )*(\S*{RUN})")


@pytest.mark.parametrize(
    "words",
    [("start", "tone.yaml", "--id", RUN), ("result", RUN), ("pause", RUN), ("result", RUN), ("questions", RUN)],
    ids=["a taken id", "a run that waits", "a pause", "a run that is paused", "a listing"],
)
def test_a_command_that_is_printed_quotes_the_run(holdfast: Holdfast, words: tuple[str, ...]) -> None:
    file = holdfast.write("tone.yaml", TONE)
    if holdfast("show", RUN).code:
        assert holdfast("start", file, "--id", RUN).code == 0
        holdfast.listed(RUN)
    told = holdfast(*words)
    printed = COMMAND.findall(told.out + told.err)
    assert printed and set(printed) == {f"'{RUN}"}, told


@pytest.mark.parametrize("name", ["", " ", "-x", "a/b", "a\x01b", "a\u202eb", "a\u200bb"])
def test_an_id_that_no_command_could_name_is_refused(holdfast: Holdfast, name: str) -> None:
    told = holdfast("start", holdfast.write("tone.yaml", TONE), f"--id={name}")
    assert (told.code, f"run id {name!r}" in told.err) == (2, True), told
