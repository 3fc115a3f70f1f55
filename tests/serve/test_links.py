"""Links in messages: for one person and one question, to look at."""

import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest
from playwright.async_api import Browser, expect
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from holdfast.protocol.questions import Question
from holdfast.server.web.addresses import new_once_token, question_path
from holdfast.server.web.gate import require_identity
from holdfast.server.web.sign_in import make_link_token
from tests.conftest import Harness
from tests.serve.browser import served, too_wide
from tests.serve.door import Door

ASK = "{steps: [{kind: hitl, name: ask, message: Well?}]}"


async def decide(request: Request) -> Response:
    """The page of a question: shown to readers, decided by those who may answer."""
    identity = require_identity(request, "read" if request.method == "GET" else "answer")
    return JSONResponse([identity.user, identity.sender.proof, request.state.csrf])


def door_of(house: Harness, **settings: bool) -> Door:
    door = Door(house.client, house.folder / "state", house.runs, **settings)
    door.app.router.routes.insert(0, Route("/questions/{run}/{id}", decide, methods=["GET", "POST"]))
    return door


@pytest.fixture
async def question(house: Harness) -> Question:
    return await house.one(await house.start(ASK))


async def opened(door: Door, question: Question, user: str = "user:ana") -> httpx.AsyncClient:
    browser = door.browser()
    page = await browser.get(f"/l/{make_link_token(door.site, user, question.run, question.id)}")
    assert page.headers["location"] == question_path(question.run, question.id)
    return browser


async def test_a_link_shows_its_question_to_its_person(house: Harness, question: Question) -> None:
    browser = await opened(door_of(house), question)
    shown = await browser.get(question_path(question.run, question.id))
    assert shown.json()[:2] == ["user:ana", "link"]


@pytest.mark.first_row
@pytest.mark.parametrize("path", ["/", "/who", "/questions/other/0", "/api/v1/who"])
async def test_a_link_shows_nothing_else(house: Harness, question: Question, path: str) -> None:
    answer = await (await opened(door_of(house), question)).get(path)
    assert answer.status_code in (303, 401)


async def test_a_link_shows_the_question_alone_and_no_form(house: Harness, question: Question) -> None:
    other = await house.one(await house.start(ASK.replace("Well?", "Shall the other one be seen?")))
    browser = await opened(Door(house.client, house.folder / "state", house.runs), question)
    page = (await browser.get(question_path(question.run, question.id))).text
    assert "Well?" in page and "sign in as user:ana to answer it" in page
    assert "the other one" not in page and other.id not in page and 'name="digest"' not in page
    assert "Sign out" not in page and 'href="/runs"' not in page  # where it leads nowhere but to the sign-in


async def test_a_link_shows_no_answers_to_other_questions_of_the_run(house: Harness) -> None:
    both = "steps: [{kind: hitl, name: who, message: Who?}, {kind: hitl, name: ask, message: Well?}]"
    run = await house.start(both)
    await house.answer(run, "Ana, 33")
    question = await house.one(run)
    browser = await opened(Door(house.client, house.folder / "state", house.runs), question)
    path = question_path(question.run, question.id)
    for address in (path, f"{path}/part"):
        assert "Ana, 33" not in (await browser.get(address)).text


async def test_a_link_leads_by_the_sign_in_to_the_answer(house: Harness, question: Question) -> None:
    door = Door(house.client, house.folder / "state", house.runs)
    browser = await opened(door, question)
    page = await browser.get(question_path(question.run, question.id))
    sign_in = await browser.get(re.search(r'href="(/sign-in\?next=[^"]+)">Sign in to answer', page.text)[1])
    form = dict(re.findall(r'name="(next|csrf)" value="([^"]+)"', sign_in.text))
    code = new_once_token(door.config.home, "user:ana")
    entered = await browser.post("/sign-in", data={**form, "code": code})
    answer = await browser.get(entered.headers["location"])
    assert answer.url.path == question_path(question.run, question.id) and 'name="digest"' in answer.text


