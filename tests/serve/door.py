"""The web server's door under test: an application with a page that tells who came in, and browsers that knock."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from temporalio.client import Client

from holdfast.client.runs import Runs
from holdfast.runtime.config import Config, ServeSection
from holdfast.runtime.config.sections import AccessTable
from holdfast.server.web.addresses import new_once_token
from holdfast.server.web.app import create_app
from holdfast.server.web.gate import Gate, Identity, require_identity
from holdfast.server.web.site import Site


async def who(request: Request) -> Response:
    identity: Identity = require_identity(request)
    return JSONResponse(
        {
            "user": identity.user,
            "groups": identity.sender.groups,
            "proof": identity.sender.proof,
            "scopes": sorted(identity.scopes),
            "is_service": identity.is_service,
            "csrf": request.scope.get("state", {}).get("csrf"),
        }
    )


class Door:
    """An application with these settings of `[serve]`, its state in a folder of its own."""

    def __init__(
        self, temporal: Client, home: Path, runs: Runs | None = None, access: AccessTable | None = None, **settings: Any
    ) -> None:
        self.config = Config(home=home, folder=home, serve=ServeSection(**settings), access=access)
        self.site = Site(self.config, runs or Runs(temporal))
        self.gate = Gate.of(self.config)
        self.app: Starlette = create_app(self.site, self.gate)
        self.app.router.routes.insert(0, Route("/who", who, methods=["GET", "POST"]))
        self.app.router.routes.insert(0, Route("/api/v1/who", who, methods=["GET", "POST"]))

    def browser(
        self, address: str = "127.0.0.1", url: str = "http://localhost:8090", **headers: str
    ) -> httpx.AsyncClient:
        transport = httpx.ASGITransport(self.app, client=(address, 50_000))
        return httpx.AsyncClient(transport=transport, base_url=url, headers=headers)

    async def signed_in(self, user: str = "user:ana") -> httpx.AsyncClient:
        """A browser that has opened a one-time link."""
        browser = self.browser()
        await browser.get("/who", params={"once": new_once_token(self.config.home, user)})
        return browser


async def csrf_of(browser: httpx.AsyncClient) -> str:
    return str((await browser.get("/who")).json()["csrf"])


def field_of(page: httpx.Response) -> str:
    """The token in the form of a page."""
    [value] = set(re.findall(r'name="csrf" value="(\w+)"', page.text))
    return str(value)
