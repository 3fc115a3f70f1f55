"""How far the notices lag: what waits for a channel, and since when. The metrics of `serve` read it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, func, select

from holdfast.server.notices.planner import KINDS
from holdfast.server.record.database import database_time
from holdfast.server.record.jobs import Feed
from holdfast.server.record.store import RecordStore
from holdfast.server.record.tables import ENTRIES, MARKS, OUTBOX, RUNS


@dataclass(frozen=True)
class Backlog:
    """What a channel has still to tell."""

    waiting: int
    """Number of notices that wait in the outbox, those that are tried again included."""
    lag: float
    """Seconds since the oldest of them was planned, or since the oldest event for which none is planned yet."""


def make_feed(store: RecordStore, namespace: str, channel: str) -> Feed:
    """Return the feed of the record that the notices of a channel are planned from."""
    return Feed(store, f"notices:{namespace}:{channel}", tuple(KINDS))


def measure_backlogs(store: RecordStore, namespace: str, channels: Iterable[str]) -> dict[str, Backlog]:
    """Return what each channel has still to tell of the runs of a namespace. Blocks."""
    waiting = (
        select(OUTBOX.c.channel, func.count(), func.min(OUTBOX.c.made))
        .where(OUTBOX.c.namespace == namespace, OUTBOX.c.state == "waiting")
        .group_by(OUTBOX.c.channel)
    )
    with store.engine.connect() as connection:
        now = database_time(connection)
        planned = {channel: (count, made) for channel, count, made in connection.execute(waiting)}
        backlogs = {}
        for channel in channels:
            count, since = planned.get(channel, (0, now))
            unplanned = _find_unplanned(connection, namespace, make_feed(store, namespace, channel))
            since = since if unplanned is None else min(since, unplanned)
            backlogs[channel] = Backlog(count, max(0.0, now - since))
    return backlogs


def _find_unplanned(connection: Connection, namespace: str, feed: Feed) -> float | None:
    """Return when the oldest event happened that a feed has not read, in seconds since 1970; None for none."""
    place = connection.execute(select(MARKS.c.value).where(MARKS.c.name == feed.mark)).scalar_one_or_none()
    unread = (
        select(ENTRIES.c.at)
        .select_from(ENTRIES.join(RUNS, RUNS.c.first_run == ENTRIES.c.first_run))
        .where(RUNS.c.namespace == namespace, ENTRIES.c.id > int(place or 0), ENTRIES.c.type.in_(feed.types))
        .order_by(ENTRIES.c.id)
        .limit(1)
    )
    at = connection.execute(unread).scalar_one_or_none()
    return None if at is None else datetime.fromisoformat(at).timestamp()
