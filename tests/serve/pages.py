"""The pages of the inbox over a house, for tests: as text, and in a browser."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import httpx
from playwright.async_api import Browser, BrowserContext, Page

from holdfast.protocol.questions import Question
from holdfast.runtime.secrets import SecretDirectory
from holdfast.server.web.addresses import question_address
from tests.answering import answer_by
from tests.conftest import Harness
from tests.serve.blueprints import BLUEPRINTS
from tests.serve.browser import serious, served, too_wide
from tests.serve.ground import app_of as app_of_site
from tests.serve.ground import client_of, site_of_house

__all__ = ["Desk", "desk", "inbox_of", "open_pages", "serious", "started", "too_wide"]


def inbox_of(house: Harness, **settings: Any) -> Any:
    """The site of a house, with a store for secrets and a group of Ana's."""
    site = site_of_house(house, groups={"editors": ["user:ana"]}, **settings)
    answer_by(site.runs, replace(site.runs.answering, secrets=SecretDirectory(house.folder / "secrets")))
    return site


async def started(house: Harness, name: str, **how: Any) -> Question:
    """Start the blueprint of a kind of question; its question."""
    run = await house.start(BLUEPRINTS[name], **how)
    return await house.one(run)


class Desk:
    """Ana at her inbox, without a browser."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self.client = client

    async def get(self, path: str, **query: Any) -> httpx.Response:
        return await self.client.get(path, params=query)

    async def send(self, question: Question, do: str, **texts: Any) -> httpx.Response:
        """Press a button of a question's form; what is typed by the names of the controls."""
        return await self.client.post(
            question_address(question), data={**await self.hidden(question), "do": do, **texts}
        )

    async def hidden(self, question: Question) -> dict[str, str]:
        """The hidden fields of a question's form, with its key."""
        page = await self.client.get(question_address(question))
        return dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', page.text))


@asynccontextmanager
async def desk(house: Harness, user: str = "ana") -> AsyncIterator[Desk]:
    async with client_of(inbox_of(house)) as client:
        client.headers["x-test-identity"] = user
        yield Desk(client)


@asynccontextmanager
async def open_pages(
    house: Harness, browser: Browser, *users: str, settings: Mapping[str, Any] | None = None, **context: Any
) -> AsyncIterator[list[Page]]:
    """A page of the inbox for each user, in browsers of their own, which fail the test at an error of the script."""
    context = {"viewport": {"width": 1400, "height": 900}, **context}
    contexts: list[BrowserContext] = []
    errors: list[str] = []
    async with served(app_of_site(inbox_of(house, **(settings or {})))) as address:
        try:
            for user in users or ("ana",):
                contexts.append(await browser.new_context(base_url=address, **context))
                await contexts[-1].set_extra_http_headers({"x-test-identity": user})
            pages = [await one.new_page() for one in contexts]
            for page in pages:
                page.on("pageerror", lambda error: errors.append(str(error)))
            yield pages
            assert errors == []
        finally:
            for one in contexts:
                await one.close()


def words(html: str) -> str:
    """The text of a page, without its elements."""
    return " ".join(re.sub(r"<[^>]+>", " ", html.partition("<main")[2]).split())
