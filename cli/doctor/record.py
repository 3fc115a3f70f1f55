"""Checks of `holdfast doctor` of the record: there, writable, and up to date before Temporal forgets."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import UTC, datetime, timedelta

from temporalio.service import RPCError

from holdfast.blueprint.durations import say_duration
from holdfast.cli.doctor.findings import Finding
from holdfast.cli.doctor.server import Deployment
from holdfast.runtime.config import ConfigError
from holdfast.runtime.encryption import load_key_ring
from holdfast.runtime.errors import RecordError
from holdfast.server.record.progress import Progress, list_closed_workflows, make_scope
from holdfast.server.record.record import Lag
from holdfast.server.record.store import RecordStore, read_store

START = "Run holdfast serve where the record is; one such process fills it."
AT_WORK = (
    "The recorder is at work, and reads a closed run through a worker: see whether one answers, and is not too busy."
)
MOST_NAMES = 5
LATE = timedelta(minutes=5)
"""The lag that is told: recorders look every few seconds."""


async def check_record(deployment: Deployment) -> list[Finding]:
    """Return what is wrong with the record."""
    try:
        store = await asyncio.to_thread(read_store, deployment.config.record_place(), load_key_ring(deployment.config))
        if store is None:
            message = "nothing is recorded: runs that Temporal deletes are lost"
            return [Finding("record", "warning", message, START)]
        try:
            await asyncio.to_thread(store.check_writable)
            progress = _read_progress(store, deployment)
            is_at_work = await asyncio.to_thread(lambda: progress.is_at_work)
            lag = _check_lag(store, await _measure_lag(progress, deployment), deployment, is_at_work)
            return [lag, *await asyncio.to_thread(_check_recorder, progress, is_at_work)]
        finally:
            store.close()
    except (ConfigError, RecordError) as error:
        way = "Make space on its disk, make the database reachable, or correct [record] of holdfast.toml."
        return [Finding("record", "fault", str(error), way)]


def _check_recorder(progress: Progress, is_at_work: bool | None) -> list[Finding]:
    """Return what is wrong with the recorder: it has stopped, or reads of it take long."""
    if is_at_work is False:
        message = "the recorder has stopped without giving up its lease: nothing is recorded, and nobody is notified"
        return [Finding("record", "warning", message, START)]
    slow = progress.slow_reads
    if not slow:
        return []
    more = f" and {len(slow) - MOST_NAMES} more" if len(slow) > MOST_NAMES else ""
    message = f"reading takes long: {', '.join(slow[:MOST_NAMES])}{more}; what is new there is not recorded yet"
    return [Finding("record", "warning", message, "See their workflow tasks in Temporal's UI.")]


async def _measure_lag(progress: Progress, deployment: Deployment) -> timedelta:
    """Return how long ago the workflow was closed that has waited longest to be recorded; zero if none waits.

    Temporal is asked, too: what a recorder could not write, or has not listed yet, the record does not know.
    """
    client, queue = deployment.client, deployment.config.worker.task_queue
    behind = await asyncio.to_thread(progress.behind)
    since = await asyncio.to_thread(lambda: progress.watermark)
    with suppress(RPCError):  # a namespace that is not set up, or no server: other checks say so
        async for sighting in list_closed_workflows(client, since, queue):
            known = await asyncio.to_thread(progress.by_temporal_run, sighting.temporal_run)
            if sighting.closed is not None and (known is None or known.closed is None):
                behind = max(behind, datetime.now(UTC) - sighting.closed)
    return behind


def _check_lag(store: RecordStore, behind: timedelta, deployment: Deployment, is_at_work: bool | None) -> Finding:
    if not behind:
        return Finding("record", "ok", f"{store.place}: every closed run is recorded")
    message = (
        f"{store.place}: a run that closed {say_duration(max(1, round(behind.total_seconds())))} ago is not recorded"
    )
    way = AT_WORK if is_at_work else START
    if deployment.retention is not None and Lag(behind, deployment.retention).is_dangerous:
        return Finding("record", "fault", f"{message}; Temporal deletes it after {deployment.retention.days} days", way)
    return Finding("record", "warning" if behind > LATE else "ok", message, way if behind > LATE else None)


def _read_progress(store: RecordStore, deployment: Deployment) -> Progress:
    namespace = deployment.client.namespace
    return Progress(store, namespace, make_scope(namespace, deployment.config.worker.task_queue))
