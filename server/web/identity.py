"""The identity behind a request: set by the sign-in middleware, read by every page and every call of the API."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection

from holdfast.client.answering import Sender

WebScope = Literal["read", "answer", "steer"]
ALL_WEB_SCOPES: frozenset[WebScope] = frozenset(("read", "answer", "steer"))


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

    @property
    def user(self) -> str:
        """Return the user, such as `user:ana`."""
        return self.sender.user


def identity_of(connection: HTTPConnection, scope: WebScope = "read") -> Identity:
    """Return who makes a request. Raises `HTTPException`: 401 for nobody, 403 if the scope is not granted."""
    identity = connection.scope.get("identity")
    if not isinstance(identity, Identity):
        raise HTTPException(401, "sign in, or send a token: Authorization: Bearer TOKEN")
    if scope not in identity.scopes and identity.only is not None:
        raise HTTPException(403, f"this link only shows the question: to answer it, sign in as {identity.user}")
    if scope not in identity.scopes:
        raise HTTPException(403, f"the scope '{scope}' is not granted")
    return identity
