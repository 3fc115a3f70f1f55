"""An open question as everybody shows it: who asks, who may answer, until when, and who has claimed it.

What is asked is shown by the traits of its kind (`Question.asked`), which is no part of this.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from holdfast.protocol.address import name_asker, parts
from holdfast.protocol.people import who_may
from holdfast.protocol.questions import Question

NEAR = timedelta(hours=24)
"""A deadline that is nearer is marked once half of the time for the answer is over."""
VERY_NEAR = timedelta(hours=1)


@dataclass(frozen=True)
class QuestionView:
    """An open question at a moment."""

    question: Question
    now: datetime = field(default_factory=lambda: datetime.now(UTC))

    @property
    def step(self) -> str:
        """The name of the step that asks; of a server's question that of the call in which it asks."""
        return name_asker(self.question.address)

    @property
    def asker(self) -> str:
        """The step that asks, with its iteration and the label of its item."""
        question = self.question
        notes = ", ".join(str(note) for note in (question.iteration, question.label) if note is not None)
        return f"{self.step} ({notes})" if notes else self.step

    @property
    def blueprint(self) -> str:
        """The name of the blueprint of its run."""
        return parts(self.question.address)[0][1]

    @property
    def who(self) -> str:
        """Who may answer."""
        return who_may(self.question.people)

    @property
    def claimant(self) -> str | None:
        """The user who keeps it for themselves; None if nobody does."""
        return self.question.claimant(self.now)

    @property
    def is_near(self) -> bool:
        """True if its deadline is to be marked: it is near, and most of the time for the answer is over."""
        if self.question.deadline is None:
            return False
        remaining, whole = self.question.deadline - self.now, self.question.deadline - self.question.asked_at
        return remaining < VERY_NEAR or remaining < min(NEAR, whole / 2)
