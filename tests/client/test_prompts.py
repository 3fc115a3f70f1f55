"""Asking in a terminal, without one: what is typed comes from standard input."""

import asyncio
import io
import os
import signal
import sys
import threading

import pytest

from holdfast.blueprint.questions import Clarification, Input, Permission, Review
from holdfast.cli.prompt import PromptInterrupted
from holdfast.cli.prompts import AnswerFile, PipedAnswers, read_choice_text, read_line
from holdfast.cli.tables import console
from holdfast.client.answer_files import Entry
from tests.client.questions import decision, question
from tests.terminals import Typing
from tests.terminals import typing as typing

FORM = {
    "type": "object",
    "required": ["city", "days"],
    "properties": {
        "city": {"type": "string"},
        "days": {"type": "integer", "minimum": 1},
        "class": {"enum": ["first", 2]},
        "hotel": {"type": "boolean", "default": False},
    },
}


def test_an_option_is_chosen_by_number_id_or_label_and_a_number_that_is_an_id_is_the_id() -> None:
    asked = decision()
    assert [read_choice_text(text, asked) for text in ("2", "b", "Beta, too", "1")] == ["b", "b", "Beta, too", "1"]
    assert read_choice_text("2, a", decision(max_selections=2)) == ["b", "a"]


def test_the_beginning_of_one_option_is_enough_where_own_words_are_none() -> None:
    assert [read_choice_text(text, decision()) for text in ("al", "BE", "")] == ["a", "b", ""]
    options = [{"id": "warm"}, {"id": "warn"}]
    assert read_choice_text("wa", decision(options=options)) == "wa"
    assert read_choice_text("warm w", decision(options=options)) == "warm w"
    assert read_choice_text("al", question(Clarification(message="?", options=decision().options))) == "al"


def test_a_permission_takes_what_the_command_takes(typing: Typing) -> None:
    asked = question(Permission(message="May I?"))
    assert typing.content(asked, "go ahead") == {"granted": True}
    assert typing.content(asked, "no, too dear") == {"granted": False, "reason": "too dear"}
    assert typing.content(asked, "yes", "run", "") == {"granted": True, "scope": "run"}


def test_one_is_asked_again_with_the_reason(typing: Typing) -> None:
    assert typing.content(decision(), "", "gamma", "a") == "a"
    assert "'gamma' is not one of the options: a, b, 1" in typing.shown.getvalue()


def test_enter_takes_the_default_where_there_is_one(typing: Typing) -> None:
    assert typing.content(decision(default="b"), "") == "b"
    assert "Enter: b" in typing.shown.getvalue()
    assert typing.content(question(Input(message="?")), "", "text") == "text"


def test_text_that_looks_like_something_else_stays_text(typing: Typing) -> None:
    assert typing.content(question(Clarification(message="?")), "'&<é\" 42:") == "'&<é\" 42:"


def test_a_form_is_asked_field_by_field_or_taken_whole(typing: Typing) -> None:
    asked = question(Input(message="?", form=FORM))
    assert typing.content(asked, "", "Rome", "none", "0", "3", "2", "yes") == {
        "city": "Rome",
        "days": 3,
        "class": 2,
        "hotel": True,
    }
    assert "city: this field is needed" in typing.shown.getvalue()
    assert typing.content(asked, "Rome", "3", "", "") == {"city": "Rome", "days": 3, "hotel": False}
    assert typing.content(asked, '{"city": "Rome", "days": 1}') == {"city": "Rome", "days": 1}


def test_a_review_is_answered_in_a_line_or_field_by_field(typing: Typing) -> None:
    asked = question(Review(message="Right?", payload={"days": 1, "city": "Rome"}))
    assert typing.content(asked, "", "yes") == {"verdict": "unchanged"}
    assert "this field is needed" in typing.shown.getvalue()
    assert typing.content(asked, "yes") == {"verdict": "unchanged"}
    assert typing.content(asked, '{"days": 2}') == {"verdict": "edited", "payload": {"days": 2, "city": "Rome"}}
    assert typing.content(asked, "no, Paris") == {"verdict": "rejected", "reason": "Paris"}
    assert typing.content(asked, "rejected", "", "") == {"verdict": "rejected"}
    assert "yes: it is right" in typing.shown.getvalue()


def test_a_form_that_is_no_object_of_fields_is_one_line(typing: Typing) -> None:
    assert typing.content(question(Input(message="?", form={"type": "array"})), "x and y", "[1]") == [1]
    assert typing.content(question(Input(message="?", form={"type": "array"})), "x, y") == ["x", "y"]
    assert typing.content(question(Input(message="?", form={"type": "boolean"})), "maybe", "yes") is True


def test_commands_decline_cancel_help_and_leave(typing: Typing) -> None:
    asked = decision()
    declined, cancelled = typing(asked, "/help", "/decline"), typing(asked, "/cancel")
    assert declined and cancelled
    assert (declined.action, cancelled.action) == ("decline", "cancel")
    assert (typing(asked, "/later"), typing(asked)) == (None, None)


def test_piped_lines_are_taken_as_they_are(typing: Typing) -> None:
    typing.monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(_Pipe(b" a text: \r\n/decline\n")))
    lines = PipedAnswers(console(typing.shown))
    asked = question(Input(message="?"))
    contents = [answer.content if (answer := asyncio.run(lines.answer(asked))) else None for _ in range(3)]
    assert contents == [" a text: ", "/decline", None]


class _Pipe(io.BytesIO):
    """Bytes that `select` can be asked about."""

    def fileno(self) -> int:
        return sys.__stdin__.fileno() if sys.__stdin__ else 0


def test_a_written_answer_that_was_refused_is_not_given_again(typing: Typing) -> None:
    written = AnswerFile([Entry("tone", "x", times=9), Entry("t*", "y")], console(typing.shown))
    asked = decision()
    contents = [answer.content if (answer := asyncio.run(written.answer(asked))) else None for _ in range(3)]
    assert contents == ["x", "y", None]


def test_a_written_answer_finds_what_a_tool_asks_by_the_name_of_its_step() -> None:
    asked = question(Input(message="?"), "pipeline:p;step:send;level:owner")
    assert [Entry(name).fits(asked) for name in ("send", "owner", "p")] == [True, True, False]


def test_ctrl_c_that_another_thread_takes_ends_the_wait_too(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    left = threading.Event()
    seen = []

    def interrupts() -> None:
        while signal.getsignal(signal.SIGALRM) == signal.SIG_DFL and not left.wait(0.01):
            pass
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)
        seen.append(left.wait(30))
        os.close(writer)

    with os.fdopen(reader) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        other = threading.Thread(target=interrupts)
        other.start()
        try:
            with pytest.raises(PromptInterrupted):
                read_line()
        finally:
            left.set()
            other.join()
    assert seen == [True]
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)
