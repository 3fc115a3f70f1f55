"""The events of a workflow, numbered by offset. Clients read them by query, which adds nothing to the history."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from temporalio import workflow

from holdfast.blueprint.expressions import ExpressionError, text_of
from holdfast.protocol.address import Address
from holdfast.protocol.events import AnyEvent, Event
from holdfast.protocol.runs import PAGE_BYTES

LONGEST_VALUE = 256


class _Entry(NamedTuple):
    time: datetime
    address: Address
    data: AnyEvent


class Journal:
    """The events of this run; queries to earlier runs of the chain return theirs.

    Kept as entries, and made events when somebody asks: as models they took a seventh of a waiting agent's memory.
    """

    def __init__(self, first: int = 0) -> None:
        self.first = first
        self._entries: list[_Entry] = []

    @property
    def next(self) -> int:
        return self.first + len(self._entries)

    def note(self, address: Address, event: AnyEvent) -> None:
        """Append an event; of large values it keeps previews."""
        previews = {key: short for key, value in vars(event).items() if (short := preview(value)) is not value}
        data = event.model_copy(update=previews) if previews else event
        self._entries.append(_Entry(workflow.now(), address, data))

    def page(self, offset: int) -> list[Event]:
        """Return the events from an offset on, as many as fit a query result."""
        taken: list[Event] = []
        room = PAGE_BYTES
        for index in range(max(0, offset - self.first), len(self._entries)):
            event = self._event(index)
            room -= len(event.model_dump_json(exclude_defaults=True).encode())
            if room < 0 and taken:
                break
            taken.append(event)
        return taken

    def _event(self, index: int) -> Event:
        entry = self._entries[index]
        type_ = entry.data.type
        return Event(offset=self.first + index, time=entry.time, type=type_, address=entry.address, data=entry.data)


def preview(value: object) -> object:
    """Return the value if it is small, else the beginning of its text.

    >>> preview({"a": 1}), preview("x" * 300)[-1]
    ({'a': 1}, '…')
    """
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, str):
        return value if len(value) <= LONGEST_VALUE else f"{value[:LONGEST_VALUE]}…"
    try:
        text = text_of(value)
    except ExpressionError:  # no JSON, such as a NaN in an author's default: noting must never raise
        return repr(value)[:LONGEST_VALUE]
    return value if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}…"
