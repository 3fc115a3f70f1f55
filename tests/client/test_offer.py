"""What waits for a person, offered at their terminal or watched."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest

from tests.client.command import FORM, TONE, Holdfast, Screen

Terminal = Callable[..., Screen]


def ask(name: str) -> str:
    """A blueprint that asks one thing of a person whom no other test asks."""
    people = f"assignees: ['user:{name}'], options: [red, blue]"
    return f"name: {name}\nsteps: [{{name: {name}, kind: hitl, message: 'The {name}?', {people}}}]"


@pytest.mark.slow
def test_answer_alone_offers_what_waits_for_the_person(holdfast: Holdfast) -> None:
    runs = [holdfast.park(ask("kim"), "--id", f"kim-{n}")["run"] for n in (1, 2)]
    screen = Screen(holdfast.having(HOLDFAST_USER="kim"), "answer")
    try:
        screen.until("Which one? (1-")
        screen.type("999\r")
        screen.until("is not one of them")
        number = re.search(rf"(\d+) +{runs[1]}\b", screen.text)  # others wait for anyone, which Kim may answer, too
        assert number is not None
        screen.type(f"{number[1]}\r")
        screen.until("The kim?")
        screen.until(">")
        screen.type("blue\r")
        screen.until("answered by user:kim: kim · kim")
    finally:
        screen.close()
    assert [holdfast("result", run, "--json").json["status"] for run in runs] == ["waiting", "completed"]


@pytest.mark.slow
def test_answer_with_a_run_alone_offers_its_questions(holdfast: Holdfast, at_terminal: Terminal) -> None:
    run = holdfast.park(FORM, "--id", "offered-form")["run"]
    screen = at_terminal("answer", run)
    screen.until("city:")
    screen.type("Rome\r")
    screen.until("days (integer):")
    screen.type("3\r")
    screen.until("Enter: no):")
    screen.type("\r")
    screen.until("No open questions.")
    assert screen.leave() == 0


@pytest.mark.slow
def test_ctrl_d_leaves_what_is_offered_open(holdfast: Holdfast, at_terminal: Terminal) -> None:
    run = holdfast.park(TONE, "--id", "offered-tone")["run"]
    screen = at_terminal("answer", run)
    screen.until(">")
    screen.type("\x04")
    assert screen.leave() == 0
    assert len(holdfast("questions", run, "--json").json) == 1


def test_without_a_terminal_answer_wants_a_run_and_a_value(holdfast: Holdfast) -> None:
    for words in ((), ("--yes",)):
        ran = holdfast("answer", *words)
        assert ran.code == 2 and "holdfast answer RUN [QUESTION] VALUE" in ran.err


@pytest.mark.slow
def test_a_watch_prints_the_list_each_time_it_changes(holdfast: Holdfast, at_terminal: Terminal) -> None:
    run = holdfast.park(ask("lee"), "--id", "lee-1")["run"]
    screen = at_terminal("questions", run, "--watch", "--json")
    screen.until("\r\n")
    assert json.loads(screen.text)[0]["message"] == "The lee?"
    holdfast("answer", run, "red", "--by", "user:lee")
    screen.until("[]\r\n")
    screen.type("\x03")
    assert screen.leave() == 130 and "Traceback" not in screen.text
