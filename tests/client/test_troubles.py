"""What the log says of a background job that fails for a while: once, rarely, and once at the end."""

from __future__ import annotations

import logging

import pytest
from sqlalchemy.exc import IntegrityError, OperationalError

from holdfast.server.record.jobs import LastingTrouble, describe_reason

log = logging.getLogger(__name__)


@pytest.fixture
def trouble() -> LastingTrouble:
    return LastingTrouble(log, "planning notices")


def test_a_trouble_is_logged_once_then_rarely_and_once_when_it_is_over(
    trouble: LastingTrouble, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(50):
        trouble.note("no connection")
    assert caplog.messages == ["planning notices fails, and is tried again: no connection"]
    monkeypatch.setattr("holdfast.server.record.jobs.LOG_EVERY", 0.0)
    trouble.note("no connection")
    assert caplog.messages[1:] == ["planning notices has failed for 1 second: no connection"]
    trouble.end()
    trouble.end()
    assert caplog.messages[2:] == ["planning notices works again, after 1 second"]
    trouble.note("no connection")
    assert len(caplog.messages) == 4


def test_another_reason_is_logged_at_once_and_ever_new_ones_are_not(
    trouble: LastingTrouble, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(50):
        trouble.note(f"port {number % 2}")
    assert len(caplog.messages) == 2
    for number in range(50):
        trouble.note(f"port {number}")
    assert len(caplog.messages) == 3


def test_what_ends_a_block_is_noted_and_what_is_not_named_is_raised(
    trouble: LastingTrouble, caplog: pytest.LogCaptureFixture
) -> None:
    with trouble.note_failure(LookupError):
        raise KeyError("x")
    with trouble.note_failure(LookupError):
        pass
    assert len(caplog.messages) == 2
    with pytest.raises(ZeroDivisionError), trouble.note_failure(LookupError):
        raise ZeroDivisionError


def test_the_reason_of_a_database_holds_nothing_that_was_written() -> None:
    away = OperationalError("INSERT x", {"x": "secret"}, ConnectionError("no connection\n  to port 5432"))
    twice = IntegrityError("INSERT x", {"x": "secret"}, ValueError("key (secret) exists"))
    assert describe_reason(away) == "OperationalError: no connection to port 5432"
    assert describe_reason(twice) == "IntegrityError (ValueError)"
    assert describe_reason(ValueError()) == "ValueError"
