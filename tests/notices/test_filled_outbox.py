"""A filled outbox: a dead channel holds up no other, and each notice is sent once, after a restart too."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from sqlalchemy import func, select, update

from holdfast.server.record.database import begin_write
from holdfast.server.record.tables import OUTBOX
from tests.conftest import until
from tests.notices.office import RUN, Office
from tests.notices.receivers import WebServer, web_server
from tests.repository import ROOT

pytestmark = pytest.mark.slow
TRIES = 10
"""How often another delivery is waited for: before the first one all notices are planned."""


def unused_port() -> int:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return int(bound.getsockname()[1])


def waiting(office: Office, channel: str) -> int:
    query = select(func.count()).where(OUTBOX.c.channel == channel, OUTBOX.c.state == "waiting")
    with office.store.engine.connect() as connection:
        return int(connection.execute(query).scalar_one())


async def until_got(web: WebServer, count: int) -> None:
    """Wait for so many deliveries, for as long as they come."""
    while (seen := len(web.got)) < count:

        async def more(seen: int = seen) -> bool:
            return len(web.got) > seen

        for _ in range(TRIES):
            with suppress(AssertionError):
                await until(more, "another delivery")
                break
        assert len(web.got) > seen, f"{seen} of {count}, and no more"


async def test_a_dead_channel_holds_up_no_other_and_loses_nothing(office: Office, tmp_path: Path) -> None:
    count = 200
    office.store.append(RUN, [office.asked(f"q{number}") for number in range(count)])
    place, dead = f"sqlite:{tmp_path / 'record.sqlite'}", f"http://127.0.0.1:{unused_port()}/"
    command = [sys.executable, "-m", "tests.notices.process", place, "2"]
    with web_server() as alive, web_server() as revived:
        first = subprocess.Popen([*command, f"ops={alive.url}", f"mail={dead}"], cwd=ROOT, stderr=subprocess.DEVNULL)
        try:
            await until_got(alive, count)
        finally:
            first.send_signal(signal.SIGKILL)
            first.wait()
        assert waiting(office, "mail") == count  # tried in vain, and kept
        with begin_write(office.store.engine) as connection:  # as time would
            connection.execute(update(OUTBOX).where(OUTBOX.c.channel == "mail").values(due=0))
            planned = set(connection.execute(select(OUTBOX.c.id).where(OUTBOX.c.channel == "mail")).scalars())
        second = subprocess.Popen([*command, f"ops={alive.url}", f"mail={revived.url}"], cwd=ROOT)
        try:
            await until_got(revived, count)
        finally:
            second.kill()
            second.wait()
    sent = [request.headers["webhook-id"] for request in revived.got]
    assert set(sent) == planned and len(sent) == count
    assert len({request.headers["webhook-id"] for request in alive.got}) == len(alive.got) - _again(alive, count)


def _again(web: WebServer, count: int) -> int:
    """Return how many came twice: those that were sent and not marked when the process was killed."""
    again = len(web.got) - count
    assert again <= 8
    return again
