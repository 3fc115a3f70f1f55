"""Notifiers that are killed: nothing is lost, and what is sent again has the same id."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import update

from holdfast.server.record.database import begin_write
from holdfast.server.record.tables import OUTBOX
from tests.conftest import until
from tests.notices.office import Office
from tests.notices.receivers import WebServer, web_server
from tests.repository import ROOT

pytestmark = pytest.mark.slow

Start = Callable[[], subprocess.Popen[bytes]]


@pytest.fixture
def web() -> Iterator[WebServer]:
    with web_server() as server:
        yield server


@pytest.fixture
def start(web: WebServer, office: Office, tmp_path: Path) -> Iterator[Start]:
    """Start a notifier with a lease of two seconds, as a process."""
    started: list[subprocess.Popen[bytes]] = []
    place = f"sqlite:{tmp_path / 'record.sqlite'}"
    command = [sys.executable, "-m", "tests.notices.process", place, "2", f"ops={web.url}"]

    def begin() -> subprocess.Popen[bytes]:
        started.append(subprocess.Popen(command, cwd=ROOT))
        return started[-1]

    yield begin
    for process in started:
        process.kill()
        process.wait()


async def got(web: WebServer, count: int) -> None:
    async def enough() -> bool:
        return len(web.got) >= count

    await until(enough, f"{count} deliveries")


async def test_a_notice_that_was_delivered_and_not_marked_comes_again_with_its_id(
    web: WebServer, office: Office, start: Start
) -> None:
    office.ask()
    web.hold.clear()  # the request has arrived, and no reply leaves
    first = start()
    await got(web, 1)
    first.send_signal(signal.SIGKILL)
    first.wait()
    web.hold.set()
    with begin_write(office.store.engine) as connection:  # as time would
        connection.execute(update(OUTBOX).values(due=0))
    start()
    await got(web, 2)
    ids = [(request.headers["webhook-id"], request.json["id"]) for request in web.got]
    assert ids[0] == ids[1]


async def test_when_the_leader_dies_the_other_goes_on(web: WebServer, office: Office, start: Start) -> None:
    processes = {process.pid: process for process in (start(), start())}
    office.ask("q1")
    await got(web, 1)
    leader = processes.pop(int(_leader(office)))
    leader.send_signal(signal.SIGKILL)
    office.ask("q2")
    await got(web, 2)
    assert [request.json["subject"] for request in web.got] == ["q1", "q2"]
    assert _leader(office) in map(str, processes)


def _leader(office: Office) -> str:
    with office.store.engine.connect() as connection:
        return str(connection.exec_driver_sql("SELECT holder FROM record_leases").scalar_one())


async def test_two_notifiers_send_a_notice_once(web: WebServer, office: Office, start: Start) -> None:
    start()
    start()
    for number in range(20):
        office.ask(f"q{number}")
    await got(web, 20)
    assert len({request.json["id"] for request in web.got}) == len(web.got) == 20
