"""The outbox on PostgreSQL, where several take from it at the same time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from holdfast.server.notices.transports import DeliveryFailed
from tests.notices.office import Office, later
from tests.postgres import postgres

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:XDG_RUNTIME_DIR")]


@pytest.fixture
def office(tmp_path: Path) -> Iterator[Office]:
    with postgres() as server:
        office = Office(tmp_path, server.get_uri())
        yield office
        office.store.close()


async def test_each_notice_is_taken_by_one(office: Office) -> None:
    office.channel("ops")
    for number in range(40):
        office.ask(f"q{number}")
    await office.notifier.gather()
    outbox = office.notifier.outbox
    with ThreadPoolExecutor(8) as pool:
        taken = [posted.id for some in pool.map(lambda _: outbox.take("ops", 8), range(8)) for [posted] in some]
    assert len(taken) == len(set(taken)) == 40


async def test_a_notifier_whose_clock_is_days_ahead_or_behind_loses_nothing_and_holds_nothing_back(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    ops, true = office.channel("ops"), time.time
    for days in (2, -2):
        monkeypatch.setattr(time, "time", lambda days=days: true() + days * 86_400)
        office.ask(f"q{days}")
        await office.notifier.gather()
        monkeypatch.setattr(time, "time", true)
        ops.failures = [DeliveryFailed("HTTP 500")]
        assert await office.notifier.round() == 0
        later(office, due=0)
        assert await office.notifier.round() == 1


async def test_what_is_new_is_told_once(office: Office) -> None:
    ops = office.channel("ops")
    office.ask()
    office.answer()
    for _ in range(2):
        await office.notifier.round()
    assert ops.kinds == ["asked", "answered"]
