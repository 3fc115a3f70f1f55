"""Pages and API while Temporal is down, busy or slow, and while the database of the record is locked or gone."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import httpx
import pytest
import pytest_asyncio
from sqlalchemy import update
from temporalio.client import Client
from temporalio.service import RPCStatusCode

from holdfast.client.runs import Runs
from holdfast.runtime import outage
from holdfast.server.record import database
from holdfast.server.record.record import Record
from holdfast.server.record.recorder import Recorder
from holdfast.server.record.store import open_store
from holdfast.server.record.tables import WEB_SESSIONS
from holdfast.server.web.addresses import new_once_token, question_address
from holdfast.server.web.app import create_app
from holdfast.server.web.credentials import SESSION_USE_SECONDS
from holdfast.server.web.pages import templating
from holdfast.server.web.security import Patience
from holdfast.server.web.site import Site
from tests.conftest import Harness, until
from tests.record.ground import KEY
from tests.serve.door import Door
from tests.serve.failing import Wire, wired
from tests.serve.ground import SignedIn, site_of_house

ASK = "{name: ask, steps: [{kind: hitl, name: city, message: Which city?}]}"
STEP = "{{kind: hitl, name: {0}, message: '{0}?'}}"
BOTH = f"{{kind: parallel, name: both, branches: {{a: {STEP.format('a')}, b: {STEP.format('b')}}}}}"
DOWN, BUSY = RPCStatusCode.UNAVAILABLE, RPCStatusCode.RESOURCE_EXHAUSTED
PAGES = ["/", "/?for=all&page=3", "/?part=list", "{question}", "{question}/part", "/runs", "/runs/{run}"]
PAGES += [
    "/runs/{run}/graph",
    "/runs/{run}/context",
    "/runs/{run}/history",
    "/runs/{run}/repetitions?of=x",
    "/batch?q={q}",
]
API = ["questions", "questions?run={run}", "questions/{id}", "runs", "runs/{run}", "runs/{run}/result"]
API += ["runs/{run}/history", "runs/{run}/graph", "runs/{run}/events"]
POSTS = ["runs/{run}/pause", "runs/{run}/answers", "questions/{id}/claim"]
EVERY = [*PAGES, *(f"/api/v1/{path}" for path in API)]
BODY = {"answers": [{"question": "city", "content": "Rome"}]}


@dataclass
class Trouble:
    """A site whose connection fails as a test says, with a question that is open there."""

    wire: Wire
    client: httpx.AsyncClient
    names: dict[str, str]
    recorder: Recorder

    async def get(self, path: str) -> httpx.Response:
        return await self.client.get(path.format(**self.names))


@pytest_asyncio.fixture
async def trouble(request: pytest.FixtureRequest, house: Harness, tmp_path: Path) -> AsyncIterator[Trouble]:
    run = await house.start(ASK)
    question = await house.one(run)
    client, wire = wired(house.client)
    store = open_store(f"sqlite:{tmp_path / 'record.sqlite'}")
    site = site_of_house(house)
    record = Record(store, client, KEY)
    runs = Runs(client, house.runs.task_queue, house.runs.answering).with_archive(record)
    site = Site(site.config, runs, record=record)
    app = SignedIn(create_app(site, patience=getattr(request, "param", Patience())), {})
    names = {"run": run, "id": question.id, "question": question_address(question), "q": f"{run}/{question.id}"}
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8090", timeout=60) as client_:
        yield Trouble(wire, client_, names, record.recorder(runs.tree))
    store.close()


def says_when(response: httpx.Response, code: str | None = None) -> None:
    """Assert that it is a clear 503: with words, a code for programs, and the time to try again."""
    assert (response.status_code, response.headers.get("Retry-After")) == (503, "5"), response.text[:500]
    if response.headers["content-type"] == "application/problem+json":
        assert response.json()["code"] == code or code is None
    else:
        assert "Try again" in response.text or "Send it again" in response.text


@pytest.mark.first_row
@pytest.mark.parametrize("path", EVERY)
async def test_every_page_and_call_says_that_temporal_is_down(trouble: Trouble, path: str) -> None:
    trouble.wire.status = DOWN
    says_when(await trouble.get(path), "server_error")


@pytest.mark.first_row
@pytest.mark.parametrize("fault", ["hangs", "is down"])
async def test_a_run_that_has_ended_is_shown_from_the_record_meanwhile(
    fault: str, trouble: Trouble, house: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = await house.start("steps: [{name: one, input: tea}]")
    await house.output(run)
    await trouble.recorder.catch_up(run)
    monkeypatch.setattr(outage, "READ_LIMIT", timedelta(0))
    trouble.wire.hangs, trouble.wire.status = fault == "hangs", DOWN
    for path in ("", "/graph", "/context", "/history"):
        response = await trouble.client.get(f"/runs/{run}{path}")
        assert (path, response.status_code, "does not answer now" in response.text) == (path, 200, True)
    for path in ("", "/result", "/history"):
        response = await trouble.client.get(f"/api/v1/runs/{run}{path}")
        assert (path, response.status_code, "tea" in response.text) == (path, 200, path != "/history")
    calls = trouble.wire.calls.total()
    await trouble.client.get(f"/runs/{run}")
    assert trouble.wire.calls.total() == calls


@pytest.mark.slow
@pytest.mark.parametrize("path", ["/?for=all&page=176", "/api/v1/runs", "{question}"])
async def test_a_server_with_too_much_to_do_is_named_so(trouble: Trouble, path: str) -> None:
    trouble.wire.status = BUSY
    response = await trouble.get(path)
    says_when(response, "server_busy")
    assert "overloaded" in response.text or "busy" in response.text


@pytest.mark.slow
@pytest.mark.first_row
@pytest.mark.parametrize("trouble", [Patience(reading=0.5)], indirect=True)
@pytest.mark.parametrize("path", ["/", "/runs/{run}", "/api/v1/questions", "/metrics"])
async def test_a_server_that_hangs_leaves_no_request_without_an_answer(trouble: Trouble, path: str) -> None:
    trouble.wire.hangs = True
    says_when(await trouble.get(path), "too_slow")


@pytest.mark.slow
@pytest.mark.parametrize("path", POSTS)
async def test_what_cannot_be_sent_is_told_as_such(trouble: Trouble, path: str) -> None:
    trouble.wire.status = DOWN
    body = BODY if path.endswith("answers") else {}
    says_when(await trouble.client.post(f"/api/v1/{path}".format(**trouble.names), json=body), "server_error")


@pytest.mark.slow
async def test_what_was_typed_is_kept_while_temporal_is_down(trouble: Trouble) -> None:
    async def is_listed() -> bool:
        return trouble.names["id"] in (await trouble.get("/?for=all")).text

    await until(is_listed, "the list")
    trouble.wire.status = DOWN
    sent = await trouble.client.post(trouble.names["question"], data={"do": "answer", "f:": "Rome"})
    says_when(sent)
    assert "Which city?" in sent.text and "Rome" in sent.text


async def test_what_was_typed_is_kept_by_a_site_that_has_not_seen_the_question(trouble: Trouble) -> None:
    trouble.wire.status = DOWN
    sent = await trouble.client.post(trouble.names["question"], data={"do": "answer", "f:": "Rome", "s:": "hush"})
    says_when(sent)
    assert "Rome" in sent.text and "hush" not in sent.text


@pytest.mark.slow
async def test_an_answer_loses_no_form_of_another_question_of_its_run(trouble: Trouble, house: Harness) -> None:
    run = await house.start(f"steps: [{BOTH}]")
    first, second = await house.asked(run, 2)

    async def is_listed() -> bool:
        return second.id in (await trouble.get("/?for=all")).text

    await until(is_listed, "the list")
    answered = await trouble.client.post(question_address(first), data={"do": "answer", "f:": "Rome"})
    assert answered.status_code == 303
    trouble.wire.status = DOWN
    sent = await trouble.client.post(question_address(second), data={"do": "answer", "f:": "Paris"})
    says_when(sent)
    assert "b?" in sent.text and "Paris" in sent.text


async def test_a_page_that_was_only_read_tries_again_by_itself(trouble: Trouble) -> None:
    trouble.wire.status = DOWN
    read = await trouble.get("{question}")
    sent = await trouble.client.post(trouble.names["question"], data={"do": "answer", "f:": "Rome"})
    assert ("tries again in 5 seconds" in read.text, read.headers.get("Refresh")) == (True, "5")
    assert "Refresh" not in sent.headers


@pytest.mark.slow
async def test_after_the_fault_the_same_site_goes_on(trouble: Trouble) -> None:
    trouble.wire.status = DOWN
    says_when(await trouble.get("{question}"))
    trouble.wire.status = None
    assert (await trouble.get("{question}")).status_code == 200


@pytest.fixture
def broken(house: Harness) -> Callable[[], Site]:
    """A site whose code has a fault."""

    def make() -> Site:
        site = site_of_house(house)
        site.runs.reader = object()  # type: ignore[assignment]
        return site

    return make


@pytest.mark.parametrize("path", ["/", "/api/v1/runs"])
async def test_a_fault_of_ours_is_a_page_or_a_problem_document(broken: Callable[[], Site], path: str) -> None:
    transport = httpx.ASGITransport(SignedIn(create_app(broken()), {}), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8090") as client:
        response = await client.get(path)
    assert response.status_code == 500 and "log" in response.text
    assert response.headers["X-Content-Type-Options"] == "nosniff"


@pytest.fixture
def door(temporal: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Door:
    monkeypatch.setattr(database, "WAIT_MS", 20)
    return Door(temporal, tmp_path / "state")


async def test_a_database_that_somebody_else_writes_to_keeps_no_page_back(door: Door) -> None:
    browser, store = await door.signed_in(), door.gate.sessions._store
    with store.begin_write() as database:  # so long ago that the next use is to be noted
        database.execute(update(WEB_SESSIONS).values(used=WEB_SESSIONS.c.used - 2 * SESSION_USE_SECONDS))
    with store.begin_write():
        assert (await browser.get("/who")).status_code == 200
    assert (await browser.get("/who")).status_code == 200


async def test_who_cannot_be_signed_in_now_is_told_to_try_again(door: Door) -> None:
    link = {"once": new_once_token(door.config.home, "user:ana")}
    with door.gate.sessions._store.begin_write():
        says_when(await door.browser().get("/", params=link))


@pytest.mark.parametrize("path", ["/", "/runs", "/who", "/api/v1/who"])
async def test_a_database_that_is_gone_is_named(door: Door, path: str) -> None:
    browser, store = await door.signed_in(), door.gate.sessions._store
    store.engine.dispose()
    file = Path(str(store.engine.url.database))
    file.unlink()
    file.mkdir()
    says_when(await browser.get(path), "record_unreachable")


@pytest.mark.slow
def test_templates_that_change_under_a_running_server_are_not_read(tmp_path: Path) -> None:
    shutil.copytree(templating.FOLDER / "templates", tmp_path, dirs_exist_ok=True)
    environment = templating._environment(tmp_path)
    before = environment.get_template("list.html")
    (tmp_path / "list.html").write_text("{{ of_a_newer_version }}")
    assert environment.get_template("list.html") is before
