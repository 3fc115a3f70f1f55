"""Comments beside a question, as the record has them. The pages and the API show them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import datetime

from holdfast.blueprint.json_values import JSONObject
from holdfast.server.record.entries import Recorded


@dataclass(frozen=True)
class RecordedComment:
    """A comment on a question; it is not an answer, and the run does not see it."""

    at: datetime
    by: str | None
    """The person, such as `user:ana`; None once the comment is erased, as the other fields."""
    text: str | None
    question: str | None = None
    """The id of the question."""
    proved_by: str | None = None
    """What proves the person to the door that took the comment; None for one by command."""

    @property
    def is_erased(self) -> bool:
        """Return whether its content was erased."""
        return self.text is None

    def to_json(self) -> JSONObject:
        """Return the JSON object of the API."""
        return {**asdict(self), "at": self.at.isoformat()}


def comments_in(entries: Iterable[Recorded]) -> list[RecordedComment]:
    """Return the comments that entries hold, in the order of writing."""
    return [
        RecordedComment(
            entry.at, entry.data.get("by"), entry.data.get("text"), entry.question, entry.data.get("proved_by")
        )
        for entry in entries
    ]
