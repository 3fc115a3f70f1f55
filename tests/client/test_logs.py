"""The log of a process: where it goes, what it leaves alone, and what it says of a job that fails for a while."""

from __future__ import annotations

import io
import json
import logging

import pytest
from sqlalchemy.exc import IntegrityError, OperationalError

from holdfast.runtime import core_log
from holdfast.runtime.config.logs import JsonFormatter, configure_logging
from holdfast.runtime.core_log import OnceAWhile
from holdfast.server.record.jobs import LastingTrouble, describe_reason


def test_handlers_of_others_stay(root_logger: logging.Logger) -> None:
    before = list(root_logger.handlers)
    configure_logging("text", "info")
    configure_logging("json", "warning")
    assert before and root_logger.handlers[:-1] == before and root_logger.level == logging.WARNING


def test_debug_shows_steps_and_no_request_of_a_library(
    root_logger: logging.Logger, caplog: pytest.LogCaptureFixture
) -> None:
    configure_logging("text", "debug")
    for name in ("temporalio.workflow", "temporalio.worker._activity", "anthropic._base_client"):
        logging.getLogger(name).debug("of %s", name)
    configure_logging("text", "info")
    logging.getLogger("temporalio.workflow").debug("no longer")
    assert caplog.messages == ["of temporalio.workflow"]


def test_a_standard_error_that_was_replaced_and_closed_is_not_written_to(
    root_logger: logging.Logger, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = io.StringIO(), io.StringIO()
    monkeypatch.setattr("sys.stderr", first)
    configure_logging("text", "info")
    monkeypatch.setattr("sys.stderr", second)
    first.close()
    root_logger.info("still here")
    assert second.getvalue().endswith("INFO root: still here\n")


def test_what_the_sdk_appends_to_a_message_is_in_fields_only() -> None:
    workflow = {"workflow_id": "demo/loop:one", "attempt": 1}
    fields = {"msg": f"question.asked ({workflow})", "temporal_workflow": workflow, "levelname": "INFO"}
    line = json.loads(JsonFormatter().format(logging.makeLogRecord(fields)))
    assert (line["message"], line["run"], line["attempt"]) == ("question.asked", "demo", 1)


def test_what_core_repeats_is_told_once_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    once = OnceAWhile()
    polls = [logging.makeLogRecord({"msg": f"gRPC call poll retried {count} times"}) for count in (5, 6)]
    other = logging.makeLogRecord({"msg": "gRPC call respond retried 5 times"})
    assert [once.filter(record) for record in [*polls, other]] == [True, False, True]
    monkeypatch.setattr(core_log, "PAUSE_SECONDS", 0)
    assert once.filter(polls[1])


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
