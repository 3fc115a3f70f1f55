"""The log of a process: lines for people, or a JSON object a line for programs. `HOLDFAST_LOG_…` choose."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Literal, TextIO

from holdfast.blueprint.json_values import JSONObject

LogFormat = Literal["text", "json"]
LogLevel = Literal["debug", "info", "warning", "error"]
TEXT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
FROM_WORKFLOW = ("workflow_id", "run_id", "workflow_type", "attempt")
FROM_ACTIVITY = ("workflow_id", "workflow_run_id", "activity_id", "activity_type", "attempt")

DETAILED = ("holdfast", "temporalio.activity", "temporalio.workflow")
"""What logs at `debug`, too. Other libraries, and the SDK's worker, then write whole requests and results."""
VERBOSE = ("alembic", "httpx")
"""Libraries that log each migration, or each request with its URL, which may hold a token."""


def configure_logging(format: LogFormat, level: LogLevel, process: int | None = None) -> None:
    """Send the log of this process to standard error. Handlers of others stay, such as those of a test run.

    Args:
        process: The number of one of several worker processes, which stands in its lines.
    """
    root = logging.getLogger()
    for before in [handler for handler in root.handlers if isinstance(handler, StandardErrorHandler)]:
        root.removeHandler(before)
    handler = StandardErrorHandler()
    text = TEXT if process is None else TEXT.replace("%(name)s", f"%(name)s[{process}]")
    handler.setFormatter(JsonFormatter(process) if format == "json" else logging.Formatter(text))
    root.addHandler(handler)
    root.setLevel("INFO" if level == "debug" else level.upper())
    for name in DETAILED:
        logging.getLogger(name).setLevel(level.upper())
    for name in VERBOSE:
        logging.getLogger(name).setLevel(logging.WARNING)


class StandardErrorHandler(logging.StreamHandler[TextIO]):
    """Writes to what is standard error by then: a test run replaces it, and closes the one before."""

    def emit(self, record: logging.LogRecord) -> None:
        """See base class."""
        self.stream = sys.stderr
        super().emit(record)


class JsonFormatter(logging.Formatter):
    """Formats a record as JSON: `time`, `level`, `logger`, `message`; what is known of its run; `error`, a traceback.

    A line of a workflow or an activity has `run`, `workflow_id`, `attempt` and their like; an event of a run has
    `event` and `address`; of several worker processes each names its number as `process`.
    """

    def __init__(self, process: int | None = None) -> None:
        super().__init__()
        self._process: JSONObject = {} if process is None else {"process": process}

    def format(self, record: logging.LogRecord) -> str:
        """See base class."""
        line: JSONObject = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _message(record),
            **self._process,
            **_of_run(record),
        }
        # What a logger's `extra` adds stands in the record as attributes, where it was added.
        line |= {name: value for name in ("event", "address") if (value := getattr(record, name, None)) is not None}
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


def _message(record: logging.LogRecord) -> str:
    """Return the message without what the SDK's loggers append to it: those are fields of their own here."""
    message = record.getMessage()
    for name in ("temporal_workflow", "temporal_activity"):
        message = message.removesuffix(f" ({getattr(record, name, None)})")
    return message


def _of_run(record: logging.LogRecord) -> JSONObject:
    """Return what the SDK's loggers know of the workflow or activity."""
    workflow: JSONObject = getattr(record, "temporal_workflow", None) or {}
    activity: JSONObject = getattr(record, "temporal_activity", None) or {}
    fields = {name: workflow[name] for name in FROM_WORKFLOW if name in workflow}
    fields |= {name: activity[name] for name in FROM_ACTIVITY if name in activity}
    if isinstance(fields.get("workflow_id"), str):
        fields["run"] = str(fields["workflow_id"]).partition("/")[0]
    return fields
