"""Prompts at a real terminal: completion, history, several lines, and what happens elsewhere while one is open."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.client.command import LOOP, TONE, Holdfast, Screen

BOTH = """
name: both
steps:
  - kind: parallel
    name: two
    branches:
      left: [{kind: hitl, name: here, message: "Here?"}]
      right: [{kind: hitl, name: there, message: "There?", assignees: ["user:bob"]}]
output: "{{ steps.two.output }}"
"""
LATE = """
name: late
steps:
  - {kind: hitl, name: title, message: A title?, timeout: 2s, on_timeout: default, default: none}
"""
LONG = "a text that is longer than the screen is wide, so that it goes on in a second line"


@pytest.mark.slow
def test_tab_completes_and_the_arrow_keys_bring_back(holdfast: Holdfast, at_terminal: Callable[..., Screen]) -> None:
    screen = at_terminal("run", holdfast.write("tone.yaml", TONE), "--id", "completed")
    screen.until("Which tone?")
    screen.until(">")
    screen.type("FO\t")
    screen.until_shown("> formal")
    screen.type("\r")
    screen.until("A title?")
    screen.until(">")
    screen.type("\x1b[A")
    screen.until_shown("> formal")
    screen.type(" hat\r")
    assert screen.leave() == 0
    assert holdfast("result", "completed", "--json").json["output"] == {"tone": "formal", "title": "formal hat"}


@pytest.mark.slow
def test_a_text_may_have_several_lines(holdfast: Holdfast, at_terminal: Callable[..., Screen]) -> None:
    screen = at_terminal("run", holdfast.write("loop.yaml", LOOP), "--id", "lines")
    screen.until("Round 1?")
    screen.until(">")
    screen.type("one\x1b\rtwo")
    screen.until_shown("  two")
    screen.type("\r")
    screen.until("Round 2?")
    screen.until(">")
    screen.type("stop\r")
    assert screen.leave() == 0
    said = [row for row in holdfast("history", "lines", "--json").json if row.get("content") == "one\ntwo"]
    assert len(said) == 1


@pytest.mark.slow
def test_an_answer_given_elsewhere_ends_the_prompt(holdfast: Holdfast, at_terminal: Callable[..., Screen]) -> None:
    screen = at_terminal("run", holdfast.write("tone.yaml", TONE), "--id", "elsewhere")
    screen.until("Which tone?")
    screen.until(">")
    screen.type("war")
    assert holdfast("answer", "elsewhere", "formal", "--by", "bob").code == 0
    screen.until("it was answered by user:bob meanwhile")
    screen.until("A title?")
    screen.until(">")
    screen.type("T\r")
    assert screen.leave() == 0
    assert screen.echoes


@pytest.mark.slow
def test_a_deadline_that_passes_ends_the_prompt(holdfast: Holdfast, at_terminal: Callable[..., Screen]) -> None:
    screen = at_terminal("run", holdfast.write("late.yaml", LATE), "--id", "late")
    screen.until("A title?")
    screen.until("its deadline has passed, and the default counts")
    assert screen.leave() == 0


@pytest.mark.slow
@pytest.mark.parametrize("columns", [60, 120])
def test_what_happens_meanwhile_stands_above_what_is_typed(
    holdfast: Holdfast, at_terminal: Callable[..., Screen], columns: int
) -> None:
    run = f"above-{columns}"
    screen = at_terminal("run", holdfast.write("both.yaml", BOTH), "--id", run, columns=columns)
    screen.until("Here?")
    screen.until(">")
    screen.type(LONG)
    screen.until("second line")
    assert holdfast("answer", run, "there", "yes", "--by", "bob").code == 0
    screen.until("← there")
    screen.until("second line")
    at = [index for index, line in enumerate(screen.lines) if "← there" in line or line.startswith("> a text")]
    assert len(at) == 2 and "← there" in screen.lines[at[0]]
    assert screen.lines[-1].endswith("second line")
    screen.type("\r")
    assert screen.leave() == 0
    assert holdfast("result", run, "--json").json["output"]["left"] == LONG
