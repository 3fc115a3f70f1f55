"""Values between an activity and its workflow while an MCP server asks people in the middle of a call."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from holdfast.blueprint.questions import AnyAsked
from holdfast.protocol.agents import InterruptAnswer
from holdfast.protocol.values import Value

ELICIT = "elicit"
"""The update that has a question put to people."""
ELICITED = "elicited"
"""The query for its answer."""
ELICITATION_SECONDS = 600.0
"""How long people have in one call of a server that waits for them: it holds a process or a connection so long."""


class PutElicitation(Value):
    """A question to put to people while a call runs."""

    call: str
    """Address of the call."""
    path: str
    """Path within the call."""
    asked: AnyAsked
    seconds: float = Field(gt=0, le=ELICITATION_SECONDS)
    """Time until it is withdrawn."""
    key: str = Field(min_length=1, max_length=200)
    """One for each time that a server asks: sent again, it has no further effect."""
    token: str | None = None


class ElicitedQuery(Value):
    """A question whose answer is wanted."""

    call: str
    path: str


class Elicited(Value):
    """The state of a question; `unknown` where it was not asked, or its call is over."""

    status: Literal["unknown", "open", "answered"] = "unknown"
    answer: InterruptAnswer | None = None
