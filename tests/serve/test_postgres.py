"""Several servers of one deployment, with the record in PostgreSQL: whom one has let in, the others know."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy import update

from holdfast.client.answering import Sender
from holdfast.runtime.config import Config, ServeSection
from holdfast.server.record.database import begin_write
from holdfast.server.record.store import RecordStore, open_store
from holdfast.server.record.tables import WEB_SESSIONS, WEB_TOKENS
from holdfast.server.web.gate import Gate
from tests.postgres import postgres

pytestmark = pytest.mark.slow
ANA = Sender("user:ana", ("group:editors",), "person")


@pytest.fixture(scope="module")
def stores() -> Iterator[list[RecordStore]]:
    """One database, as each of two servers opens it."""
    with postgres() as server:
        stores = [open_store(server.get_uri()) for _ in range(2)]
        yield stores
        for store in stores:
            store.close()


@pytest.fixture
def gate(stores: list[RecordStore], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Gate]:
    """The gate of one of the servers, each with a state folder of its own; the key is the same, unless it is named."""

    def of(number: int, key: str = "shared") -> Gate:
        monkeypatch.setenv("SERVE_KEY", key)
        home = tmp_path / f"{number}"
        return Gate.of(Config(home=home, folder=home, serve=ServeSection(key_env="SERVE_KEY")), stores[number])

    return of


def test_a_session_counts_at_every_server_until_one_ends_it(gate: Callable[..., Gate]) -> None:
    here, there = gate(0), gate(1)
    session = there.sessions.find(cookie := here.sessions.begin(ANA))
    assert session is not None and session.sender == ANA
    there.sessions.end(session.id)
    assert here.sessions.find(cookie) is None


def test_an_api_token_counts_at_every_server_until_it_is_revoked(gate: Callable[..., Gate]) -> None:
    here, there = gate(0), gate(1)
    token, text = here.tokens.create("user:bot", scopes=["read"], life=60)
    assert there.tokens.check(text) == token and there.tokens.list() == here.tokens.list()
    assert there.tokens.revoke(token.id)
    assert here.tokens.check(text) is None


def test_a_one_time_token_lets_one_browser_in_at_whichever_server(gate: Callable[..., Gate]) -> None:
    servers = [gate(0), gate(1)]
    token = servers[0].once.create("user:ana")
    with ThreadPoolExecutor(8) as pool:
        taken = list(pool.map(lambda n: servers[n % 2].once.take(token), range(8)))
    assert [user for user in taken if user is not None] == ["user:ana"]


def test_a_deployment_with_another_key_lets_nobody_of_this_one_in(gate: Callable[..., Gate]) -> None:
    ours, other = gate(0), gate(1, key="of another one")
    token, text = ours.tokens.create("user:bot", scopes=["read"], life=60)
    assert other.sessions.find(ours.sessions.begin(ANA)) is None
    assert other.tokens.check(text) is None and other.once.take(ours.once.create("user:ana")) is None
    assert token not in other.tokens.list() and not other.tokens.revoke(token.id)


def test_whoever_writes_to_the_database_makes_nobody_another(
    gate: Callable[..., Gate], stores: list[RecordStore]
) -> None:
    ours = gate(0)
    cookie = ours.sessions.begin(Sender("user:eve"))
    _, text = ours.tokens.create("user:eve", scopes=["read"], life=60)
    with begin_write(stores[0].engine) as database:
        database.execute(update(WEB_SESSIONS).values(user="user:ana", proof="person"))
        database.execute(update(WEB_TOKENS).values(scopes=["read", "steer"]))
    assert ours.sessions.find(cookie) is None and ours.tokens.check(text) is None
