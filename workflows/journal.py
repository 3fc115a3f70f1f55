"""The events of one workflow of a run, by offset. Reading them leaves no trace in history."""

from __future__ import annotations

from typing import Any

from temporalio import workflow

from blueprint.expressions import text_of
from protocol.address import Address
from protocol.runs import PAGE_BYTES, Event

LONGEST_VALUE = 256


class Journal:
    """The events of this run of the chain; earlier runs answer for earlier offsets."""

    def __init__(self, first: int = 0) -> None:
        self.first = first
        self._events: list[Event] = []

    @property
    def next(self) -> int:
        return self.first + len(self._events)

    def note(self, address: Address, type_: str, **data: Any) -> None:
        shown = {key: preview(value) for key, value in data.items() if value is not None}
        self._events.append(Event(offset=self.next, time=workflow.now(), type=type_, address=address, data=shown))

    def page(self, offset: int) -> list[Event]:
        """The events from an offset on, as many as a query result carries without trouble."""
        taken: list[Event] = []
        room = PAGE_BYTES
        for event in self._events[max(0, offset - self.first) :]:
            room -= len(event.model_dump_json(exclude_defaults=True).encode())
            if room < 0 and taken:
                break
            taken.append(event)
        return taken


def preview(value: Any) -> Any:
    """The value itself where it is small, else the beginning of its text.

    >>> preview({"a": 1}), preview("x" * 300)[-1]
    ({'a': 1}, '…')
    """
    if value is None or isinstance(value, bool | int | float):
        return value
    text = text_of(value)
    return value if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}…"