async def test_the_way_back_goes_through_a_provider(house: Harness) -> None:
    question = await house.one(await house.start(ASK.replace("message", "assignees: ['user:ana'], message")))
    oidc = {"issuer": "https://id.example.com", "client_id": "holdfast"}
    door = Door(house.client, house.folder / "state", house.runs, oidc=oidc, url="http://localhost:8090")
    browser, path = await opened(door, question), question_path(question.run, question.id)
    page = await browser.get("/sign-in", params={"next": path})
    assert re.search(rf'href="/sign-in/provider/\?next={quote(path, safe="")}"', page.text)


async def test_a_link_decides_nothing(house: Harness, question: Question) -> None:
    browser, path = await opened(door_of(house), question), question_path(question.run, question.id)
    token = (await browser.get(path)).json()[2]
    answer = await browser.post(path, data={"csrf": token})
    assert (answer.status_code, "sign in as user:ana" in answer.text) == (403, True)


async def test_a_link_decides_where_the_settings_let_it(house: Harness, question: Question) -> None:
    browser, path = await opened(door_of(house, link_login=True), question), question_path(question.run, question.id)
    token = (await browser.get(path)).json()[2]
    assert (await browser.post(path, data={"csrf": token})).json()[:2] == ["user:ana", "link"]


async def test_a_link_dies_with_its_question(house: Harness, question: Question) -> None:
    door = door_of(house)
    await house.answer(question.run, "yes", question)
    answer = await door.browser().get(f"/l/{make_link_token(door.site, 'user:ana', question.run, question.id)}")
    assert (answer.status_code, "holdfast-8090=" in str(answer.headers)) == (410, False)


@pytest.mark.slow
@pytest.mark.parametrize("change", [lambda token: token[:-2], lambda token: "x" + token, lambda token: "é"])
async def test_a_link_that_was_not_made_is_refused(
    house: Harness, question: Question, change: Callable[[str], str]
) -> None:
    door = door_of(house)
    answer = await door.browser().get(f"/l/{change(make_link_token(door.site, 'user:ana', question.run, question.id))}")
    assert (answer.status_code, "holdfast-8090=" in str(answer.headers)) == (404, False)


async def test_the_link_of_another_server_is_refused(house: Harness, question: Question, tmp_path: Path) -> None:
    token = make_link_token(Door(house.client, tmp_path / "other").site, "user:ana", question.run, question.id)
    assert (await door_of(house).browser().get(f"/l/{token}")).status_code == 404


async def test_whoever_has_signed_in_stays_who_they_are(house: Harness, question: Question) -> None:
    door = door_of(house)
    browser = await door.signed_in("user:bob")
    await browser.get(f"/l/{make_link_token(door.site, 'user:ana', question.run, question.id)}")
    assert (await browser.get("/who")).json()["user"] == "user:bob"


async def test_the_holder_of_a_link_can_sign_in(house: Harness, question: Question) -> None:
    browser = await opened(door_of(house), question)
    assert (await browser.get("/sign-in")).status_code == 200


@pytest.mark.slow
@pytest.mark.first_row
@pytest.mark.parametrize("width", [360, 1400])
async def test_a_page_of_a_link_hears_of_its_question(
    house: Harness, question: Question, browser: Browser, width: int
) -> None:
    door = Door(house.client, house.folder / "state", house.runs)
    async with served(door.app) as url:
        page = await browser.new_page(base_url=url, viewport={"width": width, "height": 800})
        await page.goto(f"/l/{make_link_token(door.site, 'user:ana', question.run, question.id)}")
        await expect(page.locator("html[data-live=on]")).to_be_attached()
        await expect(page.locator("#cut")).to_be_empty()
        assert await too_wide(page) == []
        await house.answer(question.run, "yes", question)
        await expect(page.locator("[data-closed]")).to_be_visible()
        await expect(page.locator("#cut")).to_be_empty()
        await page.close()
