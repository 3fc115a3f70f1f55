"""A run's id may have blanks: each command that is printed to be copied quotes it."""

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
