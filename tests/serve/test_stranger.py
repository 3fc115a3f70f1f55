"""What a stranger does to the pages: sends twice, goes back, lets the session expire, pulls the plug, writes HTML."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from playwright.async_api import Browser, Page, expect

from holdfast.client.answering import Sender
from holdfast.protocol.answers import Answer
from holdfast.protocol.questions import Question
from holdfast.server.web.addresses import question_address
from holdfast.server.web.app import create_app
from holdfast.server.web.gate import Gate
from tests.conftest import Harness, worker_for
from tests.serve.browser import find_faults, served
from tests.serve.pages import inbox_of, open_pages, serious, started, too_wide

pytestmark = pytest.mark.slow
expect.set_options(timeout=60_000)
MARKUP = "<img src=x onerror=alert(1)><b>bold</b><script>document.title='changed'</script>"
WILD = f"""
steps:
  - kind: hitl
    name: wild
    ask: decision
    message: "{MARKUP} {MARKUP}"
    input: {{about: "{MARKUP}", "{MARKUP}": 1}}
    options:
      - {{id: a, label: "{MARKUP}", description: "{MARKUP}", risk: high, cost: "{MARKUP}", risks: ["{MARKUP}"]}}
      - {{id: b, label: Other}}
"""
WORD = "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft"
LONG_NAMES = f"""
steps:
  - kind: hitl
    name: {"long_" * 12}step
    ask: decision
    message: "{WORD * 2}?"
    assignees: ['user:ana', 'user:{"long-" * 20}name']
    options: [{{id: a, label: "{WORD}", description: "{WORD * 3}"}}, {{id: b, label: "{WORD}2"}}]
"""


async def write(page: Page, question: Question, text: str) -> None:
    await page.goto(question_address(question))
    await page.locator("#main").get_by_label("Answer", exact=True).fill(text)


def send(page: Page):
    return page.get_by_role("button", name="Send the answer")


async def closes(page: Page) -> None:
    await expect(page.get_by_role("heading", name="This question is closed")).to_be_visible()


async def test_a_double_click_answers_once(house: Harness, browser: Browser) -> None:
    question = await started(house, "text")
    async with open_pages(house, browser) as [page]:
        await write(page, question, "once")
        await send(page).dblclick()
        await closes(page)
        await expect(page.locator("#main .note.bad")).to_have_count(0)
    assert await house.output(question.run) == "once"


async def test_a_form_that_is_sent_twice_without_a_script_answers_once(house: Harness, browser: Browser) -> None:
    question = await started(house, "text")
    async with open_pages(house, browser, java_script_enabled=False) as [page]:
        await write(page, question, "once")
        await send(page).dblclick(no_wait_after=True)
        await closes(page)
    assert await house.output(question.run) == "once"


async def test_the_way_back_shows_that_it_is_closed(house: Harness, browser: Browser) -> None:
    question = await started(house, "text")
    async with open_pages(house, browser) as [page]:
        await write(page, question, "first")
        await send(page).click()
        await closes(page)
        await page.goto("/")
        await page.go_back()
        await closes(page)


async def test_two_tabs_of_one_person_answer_once(house: Harness, browser: Browser) -> None:
    question = await started(house, "text")
    async with open_pages(house, browser, java_script_enabled=False) as [page]:
        other = await page.context.new_page()
        await write(page, question, "of the first tab")
        await write(other, question, "of the second tab")
        await send(page).click()
        await closes(page)
        await send(other).click()
        await expect(other.locator("#main .note.bad")).to_contain_text("of the second tab")
    assert await house.output(question.run) == "of the first tab"


async def test_what_was_typed_outlasts_a_network_that_was_gone(house: Harness, browser: Browser) -> None:
    question = await started(house, "text")
    async with open_pages(house, browser) as [page]:
        await write(page, question, "half a sentence")
        await page.context.set_offline(True)
        await send(page).click(no_wait_after=True)
        await expect(page.locator("#cut")).to_contain_text("nothing was sent")
        await page.context.set_offline(False)
        await page.goto(question_address(question))
        await expect(page.locator("#main").get_by_label("Answer", exact=True)).to_have_value("half a sentence")
        await send(page).click()
        await closes(page)
    assert await house.output(question.run) == "half a sentence"


async def test_a_page_says_that_it_is_cut_off_and_catches_up(house: Harness, browser: Browser) -> None:
    async with open_pages(house, browser) as [page]:
        await page.route("**/live*", lambda route: route.abort())
        await page.goto("/")
        await expect(page.locator("#cut")).to_contain_text("No connection to the server")
        question = await started(house, "text")
        await page.unroute("**/live*")
        await expect(page.locator("#cut")).to_be_empty()
        await expect(page.locator(f"[data-item][href*='{question.id}']")).to_be_visible()


async def test_a_page_that_no_worker_has_told_tells_when_one_answers(house: Harness, browser: Browser) -> None:
    away = Harness(house.client, f"away-{house.unique}", house.folder)
    async with open_pages(away, browser) as [page]:
        async with worker_for(house.client, f"away-{house.unique}"):
            question = await started(away, "text")
            await page.goto(question_address(question))
        await page.reload()
        await expect(page.locator("[data-unsure]")).to_be_visible()
        async with worker_for(house.client, f"away-{house.unique}"):
            await expect(page.locator("[data-unsure]")).to_have_count(0)
            await expect(page.locator("[data-gone]")).to_be_empty()
            await away.answer(question.run, "Warm", question)
            await expect(page.locator("[data-closed]")).to_be_visible()


async def test_the_draft_of_another_person_is_not_shown(house: Harness, browser: Browser) -> None:
    question = await started(house, "text")
    async with open_pages(house, browser) as [page]:
        await write(page, question, "of Ana")
        await page.context.set_extra_http_headers({"x-test-identity": "bob"})
        await page.goto(question_address(question))
        await expect(page.locator("#main").get_by_label("Answer", exact=True)).to_have_value("")


async def test_a_secret_is_in_no_draft(house: Harness, browser: Browser) -> None:
    question = await started(house, "secret")
    async with open_pages(house, browser) as [page]:
        await page.goto(question_address(question))
        await page.locator("#main").get_by_label("TOKEN").fill("hunter2")
        assert "hunter2" not in await page.evaluate("JSON.stringify(sessionStorage)")


async def test_a_claim_keeps_what_is_typed(house: Harness, browser: Browser) -> None:
    question = await started(house, "text")
    async with open_pages(house, browser) as [page]:
        await write(page, question, "half a sentence")
        await page.get_by_text("Comment, claim or decline").click()
        await page.get_by_role("button", name="Claim it").click()
        await expect(page.locator(".consequences")).to_contain_text("Claimed by")
        await expect(page.locator("#main").get_by_label("Answer", exact=True)).to_have_value("half a sentence")


@asynccontextmanager
async def signed_in(house: Harness, browser: Browser) -> AsyncIterator[tuple[Page, Gate]]:
    """A page of Ana's with a session of the real sign-in, and the gate that knows the session."""
    app = create_app(inbox_of(house))
    async with served(app) as address:
        gate: Gate = app.state.gate
        context = await browser.new_context(base_url=address)
        await enter(context, gate, address)
        try:
            yield await context.new_page(), gate
        finally:
            await context.close()


