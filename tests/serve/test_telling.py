"""What `serve` does beside its pages: it records, and tells people, with links to its pages."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from holdfast.client.answering import Sender
from holdfast.runtime.config import ConfigError, NotifySection, NotifyTable, PersonSection
from holdfast.server.notices.channels import KnownUser
from holdfast.server.notices.notice import Contact, Notice
from holdfast.server.notices.outbox import list_known_users, remember_sign_in
from holdfast.server.record.entries import RecordedRun
from holdfast.server.record.progress import Progress, WorkflowProgress
from holdfast.server.record.record import Record
from holdfast.server.record.store import RecordStore, open_store
from holdfast.server.web.addresses import question_address
from holdfast.server.web.background import make_link, make_notifier, remember_claims, run_background
from holdfast.server.web.site import Site, Upkeep, load_address_book
from tests.client.command import Holdfast, with_worker
from tests.conftest import PATIENCE, Harness, until
from tests.notices.receivers import WebServer, web_server
from tests.serve.door import Door
from tests.serve.ground import WHO, client_of, person
from tests.server import NAME, OFFICE

ASK = "name: ask\nsteps: [{kind: hitl, name: city, message: 'Which city?', assignees: ['user:ana', 'user:eve']}]\n"
TOKEN = "a-token-in-the-path"


@pytest.fixture
def web() -> Iterator[WebServer]:
    with web_server() as server:
        yield server


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RecordStore]:
    store = open_store(f"sqlite:{tmp_path / 'record.sqlite'}")
    yield store
    store.close()


def site_with(house: Harness, **sections: Any) -> Site:
    door = Door(house.client, house.folder, house.runs)
    config = door.config.model_copy(update=sections)
    return Site(config, house.runs, address="https://inbox.example.com")


def upkeep_of(house: Harness, site: Site, store: RecordStore) -> Upkeep:
    return Upkeep(site.config, Record(store, house.client))


def notice(kind: Any, run: str = "ask-01") -> Notice:
    question = {"id": "q1", "run": run, "message": "Which city?"}
    return Notice(kind=kind, run=run, time=datetime.now(UTC), question=None if kind == "run_failed" else question)


async def test_a_link_leads_to_the_open_question_and_else_to_the_run(house: Harness) -> None:
    site = site_with(house)
    assert make_link(site, notice("asked"), None) == "https://inbox.example.com/questions/ask-01/q1"
    assert make_link(site, notice("answered"), None) == "https://inbox.example.com/questions/ask-01/q1"
    assert make_link(site, notice("answered"), Contact("user:ana")) == "https://inbox.example.com/questions/ask-01/q1"
    assert make_link(site, notice("run_failed"), Contact("user:ana")) == "https://inbox.example.com/runs/ask-01"


async def test_the_link_of_a_person_shows_them_the_question(house: Harness) -> None:
    run = await house.start(ASK)
    question = await house.one(run)
    door = Door(house.client, house.folder, house.runs)
    shown = Notice(kind="asked", run=run, time=datetime.now(UTC), question=question.model_dump(mode="json"))
    link = make_link(door.site, shown, Contact("user:ana"))
    answer = await door.browser().get(link)
    assert (answer.status_code, answer.headers["location"]) == (303, f"/questions/{run}/{question.id}")
    assert question.id in [open_.id for open_ in await house.asked(run)]


async def test_without_channels_nobody_is_told_and_nobody_is_unreachable(house: Harness, store: RecordStore) -> None:
    site = site_with(house)
    run = await house.start(ASK)
    assert make_notifier(site, store) is None
    assert await upkeep_of(house, site, store).find_unreached([await house.one(run)]) == {}


@pytest.mark.slow
async def test_who_cannot_be_reached_is_known_and_a_sign_in_mends_it(
    house: Harness, store: RecordStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAIL", "mailto://127.0.0.1?from=a@example.com&to={email}")
    table = NotifyTable(mail=NotifySection(apprise_env="MAIL"))
    site = site_with(house, notify=table, people={"ana": PersonSection(email="ana@example.com")})
    question = await house.one(await house.start(ASK))
    upkeep = upkeep_of(house, site, store)
    assert await upkeep.find_unreached([question]) == {question.id: ["user:eve"]}
    remember_sign_in(store, KnownUser("user:eve", "eve@example.com"))
    assert await upkeep.find_unreached([question]) == {}
    assert load_address_book(site.config, store).contact("user:eve").email == "eve@example.com"


async def test_the_inbox_shows_of_which_questions_nobody_is_told_to_who_may_steer(
    house: Harness, store: RecordStore
) -> None:
    site = site_with(house, notify=NotifyTable(ops=NotifySection(command=["true"], to=["user:ana"])))
    site = replace(site, record=Record(store, house.client))
    question = await house.one(await house.start(ASK))
    async with client_of(site, person("reader", "read", "answer")) as client:
        pages = [(await client.get(question_address(question), headers={WHO: who})).text for who in ("ana", "reader")]
    assert 'Not notified</dt><dd dir="auto">eve' in pages[0] and "Not notified" not in pages[1]


async def test_the_inbox_shows_that_the_record_falls_behind_to_who_may_steer(
    house: Harness, store: RecordStore
) -> None:
    site = replace(site_with(house), record=Record(store, house.client))
    run = RecordedRun(house.client.namespace, "old-1", "first-of-old-1")
    closed = datetime.now(UTC) - timedelta(days=1000)
    store.enter(run)
    Progress(store, run.namespace).keep(WorkflowProgress(run, run.run, 0, "t", closed, complete=False))
    async with client_of(site, person("reader", "read", "answer")) as client:
        pages = [(await client.get("/", headers={WHO: who})).text for who in ("ana", "reader")]
    assert "The record is 1000 days behind" in pages[0] and "days behind" not in pages[1]


CLAIMS = {"email": "eve@example.com", "email_verified": True, "locale": "de-AT", "teams": ["x"]}


@pytest.mark.parametrize(
    ("claims", "known"),
    [
        (CLAIMS, [KnownUser("user:eve", "eve@example.com", "de-AT", ("group:legal",))]),
        ({**CLAIMS, "email_verified": False}, [KnownUser("user:eve", None, "de-AT", ("group:legal",))]),
        ({"email": "a@b, c@d", "email_verified": True, "locale": 3}, [KnownUser("user:eve", groups=("group:legal",))]),
    ],
)
async def test_a_sign_in_tells_where_somebody_is_reached(
    house: Harness, store: RecordStore, claims: dict[str, Any], known: list[KnownUser]
) -> None:
    site = replace(
        site_with(house, notify=NotifyTable(ops=NotifySection(command=["true"]))), record=Record(store, house.client)
    )
    await remember_claims(site, Sender("user:eve", ("group:legal",)), claims)
    assert list_known_users(store) == known


async def test_nothing_of_a_sign_in_is_kept_where_nobody_is_told(house: Harness, store: RecordStore) -> None:
    await remember_claims(replace(site_with(house), record=Record(store, house.client)), Sender("user:eve"), CLAIMS)
    assert list_known_users(store) == []


@pytest.mark.slow
async def test_a_server_records_and_tells_until_it_ends(house: Harness, store: RecordStore, web: WebServer) -> None:
    site = site_with(house, notify=NotifyTable(ops=NotifySection(webhook=f"{web.url}/{TOKEN}")))
    run = await house.start(ASK)
    question = await house.one(run)

    async def told() -> bool:
        return question.id in [got.json.get("subject") for got in web.got]

    async with run_background(site, Record(store, house.client)):
        await until(told, "a notice")
    assert store.last() > 0


async def test_a_channel_that_cannot_be_used_is_told_before_anything_starts(house: Harness, store: RecordStore) -> None:
    site = site_with(house, notify=NotifyTable(mail=NotifySection(apprise_env="NOT_SET")))
    with pytest.raises(ConfigError, match=r"notify\.mail\.apprise_env: NOT_SET is not set"):
        async with run_background(site, Record(store, house.client)):
            pass


async def test_beside_the_embedded_server_such_a_channel_is_left_out(
    house: Harness, store: RecordStore, caplog: pytest.LogCaptureFixture
) -> None:
    table = NotifyTable(mail=NotifySection(apprise_env="NOT_SET"), ops=NotifySection(command=["true"]))
    notifier = make_notifier(site_with(house, notify=table), store, strict=False)
    assert notifier is not None and list(notifier.channels.by_name) == ["ops"]
    assert "channel 'mail': " in caplog.text and "NOT_SET is not set" in caplog.text


@pytest.mark.slow
def test_the_command_serve_tells_of_a_run_and_its_log_holds_no_address(
    server: str, tmp_path: Path, web: WebServer
) -> None:
    (tmp_path / "holdfast.toml").write_text(f'[notify.ops]\nwebhook = "{web.url}/{TOKEN}"\n')
    with with_worker(tmp_path, server, NAME + OFFICE) as holdfast:
        [question] = holdfast.park(ASK)["questions"]
        said = told_by(holdfast, web, question["id"])
    [got] = [got for got in web.got if got.json.get("subject") == question["id"]]
    assert got.json["data"]["link"].endswith(f"/questions/{question['run']}/{question['id']}")
    assert TOKEN not in said and question["id"] not in said


def told_by(holdfast: Holdfast, web: WebServer, question: str) -> str:
    """What `serve` writes to standard error until a question has been told."""
    command = holdfast.command(("serve", "--port", "0", "--json"))
    process = subprocess.Popen(command, stdout=-1, stderr=-1, text=True, **holdfast.place())
    try:
        assert process.stdout
        api = json.loads(process.stdout.readline())["api"]
        assert _comes(web, question)
        assert httpx.get(f"{api.removesuffix('/api/v1')}/healthz").status_code == 200
    finally:
        process.terminate()
        said = process.communicate(timeout=300)[1]
    return said


def _comes(web: WebServer, question: str) -> bool:
    """Whether a notice of the question comes."""
    for _ in range(PATIENCE):
        if question in [got.json.get("subject") for got in web.got]:
            return True
        time.sleep(0.1)
    return False
