"""How far the notices lag: what waits and since when, counted by hand, with no server and no time that passes."""

from __future__ import annotations

from datetime import timedelta

from sqlalchemy import update

from holdfast.server.notices.backlog import Backlog, measure_backlogs
from holdfast.server.notices.transports import DeliveryFailed
from holdfast.server.record.database import begin_write
from holdfast.server.record.tables import OUTBOX
from tests.notices.office import Office

HOUR = 3600.0


def backlog(office: Office, channel: str = "team", namespace: str = "default") -> Backlog:
    return measure_backlogs(office.store, namespace, [channel])[channel]


def test_a_channel_without_news_does_not_lag(office: Office) -> None:
    assert backlog(office) == Backlog(0, 0.0)


def test_news_that_nobody_has_planned_yet_count_from_when_they_happened(office: Office) -> None:
    office.ask("q1", ago=timedelta(hours=2))
    office.ask("q2")
    found = backlog(office)
    assert found.waiting == 0 and 2 * HOUR <= found.lag < 3 * HOUR
    assert backlog(office, namespace="another") == Backlog(0, 0.0)


async def test_what_a_channel_has_told_lags_no_more(office: Office) -> None:
    office.channel("team")
    office.ask("q1", ago=timedelta(hours=2))
    await office.notifier.round()
    assert backlog(office) == Backlog(0, 0.0)


async def test_what_a_channel_refuses_waits_and_counts_from_when_it_was_made(office: Office) -> None:
    office.channel("team").failures = [DeliveryFailed("told by the test")]
    office.ask("q1")
    await office.notifier.round()
    with begin_write(office.store.engine) as connection:
        connection.execute(update(OUTBOX).values(made=OUTBOX.c.made - 2 * HOUR))
    found = backlog(office)
    assert found.waiting == 1 and 2 * HOUR <= found.lag < 3 * HOUR
