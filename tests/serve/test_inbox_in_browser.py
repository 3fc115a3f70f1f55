"""The inbox in a real browser: each kind, keys, live updates, races, widths, axe."""

import re

import pytest
from playwright.async_api import Browser, Page, expect

from holdfast.protocol.answers import Answer
from holdfast.server.web.addresses import question_address
from tests.conftest import Harness
from tests.serve.blueprints import BLUEPRINTS
from tests.serve.browser import find_faults
from tests.serve.pages import open_pages, started

pytestmark = pytest.mark.slow
PATIENCE = 60_000
"""Milliseconds that a page may take on a busy machine."""
expect.set_options(timeout=PATIENCE)


async def listening(page: Page) -> None:
    """Wait until the page hears of news."""
    await expect(page.locator("html[data-live=on]")).to_be_attached()  # a function of ours the page's policy forbids


async def closes(page: Page) -> None:
    """Wait for the page of what was decided."""
    await expect(page.get_by_role("heading", name="This question is closed")).to_be_visible()


async def fill_form(page: Page) -> None:
    await page.locator("#main").get_by_label("Name of the guest").fill("Ms Sato")
    await page.locator("#main").get_by_label("First night").fill("2026-12-01")
    await page.locator("#main").get_by_label("double").check()
    await page.get_by_role("button", name="Send the answer").click()


async def type_text(page: Page) -> None:
    await page.locator("#main").get_by_label("Answer", exact=True).fill("Warm")
    await page.get_by_role("button", name="Send the answer").click()


async def edit(page: Page) -> None:
    await page.get_by_text("Change it").click()
    await page.locator("#main").get_by_label("subject").fill("Another")
    await page.get_by_role("button", name="Show what changed").click()
    await expect(page.locator(".diff .added")).to_contain_text("Another")
    await page.get_by_role("button", name="Use my changes").click()


async def allow(page: Page) -> None:
    await page.get_by_role("button", name="Allow once", exact=True).click()


@pytest.mark.parametrize(
    ("name", "act"),
    [
        ("text", type_text),
        ("form", fill_form),
        ("review", edit),
        ("permit", allow),
    ],
)
async def test_a_question_is_answered_by_mouse(house: Harness, browser: Browser, name: str, act) -> None:
    question = await started(house, name)
    async with open_pages(house, browser) as [page]:
        await page.goto(question_address(question))
        await act(page)
        await closes(page)
    assert (await house.result(question.run)).status == "completed"


async def test_two_browsers_race_and_one_is_told_who_was_first(house: Harness, browser: Browser) -> None:
    question = await started(house, "text")
    async with open_pages(house, browser, "ana", "bob", java_script_enabled=False) as [ana, bob]:
        for page, words in ((ana, "of Ana"), (bob, "of Bob")):
            await page.goto(question_address(question))
            await page.locator("#main").get_by_label("Answer", exact=True).fill(words)
        await ana.get_by_role("button", name="Send the answer").click()
        await closes(ana)
        await bob.get_by_role("button", name="Send the answer").click()
        await expect(bob.locator("#main .note.warn")).to_contain_text("by ana")
        await expect(bob.locator("#main .note.bad")).to_contain_text("of Bob")
    assert await house.output(question.run) == "of Ana"


async def test_what_is_answered_elsewhere_goes_from_the_page(house: Harness, browser: Browser) -> None:
    question = await started(house, "text")
    async with open_pages(house, browser) as [page]:
        await page.goto(question_address(question))
        await listening(page)
        await page.locator("#main").get_by_label("Answer", exact=True).fill("half a")
        item = page.locator(f"[data-item][href*='{question.id}']")
        await house.runs.answer(question.run, [Answer(question=question.id, content="x")], by="user:bob")
        await expect(page.locator("[data-gone]")).to_contain_text("by bob")
        await expect(page.get_by_role("button", name="Send the answer")).to_be_disabled()
        await expect(page.locator("#main").get_by_label("Answer", exact=True)).to_have_value("half a")
        await expect(item).to_have_count(0)


