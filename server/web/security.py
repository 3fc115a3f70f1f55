"""Protections around every request: headers, the Host header, the token against forged forms, and a limit of time."""

from __future__ import annotations

import asyncio
import hmac
import secrets
from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from holdfast.server.web.gate import Gate, Identity, write_cookie
from holdfast.server.web.problems import TooSlow
from holdfast.server.web.requests import LARGEST_FORM, limit_bytes, read_body, read_form

POLICY = "; ".join(
    (
        "default-src 'none'",
        "style-src 'self'",
        "script-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "form-action 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
    )
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
YEAR = 365 * 86400
SAFE = ("GET", "HEAD", "OPTIONS")
FIELD, FIELD_HEADER = "csrf", "X-CSRF-Token"
HEALTH = ("/healthz", "/readyz")
HOOKS = "/hooks/"
"""The calls of other systems: each request is signed by its sender."""
STATIC = "/static/"
CODEC = "/api/codec/"
"""Calls of Temporal's UI and command line: they change nothing, and a page elsewhere may not read the answer."""
WITHOUT_FORMS = (HOOKS, STATIC, CODEC)
SIGNED_IN_HERE = "holdfast.signed_in_here"
"""In a request's scope: true if our sign-in saw it, so that the browser's cookies count."""
LOCAL = frozenset(("localhost", "127.0.0.1", "::1"))


class SecurityHeaders:
    """Add the headers that keep a page from being framed, and from loading or telling anything elsewhere."""

    def __init__(self, app: ASGIApp, gate: Gate) -> None:
        self.app, self.gate = app, gate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        secure = self.gate.is_secure(HTTPConnection(scope))

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                if secure:
                    headers.setdefault("Strict-Transport-Security", f"max-age={YEAR}")
                is_kept = scope["path"].startswith(STATIC) and b"v=" in scope["query_string"]
                headers.setdefault("Cache-Control", f"max-age={YEAR}, immutable" if is_kept else "no-store")
            await send(message)

        await self.app(scope, receive, send_with_headers)


class Addresses:
    """Refuse requests whose Host header does not name this server, or whose path or query has a NUL character.

    Else a page elsewhere could have its own name resolve to this address, and read with the browser's help whatever
    this server serves (DNS rebinding). No name has a NUL, and a database that is asked for one fails.
    """

    def __init__(self, app: ASGIApp, gate: Gate) -> None:
        self.app = app
        url = gate.settings.url
        names = [*gate.settings.hosts, *([urlsplit(url).hostname or ""] if url else [])]
        self.names = LOCAL | {name.lower() for name in names}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        if scope["type"] == "http" and scope["path"] not in HEALTH:
            self._check_host(scope)
            if "\0" in scope["path"] or b"%00" in scope["query_string"]:
                raise HTTPException(400, "the address contains a NUL character (%00), which no name has")
        await self.app(scope, receive, send)

    def _check_host(self, scope: Scope) -> None:
        values = Headers(scope=scope).getlist("host")
        host = _host_name(values[0]) if len(values) == 1 else None
        if host in self.names:
            return
        # A name may be somebody else's; the address at which the request came in is nobody else's.
        if host and scope.get("server") and host == scope["server"][0]:
            return
        listed = ", ".join(values)[:100] or "missing"
        raise HTTPException(400, f"Host: {listed}: not a name of this server; add it to hosts in [serve] if it is")


def _host_name(value: str) -> str | None:
    """Return the host of a Host header in lower case, without its port; None if it is no such header.

    >>> _host_name("LocalHost:8090"), _host_name("[::1]:8090"), _host_name("a/b"), _host_name("a:80, b")
    ('localhost', '::1', None, None)
    """
    try:
        parts = urlsplit(f"//{value}")
        is_host = parts.netloc == value and "@" not in value and (parts.port is None or parts.port > 0)
        return parts.hostname if is_host else None
    except ValueError:
        return None


class Csrf:
    """Refuse what a page elsewhere makes a browser send: every form carries a token that only our pages know.

    The token is a MAC over a cookie of the browser and over the session, so that it is worth nothing in another
    browser, nor after a sign-in. Requests with an API token need none: no browser sends one by itself.
    """

    def __init__(self, app: ASGIApp, gate: Gate) -> None:
        self.app, self.gate = app, gate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        identity = scope.get("identity")
        by_token = isinstance(identity, Identity) and identity.token is not None
        if not scope.get(SIGNED_IN_HERE) or by_token or scope["path"].startswith(WITHOUT_FORMS):
            await self.app(scope, receive, send)
            return
        connection = HTTPConnection(scope)
        name = f"{self.gate.cookie_name(connection)}-browser"
        cookie = connection.cookies.get(name)
        browser = cookie or secrets.token_urlsafe(16)
        expected = self.gate.mac("csrf", browser, _name_session(identity))
        scope.setdefault("state", {})["csrf"] = expected
        if scope["method"] not in SAFE:
            receive = await _check_form(connection, receive, expected if cookie else None)
        await self.app(
            scope, receive, send if cookie else _set_cookie(send, name, browser, self.gate.is_secure(connection))
        )


def _name_session(identity: object) -> str:
    return (identity.session or identity.user) if isinstance(identity, Identity) else ""


def _set_cookie(send: Send, name: str, value: str, secure: bool) -> Send:
    """Return a `send` that gives the browser its cookie."""

    async def send_with_cookie(message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message).append("Set-Cookie", write_cookie(name, value, secure))
        await send(message)

    return send_with_cookie


async def _check_form(connection: HTTPConnection, receive: Receive, expected: str | None) -> Receive:
    """Return a `receive` that gives the body, if the request came from a page of ours. Raises `HTTPException`."""
    _check_origin(connection)
    sent = connection.headers.get(FIELD_HEADER)
    if sent is None:
        receive = _Replayed(await read_body(receive, limit_bytes(LARGEST_FORM, "a form")))
        sent = await _read_field(connection.scope, receive)
    # As bytes: of texts it takes ASCII only, and raises for what anybody may send.
    if expected is None or not hmac.compare_digest(sent.encode(), expected.encode()):
        raise HTTPException(403, "this form is not, or no longer, valid: load the page again, and send it again")
    return receive


def _check_origin(connection: HTTPConnection) -> None:
    """Raise `HTTPException` if the browser says that another site made the request."""
    site, origin = connection.headers.get("sec-fetch-site"), connection.headers.get("origin")
    elsewhere = site not in (None, "same-origin", "none")
    if origin is not None and urlsplit(origin).netloc != connection.headers.get("host"):
        elsewhere = elsewhere or site is None  # older browsers send the origin alone
    if elsewhere:
        raise HTTPException(403, "another site made this request")


async def _read_field(scope: Scope, receive: Receive) -> str:
    """Return the token that a form carries; "" for none."""
    kind = Headers(scope=scope).get("content-type", "").partition(";")[0].strip().lower()
    if kind not in ("application/x-www-form-urlencoded", "multipart/form-data"):
        return ""
    value = (await read_form(Request(scope, receive))).get(FIELD)
    return value if isinstance(value, str) else ""


class _Replayed:
    """A `receive` that gives a body that was read before: the form is read once here and once by its page."""

    def __init__(self, body: bytes) -> None:
        self.body = body

    async def __call__(self) -> Message:
        return {"type": "http.request", "body": self.body, "more_body": False}


@dataclass(frozen=True)
class Patience:
    """Seconds until the response must have begun; streams go on after that."""

    reading: float = 30.0
    sending: float = 90.0
    """Longer than a cancel waits for its run, and than an update is tried."""


class Deadline:
    """Raise `TooSlow` for a request whose response has not begun in time, and cancel what it waits for."""

    def __init__(self, app: ASGIApp, patience: Patience) -> None:
        self.app, self.patience = app, patience

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        seconds = self.patience.reading if scope["method"] in SAFE else self.patience.sending
        limit = asyncio.timeout(seconds)

        async def send_begun(message: Message) -> None:
            # A limit that has expired can be set no more: asyncio raises.
            if not limit.expired():
                limit.reschedule(None)
            await send(message)

        try:
            async with limit:
                await self.app(scope, receive, send_begun)
        except TimeoutError:
            if limit.expired():
                raise TooSlow(seconds) from None
            raise
