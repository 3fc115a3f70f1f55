"""The attachments of a question: on its page, and over the API."""

import base64

import httpx
import pytest

from holdfast.protocol.questions import Question
from holdfast.server.web.addresses import question_address
from tests.conftest import Harness
from tests.serve.ground import client_of, site_of_house
from tests.serve.pages import desk

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n rest").decode()
ASK = f"""
steps:
- kind: hitl
  name: sign
  message: Right?
  attachments:
  - {{name: draft é.txt, text: Dear Ana}}
  - {{name: scan.png, data: {PNG}}}
  - {{name: page.html, text: "<script>alert(1)</script>", type: text/html}}
"""


@pytest.fixture
async def question(house: Harness) -> Question:
    return await house.one(await house.start(ASK))


async def test_the_page_lists_them_and_shows_pictures(house: Harness, question: Question) -> None:
    async with desk(house) as ana:
        page = (await ana.get(question_address(question))).text
    place = f"{question_address(question)}/attachments"
    assert f'<a href="{place}/1"' in page and f'<img src="{place}/2" alt="scan.png"' in page
    assert f'<img src="{place}/3"' not in page


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "type_", "way", "content"),
    [
        (1, "text/plain; charset=utf-8", "inline; filename*=UTF-8''draft%20%C3%A9.txt", b"Dear Ana"),
        (2, "image/png", "inline; filename*=UTF-8''scan.png", b"\x89PNG\r\n\x1a\n rest"),
        (3, "application/octet-stream", "attachment; filename*=UTF-8''page.html", b"<script>alert(1)</script>"),
    ],
)
async def test_what_could_run_is_a_download(house: Harness, question: Question, n, type_, way, content) -> None:
    async with desk(house) as ana:
        answer = await ana.get(f"{question_address(question)}/attachments/{n}")
    assert (answer.headers["content-type"], answer.headers["content-disposition"]) == (type_, way)
    assert answer.headers["content-security-policy"].startswith("sandbox") and answer.content == content


async def test_they_are_gone_with_the_question(house: Harness, question: Question) -> None:
    async with desk(house) as ana:
        assert (await ana.get(f"{question_address(question)}/attachments/4")).status_code == 404
        await house.answer(question.run, "yes", question)
        assert (await ana.get(f"{question_address(question)}/attachments/1")).status_code == 404


@pytest.mark.slow
async def test_the_api_gives_them_as_bytes(house: Harness, question: Question) -> None:
    async with client_of(site_of_house(house)) as api:
        assert (await got(api, question, "1")).content == b"Dear Ana"
        assert (await got(api, question, "1")).headers["content-type"] == "application/octet-stream"
        assert [(await got(api, question, n)).status_code for n in ("0", "9", "x")] == [404, 404, 404]


async def got(api: httpx.AsyncClient, question: Question, n: str) -> httpx.Response:
    return await api.get(f"/api/v1/questions/{question.id}/attachments/{n}")
