"""A site over real runs, and clients of it: the person who asks is set by a middleware in place of a sign-in."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import httpx
import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from holdfast.client.answering import Sender
from holdfast.runtime.config import Config
from holdfast.server.web.app import create_app
from holdfast.server.web.credentials import ALL_WEB_SCOPES, WebScope
from holdfast.server.web.gate import Identity
from holdfast.server.web.listener import BoundedConnection
from holdfast.server.web.site import Site
from tests.answering import answer_by
from tests.conftest import Harness, until

ANA = Identity(Sender("user:ana"))
WHO = "x-test-identity"
"""The header that names the person of a request, as a key of `SignedIn.identities`."""


@dataclass
class SignedIn:
    """The middleware that says who makes a request: whoever its header names, else Ana; nobody where that is `-`."""

    app: ASGIApp
    identities: dict[str, Identity]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            name = dict(scope["headers"]).get(WHO.encode(), b"ana").decode()
            if name != "-":
                scope["identity"] = self.identities.get(name) or Identity(Sender(f"user:{name}"))
        await self.app(scope, receive, send)


def person(name: str, *scopes: WebScope, groups: tuple[str, ...] = (), **how: Any) -> Identity:
    """An identity for `SignedIn`; without scopes it has them all."""
    return Identity(Sender(f"user:{name}", groups), frozenset(scopes) or ALL_WEB_SCOPES, **how)


def site_of_house(house: Harness, **settings: Any) -> Site:
    """A site over the house's runs. Settings are sections of the configuration."""
    config = Config(home=house.folder / ".holdfast", folder=house.folder, **settings)
    answer_by(house.runs, replace(house.runs.answering, groups=config.groups))
    return Site(config, house.runs)


def app_of(site: Site, *identities: Identity) -> ASGIApp:
    """The application with those people; others may do everything."""
    return SignedIn(create_app(site), {one.user.removeprefix("user:"): one for one in identities})


def client_of(site: Site, *identities: Identity) -> httpx.AsyncClient:
    """A client of the application in this process. The header `WHO` says who asks."""
    transport = httpx.ASGITransport(app_of(site, *identities))
    return httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8090", timeout=60)


@asynccontextmanager
async def served(app: ASGIApp, lifespan: Literal["on", "off"] = "off") -> AsyncIterator[str]:
    """The address of the application in a real server on a free port."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        settings = {"log_level": "warning", "timeout_graceful_shutdown": 1, "http": BoundedConnection, "ws": "none"}
        config = uvicorn.Config(app, lifespan=lifespan, **settings)
        server = uvicorn.Server(config)
        serving = asyncio.create_task(server.serve([listening]))

        async def started() -> bool:
            return server.started

        await until(started, "the server")
        try:
            yield "http://{}:{}".format(*listening.getsockname())
        finally:
            server.should_exit = True
            await serving


def blueprint_file(folder: Path, name: str, text: str) -> Path:
    """Write a blueprint into a folder that a site may start from."""
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(text)
    return path
