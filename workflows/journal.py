"""The events of a workflow, numbered by offset. Clients read them by query, which adds nothing to the history."""

from __future__ import annotations

from temporalio import workflow

from holdfast.blueprint.expressions import ExpressionError, text_of
from holdfast.protocol.address import Address
from holdfast.protocol.events import AnyEvent, Event
from holdfast.protocol.runs import PAGE_BYTES

LONGEST_VALUE = 256


class Journal:
    """The events of this run; queries to earlier runs of the chain return theirs."""

    def __init__(self, first: int = 0) -> None:
        self.first = first
        self._events: list[Event] = []

    @property
    def next(self) -> int:
        return self.first + len(self._events)

    def note(self, address: Address, event: AnyEvent) -> None:
        """Append an event; of large values it keeps previews."""
        previews = {key: short for key, value in vars(event).items() if (short := preview(value)) is not value}
        data = event.model_copy(update=previews) if previews else event
        self._events.append(Event(offset=self.next, time=workflow.now(), type=event.type, address=address, data=data))

    def page(self, offset: int) -> list[Event]:
        """Return the events from an offset on, as many as fit a query result."""
        taken: list[Event] = []
        room = PAGE_BYTES
        for event in self._events[max(0, offset - self.first) :]:
            room -= len(event.model_dump_json(exclude_defaults=True).encode())
            if room < 0 and taken:
                break
            taken.append(event)
        return taken


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
