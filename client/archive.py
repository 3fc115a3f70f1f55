"""A memory of runs beside Temporal's, which lasts after Temporal has forgotten them. The record is one."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.protocol.access import RunAccess
from holdfast.protocol.answers import AnswerBatch, Refusal
from holdfast.protocol.views import Status, WorkflowView

if TYPE_CHECKING:
    from holdfast.blueprint.kinds import Blueprint
    from holdfast.protocol.children import Failure
    from holdfast.protocol.events import Event


def is_record_installed() -> bool:
    """Return whether the libraries of the record are there: those of the extra `serve`."""
    return all(importlib.util.find_spec(name) is not None for name in ("sqlalchemy", "alembic"))


@dataclass(frozen=True)
class ArchivedEvents:
    """The events of one workflow that an archive has."""

    events: list[Event] = field(default_factory=list)
    next_offset: int = 0
    """The first offset that it does not have."""
    closed: bool = False
    """True if the workflow has closed and these are all of its events."""


@dataclass(frozen=True)
class ArchivedEnd:
    """The end of a run, as an archive has it."""

    run: str
    status: Status
    blueprint: str
    output: JSON
    context: JSONObject | None
    error: Failure | None
    view: WorkflowView | None
    """The last view of the run's own workflow. None if it could not be read, or the outcome was too large to keep."""
    started: datetime | None = None
    closed: datetime | None = None


class Archive(Protocol):
    """A memory of runs. A run is read from it as far as it goes, and the rest from Temporal."""

    @property
    def is_open(self) -> bool:
        """False while it would have to be opened first: what Temporal has whole is read from there then."""

    async def events(self, workflow: str, start: int, last_iterations: int | None) -> ArchivedEvents:
        """Return the events of a workflow from an offset on; with `last_iterations` at least those of so many."""

    async def end(self, run: str) -> ArchivedEnd | None:
        """Return the end of a run; None if the archive does not have it, or it was erased."""

    async def iterations(self, workflow: str, first: int, before: int) -> list[Event] | None:
        """Return a loop's own events from one iteration up to another one; None if the archive lacks some of them."""

    async def blueprint(self, run: str) -> Blueprint | None:
        """Return the blueprint that a run was started with; None if the archive does not have it.

        Raises `BadInput` if this version cannot read it.
        """

    async def access(self, run: str) -> RunAccess | None:
        """Return what a run says of the access to it; None if the archive does not have the run."""

    async def runs_like(self, prefix: str) -> list[str]:
        """Return the ids of runs that begin so, at most 20."""

    async def note_refusal(
        self, run: str, answers: AnswerBatch, refusal: Refusal, user: str | None, proof: str | None
    ) -> None:
        """Remember that answers were refused, without their content. Raises nothing: the refusal is what counts."""
