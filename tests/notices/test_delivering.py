"""The ways out, to real receivers on this machine."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from email.utils import format_datetime, parsedate_to_datetime
from pathlib import Path

import pytest
from apprise.plugins.slack import NotifySlack

from holdfast.server.notices.messages import Messages, make_sample
from holdfast.server.notices.notice import Contact, Delivery
from holdfast.server.notices.transports import (
    BadServiceUrl,
    DeliveryFailed,
    Program,
    Service,
    Webhook,
    read_webhook_secrets,
)
from tests.notices.receivers import WebServer, by_openssl, mail_server, web_server

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
ANA = Contact("user:ana", email="ana@example.com")


@pytest.fixture
def web() -> Iterator[WebServer]:
    with web_server() as server:
        yield server


def asking(message: str, contact: Contact | None = None) -> Delivery:
    """A delivery of a question with this message."""
    delivery = make_sample("asked", contact)
    question = {**(delivery.notice.question or {}), "message": message}
    return replace(delivery, notice=delivery.notice.model_copy(update={"question": question}))


async def failure(way: Webhook | Program | Service, delivery: Delivery | None = None) -> DeliveryFailed:
    with pytest.raises(DeliveryFailed) as caught:
        await way.send(delivery or make_sample("asked"))
    return caught.value


async def test_a_webhook_gets_a_cloud_event(web: WebServer) -> None:
    await Webhook(f"{web.url}/hook?a=b").send(make_sample("asked"))
    [got] = web.got
    assert (got.path, got.headers["content-type"]) == ("/hook?a=b", "application/cloudevents+json; charset=utf-8")
    event = got.json
    assert {"specversion", "id", "source", "type", "time", "datacontenttype", "subject", "data"} == event.keys()
    assert (event["specversion"], event["type"], event["source"]) == ("1.0", "holdfast.question.asked", "example-01")
    assert event["data"]["link"] == "https://example.com/"
    assert event["data"]["question"]["message"] == "Which tone?"


async def test_a_webhook_is_signed_over_the_bytes_that_arrive(web: WebServer) -> None:
    await Webhook(web.url, read_webhook_secrets(SECRET)).send(asking("Größe & 'Ärger'?"))
    [got] = web.got
    id_, at = got.headers["webhook-id"], got.headers["webhook-timestamp"]
    assert got.headers["webhook-signature"] == by_openssl(SECRET, f"{id_}.{at}.".encode() + got.body)
    assert id_ == got.json["id"]


async def test_a_webhook_without_a_secret_is_not_signed(web: WebServer) -> None:
    await Webhook(web.url).send(make_sample("asked"))
    assert "webhook-signature" not in web.got[0].headers


@pytest.mark.parametrize(("status", "is_gone"), [(500, False), (302, False), (404, False), (410, True)])
async def test_another_status_than_success_is_a_failure(web: WebServer, status: int, is_gone: bool) -> None:
    web.replies, web.headers = [status], {"location": f"{web.url}/elsewhere", "retry-after": "7"}
    failed = await failure(Webhook(web.url))
    assert str(failed).startswith(f"HTTP {status}")
    assert (failed.is_gone, failed.retry_after) == (is_gone, 7.0)
    assert len(web.got) == 1


@pytest.mark.parametrize("date", ["Wed, 21 Oct 2015 07:28:00 GMT", "Thu, 01 Jan 2099 00:00:00 GMT"])
async def test_a_time_to_try_again_counts_by_the_clock_of_the_receiver(web: WebServer, date: str) -> None:
    until_ = format_datetime(parsedate_to_datetime(date) + timedelta(seconds=90), usegmt=True)
    web.replies, web.own_date, web.headers = [503], date, {"retry-after": until_}
    assert (await failure(Webhook(web.url))).retry_after == 90.0


async def test_a_time_to_try_again_that_is_none_is_left_aside(web: WebServer) -> None:
    web.replies, web.headers = [503], {"retry-after": "soon"}
    assert (await failure(Webhook(web.url))).retry_after is None


async def dribble(status: bytes, seconds: float) -> tuple[asyncio.Server, str]:
    """Start a server that sends a reply byte by byte, and return it with its address."""

    async def reply(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(status)
            while not writer.is_closing():
                writer.write(b"x")
                await writer.drain()
                await asyncio.sleep(seconds)
        writer.close()

    server = await asyncio.start_server(reply, "127.0.0.1", 0)
    return server, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def test_a_reply_that_never_comes_to_its_status_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.server.notices.transports.TRY_SECONDS", 0.3)
    server, url = await dribble(b"HTTP/1.1 200 OK\r\nx-", 0.01)
    async with server:
        assert "no reply within" in str(await failure(Webhook(url)))


async def test_a_body_that_never_ends_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.server.notices.transports.SKIP_SECONDS", 0.1)
    server, url = await dribble(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n", 0.01)
    async with server:
        await Webhook(url).send(make_sample("asked"))


async def test_the_connection_of_a_webhook_is_used_again(web: WebServer) -> None:
    webhook = Webhook(web.url)
    for _ in range(3):
        await webhook.send(make_sample("asked"))
    await webhook.close()
    assert len({got.port for got in web.got}) == 1


async def test_a_receiver_that_is_not_there_is_a_failure_that_names_no_address() -> None:
    assert str(await failure(Webhook("http://127.0.0.1:1/hooks/token"))) == "no reply: ConnectError"


async def test_no_log_holds_the_address_of_a_webhook(web: WebServer, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    await Webhook(f"{web.url}/hooks/token").send(make_sample("asked"))
    assert "token" not in caplog.text


def program(text: str) -> list[str]:
    return [sys.executable, "-c", text]


async def test_a_command_gets_the_event_on_standard_input(tmp_path: Path) -> None:
    text = "import sys, pathlib; pathlib.Path('got.json').write_text(sys.stdin.read())"
    await Program(program(text), tmp_path).send(asking("$(touch pwned); `x`"))
    assert json.loads((tmp_path / "got.json").read_text())["data"]["question"]["message"] == "$(touch pwned); `x`"
    assert [path.name for path in tmp_path.iterdir()] == ["got.json"]


async def test_a_command_sees_only_the_variables_that_are_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LISTED", "1")
    monkeypatch.setenv("A_KEY", "secret")
    text = "import os, pathlib; pathlib.Path('names').write_text(' '.join(os.environ))"
    await Program(program(text), tmp_path, ["LISTED"]).send(make_sample("asked"))
    names = (tmp_path / "names").read_text().split()
    assert "LISTED" in names and "A_KEY" not in names


async def test_a_command_that_fails_says_why(tmp_path: Path) -> None:
    failed = await failure(
        Program(program("import sys; sys.stderr.write('a\\nno \\x1b[2Jpaper\\n'); sys.exit(3)"), tmp_path)
    )
    assert str(failed) == "exit code 3: no \N{REPLACEMENT CHARACTER}[2Jpaper"


async def test_a_command_that_reads_nothing_and_one_that_is_missing(tmp_path: Path) -> None:
    await Program(program("pass"), tmp_path).send(asking("x" * 1_000_000))
    assert "cannot be started" in str(await failure(Program(["no-such-program"], tmp_path)))


async def test_a_command_that_takes_too_long_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.server.notices.transports.TRY_SECONDS", 0.2)
    assert "longer than" in str(await failure(Program(program("import time; time.sleep(600)"), tmp_path)))


async def test_a_mail_goes_to_the_person_who_is_asked() -> None:
    async with mail_server() as box:
        service = Service(f"mailto://127.0.0.1:{box.port}?from=holdfast@example.com&to={{email}}", Messages())
        assert service.is_personal
        await service.send(asking("Größe & 'Ärger' <b>?\nTo: evil@example.com", ANA))
        [(to, mail)] = box.mails
    assert to == ["ana@example.com"]
    assert mail["subject"] == "A question for you: Größe & 'Ärger' <b>? To: evil@example.com"
    assert "Größe & 'Ärger' <b>?" in mail.get_content()
    assert "https://example.com/" in mail.get_content()
    assert mail.get_content_type() == "text/plain"


async def test_an_address_cannot_change_the_parts_of_a_url() -> None:
    async with mail_server() as box:
        service = Service(f"mailto://127.0.0.1:{box.port}?from=holdfast@example.com&to={{email}}", Messages())
        await service.send(make_sample("asked", Contact("user:ana", email="ana&bcc=evil@example.com")))
        assert [to for to, _ in box.mails] == [["ana&bcc=evil@example.com"]]


async def test_who_has_no_address_is_not_reached_by_mail() -> None:
    service = Service("mailto://127.0.0.1:25?from=holdfast@example.com&to={email}", Messages())
    assert (service.reaches(ANA), service.reaches(Contact("user:bob"))) == (True, False)


@pytest.fixture
def slack(web: WebServer, monkeypatch: pytest.MonkeyPatch) -> WebServer:
    monkeypatch.setattr(NotifySlack, "webhook_url", f"{web.url}/services")
    return web


SLACK = "slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ/#general"


async def test_slack_gets_a_message_as_its_api_wants_it(slack: WebServer) -> None:
    await Service(SLACK, Messages()).send(asking("Tell <!channel> & all?"))
    message = slack.got[0].json
    [attachment] = message["attachments"]
    assert message["channel"] == "#general"
    # Slack reads <…> as a mention or a link: the three characters that it names are escaped.
    assert attachment["text"].startswith("Tell &lt;!channel&gt; &amp; all?")
    assert "https://example.com/" in attachment["text"]
    assert "http" not in json.dumps({name: value for name, value in attachment.items() if name != "text"})


async def test_a_service_that_refuses_says_why_and_tells_no_log(
    slack: WebServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    slack.replies = [404]
    failed = await failure(Service(SLACK, Messages()))
    assert "404" in str(failed)
    assert "TIiajkdnlazkcOXrIdevi7FQ" not in f"{failed}{caplog.text}"


@pytest.mark.parametrize("url", ["", "slack://x", "nope://secret", "mailto://a:hunter2@b c"])
def test_a_url_that_is_none_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(BadServiceUrl, match="must hold one URL") as caught:
        Service(url, Messages())
    assert "hunter2" not in str(caught.value)
