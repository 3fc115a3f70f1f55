"""Questions of an author's kinds in the inbox and in the API: shown and answered from their schema alone."""

import pytest
from playwright.async_api import Browser, expect

import examples.connect_service.question_kinds  # noqa: F401 registers the kinds
from holdfast.server.web.addresses import question_address
from tests.conftest import Harness
from tests.serve.pages import desk, open_pages, serious, too_wide

RATE = "steps: [{kind: hitl, name: score, ask: rating, reasons: [price, docs], message: How was it?}]"
KEY = "steps: [{kind: hitl, name: key, ask: env_var, variable: TOKEN, message: The token?}]"


async def test_a_form_answers_a_rating_with_its_reasons(house: Harness) -> None:
    question = await house.one(await house.start(RATE))
    async with desk(house) as ana:
        wrong = await ana.send(question, "answer", **{"f:stars": "9"})
        await ana.send(question, "answer", **{"f:stars": "4", "f:reasons": "1", "f:why": "Clear."})
    assert (wrong.status_code, "must be at most 5" in wrong.text) == (422, True)
    assert await house.output(question.run) == 4


async def test_a_form_keeps_a_secret_and_shows_the_rest(house: Harness) -> None:
    question = await house.one(await house.start(KEY))
    async with desk(house) as ana:
        typed = {"s:TOKEN": "crm-4711", "f:file_paths": "src/a.py\nsrc/b.py", "f:urls": "https://a.example/keys"}
        await ana.send(question, "answer", **typed)
    output = await house.output(question.run)
    assert (output["file_paths"], output["urls"]) == (["src/a.py", "src/b.py"], ["https://a.example/keys"])
    assert output["TOKEN"].startswith("secret:")


async def test_the_api_gives_the_schema_and_takes_the_answer(house: Harness) -> None:
    question = await house.one(await house.start(RATE))
    async with desk(house) as ana:
        shown = (await ana.get(f"/api/v1/questions/{question.id}")).json()
    assert (shown["kind"], shown["requestedSchema"]["properties"]["reasons"]["items"]) == (
        "rating",
        {"enum": ["price", "docs"]},
    )


@pytest.mark.slow
@pytest.mark.parametrize("width", [1000, 390])
async def test_its_page_fits_and_can_be_read_by_everybody(house: Harness, browser: Browser, width: int) -> None:
    questions = [await house.one(await house.start(text)) for text in (RATE, KEY)]
    async with open_pages(house, browser, viewport={"width": width, "height": 900}) as [page]:
        for question in questions:
            await page.goto(question_address(question))
            await expect(page.get_by_role("heading", name=question.message)).to_be_visible()
            assert (await too_wide(page), await serious(page)) == ([], [])
