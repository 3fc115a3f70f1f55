"""Questions as the client reads them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from holdfast.blueprint.questions import Asked, Decision
from holdfast.protocol.address import Address
from holdfast.protocol.questions import Question, QuestionRequest, open_question

AT = datetime(2026, 11, 20, tzinfo=UTC)
OPTIONS = [{"id": "a", "label": "Alpha"}, {"id": "b", "label": "Beta, too"}, {"id": "1", "label": "One"}]


def question(asked: Asked, address: str = "pipeline:p;hitl:tone") -> Question:
    return open_question(QuestionRequest(asked, Address(address)), owner="r", history="h", run="r", round_=1, at=AT)


def decision(**how: Any) -> Question:
    return question(Decision.model_validate({"message": "?", "options": OPTIONS, **how}))


ACTION = {
    "type": "object",
    "required": ["action"],
    "properties": {"action": {"enum": ["retry", "abort"]}, "input": {}},
}
