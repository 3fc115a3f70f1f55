"""Checks of `holdfast doctor` of the record: there, brought up to date, and in time before Temporal forgets."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from holdfast.client.config import ConfigError
from holdfast.client.doctor.findings import Finding
from holdfast.client.doctor.server import Deployment
from holdfast.client.encryption import key_ring
from holdfast.client.errors import RecordError
from holdfast.client.record.progress import Progress
from holdfast.client.record.record import Lag
from holdfast.client.record.store import RecordStore, read_store

START = "Run holdfast serve where the record is; one such process fills it."
LATE = timedelta(hours=1)
"""The lag that is told: recorders look every few seconds."""


async def check_record(deployment: Deployment) -> list[Finding]:
    """Return what is wrong with the record."""
    return [await asyncio.to_thread(_check, deployment)]


def _check(deployment: Deployment) -> Finding:
    try:
        store = read_store(deployment.config.record_place(), key_ring(deployment.config))
    except (ConfigError, RecordError) as error:
        return Finding(
            "record", "fault", str(error), "Correct [record] of holdfast.toml, or make the database reachable."
        )
    if store is None:
        message = "nothing is recorded: runs that Temporal deletes are lost"
        return Finding("record", "warning", message, START)
    try:
        return _check_lag(store, deployment)
    finally:
        store.close()


def _check_lag(store: RecordStore, deployment: Deployment) -> Finding:
    behind = Progress(store, deployment.client.namespace).behind()
    if not behind:
        return Finding("record", "ok", f"{store.place}: every closed run is recorded")
    message = f"{store.place}: a run that closed {behind.total_seconds() / 3600:.1f} hours ago is not recorded"
    if deployment.retention is not None and Lag(behind, deployment.retention).is_dangerous:
        return Finding(
            "record", "fault", f"{message}; Temporal deletes it after {deployment.retention.days} days", START
        )
    return Finding("record", "warning" if behind > LATE else "ok", message, START if behind > LATE else None)
