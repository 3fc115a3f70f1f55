"""The log of a process: where it goes, and what it leaves alone."""

from __future__ import annotations

import io
import json
import logging

import pytest

from holdfast.runtime import core_log
from holdfast.runtime.config.logs import JsonFormatter, configure_logging
from holdfast.runtime.core_log import OnceAWhile


def test_handlers_of_others_stay(root_logger: logging.Logger) -> None:
    before = list(root_logger.handlers)
    configure_logging("text", "info")
    configure_logging("json", "warning")
    assert before and root_logger.handlers[:-1] == before and root_logger.level == logging.WARNING


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
