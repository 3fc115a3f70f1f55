"""The frame of every page: static files, errors, the look at any width."""

import httpx
import pytest
from playwright.async_api import Browser

from holdfast.runtime.config import Config
from holdfast.server.web.app import create_app
from holdfast.server.web.site import Site
from tests.conftest import Harness
from tests.serve.browser import SignedIn, find_faults, served


def app_of(house: Harness) -> SignedIn:
    return SignedIn(create_app(Site(Config(home=house.folder, folder=house.folder), house.runs)))


async def test_static_files_are_served(house: Harness) -> None:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app_of(house)), base_url="http://inbox") as client:
        answer = await client.get("/static/style.css")
    assert (answer.status_code, answer.headers["content-type"].partition(";")[0]) == (200, "text/css")


async def test_an_unknown_address_is_a_page_with_the_way_back(house: Harness) -> None:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app_of(house)), base_url="http://inbox") as client:
        answer = await client.get("/nowhere")
    assert answer.status_code == 404 and 'href="/"' in answer.text and "<main" in answer.text


@pytest.mark.slow
async def test_the_frame_fits_and_is_accessible(house: Harness, browser: Browser) -> None:
    async with served(app_of(house)) as address:
        page = await browser.new_page()
        await page.goto(f"{address}/nowhere")
        assert await find_faults(page) == []
        await page.close()
