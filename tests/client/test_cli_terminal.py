"""A person at a real terminal: asked, asked again, interrupted."""

from collections.abc import Callable

from tests.client.command import FORM, LOOP, TONE, Holdfast, Screen

Terminal = Callable[..., Screen]


def test_a_person_is_asked_and_answers_by_number_and_in_words(holdfast: Holdfast, at_terminal: Terminal) -> None:
    screen = at_terminal("run", holdfast.write("tone.yaml", TONE), "--id", "asked")
    screen.until("Which tone?")
    screen.until("> ")
    screen.type("3\r")
    screen.until("'3' is none of the options: warm, formal")
    screen.until("> ")
    screen.type("2\r")
    screen.until("A title?")
    screen.until("> ")
    left = "\x1b[D"
    screen.type(f"Ein schöner Tiel{left}{left}t\r")
    screen.until('"title": "Ein schöner Titel"')
    assert screen.leave() == 0
    assert '"tone": "formal"' in screen.text


def test_a_form_is_asked_field_by_field(holdfast: Holdfast, at_terminal: Terminal) -> None:
    screen = at_terminal("run", holdfast.write("form.yaml", FORM), "--id", "form")
    screen.until("city: ")
    screen.type("Rome\r")
    screen.until("days (integer): ")
    screen.type("0\r")
    screen.until("days: ")
    screen.type("3\r")
    screen.until("Enter: False): ")
    screen.type("\r")
    assert screen.leave() == 0
    assert holdfast("result", "form", "--json").json["output"] == {"city": "Rome", "days": 3, "hotel": False}


def test_ctrl_c_leaves_run_and_terminal_as_they_are(holdfast: Holdfast, at_terminal: Terminal) -> None:
    screen = at_terminal("run", holdfast.write("loop.yaml", LOOP), "--id", "interrupted")
    screen.until("Round 1?")
    screen.until("> ")
    screen.type("more\r")
    screen.until("Round 2?")
    screen.until("> ")
    screen.type("\x03")
    screen.until("holdfast attach interrupted")
    assert screen.leave() == 3
    assert screen.echoes
    assert "Traceback" not in screen.text
    back = at_terminal("attach", "interrupted")
    back.until("Round 2?")
    back.until("> ")
    back.type("stop\r")
    back.until("stop\r\n")
    assert back.leave() == 0


def test_ctrl_d_parks_and_decline_declines(holdfast: Holdfast, at_terminal: Terminal) -> None:
    screen = at_terminal("run", holdfast.write("tone.yaml", TONE), "--id", "declined", "--json")
    screen.until("Which tone?")
    screen.until("> ")
    screen.type("\x04")
    screen.until('"status": "waiting"')
    assert screen.leave() == 3
    back = at_terminal("attach", "declined")
    back.until("> ")
    back.type("/help\r")
    back.until("/decline")
    back.until("> ")
    back.type("/decline\r")
    back.until("declined")
    assert back.leave() == 1


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
