"""Events as they stand on the wire: what is raised is read as the same class, and a newer version's are kept."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import ValidationError

from holdfast.protocol.address import Address
from holdfast.protocol.events import Event, EventData, LoopCompleted, RunPaused, StepStarted, UnknownEvent


def wire(type_: str, data: dict[str, Any]) -> dict[str, Any]:
    at = "2026-01-01T00:00:00Z"
    return {"offset": 1, "time": at, "type": type_, "address": "pipeline:p", "data": data}


def raised(data: EventData) -> Event:
    return Event(
        offset=1, time=datetime(2026, 1, 1, tzinfo=UTC), type=data.type, address=Address("pipeline:p"), data=data
    )


@pytest.mark.parametrize(
    "data", [RunPaused(), StepStarted(name="a", kind="step"), LoopCompleted(reason="x", iterations=1)]
)
def test_an_event_is_read_as_the_class_that_was_raised(data: EventData) -> None:
    event = raised(data)
    assert Event.model_validate_json(event.model_dump_json()) == event


def test_fields_without_a_value_are_not_sent_and_nulls_inside_a_value_are() -> None:
    sent = raised(LoopCompleted(reason="condition", iterations=2, output={"a": None})).to_json()
    assert sent == wire("loop.completed", {"reason": "condition", "iterations": 2, "output": {"a": None}})


def test_an_event_of_a_newer_version_is_kept() -> None:
    sent = wire("step.teleported", {"name": "a", "to": ["b"]})
    event = Event.model_validate(sent)
    assert isinstance(event.data, UnknownEvent)
    assert event.to_json() == sent


def test_a_field_of_a_newer_version_is_kept() -> None:
    sent = wire("step.started", {"name": "a", "kind": "step", "colour": "red"})
    event = Event.model_validate(sent)
    assert isinstance(event.data, StepStarted)
    assert event.to_json() == sent


def test_a_known_event_that_has_changed_is_kept() -> None:
    sent = wire("step.started", {"label": "a"})
    assert Event.model_validate(sent).to_json() == sent


def test_an_unknown_field_cannot_be_raised() -> None:
    with pytest.raises(ValidationError):
        StepStarted(name="a", kind="step", colour="red")  # type: ignore[call-arg]
