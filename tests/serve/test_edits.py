"""What a person has edited is sent, or dropped by a button that says so, and never lost by another one."""

import html
import json
import re

import pytest
from playwright.async_api import Browser, expect

from holdfast.protocol.questions import Question
from holdfast.server.web.addresses import question_address
from tests.conftest import Harness
from tests.serve.pages import Desk, desk, open_pages, started

EDITED = {"f:subject": "New", "f:body": "Dear Ms Sato", "f:copies": "3", "f:tags": "party\noffice"}
SHOWN = {
    "f:subject": "Your invitation",
    "f:body": "Dear Ms Sato,\r\nwe would like to see you.",
    "f:copies": "3",
    "f:tags": "party\r\noffice",
}
STOP = "context: {n: 1}\nsteps: [{kind: hitl, name: x, ask: hold, message: m, interrupt_before: true}]"
ANYTHING = 'steps: [{name: it, uses: "tests.interrupting:insists", input: {folder: "."}}]'
PLAN = """
agents: {clerk: {model: "scripted:none"}}
steps:
  - name: work
    kind: plan
    plan:
      goal: Invite the guests
      agent: clerk
      confirm: true
      steps: [{id: "1", instruction: Who comes?, pause_for_response: true}]
"""
SUGGESTED = """
steps: [{kind: hitl, name: review, ask: clarification, message: "Good?", options: [{id: good, label: "Good, keep it"}]}]
"""


async def is_open(house: Harness, question: Question) -> bool:
    return question.id in [one.id for one in await house.asked(question.run)]


async def press(ana: Desk, question: Question, do: str, **texts: str) -> str:
    """Press a button that is refused for what was edited; return the page."""
    page = await ana.send(question, do, **texts)
    assert page.status_code == 409
    return html.unescape(page.text)


@pytest.mark.parametrize("do", ["verdict:unchanged", "verdict:rejected"])
async def test_a_verdict_does_not_drop_an_edit(house: Harness, do: str) -> None:
    question = await started(house, "review")
    async with desk(house) as ana:
        page = await press(ana, question, do, **EDITED, reason="so")
        assert "You have changed what is written here" in page and '<details class="edit" open>' in page
        assert '+  "subject": "<mark>New</mark>"' in page and 'value="restore"' in page
        assert await is_open(house, question)
        restored = html.unescape((await ana.send(question, "restore", **EDITED, reason="so")).text)
        assert "Your invitation</textarea>" in restored and ">\nso</textarea>" in restored
        assert (await ana.send(question, do, **SHOWN, reason="so")).status_code == 303


async def test_an_edit_that_does_not_fit_is_told_instead_of_its_changes(house: Harness) -> None:
    question = await started(house, "review")
    async with desk(house) as ana:
        for do in ("verdict:unchanged", "preview"):
            page = (await ana.send(question, do, **{**EDITED, "f:copies": "many"})).text
            assert "write a whole number" in page and 'class="diff"' not in page


async def test_what_only_the_workflow_can_refuse_in_an_edit_is_told_at_its_field(house: Harness) -> None:
    question = await house.one(await house.start(PLAN))
    plan = dict(question.info["payload"])
    steps = [*plan["steps"], {"id": "2", "instruction": "RESULT_FROM_9"}, {"id": "3", "instruction": "RESULT_FROM_8"}]
    edited = {**plan, "steps": steps}
    async with desk(house) as ana:
        sent = await ana.send(question, "verdict:edited", **{"f:": json.dumps(edited)})
        answer = {"question": question.id, "content": {"verdict": "edited", "payload": edited}}
        refused = await ana.client.post(
            f"/api/v1/runs/{question.run}/answers", json={"answers": [answer | {"digest": question.digest}]}
        )
    [told] = re.findall(r'<p class="problem" id="f-problem">([^<]*)</p>', sent.text)
    assert "steps[1].instruction there is no step" in told and "steps[2].instruction there is no step" in told
    assert 'aria-invalid="true"' in sent.text and "RESULT_FROM_8" in sent.text and question.id not in told
    assert sent.status_code == refused.status_code == 422
    paths = [error["path"] for error in refused.json()["errors"]]
    assert paths == [f"answers[0].content.payload.steps[{n}].instruction" for n in (1, 2)]
    assert await is_open(house, question)


