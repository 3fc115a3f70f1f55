"""Pages in a real browser: Debian's Chromium by Playwright, on the application behind a real HTTP server.

Tests that take the fixture `browser` are slow; where there is no Chromium they are skipped.
"""

from __future__ import annotations

import asyncio
import shutil
import socket
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext

import pytest
import pytest_asyncio
import uvicorn
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Browser, Page, async_playwright
from starlette.types import ASGIApp, Receive, Scope, Send

from holdfast.client.answering import Sender
from holdfast.server.web.gate import Identity

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
NO_CHROMIUM = "no Chromium on the PATH; install it: apt-get install chromium"
SERIOUS = ("serious", "critical")
WIDTHS = (360, 800, 1400)


@pytest_asyncio.fixture(scope="session")
async def browser() -> AsyncIterator[Browser]:
    """One browser for all tests; each opens a context of its own."""
    if CHROMIUM is None:
        pytest.skip(NO_CHROMIUM)
    async with async_playwright() as playwright:
        chromium = await playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield chromium
        await chromium.close()


class SignedIn:
    """An application whose requests all come from one person; the user may be changed by a cookie `as`."""

    def __init__(self, app: ASGIApp, user: str = "user:ana") -> None:
        self.app, self.user = app, user

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            cookie = dict(scope["headers"]).get(b"cookie", b"").decode()
            user = cookie.partition("as=")[2].partition(";")[0] or self.user
            scope["identity"] = Identity(Sender(user=user, proof="person"))
            scope.setdefault("state", {})["csrf"] = "csrf-of-tests"
        await self.app(scope, receive, send)


class _Server(uvicorn.Server):
    def capture_signals(self) -> AbstractContextManager[None]:
        """Leave the signals to pytest."""
        return nullcontext()


@asynccontextmanager
async def served(app: ASGIApp) -> AsyncIterator[str]:
    """Serve an application on a free port; its address, without a slash at the end."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        config = uvicorn.Config(app, log_level="warning", lifespan="on", timeout_graceful_shutdown=1)
        server = _Server(config)
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            await serving


async def find_faults(page: Page) -> list[str]:
    """Return what does not fit at any width, and what axe finds: at the narrowest and the widest, and in the dark."""
    found: list[str] = []
    for width in WIDTHS:
        await page.set_viewport_size({"width": width, "height": 800})
        found += await too_wide(page)
        found += await serious(page) if width != WIDTHS[1] else []
    await page.emulate_media(color_scheme="dark")
    await page.reload()  # else links fade to their new colour under the eyes of axe
    found += await serious(page, "color-contrast", "link-in-text-block")
    await page.emulate_media(color_scheme="light")
    return found


async def serious(page: Page, *rules: str) -> list[str]:
    """Return what axe finds on a page that is serious or critical, by these rules or by any: the rule, the elements."""
    only = {"runOnly": {"type": "rule", "values": list(rules)}} if rules else {}
    results = await Axe().run(page, options={"resultTypes": ["violations"], **only})
    return [
        f"{violation['id']}: {[node['target'] for node in violation['nodes']]}"
        for violation in results.response["violations"]
        if violation["impact"] in SERIOUS
    ]


async def too_wide(page: Page) -> list[str]:
    """Return the elements that make the page wider than its window; [] if it fits."""
    return list(
        await page.evaluate(
            """() => {
                const width = document.documentElement.clientWidth;
                if (document.documentElement.scrollWidth <= width) return [];
                return [...document.querySelectorAll("body *")]
                    .filter((element) => element.getBoundingClientRect().right > width + 1)
                    .map((element) => `${element.tagName}.${element.className}`);
            }"""
        )
    )