async def test_a_page_follows_who_may_answer_and_keeps_what_is_typed(house: Harness, browser: Browser) -> None:
    question = await started(house, "text")
    async with open_pages(house, browser, timezone_id="Asia/Tokyo") as [page]:
        await page.goto(question_address(question))
        await listening(page)
        field = page.locator("#main").get_by_label("Answer", exact=True)
        await field.fill("half a")
        people, send = house.runs.assignment, page.get_by_role("button", name="Send the answer")
        facts, run = page.locator("[data-facts]"), question.run
        await people.claim(run, question.id, by="user:bob")
        await expect(facts).to_contain_text("Claimed by")
        await expect(facts.locator("time").first).to_have_attribute("title", re.compile(r"GMT\+9$"))
        await people.release(run, question.id, by="user:bob")
        await expect(facts).not_to_contain_text("Claimed by")
        await people.reassign(run, question.id, ["user:cem"], by="user:bob")
        await expect(page.locator("[data-who]")).to_contain_text("user:cem")
        await expect(send).to_be_disabled()
        await people.reassign(run, question.id, ["user:ana"], by="user:bob")
        await expect(send).to_be_enabled()
        await expect(page.locator("[data-who]")).to_be_empty()
        await expect(field).to_have_value("half a")
        await expect(field).to_be_focused()


async def test_a_new_question_comes_into_the_list(house: Harness, browser: Browser) -> None:
    zoe = f"zoe-{house.folder.name}"  # others leave runs behind that nobody answers for, and that wait for anyone
    async with open_pages(house, browser, zoe) as [page]:
        await page.goto("/?for=mine")
        await listening(page)
        asked = f"steps: [{{kind: hitl, name: ask, message: Well?, assignees: ['user:{zoe}']}}]"
        question = await house.one(await house.start(asked))
        await expect(page.locator(f"[data-item][href*='{question.id}']")).to_be_visible()


async def test_after_a_decision_the_next_question_of_the_run_appears(house: Harness, browser: Browser) -> None:
    run = await house.start("steps: [{kind: hitl, name: a, message: One?}, {kind: hitl, name: b, message: Two?}]")
    question = await house.one(run)
    async with open_pages(house, browser) as [page]:
        await page.goto(question_address(question))
        await type_text(page)
        await expect(page.locator("[data-next]").get_by_role("link", name="Two?")).to_be_visible()


async def test_enter_in_a_field_decides_nothing_of_weight(house: Harness, browser: Browser) -> None:
    question = await started(house, "review")
    async with open_pages(house, browser) as [page]:
        await page.goto(question_address(question))
        await page.get_by_text("Change it").click()
        await page.locator("#main").get_by_label("subject").fill("Another")
        await page.locator("#main").get_by_label("subject").press("Enter")
        await expect(page.locator(".diff .added")).to_contain_text("Another")
    assert [open_.id for open_ in await house.asked(question.run)] == [question.id]


async def test_the_focus_goes_from_the_answer_to_the_danger(house: Harness, browser: Browser) -> None:
    question = await started(house, "permit")
    async with open_pages(house, browser) as [page]:
        await page.goto(question_address(question))
        order = await page.locator("form.answer button:visible:not(.unseen)").all_inner_texts()
    assert order == ["Allow once", "Allow for this run", "Deny"]


async def test_a_phone_shows_the_list_and_then_the_question_alone(house: Harness, browser: Browser) -> None:
    question = await started(house, "word")
    async with open_pages(house, browser, viewport={"width": 360, "height": 740}) as [page]:
        await page.goto("/")
        await page.locator(f"[data-item][href*='{question.id}']").click()
        await expect(page.get_by_role("heading", level=1, name="Tone?")).to_be_visible()
        await expect(page.locator(".list")).to_be_hidden()
        await page.get_by_role("link", name="My questions").click()
        await expect(page.locator(".list")).to_be_visible()


async def test_every_page_fits_and_is_accessible(house: Harness, browser: Browser) -> None:
    questions = [await started(house, name) for name in BLUEPRINTS]
    found: dict[str, list[str]] = {}
    async with open_pages(house, browser) as [page]:
        for path in ["/", *map(question_address, questions)]:
            await page.goto(path)
            found[path] = await find_faults(page)
    assert {place: what for place, what in found.items() if what} == {}
