"""The inbox in a real browser: each kind, keys, live updates, races, widths, axe."""

import re

import pytest
from playwright.async_api import Browser, Page, expect

from holdfast.protocol.answers import Answer
from holdfast.protocol.questions import Question
from holdfast.server.web.addresses import question_address
from tests.conftest import Harness
from tests.serve.blueprints import BLUEPRINTS
from tests.serve.browser import WIDTHS
from tests.serve.pages import open_pages, serious, started, too_wide

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


async def choose(page: Page) -> None:
    await page.locator("#main").get_by_label("Warm").check()
    await page.get_by_role("button", name="Send the answer").click()


async def keep_secret(page: Page) -> None:
    await page.locator("#main").get_by_label("TOKEN").fill("hunter2")
    await page.get_by_role("button", name="Store it and continue").click()


async def edit(page: Page) -> None:
    await page.get_by_text("Change it").click()
    await page.locator("#main").get_by_label("subject").fill("Another")
    await page.get_by_role("button", name="Show what changed").click()
    await expect(page.locator(".diff .added")).to_contain_text("Another")
    await page.get_by_role("button", name="Use my changes").click()


def presses(button: str):
    async def press(page: Page) -> None:
        await page.get_by_role("button", name=button, exact=True).click()

    return press


@pytest.mark.parametrize(
    ("name", "act"),
    [
        ("text", type_text),
        ("clarify", choose),
        ("form", fill_form),
        ("secret", keep_secret),
        ("review", edit),
        ("permit", presses("Allow once")),
        ("hold", presses("Go on")),
    ],
)
async def test_each_kind_is_answered(house: Harness, browser: Browser, name: str, act) -> None:
    question = await started(house, name)
    async with open_pages(house, browser) as [page]:
        await page.goto(question_address(question))
        await act(page)
        await closes(page)
    assert (await house.result(question.run)).status == "completed"


async def test_a_wrong_answer_is_kept_in_its_field_which_has_the_focus(house: Harness, browser: Browser) -> None:
    question = await started(house, "form")
    async with open_pages(house, browser) as [page]:
        await page.goto(question_address(question))
        await page.locator("#main").get_by_label("nights").fill("many")
        await fill_form(page)
        nights = page.locator("#main").get_by_label("nights")
        await expect(nights).to_have_value("many")
        await expect(nights).to_be_focused()
        await expect(nights).to_have_accessible_description("write a whole number, such as 12")
        await expect(page.locator("#main").get_by_label("Name of the guest")).to_have_value("Ms Sato")


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


async def test_the_keyboard_is_enough(house: Harness, browser: Browser) -> None:
    question = await started(house, "permit")
    async with open_pages(house, browser) as [page]:
        await page.goto("/")
        item = page.locator(f"[data-item][href*='{question.id}']")
        await expect(item).to_be_visible()
        while not await item.evaluate("element => element === document.activeElement"):
            await page.keyboard.press("j")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("heading", level=1, name="Delete the old backups?")).to_be_visible()
        button = page.get_by_role("button", name="Allow once")
        await page.locator("#main").focus()
        while not await button.evaluate("element => element === document.activeElement"):
            await page.keyboard.press("Tab")
        await page.keyboard.press("Enter")
        await closes(page)


async def test_the_keys_are_listed_and_reach_the_search(house: Harness, browser: Browser) -> None:
    async with open_pages(house, browser) as [page]:
        await page.goto("/")
        await page.keyboard.press("?")
        await expect(page.get_by_role("dialog")).to_be_visible()
        await page.keyboard.press("Escape")
        await page.keyboard.press("/")
        await expect(page.get_by_role("searchbox")).to_be_focused()


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


async def test_a_batch_of_twenty(house: Harness, browser: Browser) -> None:
    runs = [await house.start(BLUEPRINTS["permit"]) for _ in range(20)]
    questions = [await house.one(run) for run in runs]
    async with open_pages(house, browser) as [page]:
        await page.goto("/?q=Delete")
        for question in questions:
            await page.locator(f"input[value='{question.run}/{question.id}']").check()
        await page.get_by_role("button", name="Answer together").click()
        await page.get_by_role("button", name="Allow once").click()
        await expect(page.get_by_role("heading", name=re.compile("20 questions were answered"))).to_be_visible()
    assert [await house.output(run) for run in runs] == [True] * 20


async def test_a_question_is_claimed_and_given_away(house: Harness, browser: Browser) -> None:
    question = await started(house, "decide")
    async with open_pages(house, browser) as [page]:
        await page.goto(question_address(question))
        await page.get_by_text("Comment, claim or decline").click()
        await page.get_by_role("button", name="Claim it").click()
        await expect(page.locator(".consequences")).to_contain_text("Claimed by")
        await page.get_by_text("Comment, claim or decline").click()
        await page.get_by_label("Delegate to:").fill("cem")
        await page.get_by_role("button", name="Delegate", exact=True).click()
        await expect(page.locator(".consequences")).to_contain_text("cem")


async def test_a_phone_shows_the_list_and_then_the_question_alone(house: Harness, browser: Browser) -> None:
    question = await started(house, "word")
    async with open_pages(house, browser, viewport={"width": 360, "height": 740}) as [page]:
        await page.goto("/")
        await page.locator(f"[data-item][href*='{question.id}']").click()
        await expect(page.get_by_role("heading", level=1, name="Tone?")).to_be_visible()
        await expect(page.locator(".list")).to_be_hidden()
        await page.get_by_role("link", name="My questions").click()
        await expect(page.locator(".list")).to_be_visible()


@pytest.fixture
def every_kind(house: Harness):
    async def start() -> list[Question]:
        return [await started(house, name) for name in BLUEPRINTS]

    return start


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_every_page_fits_and_is_accessible(house: Harness, browser: Browser, every_kind, scheme: str) -> None:
    questions = await every_kind()
    found: dict[str, list[str]] = {}
    async with open_pages(house, browser, color_scheme=scheme) as [page]:
        for path in ["/", *map(question_address, questions)]:
            await page.goto(path)
            for width in WIDTHS:
                await page.set_viewport_size({"width": width, "height": 800})
                found[f"{path} at {width}"] = await too_wide(page)
            found[path] = await serious(page)
    assert {place: what for place, what in found.items() if what} == {}
