"""What a workflow of a run tells whoever asks: its view, and the result of a run. Reading it loads no language."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.protocol.address import Address
from holdfast.protocol.incoming import KeptHint
from holdfast.protocol.questions import Question
from holdfast.protocol.undos import UndoProgress
from holdfast.protocol.usage import Usage
from holdfast.protocol.values import Value

Status = Literal["running", "waiting", "paused", "completed", "failed", "cancelled"]


class RefusedSignal(Value):
    """A record of a signal that was refused: signals have no reply."""

    at: datetime
    question: str | None = None
    """Id of the question, where a single answer was refused and its question is known here."""
    key: str | None = None
    """Digest of the idempotency key of the answers."""
    by: str | None = None
    code: str
    """One of `answers.REFUSALS`."""
    message: str


class RunResult(Value):
    """The result of a run."""

    output: JSON = None
    context: JSONObject = {}
    usage: Usage = Usage()
    """For an author's workflow that ran it."""


class WorkflowView(Value):
    """The answer of one workflow to the query `view`; clients walk the children themselves."""

    run: str
    workflow: str
    address: Address
    blueprint: str
    blueprint_digest: str = ""
    status: Status = "running"
    iteration: int | None = None
    questions: list[Question] = []
    """Those of people."""
    events: list[Question] = []
    """The events of other systems that are waited for."""
    kept: list[KeptHint] = []
    """Events that came before any step waited for them; only a run's own workflow keeps them."""
    more_questions: int = 0
    """Number of open questions and events that did not fit on this page; query again with an offset."""
    children: list[str] = []
    """Workflow ids."""
    moving: bool = False
    """True while an activity runs."""
    timers: list[datetime] = []
    """When the timers that run are over: the next 20."""
    deadlines: list[datetime] = []
    """When the run, a loop or a block must have ended: the next 20."""
    undoing: UndoProgress | None = None
    """How far it has come while it undoes something."""
    undos: int = 0
    """Number of steps whose undo it keeps, those that it undoes now included."""
    hearer: Address | None = None
    """The address of the agent that works in this workflow, and takes messages of people."""
    refused: list[RefusedSignal] = []
    usage: Usage = Usage()
    first_offset: int = 0
    """Offset of the first event in this history; earlier ones are in the previous runs."""
    next_offset: int = 0
    temporal_run: str = ""
    """Temporal's run id of this history; each continue-as-new begins another."""
    previous_run: str | None = None
    """Temporal's run id of the history before it."""
