"""How a notice goes out: by a webhook, a command, or a service of Apprise. A channel has one of these transports.

Each sends one delivery, or says why it could not. Webhooks are signed as the Standard Webhooks specify.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import hmac
import importlib
import importlib.util
import json
import logging
import os
import signal
import ssl
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cache
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

import httpx

from holdfast.protocol.display import one_line
from holdfast.runtime.config import NoticeKind
from holdfast.server.notices.messages import Messages, NoticeText
from holdfast.server.notices.notice import Contact, Delivery, make_cloud_event

SECRET_PREFIX = "whsec_"
SHORTEST_SECRET, LONGEST_SECRET = 24, 64
"""Bytes of a secret, as the specification recommends."""
TRY_SECONDS = 30.0
"""The time that one try may take."""
SETTLED = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR")
"""Variables that a command gets in any case; not the keys of this process."""
GONE = 410
CONNECTIONS = httpx.Limits(max_connections=None, max_keepalive_connections=100)
SKIP_SECONDS, LONGEST_REPLY = 1.0, 65_536
"""The time and the bytes for which the body of a reply is read, which nobody needs."""
LONGEST_REASON = 200


class BadSecret(ValueError):
    """A secret that cannot sign; the message does not repeat it."""


def read_webhook_secrets(text: str) -> list[bytes]:
    """Return the secrets of a variable: base64, with or without `whsec_`; several, while they are being changed.

    Raises:
        BadSecret: One of them is no base64 of 24 to 64 bytes, or there is none.
    """
    secrets = [_decode_secret(word) for word in text.split()]
    if not secrets or not all(secret and SHORTEST_SECRET <= len(secret) <= LONGEST_SECRET for secret in secrets):
        raise BadSecret(
            f"must be base64 of {SHORTEST_SECRET} to {LONGEST_SECRET} bytes, with or without {SECRET_PREFIX} in front; "
            "make one: echo whsec_$(openssl rand -base64 32)"
        )
    return [secret for secret in secrets if secret]


def _decode_secret(text: str) -> bytes | None:
    try:
        return base64.b64decode(text.removeprefix(SECRET_PREFIX), validate=True)
    except binascii.Error:
        return None


def sign_webhook(secrets: Sequence[bytes], id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """Return the headers of a webhook: its id, the time of this try in seconds, a signature for each secret."""
    headers = {"webhook-id": id, "webhook-timestamp": str(timestamp)}
    if secrets:
        content = f"{id}.{timestamp}.".encode() + body
        headers["webhook-signature"] = " ".join(_sign(secret, content) for secret in secrets)
    return headers


def _sign(secret: bytes, content: bytes) -> str:
    return "v1," + base64.b64encode(hmac.digest(secret, content, "sha256")).decode()


class DeliveryFailed(Exception):
    """A try that did not succeed.

    Args:
        reason: In one line, for people; without addresses, which may hold a token.
        is_gone: True if the receiver wants nothing more at this address.
        retry_after: Seconds that the receiver asks to wait.
    """

    def __init__(self, reason: str, *, is_gone: bool = False, retry_after: float | None = None) -> None:
        super().__init__(one_line(reason)[:LONGEST_REASON])
        self.is_gone, self.retry_after = is_gone, retry_after


class Transport(Protocol):
    """What a channel delivers by. A new one: its class here, its keys in `NotifySection`, its row in `channels.py`."""

    @property
    def is_personal(self) -> bool:
        """True if each person gets a delivery of their own."""

    @property
    def for_people(self) -> bool:
        """True if people read what is sent, so that they need not hear of what is over."""

    def reaches(self, contact: Contact) -> bool:
        """Return whether enough is known of this person."""

    async def send(self, delivery: Delivery) -> None:
        """Deliver. Raises `DeliveryFailed`."""

    async def send_digest(self, deliveries: Sequence[Delivery], home: str) -> None:
        """Deliver many questions to one reader; `home` is the address of all that waits. Raises `DeliveryFailed`."""

    async def close(self) -> None:
        """Close the connections that are kept for the next delivery."""


@dataclass
class Webhook:
    """POST a CloudEvent to a URL, signed if there is a secret. Connections are kept: one costs more than a delivery."""

    url: str
    secrets: Sequence[bytes] = ()
    is_personal: bool = False
    for_people: bool = False
    _client: httpx.AsyncClient | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        _silence("httpx", "httpcore")

    def reaches(self, contact: Contact) -> bool:
        """See `Transport`."""
        return True

    async def send(self, delivery: Delivery) -> None:
        """See `Transport`. Redirects are not followed: the body is for this receiver only."""
        body = json.dumps(make_cloud_event(delivery), ensure_ascii=False).encode()
        headers = sign_webhook(self.secrets, delivery.id, int(time.time()), body)
        headers["content-type"] = "application/cloudevents+json; charset=utf-8"
        try:
            # For all of the try: httpx itself counts anew with each byte that comes.
            async with asyncio.timeout(TRY_SECONDS):
                reply = await self._post(body, headers)
        except TimeoutError:
            raise DeliveryFailed(f"no reply within {TRY_SECONDS:.0f} s") from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise DeliveryFailed(f"no reply: {type(error).__name__}") from None
        if not reply.is_success:
            is_gone = reply.status_code == GONE
            raise DeliveryFailed(_describe_refusal(reply), is_gone=is_gone, retry_after=_read_retry_after(reply))

    async def send_digest(self, deliveries: Sequence[Delivery], home: str) -> None:
        """See `Transport`. A program gets one event after the other."""
        for delivery in deliveries:
            await self.send(delivery)

    async def close(self) -> None:
        """See `Transport`."""
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    async def _post(self, body: bytes, headers: Mapping[str, str]) -> httpx.Response:
        """Return the reply, of which the status counts."""
        if self._client is None:
            # No limits of httpx's own: `send` has one for the whole try, the channel one for tries at the same time.
            self._client = httpx.AsyncClient(timeout=None, limits=CONNECTIONS, verify=_load_certificates())
        request = self._client.build_request("POST", self.url, content=body, headers=headers)
        reply = await self._client.send(request, stream=True)
        try:
            await _skip(reply)
        finally:
            await reply.aclose()
        return reply


async def _skip(reply: httpx.Response) -> None:
    """Read what follows the status, so that the connection can be used again; not if it is much, or comes slowly."""
    length = 0
    with contextlib.suppress(TimeoutError, httpx.HTTPError):
        async with asyncio.timeout(SKIP_SECONDS):
            async for chunk in reply.aiter_raw():
                length += len(chunk)
                if length > LONGEST_REPLY:
                    return


@cache
def _load_certificates() -> ssl.SSLContext:
    """Return the certificates that servers are checked against: reading them takes longer than a delivery."""
    return httpx.create_ssl_context()


def _describe_refusal(reply: httpx.Response) -> str:
    """Return the status in words; not where a redirect leads, which may hold a token."""
    hint = "; redirects are not followed, correct the address" if reply.has_redirect_location else ""
    return f"HTTP {reply.status_code}{hint}"


def _read_retry_after(reply: httpx.Response) -> float | None:
    """Return the seconds that a receiver asks to wait: a number, or a time by its own clock, which may be off."""
    value = reply.headers.get("retry-after", "")
    if value.isdecimal():
        return float(value)
    until, now = _parse_http_date(value), _parse_http_date(reply.headers.get("date", "")) or datetime.now(UTC)
    return None if until is None else max(0.0, (until - now).total_seconds())


def _parse_http_date(text: str) -> datetime | None:
    try:
        return parsedate_to_datetime(text).astimezone(UTC)
    except ValueError:
        return None


@dataclass(frozen=True)
class Program:
    """Start a program, without a shell, with a CloudEvent on its standard input; exit code 0 means delivered."""

    words: Sequence[str]
    folder: Path
    variables: Sequence[str] = ()
    is_personal: bool = False
    for_people: bool = False

    def reaches(self, contact: Contact) -> bool:
        """See `Transport`."""
        return True

    async def send(self, delivery: Delivery) -> None:
        """See `Transport`. What the program wrote last to standard error is the reason of a failure."""
        names = {*SETTLED, *self.variables}
        environment = {name: value for name, value in os.environ.items() if name in names}
        pipe, nowhere = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
        try:
            process = await asyncio.create_subprocess_exec(
                *self.words,
                stdin=pipe,
                stdout=nowhere,
                stderr=pipe,
                cwd=self.folder,
                env=environment,
                # A process group of its own, so that what the program starts is killed with it.
                start_new_session=True,
            )
        except OSError as error:
            raise DeliveryFailed(f"{self.words[0]} cannot be started: {error.strerror}") from None
        output = await _communicate(process, json.dumps(make_cloud_event(delivery)).encode())
        if process.returncode != 0:
            lines = output.decode(errors="replace").strip().splitlines() or ["it wrote nothing"]
            raise DeliveryFailed(f"exit code {process.returncode}: {lines[-1]}")

    async def send_digest(self, deliveries: Sequence[Delivery], home: str) -> None:
        """See `Transport`. A program gets one event after the other."""
        for delivery in deliveries:
            await self.send(delivery)

    async def close(self) -> None:
        """See `Transport`. No connection is kept."""


async def _communicate(process: asyncio.subprocess.Process, text: bytes) -> bytes:
    """Give a program its input and return what it wrote to standard error. It ends with us, and when its time is up."""
    try:
        async with asyncio.timeout(TRY_SECONDS):
            _, output = await process.communicate(text)
            return output
    except TimeoutError:
        raise DeliveryFailed(f"it took longer than {TRY_SECONDS:.0f} s") from None
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()


class MissingApprise(Exception):
    """Apprise is not installed."""

    def __init__(self) -> None:
        super().__init__("apprise_env needs Apprise; type: pip install 'holdfast[notify]'")


class BadServiceUrl(ValueError):
    """A URL that Apprise does not read; the message does not repeat it, as it holds passwords."""


_LEVELS: dict[NoticeKind, str] = {
    "run_failed": "failure",
    "run_stuck": "failure",
    "expired": "warning",
    "unreachable": "warning",
}
"""How urgent a notice looks, where the service shows that; the others are `info`."""


class Service:
    """Send a message over a service that Apprise knows: e-mail, Slack, Teams and many more.

    A URL that holds `{email}`, `{user}` or `{name}` is a personal one: each person gets a message of their own.

    Args:
        url: The URL, as Apprise writes it.
        messages: Makes the texts.
        locale: The language for whoever has no own.
    """

    for_people = True

    def __init__(self, url: str, messages: Messages, locale: str | None = None) -> None:
        self._load_apprise = _load_apprise()
        self._url, self._messages, self._locale = url, messages, locale
        self.is_personal = any(f"{{{place}}}" in url for place in ("email", "user", "name"))
        # Made once for nobody: a URL that Apprise does not read is refused at the start, not with the first notice.
        self._instance(Contact("user:nobody", email="nobody@example.com"))

    def reaches(self, contact: Contact) -> bool:
        """See `Transport`."""
        return contact.email is not None or "{email}" not in self._url

    async def send(self, delivery: Delivery) -> None:
        """See `Transport`."""
        text = self._messages.of(delivery, self._language(delivery.contact))
        await self._say(text, delivery.contact, _LEVELS.get(delivery.notice.kind, "info"))

    async def send_digest(self, deliveries: Sequence[Delivery], home: str) -> None:
        """See `Transport`. One message tells of all."""
        contact = deliveries[0].contact
        await self._say(self._messages.digest(deliveries, home, self._language(contact)), contact, "info")

    async def close(self) -> None:
        """See `Transport`. No connection is kept."""

    def _language(self, contact: Contact | None) -> str | None:
        return (contact and contact.locale) or self._locale

    async def _say(self, text: NoticeText, contact: Contact | None, level: str) -> None:
        sender = self._load_apprise.Apprise(asset=self._asset())
        sender.add(self._instance(contact))
        result = await sender.async_notify(
            title=text.title, body=text.body, notify_type=level, body_format="text", timeout=TRY_SECONDS
        )
        if not result:
            raise DeliveryFailed(_find_last_warning(result) or "the service refused it")

    def _instance(self, contact: Contact | None) -> Any:
        """Return Apprise's object for the URL. Raises `BadServiceUrl`."""
        url = self._url if contact is None else _fill_url(self._url, contact)
        instance = self._load_apprise.Apprise.instantiate(url, asset=self._asset())
        if instance is None:
            raise BadServiceUrl(
                "must hold one URL as Apprise writes it, such as mailtos://USER:PASSWORD@HOST?to=NAME@HOST or "
                "slack://TOKEN_A/TOKEN_B/TOKEN_C"
            )
        return instance

    def _asset(self) -> Any:
        """Return the name under which Apprise sends. No pictures: they would be fetched from somewhere else."""
        return self._load_apprise.AppriseAsset(
            app_id="Holdfast",
            app_desc="Holdfast",
            app_url="",
            image_url_mask="",
            image_url_logo="",
            secure_logging=True,
        )


def _load_apprise() -> Any:
    if importlib.util.find_spec("apprise") is None:
        raise MissingApprise
    module = importlib.import_module("apprise")
    _silence("apprise", "urllib3")
    return module


def _silence(*libraries: str) -> None:
    """Keep what libraries tell of each request out of every log: addresses with tokens, and texts of messages."""
    for name in libraries:
        logging.getLogger(name).setLevel(logging.WARNING)


def _fill_url(url: str, contact: Contact) -> str:
    """Return a personal URL with the person's own values, quoted so that they cannot change its parts."""
    values: Mapping[str, str] = {
        "email": contact.email or "",
        "user": contact.user,
        "name": contact.user.partition(":")[2],
    }
    for name, value in values.items():
        url = url.replace(f"{{{name}}}", quote(value, safe="@"))
    return url


def _find_last_warning(result: Any) -> str:
    """Return the last warning that Apprise logged for a try."""
    texts = [entry.message for entry in result.logs() if entry.level in ("WARNING", "ERROR", "CRITICAL")]
    return str(texts[-1]) if texts else ""
