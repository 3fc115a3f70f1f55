"""Who a request comes from: the identities, the gate that finds them by what a request carries, and rates."""

from __future__ import annotations

import hmac
import ipaddress
import time
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from urllib.parse import urlsplit

from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection
from starlette.responses import Response

from holdfast.blueprint.people import GROUP, canonical_name, is_person
from holdfast.client.answering import Sender
from holdfast.protocol.people import read_user
from holdfast.runtime.config import Config, ServeSection
from holdfast.server.record.store import RecordStore
from holdfast.server.web.addresses import take_once_token
from holdfast.server.web.credentials import (
    ALL_WEB_SCOPES,
    LONGEST_SESSION,
    ApiTokens,
    OnceTokens,
    Sessions,
    WebScope,
    open_web_store,
    serve_key,
)

MOST_SENDERS = 10_000
"""The number of senders whose rate is remembered."""


@dataclass(frozen=True)
class Identity:
    """Somebody who has signed in, or the holder of an API token."""

    sender: Sender
    """The user, the groups that the sign-in proved, and what proves the user."""
    scopes: frozenset[WebScope] = ALL_WEB_SCOPES
    is_service: bool = False
    """True for a program, which may not consent."""
    token: str | None = None
    """The id of the API token; None for a browser."""
    session: str | None = None
    """The id of the session of the browser; None if every request proves itself, as behind a proxy."""
    only: str | None = None
    """The path of the only page that it may see, for the holder of a link in a message; None: all."""
    represented: frozenset[str] = frozenset()
    """The users and groups whose questions the holder of a link sees as a deputy."""

    @property
    def user(self) -> str:
        """Return the user, such as `user:ana`."""
        return self.sender.user


def require_identity(connection: HTTPConnection, scope: WebScope = "read") -> Identity:
    """Return who makes a request. Raises `HTTPException`: 401 for nobody, 403 if the scope is not granted."""
    identity = connection.scope.get("identity")
    if not isinstance(identity, Identity):
        raise HTTPException(401, "sign in, or send a token: Authorization: Bearer TOKEN")
    if scope not in identity.scopes and identity.only is not None:
        raise HTTPException(403, f"this link only shows the question: to answer it, sign in as {identity.user}")
    if scope not in identity.scopes:
        raise HTTPException(403, f"the scope '{scope}' is not granted")
    return identity


class Rate:
    """At most `burst` events of one sender at once, and `per_minute` in the long run.

    >>> rate = Rate(2, 60)
    >>> [rate.wait("ana", 0.0), rate.wait("ana", 0.0), rate.wait("ana", 0.0), rate.wait("ana", 1.0)]
    [0.0, 0.0, 1.0, 0.0]
    """

    def __init__(self, burst: int, per_minute: float) -> None:
        self.burst, self.pace = burst, per_minute / 60
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait(self, sender: str, now: float | None = None) -> float:
        """Count an event; return 0, or the seconds until one is allowed again."""
        now = time.monotonic() if now is None else now
        tokens, at = self._left.pop(sender, (float(self.burst), now))
        tokens = min(self.burst, tokens + (now - at) * self.pace)
        self._left[sender] = (tokens - 1 if tokens >= 1 else tokens, now)
        if len(self._left) > MOST_SENDERS:
            self._left.popitem(last=False)
        return 0.0 if tokens >= 1 else (1 - tokens) / self.pace

    def check(self, sender: str) -> None:
        """Count an event. Raises `HTTPException` 429 if it is one too many."""
        if wait := self.wait(sender):
            seconds = max(1, round(wait))
            raise HTTPException(429, f"too many requests; try again in {seconds} s", {"Retry-After": str(seconds)})