async def test_going_on_does_not_drop_an_edited_context(house: Harness) -> None:
    question = await house.one(await house.start(STOP))
    async with desk(house) as ana:
        page = await press(ana, question, "go_on", **{"f:": '{"n": true}'})
        assert "“Go on with this context”" in page and '+  "n": <mark>true</mark>' in page
        assert "line 1, column 6" in await press(ana, question, "go_on", **{"f:": '{"n":'})
        assert await is_open(house, question)
        assert (await ana.send(question, "go_on", **{"f:": '{"n":1}'})).status_code == 303


async def test_going_on_without_a_value_does_not_drop_one(house: Harness) -> None:
    question = await house.one(await house.start(ANYTHING))
    async with desk(house) as ana:
        assert "“Send the answer”" in await press(ana, question, "go_on", **{"f:": "half a"})
        assert (await ana.send(question, "go_on", **{"f:": " "})).status_code == 303


async def test_a_claim_keeps_what_is_typed_without_a_script(house: Harness) -> None:
    question = await started(house, "text")
    async with desk(house) as ana:
        page = await ana.send(question, "claim", **{"f:": "half a", "comment": "mine"})
    assert "half a</textarea>" in page.text and "Release it" in page.text and "mine</textarea>" not in page.text


async def test_a_decline_keeps_reason_and_comment(house: Harness) -> None:
    question = await started(house, "permit")
    async with desk(house) as ana:
        await ana.send(question, "cancel", reason="not today", comment="ask bob")
        page = (await ana.get(question_address(question))).text
    assert "not today" in page and "ask bob" in page


@pytest.mark.slow
@pytest.mark.parametrize("script", [True, False])
async def test_own_words_take_the_place_of_an_option_that_was_touched(
    house: Harness, browser: Browser, script: bool
) -> None:
    question = await house.one(await house.start(SUGGESTED))
    async with open_pages(house, browser, java_script_enabled=script) as [page]:
        await page.goto(question_address(question))
        await page.get_by_label("Good, keep it").check()
        await page.locator("#own").fill("warmer")
        if not script:
            await page.locator("[data-own]").check()
        await page.get_by_role("button", name="Send the answer").click()
        await expect(page.get_by_role("heading", name="This question is closed")).to_be_visible()
    assert await house.output(question.run) == "warmer"


@pytest.mark.slow
async def test_back_leads_to_the_question_after_a_refused_answer(house: Harness, browser: Browser) -> None:
    question = await started(house, "form")
    async with open_pages(house, browser) as [page]:
        await page.goto(question_address(question))
        await page.locator("#main").get_by_label("nights").fill("many")
        await page.get_by_role("button", name="Send the answer").click()
        await expect(page.locator("#main .note.bad")).to_be_visible()
        await page.goto("/runs")
        await page.go_back()
        await expect(page.locator("#main").get_by_label("nights")).to_have_value("many")
        await page.reload()
        await expect(page.locator("#main").get_by_label("nights")).to_have_value("many")


@pytest.mark.slow
async def test_without_a_connection_nothing_is_sent_and_the_page_stays(house: Harness, browser: Browser) -> None:
    question = await started(house, "text")
    async with open_pages(house, browser) as [page]:
        await page.goto(question_address(question))
        answer = page.locator("#main").get_by_label("Answer", exact=True)
        await answer.fill("Warm")
        await page.context.set_offline(True)
        await page.get_by_role("button", name="Send the answer").click()
        await expect(page.locator("#cut")).to_contain_text("nothing was sent")
        await expect(answer).to_have_value("Warm")
        await page.context.set_offline(False)
        await page.get_by_role("button", name="Send the answer").click()
        await expect(page.get_by_role("heading", name="This question is closed")).to_be_visible()
    assert await house.output(question.run) == "Warm"
