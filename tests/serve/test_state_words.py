"""Every state of a step and every end of a question has words on the pages: without them the page is an error."""

from __future__ import annotations

from typing import get_args

from holdfast.client.views.steps import Mark
from holdfast.protocol.events import QuestionAccepted, QuestionClosed, QuestionMet
from holdfast.server.notices.texts import load_texts
from holdfast.server.web.pages.templating import LANGUAGES

TEXTS = load_texts("en", LANGUAGES)
ENDS = [kind.type.removeprefix("question.") for kind in (QuestionAccepted, *QuestionClosed.__subclasses__())]


def test_every_state_of_a_step_has_words() -> None:
    assert [mark for mark in get_args(Mark) if f"runs.status.{mark}" not in TEXTS] == []


def test_every_end_of_a_question_has_words() -> None:
    assert [
        end for end in [*ENDS, QuestionMet.type.removeprefix("question.")] if f"runs.reply_of.{end}" not in TEXTS
    ] == []
    assert [end for end in ENDS if f"closed.how.{end}" not in TEXTS] == []
