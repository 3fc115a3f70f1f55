"""The log of a process: lines for people, or a JSON object a line for programs. `HOLDFAST_LOG_…` choose."""

from __future__ import annotations

import json
import logging
import re
import sys
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal, TextIO

from holdfast.blueprint.json_values import JSONObject

if TYPE_CHECKING:
    from temporalio.runtime import LoggingConfig

LogFormat = Literal["text", "json"]
LogLevel = Literal["debug", "info", "warning", "error"]
TEXT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
FROM_WORKFLOW = ("workflow_id", "run_id", "workflow_type", "attempt")
FROM_ACTIVITY = ("workflow_id", "workflow_run_id", "activity_id", "activity_type", "attempt")

VERBOSE = ("alembic", "httpx")
"""Libraries that log each migration, or each request with its URL, which may hold a token."""
CORE = "temporalio.core"
"""The logger of the SDK's core, which polls and retries."""
PAUSE_SECONDS = 60.0
"""The time in which core says the same thing once: while a server is away, it tells each attempt of each poll."""


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
    root.setLevel(level.upper())
    for name in VERBOSE:
        logging.getLogger(name).setLevel(logging.WARNING)


def forward_core() -> LoggingConfig:
    """Return the setting of the SDK's runtime by which core's warnings stand in this log, and not beside it."""
    # Each command that reads a configuration loads this file; those about a blueprint do without the SDK.
    from temporalio.runtime import LogForwardingConfig, LoggingConfig, TelemetryFilter  # noqa: PLC0415  see above

    logger = logging.getLogger(CORE)
    if not logger.filters:
        logger.addFilter(OnceAWhile())
    forwarding = LogForwardingConfig(logger, append_target_to_name=False, prepend_target_on_message=False)
    return LoggingConfig(TelemetryFilter(core_level="WARN", other_level="ERROR"), forwarding)


class OnceAWhile(logging.Filter):
    """Lets a message through if it was not let through lately, whatever numbers are in it."""

    def __init__(self) -> None:
        super().__init__()
        self._told: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """See base class."""
        now, text = time.monotonic(), re.sub(r"\d+", "#", record.getMessage())
        self._told = {told: at for told, at in self._told.items() if now - at < PAUSE_SECONDS}
        if text in self._told:
            return False
        self._told[text] = now
        return True


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