async def enter(context, gate: Gate, address: str) -> None:
    """Give a browser the cookie of a new session of Ana's."""
    cookie = await asyncio.to_thread(gate.sessions.begin, Sender("user:ana", proof="person"))
    name = f"holdfast-{address.rpartition(':')[2]}"
    await context.add_cookies([{"name": name, "value": cookie, "url": address}])


async def test_what_was_typed_outlasts_a_session_that_expired(house: Harness, browser: Browser) -> None:
    question = await started(house, "text")
    async with signed_in(house, browser) as (page, gate):
        await write(page, question, "half a sentence")
        address = page.url.partition("/questions")[0]
        await page.context.clear_cookies(name=f"holdfast-{address.rpartition(':')[2]}")
        await send(page).click()
        await expect(page.get_by_text("Sign in to see this page.")).to_be_visible()
        await enter(page.context, gate, address)
        await page.get_by_role("link", name="Sign in").click()
        await expect(page.locator("#main").get_by_label("Answer", exact=True)).to_have_value("half a sentence")
        await send(page).click()
        await closes(page)
    assert await house.output(question.run) == "half a sentence"


@pytest.mark.parametrize("text", [WILD, LONG_NAMES], ids=["markup", "long"])
async def test_whatever_it_holds_a_page_runs_nothing_and_fits(house: Harness, browser: Browser, text: str) -> None:
    question = await house.one(await house.start(text))
    async with open_pages(house, browser) as [page]:
        for place in (
            question_address(question),
            "/",
            f"/runs/{question.run}",
            f"/batch?q={question.run}/{question.id}",
        ):
            await page.goto(place)
            assert await find_faults(page) == [], place
            assert await page.locator("main img, main b:text('bold'), main script").count() == 0
            assert "changed" not in await page.title()


async def test_the_pages_beside_are_accessible(house: Harness, browser: Browser) -> None:
    question = await started(house, "text")
    await house.runs.answer(question.run, [Answer(question=question.id, content="x")], by="user:bob")
    found = {}
    async with open_pages(house, browser) as [page]:
        for place in (question_address(question), "/nowhere", "/start", "/sign-in", "/?for=all&q=none", "/?page=9"):
            await page.goto(place)
            found[place] = [*await serious(page), *await too_wide(page)]
    assert {place: what for place, what in found.items() if what} == {}
