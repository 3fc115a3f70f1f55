"""The pages of runs in a real browser: live, by keyboard, at any width, light and dark."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from playwright.async_api import Browser, Page, expect

from holdfast.server.web.app import create_app
from tests.conftest import Harness
from tests.serve.browser import SignedIn, find_faults, served, too_wide
from tests.serve.ground import site_of_house

pytestmark = pytest.mark.slow

TALK = """
name: talk
steps:
  - name: again
    kind: loop
    loop:
      max_loops: 9
      body:
        - {name: note, input: "Iteration {{ iteration }}"}
        - {name: ask, kind: hitl, message: "Is the draft of this week good enough for the editors?"}
"""
SLOW_MS = 30_000
"""How long the browser waits for what must appear: a busy machine is slow."""


@asynccontextmanager
async def opened(house: Harness, browser: Browser, **look: Any) -> AsyncIterator[tuple[Page, str]]:
    """A page of a browser, and the address of the site."""
    async with served(SignedIn(create_app(site_of_house(house)))) as address:
        context = await browser.new_context(**{"viewport": {"width": 1000, "height": 800}, **look})
        context.set_default_timeout(SLOW_MS)
        try:
            yield await context.new_page(), address
        finally:
            await context.close()


async def nested(house: Harness, depth: int) -> str:
    """A run that waits in so many conditionals."""
    steps = "[{name: ask, kind: hitl, message: 'Deep down?'}]"
    for level in range(depth):
        steps = (
            f"[{{name: level_{level}, kind: conditional, condition_expression: 'True', branches: {{'true': {steps}}}}}]"
        )
    return await house.start(f"steps: {steps}")


async def test_every_page_fits_and_is_accessible(house: Harness, browser: Browser) -> None:
    run = await house.start(TALK)
    await house.answered(run, "no", "no")
    await house.one(run)
    tabs = ("", "/graph", "/context", "/history", "/cancel", "/repetitions?at=pipeline:talk;loop:again")
    async with opened(house, browser) as (page, address):
        for path in ["/runs", *(f"/runs/{run}{tab}" for tab in tabs)]:
            await page.goto(f"{address}{path}")
            assert await find_faults(page) == [], path


async def test_deep_steps_are_readable_on_a_phone(house: Harness, browser: Browser) -> None:
    run = await nested(house, 10)
    await house.one(run)
    async with opened(house, browser, viewport={"width": 360, "height": 800}) as (page, address):
        await page.goto(f"{address}/runs/{run}")
        deepest = page.locator(".step", has_text="Deep down?").last
        box = await deepest.bounding_box()
        assert await too_wide(page) == [] and box is not None and box["width"] > 180


async def test_a_page_follows_its_run_and_keeps_what_is_folded_open(house: Harness, browser: Browser) -> None:
    run = await house.start(TALK)
    await house.answered(run, "no")
    await house.one(run)
    async with opened(house, browser) as (page, address):
        await page.goto(f"{address}/runs/{run}")
        await page.get_by_text("Iteration 1", exact=True).first.click()
        await house.answer(run, "no", by="user:bob")
        await expect(page.get_by_text("3 iterations")).to_be_visible(timeout=SLOW_MS)
        first = page.locator("details", has=page.get_by_text("Iteration 1", exact=True)).last
        assert await first.get_attribute("open") is not None


async def test_a_page_shows_the_end_of_its_run(house: Harness, browser: Browser) -> None:
    run = await house.start("steps: [{name: ask, kind: hitl, message: 'Which?'}]")
    await house.one(run)
    async with opened(house, browser) as (page, address):
        await page.goto(f"{address}/runs/{run}")
        await house.answer(run, "the blue one")
        await expect(page.locator("#part-head .badge")).to_have_text("completed", timeout=SLOW_MS)
        await expect(page.locator("#part-outcome")).to_contain_text("the blue one")
        await expect(page.get_by_role("button", name="Pause")).to_have_count(0)


async def test_a_run_is_cancelled_by_keyboard_and_never_by_the_first_key(house: Harness, browser: Browser) -> None:
    run = await house.start(TALK)
    await house.one(run)
    async with opened(house, browser) as (page, address):
        await page.goto(f"{address}/runs/{run}/cancel")
        await page.get_by_role("link", name="Keep it running").focus()
        await page.keyboard.press("Enter")
        await page.wait_for_url(f"{address}/runs/{run}")
        assert (await house.runs.state(run)).status == "waiting"
        await page.get_by_role("link", name="Cancel the run").press("Enter")
        await page.get_by_role("link", name="Keep it running").focus()
        await page.keyboard.press("Tab")
        await page.keyboard.press("Enter")
        await expect(page.get_by_text("The run was cancelled.").first).to_be_visible(timeout=SLOW_MS)
    assert (await house.result(run)).status == "cancelled"


async def test_the_list_is_walked_by_keys(house: Harness, browser: Browser) -> None:
    for _ in range(2):
        await house.one(await house.start(TALK))
    async with opened(house, browser) as (page, address):
        await page.goto(f"{address}/runs")
        await page.keyboard.press("j")
        await page.keyboard.press("j")
        focused = await page.evaluate("document.activeElement.getAttribute('href')")
        await page.keyboard.press("Enter")
        await page.wait_for_url(f"{address}{focused}")


async def test_a_page_works_without_a_script(house: Harness, browser: Browser) -> None:
    run = await house.start(TALK)
    await house.one(run)
    async with opened(house, browser, java_script_enabled=False) as (page, address):
        await page.goto(f"{address}/runs/{run}")
        await page.get_by_role("button", name="Pause").click()
        await expect(page.get_by_text("The run is paused")).to_be_visible()
        await page.get_by_role("button", name="Resume").click()
        await expect(page.get_by_text("The run continues.")).to_be_visible()
