"""A person who uses a page by the keyboard alone."""

from __future__ import annotations

from playwright.async_api import Locator, Page, expect

MOST_STOPS = 200
"""Presses of Tab after which a control counts as out of reach."""


async def tab_to(page: Page, control: Locator) -> None:
    """Press Tab until a control has the focus."""
    await expect(control).to_be_visible()
    for _ in range(MOST_STOPS):
        if await control.evaluate("element => element === document.activeElement"):
            return
        await page.keyboard.press("Tab")
    raise AssertionError(f"{control} cannot be reached by Tab")


async def press(page: Page, name: str, key: str = "Enter") -> None:
    """Go to a button by Tab and press it."""
    await tab_to(page, page.get_by_role("button", name=name, exact=True))
    await page.keyboard.press(key)


async def type_into(page: Page, label: str, text: str) -> None:
    await tab_to(page, page.locator("#main").get_by_label(label, exact=True))
    await page.keyboard.press("ControlOrMeta+a")
    await page.keyboard.type(text)


async def unfold(page: Page, summary: str) -> None:
    await tab_to(page, page.locator("summary", has_text=summary))
    await page.keyboard.press("Enter")
