"""Temporal's own UI, in a browser, through the codec server: a reader sees what was said, a stranger does not."""

from __future__ import annotations

import os
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import httpx
import pytest
from playwright.async_api import Browser
from starlette.types import ASGIApp, Receive, Scope, Send
from temporalio.client import Client
from temporalio.testing import WorkflowEnvironment

from holdfast.runtime.config.sections import EncryptionSection
from holdfast.runtime.converters import DATA_CONVERTER
from holdfast.runtime.embedded.server import find_temporal_binary
from holdfast.server.web.app import create_app
from tests.activities.mcp_processes import free_port
from tests.conftest import ATTRIBUTES, Harness, until
from tests.encryption.encrypted_house import ASK, DECODE, MARK, OLD, house_of, secretive
from tests.serve.browser import SignedIn
from tests.serve.ground import served, site_of_house

pytestmark = pytest.mark.slow


@asynccontextmanager
async def ui_of(codec: str) -> AsyncIterator[tuple[Client, str]]:
    """A server whose UI asks a codec server; a client, and the address of the UI."""
    port = free_port()
    async with await WorkflowEnvironment.start_local(
        dev_server_existing_path=find_temporal_binary(),
        data_converter=DATA_CONVERTER,
        search_attributes=ATTRIBUTES,
        ui=True,
        ui_port=port,
        dev_server_extra_args=["--ui-codec-endpoint", f"{codec}/api/codec"],
    ) as environment:
        ui = f"http://127.0.0.1:{port}"
        async with httpx.AsyncClient() as http:

            async def reaches_the_server() -> bool:
                with suppress(httpx.TransportError):
                    return (await http.get(f"{ui}/api/v1/namespaces/default")).is_success
                return False

            # The UI starts beside the server, and its own connection waits a second after each try that came too early.
            await until(reaches_the_server, "a UI that reaches the server")
        yield environment.client, ui


async def ended_run(client: Client, folder: Path) -> str:
    async with house_of(client, folder, OLD, f"test-{uuid.uuid4().hex[:8]}") as house:
        run = await house.start(ASK)
        await house.answer(run, f"{MARK} yes")
        await house.result(run)
    return run


class Later:
    """An application that is made after its address is known."""

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.app(scope, receive, send)


@pytest.mark.parametrize(("who", "reads"), [("user:ana", True), ("user:eve", False)])
async def test_a_reader_sees_a_run_and_a_stranger_does_not(
    browser: Browser, tmp_path: Path, who: str, reads: bool
) -> None:
    codec = Later()
    async with served(codec) as url, ui_of(url) as (client, ui):
        settings = EncryptionSection(readers=["user:ana"], ui=ui)
        house = Harness(secretive(client, tmp_path, OLD), "none", tmp_path)
        codec.app = SignedIn(create_app(site_of_house(house, encryption=settings)), who)
        run = await ended_run(client, tmp_path)
        page = await browser.new_page()
        statuses: list[int] = []
        page.on("response", lambda reply: statuses.append(reply.status) if DECODE in reply.url else None)
        await page.goto(f"{ui}/namespaces/default/workflows/{run}")

        async def is_decided() -> bool:
            text = await page.inner_text("body")
            return MARK in text if reads else 403 in statuses and "Result" in text

        await until(is_decided, "the values in the UI")
        assert ((200 in statuses), MARK in await page.content()) == (reads, reads)
        if folder := os.environ.get("HOLDFAST_PICTURES"):
            await page.screenshot(path=f"{folder}/codec-{who[5:]}.png")
        await page.close()
