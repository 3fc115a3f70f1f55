"""Comments beside a question: on its page and over the API, in the record and in no history."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, expect

from holdfast.protocol.questions import Question
from holdfast.server.record.entries import ENDED
from holdfast.server.record.record import Record
from holdfast.server.record.store import RecordStore, open_store
from holdfast.server.web.addresses import question_address
from holdfast.server.web.site import Site
from tests.conftest import Harness
from tests.record.ground import KEY, Recording
from tests.serve.ground import WHO, app_of, client_of, person, site_of_house
from tests.serve.keyboard import press, type_into, unfold
from tests.serve.pages import serious, served

ASK = "{name: asked, steps: [{kind: hitl, name: ask, message: Well?, assignees: [user:bob]}]}"
FOR_ALL = "{name: asked, steps: [{kind: hitl, name: ask, message: Well?}]}"
SAID = "Ask <b>legal</b> first\nتحقق من فضلك"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RecordStore]:
    store = open_store(f"sqlite:{tmp_path / 'record.sqlite'}")
    yield store
    store.close()


@pytest.fixture
def site(house: Harness, store: RecordStore) -> Site:
    site = site_of_house(house)
    record = Record(store, house.client, KEY)
    return replace(site, given_runs=site.runs.with_archive(record), record=record)


@pytest_asyncio.fixture
async def client(site: Site) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(site, person("reader", "read")) as client:
        yield client


async def said(
    client: httpx.AsyncClient, question: Question, text: str = SAID, who: str = "ana", **how: str
) -> httpx.Response:
    """Write a comment on the page of a question."""
    data = {"text": text, **how}
    return await client.post(f"{question_address(question)}/comments", data=data, headers={WHO: who})


async def test_what_is_said_beside_a_question_is_shown_with_who_and_when(
    house: Harness, client: httpx.AsyncClient
) -> None:
    question = await house.one(await house.start(ASK))
    sent = await said(client, question)
    assert (sent.status_code, sent.headers["location"]) == (303, f"{question_address(question)}#comments")
    page = (await client.get(question_address(question))).text
    assert re.search(r"<b dir=\"auto\">ana</b> <span class=\"quiet\"><time", page)
    assert "Ask &lt;b&gt;legal&lt;/b&gt; first\nتحقق من فضلك" in page
    people = (await client.get(f"/runs/{question.run}/history")).text
    assert "<b>Comment</b> by ana" in people and "<q>Ask &lt;b&gt;legal" in people


@pytest.mark.slow
async def test_a_comment_is_in_no_history_and_closes_no_question(house: Harness, client: httpx.AsyncClient) -> None:
    question = await house.one(await house.start(ASK))
    await said(client, question, "nothing for a history")
    histories = [history.to_json() for history in await house.histories(question.run)]
    assert not any("nothing for a history" in history for history in histories)
    assert await house.one(question.run) == question


@pytest.mark.slow
async def test_a_closed_question_takes_comments_and_shows_them(house: Harness, client: httpx.AsyncClient) -> None:
    question = await house.one(await house.start(ASK))
    await house.answer(question.run, "yes", question, by="user:bob")
    assert (await said(client, question, "Too early!")).status_code == 303
    assert "Too early!" in (await client.get(question_address(question))).text


async def test_a_form_that_is_sent_twice_adds_one_comment(house: Harness, client: httpx.AsyncClient) -> None:
    question = await house.one(await house.start(ASK))
    for _ in range(2):
        await said(client, question, "once", key="k")
    listed = (await client.get(f"/api/v1/questions/{question.id}/comments")).json()
    assert [one["text"] for one in listed] == ["once"]


async def test_a_comment_that_does_not_fit_stays_in_its_field(house: Harness, client: httpx.AsyncClient) -> None:
    question = await house.one(await house.start(ASK))
    long = "x" * 10_001
    refused = await said(client, question, long, who="bob")
    assert refused.status_code == 422 and long in refused.text and "1 to 10000 characters" in refused.text
    assert f'action="{question_address(question)}"' in refused.text


async def test_whoever_may_only_read_reads_comments_and_writes_none(house: Harness, client: httpx.AsyncClient) -> None:
    question = await house.one(await house.start(ASK))
    await said(client, question, "for everybody")
    page = await client.get(question_address(question), headers={WHO: "reader"})
    assert "for everybody" in page.text and "without answering" not in page.text
    refused = await client.post(f"{question_address(question)}/comments", data={"text": "no"}, headers={WHO: "reader"})
    assert refused.status_code == 403


@pytest.mark.slow
async def test_a_comment_goes_to_a_question_that_there_is(house: Harness, client: httpx.AsyncClient) -> None:
    run = await house.start(ASK)
    assert (await client.post(f"/questions/{run}/0123456789abcdef/comments", data={"text": "x"})).status_code == 404


async def test_a_program_writes_and_reads_comments(house: Harness, client: httpx.AsyncClient) -> None:
    question = await house.one(await house.start(ASK))
    place = f"/api/v1/questions/{question.id}"
    written = await client.post(f"{place}/comment", json={"comment": SAID}, headers={WHO: "bob"})
    assert (written.status_code, written.json()["run"]) == (201, question.run)
    [comment] = (await client.get(f"{place}/comments")).json()
    assert (comment["by"], comment["text"], comment["proved_by"]) == ("user:bob", SAID, "client")
    blank = await client.post(f"{place}/comment", json={"comment": " "})
    assert (blank.status_code, blank.json()["errors"][0]["path"]) == (400, "comment")


async def test_without_a_record_page_and_api_say_so(house: Harness) -> None:
    question = await house.one(await house.start(ASK))
    async with client_of(site_of_house(house)) as client:
        page = await client.get(question_address(question))
        assert "There is no record here" in page.text and "without answering" not in page.text
        assert (await said(client, question)).status_code == 503
        refused = await client.post(f"/api/v1/questions/{question.id}/comment", json={"comment": "x"})
    assert (refused.status_code, refused.json()["code"]) == (503, "no_record")


@pytest.mark.slow
async def test_erasure_takes_the_comments_too(house: Harness, store: RecordStore, client: httpx.AsyncClient) -> None:
    record = Record(store, house.client, KEY)
    question = await house.one(await house.start(ASK))
    await said(client, question, "of a person")
    await house.answer(question.run, "yes", question, by="user:bob")
    await house.output(question.run)
    recorder = record.recorder(house.runs.tree, house.runs.task_queue)
    await Recording(house, store, recorder).until_recorded(question.run, ENDED)
    await record.erase(question.run, "user:ana")
    [comment] = (await client.get(f"/api/v1/questions/{question.id}/comments")).json()
    assert (comment["by"], comment["text"]) == (None, None)
    page = (await client.get(question_address(question))).text
    assert "Erased." in page and "of a person" not in page


@asynccontextmanager
async def opened(site: Site, browser: Browser, question: Question) -> AsyncIterator[Page]:
    """The page of a question, with live updates, in a browser."""
    async with served(app_of(site)) as address:
        page = await browser.new_page(base_url=address, viewport={"width": 1400, "height": 900})
        await page.goto(question_address(question))
        await expect(page.locator("html[data-live=on]")).to_be_attached()
        yield page
        await page.close()


@pytest.mark.slow
async def test_a_comment_appears_in_the_browser_of_somebody_else(house: Harness, site: Site, browser: Browser) -> None:
    question = await house.one(await house.start(FOR_ALL))
    async with opened(site, browser, question) as page:
        await page.locator("#main").get_by_label("Answer", exact=True).fill("half an ans")
        async with client_of(site) as other:
            await other.post(f"{question_address(question)}/comments", data={"text": "Wait!"}, headers={WHO: "cem"})
        await expect(page.locator("[data-comments]")).to_contain_text("Wait!")
        assert await page.locator("#main").get_by_label("Answer", exact=True).input_value() == "half an ans"
        assert await serious(page) == []


@pytest.mark.slow
async def test_a_comment_is_written_in_the_order_of_tab(house: Harness, site: Site, browser: Browser) -> None:
    async with opened(site, browser, await house.one(await house.start(ASK))) as page:
        await unfold(page, "Comment without answering")
        await page.keyboard.press("Tab")
        await expect(page.get_by_label("Your comment")).to_be_focused()
        await type_into(page, "Your comment", "By keys")
        await page.keyboard.press("Tab")
        await page.keyboard.press("Enter")
        await expect(page.locator("[data-comments]")).to_contain_text("By keys")


@pytest.mark.slow
async def test_c_opens_the_comment_enter_is_a_new_line_and_ctrl_enter_sends_it(
    house: Harness, site: Site, browser: Browser
) -> None:
    async with opened(site, browser, await house.one(await house.start(ASK))) as page:
        await page.keyboard.press("c")
        await expect(page.get_by_label("Your comment")).to_be_focused()
        await page.keyboard.type("can c")
        await page.keyboard.press("Enter")
        await page.keyboard.type("wait")
        await expect(page.get_by_label("Your comment")).to_have_value("can c\nwait")
        await page.keyboard.press("ControlOrMeta+Enter")
        await expect(page.locator("[data-comments] .said")).to_have_text("can c\nwait")


@pytest.mark.slow
async def test_ctrl_enter_outside_a_comment_sends_nothing(house: Harness, site: Site, browser: Browser) -> None:
    question = await house.one(await house.start(FOR_ALL))
    async with opened(site, browser, question) as page:
        await type_into(page, "Answer", "not yet")
        await page.keyboard.press("ControlOrMeta+Enter")
        await press(page, "Keys")
        await expect(page.locator("dialog#keys")).to_be_visible()
        assert (await house.one(question.run)).id == question.id
