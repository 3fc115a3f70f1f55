"""The warnings of the SDK's core in the log of a worker. The log itself is set up in `config.logs`."""

from __future__ import annotations

import logging
import re
import time

from temporalio.runtime import LogForwardingConfig, LoggingConfig, TelemetryFilter

CORE = "temporalio.core"
"""The logger of the SDK's core, which polls and retries."""
PAUSE_SECONDS = 60.0
"""The time in which core says the same thing once: while a server is away, it tells each attempt of each poll."""


def forward_core() -> LoggingConfig:
    """Return the setting of the SDK's runtime by which core's warnings stand in this log, and not beside it."""
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
