"""The work of a web server beside its requests: it records what happens in the runs, and tells people of it."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol

from holdfast.runtime.config import ConfigError
from holdfast.server.record.record import Record
from holdfast.server.web.site import Site
from holdfast.server.web.telling import notifier_of

log = logging.getLogger(__name__)

COLLECTORS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
"""OpenTelemetry's own variables: one of them turns traces on; the exporter reads them and their like itself."""


@asynccontextmanager
async def at_work(site: Site, record: Record, *, strict: bool = True) -> AsyncIterator[None]:
    """Record and notify as long as the block runs.

    Raises `ConfigError`, before anything is started, if a channel cannot be used; without `strict` it is left out.
    """
    notifier = notifier_of(site, record.store, strict=strict)
    jobs = {"recorder": record.recorder(site.runs.tree, site.runs.task_queue).run()}
    if notifier is not None:
        jobs["notifier"] = notifier.run()
    if (writer := _span_writer(site, record, strict=strict)) is not None:
        jobs["writer of spans"] = writer.run()
    tasks = [asyncio.create_task(job, name=name) for name, job in jobs.items()]
    for task in tasks:
        task.add_done_callback(_report)
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _span_writer(site: Site, record: Record, *, strict: bool) -> SpanJob | None:
    """Return the job that sends traces; None where the environment names no collector. Raises `ConfigError`."""
    if not any(os.environ.get(name) for name in COLLECTORS):
        return None
    if importlib.util.find_spec("opentelemetry.exporter") is None:
        message = f"{' or '.join(COLLECTORS)} is set, and traces need more: pip install 'holdfast[telemetry]'"
        if strict:
            raise ConfigError(message)
        log.warning(message)
        return None
    writer: SpanJob = importlib.import_module("holdfast.server.record.telemetry").SpanWriter(
        record.store, site.runs.client.namespace
    )
    return writer


class SpanJob(Protocol):
    """The job that sends traces."""

    async def run(self) -> None:
        """Send until cancelled."""


def _report(task: asyncio.Task[None]) -> None:
    """Log the end of a job that should have none: pages and API go on without it."""
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("the %s has ended; start serve again", task.get_name(), exc_info=error)
