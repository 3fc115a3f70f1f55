"""Find the answer that an event notes among those of a history: the event has only the beginning of a long one.

The recorder and the pages use it.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.blueprint.expressions.values import write_text
from holdfast.blueprint.json_values import JSON
from holdfast.client.history import AnswerRecord
from holdfast.protocol.events import LONGEST_VALUE, QuestionReplied


def find_answer(address: str, noted: QuestionReplied, given: Sequence[AnswerRecord]) -> AnswerRecord | None:
    """Return the answer that an event notes; None if it is not among these.

    Args:
        address: The address of the question.
        noted: The data of the event.
        given: The answers of a history.
    """
    named = [answer for answer in given if answer.question in (noted.id, address) and answer.key == noted.key]
    # Of several signals without a key some were refused: the one that begins as the event says was taken.
    taken = (answer for answer in named if _begins(answer.content, noted.content))
    return next(taken, next(iter(named), None))


def _begins(whole: JSON, noted: object) -> bool:
    text = whole if isinstance(whole, str) else write_text(whole)
    return text.startswith(str(noted)[:LONGEST_VALUE])
