"""A question kind of one class, made here: asked in a run, shown, prompted for, checked, answered."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import pytest

from holdfast.activities import Interrupt, resumed, tool
from holdfast.cli.render import answer_command, question_text
from holdfast.client.reading import content_of, yes_or_no
from holdfast.protocol.answers import Answer
from holdfast.protocol.questions import Asked, InvalidAnswer
from tests.client.questions import question
from tests.conftest import Harness, until
from tests.terminals import Typing
from tests.terminals import typing as typing


class Rating(Asked):
    """A number of stars, which may be typed as such."""

    kind: Literal["rating"] = "rating"
    stars: int = 5

    @property
    def requested_schema(self) -> dict[str, Any]:
        return {"type": "integer", "minimum": 1, "maximum": self.stars}

    @property
    def hint(self) -> str:
        return f"1 to {self.stars}, or as many stars"

    @property
    def example(self) -> Any:
        return self.stars

    def in_words(self, text: str) -> Any:
        return len(text) if text and not text.strip("*") else None

    def yes(self) -> Any:
        return self.stars


class SealedRating(Rating):
    """A rating that no history may hold but by update."""

    kind: Literal["sealed_rating"] = "sealed_rating"  # type: ignore[assignment]
    signal_refusal: ClassVar[str] = "a sealed rating takes no signals"


@tool
def rate(sealed: bool = False) -> int:
    """Ask for stars."""
    rating = resumed(int)
    if not rating.has_data:
        raise Interrupt((SealedRating if sealed else Rating)(message="How was it?", stars=3))
    return int(rating.data)


RATE = "steps: [{name: rate, uses: rate, input: {sealed: %s}}]"


async def test_it_is_asked_in_a_run_checked_and_answered_by_update(house: Harness) -> None:
    run = await house.start(RATE % "false")
    asked = await house.one(run)
    assert (asked.kind, asked.asked, asked.info) == ("rating", Rating(message="How was it?", stars=3), None)
    assert (await house.refused(run, 4)).code == "invalid_answer"
    await house.answer(run, 2)
    assert await house.output(run) == 2


@pytest.mark.slow
async def test_it_is_answered_by_signal_unless_its_trait_says_no(house: Harness) -> None:
    runs = [await house.start(RATE % sealed) for sealed in ("false", "true")]
    for run in runs:
        answer = {"question": (await house.one(run)).id, "content": 3}
        await house.client.get_workflow_handle(run).signal("answer", answer)
    assert await house.output(runs[0]) == 3

    async def refused() -> list[str]:
        return [signal.message for signal in (await house.runs.tree.view(runs[1])).refused]

    [message] = await until(refused, "the refused signal")
    assert "a sealed rating takes no signals" in message


def test_it_is_shown_with_the_command_that_answers_it() -> None:
    asked = question(Rating(message="How was it?"))
    assert "How was it?" in question_text(asked).plain
    assert answer_command(asked).endswith(f"{asked.id} --content 5")


def test_it_is_prompted_for_and_read_as_it_says(typing: Typing) -> None:
    asked = question(Rating(message="How was it?"))
    assert typing(asked, "9", "****") == Answer(question=asked.id, content=4, digest=asked.digest)
    assert "1 to 5, or as many stars" in typing.shown.getvalue()
    assert (content_of("2", asked), yes_or_no(asked, True)) == (2, 5)


def test_it_crosses_processes_with_its_own_fields_and_refuses_what_does_not_fit() -> None:
    asked = question(Rating(message="How was it?", stars=4))
    assert asked.model_dump(mode="json")["asked"] == {"kind": "rating", "stars": 4}
    there = type(asked).model_validate_json(asked.model_dump_json())
    assert there == asked
    with pytest.raises(InvalidAnswer):
        there.accept(5)
