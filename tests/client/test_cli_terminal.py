"""A person at a real terminal: asked, asked again, interrupted."""

import signal
import subprocess
import sys
from collections.abc import Callable

import pytest

from tests.client.command import FORM, LOOP, TONE, Holdfast, Screen

Terminal = Callable[..., Screen]


@pytest.mark.slow
def test_a_person_is_asked_and_answers_by_number_and_in_words(holdfast: Holdfast, at_terminal: Terminal) -> None:
    screen = at_terminal("run", holdfast.write("tone.yaml", TONE), "--id", "asked")
    screen.until("Which tone?")
    screen.until(">")
    screen.type("3\r")
    screen.until("'3' is not one of the options: warm, formal")
    screen.until(">")
    screen.type("2\r")
    screen.until("A title?")
    screen.until(">")
    left = "\x1b[D"
    screen.type(f"Ein schöner Tiel{left}{left}t\r")
    screen.until('"title": "Ein schöner Titel"')
    assert screen.leave() == 0
    assert '"tone": "formal"' in screen.text


@pytest.mark.slow
def test_a_form_is_asked_field_by_field(holdfast: Holdfast, at_terminal: Terminal) -> None:
    screen = at_terminal("run", holdfast.write("form.yaml", FORM), "--id", "form")
    screen.until("city:")
    screen.type("Rome\r")
    screen.until("days (integer):")
    screen.type("0\r")
    screen.until("days:")
    screen.type("3\r")
    screen.until("Enter: no):")
    screen.type("\r")
    assert screen.leave() == 0
    assert holdfast("result", "form", "--json").json["output"] == {"city": "Rome", "days": 3, "hotel": False}


@pytest.mark.slow
def test_ctrl_c_leaves_run_and_terminal_as_they_are(holdfast: Holdfast, at_terminal: Terminal) -> None:
    screen = at_terminal("run", holdfast.write("loop.yaml", LOOP), "--id", "interrupted")
    screen.until("Round 1?")
    screen.until(">")
    screen.type("more\r")
    screen.until("Round 2?")
    screen.until(">")
    screen.type("\x03")
    screen.until("holdfast attach interrupted")
    assert screen.leave() == 3
    assert screen.echoes
    assert "Traceback" not in screen.text
    back = at_terminal("attach", "interrupted")
    back.until("Round 2?")
    back.until(">")
    back.type("stop\r")
    back.until("stop\r\n")
    assert back.leave() == 0


@pytest.mark.slow
def test_ctrl_d_parks_and_decline_declines(holdfast: Holdfast, at_terminal: Terminal) -> None:
    screen = at_terminal("run", holdfast.write("tone.yaml", TONE), "--id", "declined", "--json")
    screen.until("Which tone?")
    screen.until(">")
    screen.type("\x04")
    screen.until('"status": "waiting"')
    assert screen.leave() == 3
    back = at_terminal("attach", "declined")
    back.until(">")
    back.type("/help\r")
    back.until("/decline")
    back.until(">")
    back.type("/decline\r")
    back.until("declined")
    assert back.leave() == 1


@pytest.mark.slow
def test_no_color_is_obeyed_at_a_terminal(holdfast: Holdfast) -> None:
    colourful = holdfast.having(TERM="xterm-256color")
    plain = holdfast.having(TERM="xterm-256color", NO_COLOR="1")
    shown = []
    for command in (colourful, plain):
        screen = Screen(command, "runs")
        screen.leave()
        shown.append(screen.text)
        screen.close()
    assert "\x1b[" in shown[0]
    assert "\x1b[" not in shown[1]


INTERRUPTED_IMPORT = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where the tests run in a shell's background
class Finder:
    def find_spec(self, name, *_):
        if name == "{module}":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Finder())
from holdfast.cli.__main__ import main
sys.argv = ["holdfast", "runs"]
main()
"""


@pytest.mark.parametrize("module", ["typer", pytest.param("temporalio.client", marks=pytest.mark.slow)])
def test_ctrl_c_while_the_command_is_loaded_ends_it_without_a_word(module: str) -> None:
    done = subprocess.run([sys.executable, "-c", INTERRUPTED_IMPORT.format(module=module)], capture_output=True)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, b"", b"")