@dataclass(frozen=True)
class Gate:
    """The parts that decide who a request comes from."""

    settings: ServeSection
    home: Path
    key: bytes
    """The key of forms and of links in messages."""
    sessions: Sessions
    tokens: ApiTokens
    once: OnceTokens
    attempts: Rate
    """The attempts to sign in that failed, by address."""
    changes: Rate
    """What browsers change, by session or person."""
    changes_of_programs: Rate
    """What programs change, by token: one hands in what many people have answered."""

    @classmethod
    def of(cls, config: Config, record: RecordStore | None = None) -> Gate:
        """Return the gate of a configuration. Raises `ConfigError` or `RecordError`.

        Args:
            config: The configuration.
            record: The record, if it is open: the gate's tables are in its database.
        """
        store = open_web_store(config, record)
        return cls(
            config.serve,
            config.home,
            serve_key(config),
            Sessions(store, config.serve.session),
            ApiTokens(store),
            OnceTokens(store),
            Rate(20, 20),
            Rate(200, 600),
            Rate(1_000, 6_000),  # as much as a server and a worker on two cores take
        )

    def identify(self, connection: HTTPConnection) -> Identity | None:
        """Return who makes a request; None for nobody.

        An API token counts alone, then a trusted proxy's word, then the session of the browser. Raises `HTTPException`
        for a token or a name that cannot be used: such a request says who it is from, and must not pass as another's.
        """
        authorization = connection.headers.get("authorization")
        if authorization is not None and authorization[:7].lower() == "bearer ":
            return self._by_token(authorization[7:].strip(), connection)
        return self._by_proxy(connection) or self._by_session(connection)

    def count_change(self, identity: Identity) -> None:
        """Count a request that changes something. Raises `HTTPException` 429 for one too many."""
        if identity.token is not None:
            self.changes_of_programs.check(identity.token)
        else:
            self.changes.check(identity.session or identity.user)

    def _by_session(self, connection: HTTPConnection) -> Identity | None:
        cookie = connection.cookies.get(self.cookie_name(connection))
        session = self.sessions.find(cookie) if cookie else None
        if session is None:
            return None
        scopes = ALL_WEB_SCOPES if session.only is None else self._scopes_of_links()
        return Identity(session.sender, scopes, session=session.id, only=session.only)

    def _scopes_of_links(self) -> frozenset[WebScope]:
        return frozenset(("read", "answer")) if self.settings.link_login else frozenset(("read",))

    def _by_token(self, text: str, connection: HTTPConnection) -> Identity:
        token = self.tokens.check(text)
        if token is None:
            self.attempts.check(find_peer(connection))
            raise HTTPException(401, "this token is unknown, expired or revoked", {"WWW-Authenticate": "Bearer"})
        sender = Sender(token.user, token.groups, "service" if token.is_service else "client")
        return Identity(sender, token.scopes, is_service=token.is_service, token=token.id)

    def _by_proxy(self, connection: HTTPConnection) -> Identity | None:
        """Return the person whom a trusted proxy names; None if there is no such proxy, or it names nobody."""
        name = self.settings.user_header
        if name is None or not self.is_trusted_proxy(connection):
            return None
        values = connection.headers.getlist(name)
        if not values:
            return None
        user = read_user(_text(values[0])) if len(values) == 1 else None
        if user is None:
            raise HTTPException(
                400, f"{name}: {', '.join(values)[:100]!r} is not a user; let the proxy set the header once"
            )
        listed = connection.headers.getlist(self.settings.groups_header) if self.settings.groups_header else []
        return Identity(Sender(user, read_groups(",".join(map(_text, listed)).split(",")), "person"))

    def enter_once(self, token: str, connection: HTTPConnection) -> str | None:
        """Use up a one-time token; return the cookie of the session that it begins, or None if it is not valid.

        Raises `HTTPException` 429 for somebody who tries too many.
        """
        # The commands of this machine write theirs to the state folder, as they may lack what the database needs.
        user = take_once_token(self.home, token) or self.once.take(token)
        if user is None:
            self.attempts.check(find_peer(connection))
            return None
        return self.sessions.begin(Sender(user, proof="person"))

    def cookie_name(self, connection: HTTPConnection) -> str:
        """Return the name of the session's cookie.

        Browsers send a cookie to every port of a host: the port in the name keeps the inboxes of two projects apart.
        """
        if self.is_secure(connection):
            # Browsers take a name with this prefix only from the host itself, over https: no neighbour can plant one.
            return "__Host-holdfast"
        server = connection.scope.get("server")
        return f"holdfast-{server[1] if server else 0}"

    def is_secure(self, connection: HTTPConnection) -> bool:
        """Return whether the browser speaks https, with us or with a proxy before us."""
        if self.settings.url is not None:
            return urlsplit(self.settings.url).scheme == "https"
        forwarded = connection.headers.get("x-forwarded-proto") if self.is_trusted_proxy(connection) else None
        return (forwarded or connection.scope["scheme"]) == "https"

    def is_trusted_proxy(self, connection: HTTPConnection) -> bool:
        """Return whether a request comes from an address whose headers are believed."""
        if connection.client is None or not self.settings.trusted_proxies:
            return False
        try:
            address = ipaddress.ip_address(connection.client.host)
        except ValueError:
            return False
        return any(address in ipaddress.ip_network(text, strict=False) for text in self.settings.trusted_proxies)

    def mac(self, purpose: str, *parts: str) -> str:
        """Return a MAC in hex over these parts, for one purpose, with the key of this server."""
        text = "\0".join((purpose, *parts))
        return hmac.new(self.key, text.encode(), sha256).hexdigest()


def read_groups(names: Iterable[str]) -> tuple[str, ...]:
    """Return the groups of these names; a bare name is a group's.

    >>> read_groups([" editors", "group:legal", "", "editors"])
    ('group:editors', 'group:legal')
    """
    folded = (canonical_name(name.strip()) for name in names)
    groups = (name if name.startswith(GROUP) else f"{GROUP}{name}" for name in folded)
    return tuple(dict.fromkeys(group for group in groups if is_person(group)))


def _text(value: str) -> str:
    """Return the value of a header, which names people in UTF-8 where the server read Latin-1."""
    try:
        return value.encode("latin-1").decode("utf-8")
    except UnicodeDecodeError:
        return value


def find_peer(connection: HTTPConnection) -> str:
    """Return the address that a request comes from."""
    return connection.client.host if connection.client else ""


def find_gate(connection: HTTPConnection) -> Gate:
    """Return the gate of a request's server."""
    gate: Gate = connection.app.state.gate
    return gate


def write_cookie(name: str, value: str, secure: bool, age: float | None = None) -> str:
    """Return the value of a Set-Cookie header; `age` is in seconds, None: until the browser is closed.

    `Lax`, not `Strict`: a link in a message would else lead to the sign-in although the reader has signed in. What it
    gives up is nothing: no GET changes anything, and every POST needs the token of a form.
    """
    life = "" if age is None else f"; Max-Age={age:.0f}"
    return f"{name}={value}; Path=/; HttpOnly; SameSite=Lax{life}{'; Secure' if secure else ''}"


def set_session(answer: Response, gate: Gate, connection: HTTPConnection, cookie: str) -> None:
    """Give the browser the cookie of its session."""
    name, secure = gate.cookie_name(connection), gate.is_secure(connection)
    answer.headers.append("Set-Cookie", write_cookie(name, cookie, secure, LONGEST_SESSION))
