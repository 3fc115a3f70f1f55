"""`holdfast notify`: what the channels are, and whether one works. It needs no server."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.server.notices.transports import DeliveryFailed
from tests.client.command import Holdfast
from tests.notices.office import Office
from tests.notices.receivers import WebServer, mail_server, web_server

CHANNELS = """
[people.ana]
email = "ana@example.com"
[notify]
fallback = "ops"
[notify.ops]
webhook = "{url}/hooks/token"
secret_env = "OPS_SECRET"
events = ["asked", "unreachable"]
to = ["group:editors"]
[notify.mail]
apprise_env = "MAIL"
"""
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


@pytest.fixture
def web() -> Iterator[WebServer]:
    with web_server() as server:
        yield server


@pytest.fixture
def holdfast(tmp_path: Path, web: WebServer) -> Holdfast:
    (tmp_path / "holdfast.toml").write_text(CHANNELS.format(url=web.url))
    return Holdfast(tmp_path, OPS_SECRET=SECRET)


def test_channels_are_listed_without_their_secrets(holdfast: Holdfast, web: WebServer) -> None:
    ops, mail = holdfast("notify", "list", "--json").json
    assert ops == {
        "name": "ops",
        "sends": f"webhook {web.url}/…",
        "events": ["asked", "unreachable"],
        "to": ["group:editors"],
        "fallback": True,
        "delivered": 0,
        "waiting": 0,
        "dead": 0,
        "trouble": None,
    }
    assert (mail["sends"], mail["to"]) == ("the service of MAIL", None)
    assert "ops (fallback)" in holdfast("notify", "list").out


def test_a_test_is_delivered_and_says_that_it_is_one(holdfast: Holdfast, web: WebServer) -> None:
    ran = holdfast("notify", "test", "ops", "--json")
    assert (ran.code, ran.json["delivered"]) == (0, True)
    [got] = web.got
    assert got.headers["webhook-id"] == ran.json["id"]
    assert "test of the channel 'ops'" in got.json["data"]["question"]["message"]


def test_a_test_that_is_not_delivered_says_why(holdfast: Holdfast, web: WebServer) -> None:
    web.replies = [503]
    ran = holdfast("notify", "test", "ops", "--event", "run_failed")
    assert (ran.code, ran.err) == (1, "not delivered by ops: HTTP 503\n")


async def test_a_personal_channel_is_tried_with_one_person(holdfast: Holdfast) -> None:
    async with mail_server() as box:
        url = f"mailto://127.0.0.1:{box.port}?from=holdfast@example.com&to={{email}}"
        command = holdfast.having(MAIL=url)
        ran = await asyncio.to_thread(command, "notify", "test", "mail", "--to", "ana", "--json")
        assert ran.json["to"] == "user:ana"
        assert [to for to, _ in box.mails] == [["ana@example.com"]]


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("test", "opps"), 2, "there is no channel 'opps'; configured in [notify]: ops, mail"),
        (("test", "ops", "--to", "ana"), 2, "--to: the channel 'ops' is not a personal channel"),
        (("test", "ops", "--event", "askd"), 2, "--event askd: must be one of asked, "),
        (("test", "mail"), 2, "notify.mail.apprise_env: MAIL is not set; export MAIL=…"),
        (("test",), 2, "Missing argument"),
    ],
)
def test_a_mistake_is_told_with_the_way_out(
    holdfast: Holdfast, words: tuple[str, ...], code: int, message: str
) -> None:
    ran = holdfast("notify", *words)
    assert ran.code == code and message in ran.err


def test_somebody_without_an_address_is_named(holdfast: Holdfast) -> None:
    ran = holdfast.having(MAIL="mailto://127.0.0.1?from=a@example.com&to={email}")(
        "notify", "test", "mail", "--to", "bob"
    )
    assert (ran.code, "user:bob has no e-mail address; add [people.bob]" in ran.err) == (2, True)


def test_a_bad_secret_is_refused_and_not_repeated(holdfast: Holdfast) -> None:
    ran = holdfast.having(OPS_SECRET="hunter2")("notify", "test", "ops")
    assert (ran.code, "notify.ops.secret_env: OPS_SECRET: must be base64" in ran.err) == (2, True)
    assert "hunter2" not in ran.err


def test_without_channels_the_list_says_so(tmp_path: Path) -> None:
    told = Holdfast(tmp_path)("notify", "list").err
    assert "No channels. Add [notify.NAME]" in told
    assert all(way in told for way in ("webhook =", "command =", "apprise_env ="))


async def test_the_list_says_what_became_of_notices(holdfast: Holdfast, tmp_path: Path) -> None:
    office = Office(tmp_path, f"sqlite:{tmp_path / 'state' / 'record.sqlite'}")
    office.channel("ops").failures = [DeliveryFailed("HTTP 500")]
    office.ask("q1")
    await office.notifier.round()
    office.ask("q2")
    await office.notifier.round()
    office.store.close()
    ops, mail = (await asyncio.to_thread(holdfast, "notify", "list", "--json")).json
    assert [ops[name] for name in ("delivered", "waiting", "dead", "trouble")] == [1, 1, 0, "HTTP 500"]
    assert (mail["delivered"], mail["trouble"]) == (0, None)
    assert "1 sent, 1 waiting (HTTP 500)" in (await asyncio.to_thread(holdfast, "notify", "list")).out
