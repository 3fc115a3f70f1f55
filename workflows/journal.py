"""The events of a workflow, numbered by offset. Clients read them by query, which adds nothing to the history."""

from __future__ import annotations

import logging
from datetime import datetime
from typing import Any, NamedTuple

from temporalio import workflow

from holdfast.blueprint.expressions.error import ExpressionError
from holdfast.blueprint.expressions.values import write_text
from holdfast.protocol.address import Address
from holdfast.protocol.events import LONGEST_TEXT, LONGEST_VALUE, Event, EventData
from holdfast.protocol.names import PAGE_BYTES

PROMINENT = ("run.", "question.", "step.failed", "tool.failed")
"""The types of events that are logged as `info`; others as `debug`."""


class _JournalEntry(NamedTuple):
    time: datetime
    address: Address
    kind: type[EventData]
    values: tuple[object, ...]
    """Those of its fields, in their order."""


class Journal:
    """The events of this run; queries to earlier runs of the chain return theirs.

    Kept as tuples, and made events when somebody asks: as models they took a sixth of a waiting agent's objects.
    """

    def __init__(self, first: int = 0) -> None:
        self.first = first
        self._entries: list[_JournalEntry] = []

    @property
    def next(self) -> int:
        return self.first + len(self._entries)

    def note(self, address: Address, event: EventData) -> None:
        """Append an event; of large values it keeps previews."""
        kind: type[EventData] = type(event)
        long = kind.long_texts
        kept = tuple(preview(value, LONGEST_TEXT if name in long else LONGEST_VALUE) for name, value in event)
        self._entries.append(_JournalEntry(workflow.now(), address, kind, kept))
        _log(address, event.type)

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
        time, address, kind, values = self._entries[index]
        # Not validated, as they were when they were noted: a preview may be a text where the class has a list.
        fields: dict[str, Any] = dict(zip(kind.model_fields, values, strict=True))
        data: Any = kind.model_construct(**fields)
        return Event(offset=self.first + index, time=time, type=kind.type, address=address, data=data)


def _log(address: Address, type_: str) -> None:
    """Write an event to the worker's log, once: the SDK's logger is silent during replay. Nothing of its content."""
    level = logging.INFO if type_.startswith(PROMINENT) else logging.DEBUG
    if workflow.logger.isEnabledFor(level):
        workflow.logger.log(level, "%s %s", type_, address, extra={"event": type_, "address": str(address)})


def preview(value: object, longest: int = LONGEST_VALUE) -> object:
    """Return the value if it is small, else the beginning of its text.

    >>> preview({"a": 1}), preview("x" * 300)[-1]
    ({'a': 1}, '…')
    """
    if value is None or isinstance(value, bool | int | datetime):
        return value
    if isinstance(value, str):
        return value if len(value) <= longest else f"{value[:longest]}…"
    try:
        text = write_text(value)
    except ExpressionError:  # no JSON, such as a NaN in an author's default: noting must never raise
        return repr(value)[:longest]
    return value if len(text) <= longest else f"{text[:longest]}…"
