"""Every page and every kind of question by keys alone, in a real browser; where the focus is, and that it is seen."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import Browser, Page, expect

from holdfast.protocol.answers import Answer
from holdfast.runtime.config import ServeSection
from holdfast.server.web.addresses import question_address
from tests.agents.turns import asking
from tests.conftest import Harness
from tests.serve.blueprints import BLUEPRINTS
from tests.serve.ground import blueprint_file
from tests.serve.keyboard import MOST_STOPS, press, tab_to, type_into, unfold
from tests.serve.pages import open_pages, started

pytestmark = pytest.mark.slow
expect.set_options(timeout=60_000)
TRIP = """
name: trip
inputs:
  type: object
  required: [city]
  properties:
    city: {type: string, title: City}
    days: {type: integer, minimum: 1, title: Days}
steps: [{kind: hitl, name: ok, message: 'Go to {{ input.city }}?'}]
"""
TALK = """
name: talk
steps:
  - name: again
    kind: loop
    loop:
      max_loops: 9
      body:
        - {name: ask, kind: hitl, message: "Is the draft of this week good enough?"}
"""
STOP = """
context: {count: 3}
context_schema: {type: object, properties: {count: {type: integer}}}
steps: [{name: write, input: text, interrupt_before: true}]
output: "{{ context.count }}"
"""


async def closes(page: Page) -> None:
    await expect(page.get_by_role("heading", name="This question is closed")).to_be_visible()


async def listening(page: Page) -> None:
    await expect(page.locator("html[data-live=on]")).to_be_attached()


async def answer_text(page: Page) -> None:
    await type_into(page, "Answer", "Warm")
    await press(page, "Send the answer")


async def choose(page: Page) -> None:
    await tab_to(page, page.get_by_role("radio").first)
    await page.keyboard.press("Space")
    await page.keyboard.press("ArrowDown")
    await expect(page.get_by_role("radio").nth(1)).to_be_checked()
    await press(page, "Send the answer")


async def fill_form(page: Page) -> None:
    await type_into(page, "Name of the guest", "Ms Sato")
    await tab_to(page, page.locator("#main").get_by_label("First night"))
    await page.keyboard.type("12012026")
    await tab_to(page, page.get_by_role("radio", name="single"))
    await page.keyboard.press("ArrowDown")
    add = page.get_by_role("button", name=re.compile("Add one"))
    await tab_to(page, add)
    await page.keyboard.press("Enter")
    await expect(page.locator(".item :is(input, textarea)").first).to_be_focused()
    await expect(page.locator("#main").get_by_label("Name of the guest")).to_have_value("Ms Sato")
    await tab_to(page, page.get_by_role("button", name=re.compile("Remove")))
    await page.keyboard.press("Enter")
    await expect(page.locator(".item")).to_have_count(0)
    await expect(add).to_be_focused()
    await press(page, "Send the answer")


async def keep_secret(page: Page) -> None:
    await tab_to(page, page.locator("#main").get_by_label("TOKEN"))
    await page.keyboard.type("hunter2")
    await page.keyboard.press("Enter")


async def edit(page: Page) -> None:
    await unfold(page, "Change it")
    await type_into(page, "subject", "Another")
    await press(page, "Show what changed")
    await expect(page.locator(".diff .added")).to_contain_text("Another")
    await press(page, "Use my changes")


async def allow(page: Page) -> None:
    await press(page, "Allow once")


async def go_on(page: Page) -> None:
    await press(page, "Go on")


async def decline(page: Page) -> None:
    await unfold(page, "Comment, claim or decline")
    await type_into(page, "Comment (optional)", "Not now")
    await press(page, "Decline")


@pytest.mark.parametrize(
    ("name", "act"),
    [
        ("text", answer_text),
        ("clarify", choose),
        ("form", fill_form),
        ("secret", keep_secret),
        ("review", edit),
        ("permit", allow),
        ("hold", go_on),
        ("word", decline),
    ],
)
async def test_each_kind_is_answered_by_keys(house: Harness, browser: Browser, name: str, act) -> None:
    question = await started(house, name)
    async with open_pages(house, browser) as [page]:
        await page.goto(question_address(question))
        await act(page)
        await closes(page)


async def test_the_context_is_edited_by_keys_and_a_mistake_is_kept(house: Harness, browser: Browser) -> None:
    question = await house.one(await house.start(STOP))
    async with open_pages(house, browser) as [page]:
        await page.goto(question_address(question))
        for text in ('{"count": "many"}', '{"count": 7}'):
            if not await page.locator("details.edit[open]").count():
                await unfold(page, "Edit the context first")
            await tab_to(page, page.locator("details.edit textarea, details.edit input").first)
            editor = page.locator("details.edit textarea, details.edit input").first
            is_json = await editor.evaluate("element => element.tagName === 'TEXTAREA'")
            await page.keyboard.press("ControlOrMeta+a")
            await page.keyboard.type(text if is_json else re.sub(r"\D+", "", text) or "many")
            await press(page, "Go on with this context")
            if "many" in text:
                await expect(page.locator("#main .problem").first).to_be_visible()
                await expect(editor).to_be_focused()
        await closes(page)
    assert await house.output(question.run) == 7


async def test_a_wrong_answer_has_the_focus_and_its_reason(house: Harness, browser: Browser) -> None:
    question = await started(house, "form")
    async with open_pages(house, browser) as [page]:
        await page.goto(question_address(question))
        await type_into(page, "nights (optional)", "many")
        await page.keyboard.press("Enter")
        name = page.locator("#main").get_by_label("Name of the guest")
        await expect(name).to_be_focused()  # the first of those that are wrong
        nights = page.locator("#main").get_by_label("nights")
        await expect(nights).to_have_value("many")
        await expect(nights).to_have_accessible_description("write a whole number, such as 12")


async def test_a_question_is_claimed_released_given_away_and_commented_by_keys(
    house: Harness, browser: Browser
) -> None:
    question = await started(house, "decide")
    async with open_pages(house, browser) as [page]:
        await page.goto(question_address(question))
        for button, shown in (("Claim it", "Claimed by"), ("Release it", "May answer")):
            await unfold(page, "Comment, claim or decline")
            await press(page, button)
            await expect(page.locator(".consequences")).to_contain_text(shown)
            await expect(page.get_by_role("button", name=button, exact=True)).to_have_count(0)
        await unfold(page, "Comment, claim or decline")
        await tab_to(page, page.get_by_label("Delegate to:"))
        await page.keyboard.type("cem")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("alert")).to_contain_text("cem")  # whom nobody knows: once more
        await tab_to(page, page.get_by_label("Delegate to:"))
        await page.keyboard.press("Enter")
        await expect(page.locator(".consequences")).to_contain_text("cem")


async def test_keys_scroll_a_long_question_and_not_the_page(house: Harness, browser: Browser) -> None:
    question = await started(house, "form")
    async with open_pages(house, browser) as [page]:
        await page.set_viewport_size({"width": 1200, "height": 500})
        await page.goto(question_address(question))
        await page.keyboard.press("End")
        await page.wait_for_function("document.getElementById('main').scrollTop > 0")
        assert await page.evaluate("[scrollY, document.documentElement.scrollHeight]") == [0, 500]


async def test_several_are_answered_together_by_keys(house: Harness, browser: Browser) -> None:
    runs = [await house.start(BLUEPRINTS["permit"]) for _ in range(3)]
    questions = [await house.one(run) for run in runs]
    async with open_pages(house, browser) as [page]:
        await page.goto("/?q=Delete")
        await expect(page.locator("[data-item]").nth(2)).to_be_visible()
        wanted = {f"{question.run}/{question.id}" for question in questions}
        for _ in range(await page.locator("[data-item]").count()):
            await page.keyboard.press("j")
            box = page.locator("li:has(:focus) input[type=checkbox]")
            if await box.get_attribute("value") in wanted:
                await page.keyboard.press("x")
                await expect(box).to_be_checked()
        await page.goto(question_address(questions[0]))
        await page.goto("/?q=Delete")  # back from it, all is selected still
        await press(page, "Answer together")
        await press(page, "Allow once")
        await expect(page.get_by_role("heading", name=re.compile("3 questions were answered"))).to_be_visible()
    assert [await house.output(run) for run in runs] == [True] * 3


async def test_a_run_is_paused_resumed_and_cancelled_by_keys(house: Harness, browser: Browser) -> None:
    run = await house.start(TALK)
    await house.one(run)
    async with open_pages(house, browser) as [page]:
        await page.goto("/runs")
        await page.keyboard.press("j")
        await expect(page.locator("[data-item]:focus")).to_have_count(1)
        await page.goto(f"/runs/{run}")
        await press(page, "Pause")
        await expect(page.get_by_text("The run is paused")).to_be_visible()
        await press(page, "Resume")
        await expect(page.get_by_text("The run continues.")).to_be_visible()
        await tab_to(page, page.get_by_role("link", name="Cancel the run"))
        await page.keyboard.press("Enter")
        await press(page, "Cancel the run")
        await expect(page.get_by_text("The run was cancelled.").first).to_be_visible()
    assert (await house.result(run)).status == "cancelled"


async def test_an_agent_is_told_by_keys(house: Harness, browser: Browser) -> None:
    run = await house.start(asking(house), "Go")
    await house.one(run)
    async with open_pages(house, browser) as [page]:
        await page.goto(f"/runs/{run}")
        await page.keyboard.press("t")
        await expect(page.get_by_label("Message", exact=True)).to_be_focused()
        await page.keyboard.type("Be brief")
        await page.keyboard.press("ControlOrMeta+Enter")
        await expect(page.locator("#part-steps")).to_contain_text("Be brief")
        await unfold(page, "Send a message to an agent")
        await type_into(page, "Message", "And kind")
        await press(page, "Send")
        await expect(page.locator("#part-steps")).to_contain_text("And kind")


async def test_the_keys_are_listed(house: Harness, browser: Browser) -> None:
    async with open_pages(house, browser) as [page]:
        await page.goto("/")
        await page.keyboard.press("?")
        listed = await page.locator("dialog#keys[open] kbd").all_inner_texts()
        assert listed == ["j", "k", "Enter", "x", "/", "a", "c", "t", "Ctrl+Enter", "Esc", "?"]
        await page.keyboard.press("Escape")
        await expect(page.locator("dialog#keys")).to_be_hidden()


async def test_a_run_is_started_by_keys(house: Harness, browser: Browser) -> None:
    blueprint_file(house.folder / "blueprints", "trip.yaml", TRIP)
    async with open_pages(house, browser, settings={"serve": ServeSection(blueprints=["blueprints"])}) as [page]:
        await page.goto("/start")
        await tab_to(page, page.get_by_role("link", name="trip"))
        await page.keyboard.press("Enter")
        await type_into(page, "Days (optional)", "none")
        await page.keyboard.press("Enter")
        await expect(page.locator("#main").get_by_label("City")).to_be_focused()
        await page.keyboard.type("Rome")
        await type_into(page, "Days (optional)", "2")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("link", name="Go to Rome?")).to_be_visible()
        house.started.append(page.url.rpartition("/")[2].partition("?")[0])


async def stops_of(page: Page) -> list[str]:
    """Go through a page by Tab; what of its stops cannot be seen, or is out of order."""
    wrong: list[str] = []
    for _ in range(MOST_STOPS):
        await page.keyboard.press("Tab")
        found = await page.evaluate(
            """() => {
                const stop = document.activeElement;
                if (!stop || stop === document.body || stop.dataset.stopped) return null;
                stop.dataset.stopped = "yes";
                const style = getComputedStyle(stop);
                const box = stop.getBoundingClientRect();
                const name = `${stop.tagName} ${stop.textContent.trim().slice(0, 40) || stop.name || stop.id}`;
                const isSeen = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0;
                const isInside = box.bottom > 0 && box.top < innerHeight && box.width > 1;
                return [name, isSeen, isInside, stop.tabIndex <= 0];
            }"""
        )
        if found is None:
            return wrong
        wrong += [
            f"{found[0]}: {text}"
            for text, right in zip(("unseen", "outside", "order"), found[1:], strict=True)
            if not right
        ]
    raise AssertionError("the focus does not leave the page")


@pytest.mark.parametrize("width", [360, 1400])
async def test_the_focus_is_seen_at_every_stop_of_every_page(house: Harness, browser: Browser, width: int) -> None:
    questions = [await started(house, name) for name in ("form", "review", "permit", "decide")]
    run = await house.start(TALK)
    await house.one(run)
    places = ["/", "/runs", "/start", f"/runs/{run}", f"/runs/{run}/context", f"/runs/{run}/graph"]
    async with open_pages(house, browser, viewport={"width": width, "height": 800}) as [page]:
        found = {}
        for place in [*places, *map(question_address, questions)]:
            await page.goto(place)
            found[place] = await stops_of(page)
    assert {place: wrong for place, wrong in found.items() if wrong} == {}


async def test_the_focus_stays_in_the_search_while_the_list_changes(house: Harness, browser: Browser) -> None:
    async with open_pages(house, browser) as [page]:
        await page.goto("/")
        await listening(page)
        await page.keyboard.press("/")
        await page.keyboard.type("half a w")
        question = await started(house, "text")
        await expect(page.locator(f"[data-item][href*='{question.id}']")).to_be_visible()
        await page.keyboard.type("ord")
        await expect(page.get_by_role("searchbox")).to_have_value("half a word")


async def test_the_focus_stays_on_the_box_of_a_question_while_the_list_changes(
    house: Harness, browser: Browser
) -> None:
    first = await started(house, "permit")
    async with open_pages(house, browser) as [page]:
        await page.goto("/")
        await listening(page)
        box = page.locator(f"input[value='{first.run}/{first.id}']")
        await tab_to(page, box)
        await page.keyboard.press("Space")
        question = await started(house, "text")
        await expect(page.locator(f"[data-item][href*='{question.id}']")).to_be_visible()
        await expect(box).to_be_focused()
        await expect(box).to_be_checked()


async def test_the_focus_goes_to_the_neighbour_of_a_question_that_is_answered_elsewhere(
    house: Harness, browser: Browser
) -> None:
    questions = [await started(house, "text") for _ in range(3)]
    async with open_pages(house, browser) as [page]:
        await page.goto("/")
        await listening(page)
        middle = page.locator(f"[data-item][href*='{questions[1].id}']")
        below = page.locator(f"[data-item][href*='{questions[0].id}']")
        await tab_to(page, middle)
        await house.runs.answer(questions[1].run, [Answer(question=questions[1].id, content="x")], by="user:bob")
        await expect(middle).to_have_count(0)
        await expect(below).to_be_focused()


async def test_the_focus_stays_on_a_command_while_the_run_goes_on(house: Harness, browser: Browser) -> None:
    run = await house.start(TALK)
    await house.one(run)
    async with open_pages(house, browser) as [page]:
        await page.goto(f"/runs/{run}")
        link = page.get_by_role("link", name="Cancel the run")
        await tab_to(page, link)
        await house.answered(run, "no")
        await expect(page.locator("#part-steps")).to_contain_text("Iteration 2")
        await expect(link).to_be_focused()


@pytest.mark.parametrize("name", ["text", "decide", "form"])
async def test_a_question_that_a_key_opened_has_the_focus_in_its_answer(
    house: Harness, browser: Browser, name: str
) -> None:
    await started(house, name)
    question = await started(house, name)
    async with open_pages(house, browser) as [page]:
        await page.goto("/")
        await listening(page)
        await expect(page.locator("[data-item]")).to_have_count(2)
        for _ in range(2):
            await page.keyboard.press("j")
        await page.locator(f"[data-item][href*='{question.id}']").focus()
        await page.keyboard.press("Enter")
        await expect(page.locator("article.question")).to_be_visible()
        field = page.locator("form[data-answer] :is(input:not([type=hidden]), textarea)").locator("visible=true").first
        await expect(field).to_be_focused()
        await page.keyboard.press("Escape")
        await page.locator("#main").focus()
        await page.keyboard.press("a")
        await expect(field).to_be_focused()
        await page.reload()
        await expect(field).not_to_be_focused()
