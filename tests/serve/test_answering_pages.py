"""Answers through the form of a question: each kind, refusals that keep what was typed, claims, races. No browser."""

import json
import re
from datetime import timedelta

import pytest

from holdfast.blueprint.questions import Review
from holdfast.client import tree
from holdfast.protocol.questions import Question
from holdfast.runtime import workers
from holdfast.runtime.workers import NoWorker
from holdfast.server.web.addresses import question_address
from holdfast.server.web.dispatches import dispatch_place, has_ended
from holdfast.server.web.pages.answer_form import list_changes
from tests.client.questions import question
from tests.conftest import Harness, until, worker_for
from tests.serve.ground import client_of, person
from tests.serve.pages import desk, inbox_of, started

BOOKING = {"f:name": "Ms Sato", "f:from": "2026-12-01", "f:nights": "3", "f:room": "1", "f:guests#": "1"}


@pytest.mark.parametrize(
    ("name", "do", "texts", "output"),
    [
        ("text", "answer", {"f:": "Warm 'and' <calm> & é"}, "Warm 'and' <calm> & é"),
        ("clarify", "answer", {"choice": "warm"}, "warm"),
        ("clarify", "answer", {"own": "like a poem"}, "like a poem"),
        ("permit", "grant:once", {}, True),
        ("permit", "grant:run", {"reason": "fine"}, True),
        ("permit", "no", {"reason": "not today"}, False),
        ("hold", "go_on", {}, None),
    ],
)
async def test_each_kind_is_answered(house: Harness, name, do, texts, output) -> None:
    question = await started(house, name)
    async with desk(house) as ana:
        answer = await ana.send(question, do, **texts)
    assert answer.status_code == 303
    assert await house.output(question.run) == output


async def test_a_form_that_is_sent_again_counts_once_and_says_the_same(house: Harness) -> None:
    question = await started(house, "text")
    address = question_address(question)
    async with desk(house) as ana:
        form = {**await ana.hidden(question), "do": "answer", "f:": "Warm"}
        twice = [(await ana.client.post(address, data=form)).status_code for _ in range(2)]
        other = await ana.client.post(address, data={**form, "key": "another"})
    assert (twice, other.status_code) == ([303, 303], 409)


@pytest.mark.parametrize("reason", ["", "stop, please"])
async def test_a_form_that_was_changed_and_sent_again_is_told_that_it_came_too_late(
    house: Harness, reason: str
) -> None:
    question = await started(house, "permit")
    address = question_address(question)
    async with desk(house) as ana:
        form = {**await ana.hidden(question), "do": "grant:once", "reason": ""}
        granted = await ana.client.post(address, data=form)
        denied = await ana.client.post(address, data={**form, "do": "no", "reason": reason})
    assert (granted.status_code, denied.status_code) == (303, 409)
    assert "came too late" in denied.text and reason in denied.text
    assert await house.output(question.run) is True


@pytest.mark.slow
async def test_an_answer_that_no_worker_has_received_is_not_called_accepted(
    house: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tree, "UPDATE_LIMIT", timedelta(seconds=1))
    monkeypatch.setattr(workers, "ALIVE_SECONDS", 0)  # the worker is taken for dead as soon as it does not answer
    away = Harness(house.client, "away", house.folder)
    async with desk(away) as ana:
        async with worker_for(house.client, "away"):
            question = await started(away, "text")
            form = {**await ana.hidden(question), "do": "answer", "f:": "Warm"}
        sent = await ana.client.post(question_address(question), data=form)
        assert (sent.status_code, "no worker has received it yet" in sent.text) == (202, True)
        async with worker_for(house.client, "away"):
            assert await away.output(question.run) == "Warm"


@pytest.mark.slow
async def test_an_answer_to_a_worker_that_hangs_is_on_its_way(house: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker polled a moment ago and does not answer: what waits for it would wait for an hour."""
    monkeypatch.setattr(tree, "UPDATE_LIMIT", timedelta(hours=1))
    away = Harness(house.client, "hanging", house.folder)
    async with desk(away) as ana:
        async with worker_for(house.client, "hanging"):
            question = await started(away, "text")
            form = {**await ana.hidden(question), "do": "answer", "f:": "Warm"}
        sent = await ana.client.post(question_address(question), data=form)
        assert sent.status_code == 202 and "It is on its way" in sent.text and ">\nWarm</textarea>" in sent.text
        claimed = await ana.client.post(question_address(question), data={**form, "do": "claim"})
        assert (claimed.status_code, "It is on its way" in claimed.text) == (202, True)
        page = await ana.get(question_address(question))
        assert "No worker answers" in page.text and "It is on its way" in page.text
        async with worker_for(house.client, "hanging"):
            assert await away.output(question.run) == "Warm"

            async def is_told() -> bool:
                state = await ana.get(f"{question_address(question)}/part")
                return "data-closed" in state.text

            await until(is_told)


async def test_why_an_answer_did_not_arrive_after_all_is_told_on_its_page(house: Harness) -> None:
    question = await started(house, "text")
    site = inbox_of(house)

    async def fail() -> bool:
        raise NoWorker("hanging")

    place = dispatch_place(question.run, question.id, person("ana"))
    async with client_of(site) as client:
        await has_ended(site.dispatches.begin(place, fail()), 60)
        headers = {"x-test-identity": "ana"}
        state = await client.get(f"{question_address(question)}/part", headers=headers)
    assert "no worker answers on task queue" in state.text and "data-closed" not in state.text


async def test_a_form_becomes_an_object(house: Harness) -> None:
    question = await started(house, "form")
    async with desk(house) as ana:
        assert (await ana.send(question, "answer", **BOOKING, **{"f:guests[0].name": "Bo"})).status_code == 303
    output = await house.output(question.run)
    assert output == {
        "name": "Ms Sato",
        "from": "2026-12-01",
        "nights": 3,
        "room": "double",
        "guests": [{"name": "Bo"}],
    }


async def test_a_refused_form_keeps_everything_with_the_reason_at_its_field(house: Harness) -> None:
    question = await started(house, "form")
    wrong = {**BOOKING, "f:nights": "0", "f:code": "abc", "f:guests[0].age": "old"}
    async with desk(house) as ana:
        page = await ana.send(question, "answer", **wrong)
        assert page.status_code == 422
        again = await ana.send(question, "answer", **{**wrong, "f:guests[0].age": "3", "f:guests[0].name": "Bo"})
    assert "\nMs Sato</textarea>" in page.text and 'value="old"' in page.text
    assert re.search(r'id="f-guests-0-age-problem">write a whole number', page.text)
    for told in (page, again):
        assert re.search(r'id="f-nights-problem">must be at least 1', told.text)
        assert re.search(r'id="f-code-problem">must be 3 capital letters, digits', told.text)


async def test_a_list_grows_without_a_script(house: Harness) -> None:
    question = await started(house, "form")
    async with desk(house) as ana:
        page = await ana.client.post(
            f"/questions/{question.run}/{question.id}", data={"change": "add:f:guests", "f:name": "X"}
        )
    assert page.status_code == 200 and 'name="f:guests[0].name"' in page.text and "\nX</textarea>" in page.text


async def test_a_quorum_waits_for_the_second(house: Harness) -> None:
    question = await started(house, "decide")
    async with desk(house) as ana:
        await ana.send(question, "answer", choice="now")
        page = await ana.get(f"/questions/{question.run}/{question.id}")
    assert "You have accepted." in page.text and "1 of 2 accepted" in page.text
    async with desk(house, "bob") as bob:
        await bob.send(question, "answer", choice="now")
    assert await house.output(question.run) == "now"


async def test_a_list_of_objects_is_a_table_and_no_json(house: Harness) -> None:
    run = await house.start(
        "steps: [{kind: hitl, name: buy, ask: permission, message: Buy them?, details: "
        "{items: [{what: Tea, price: 3}, {what: Cups, why: [old, few]}], mixed: [[1], {a: 2}]}}]"
    )
    question = await house.one(run)
    async with desk(house) as ana:
        text = (await ana.client.get(question_address(question))).text
    heads = re.findall(r'<th scope="col" dir="auto">(\w+)</th>', text)
    cells = re.findall(r"<td>(?:<div[^>]*>)?\s*(Tea|Cups|3)\s*(?:</div>)?\s*</td>", text)
    assert (heads, cells) == (["what", "price", "why"], ["Tea", "3", "Cups"])
    assert re.search(r"old\s+few", re.sub(r"<[^>]+>", " ", text)) and "<pre" not in text


@pytest.mark.slow
async def test_a_review_is_edited_after_a_look_at_what_changed(house: Harness) -> None:
    question = await started(house, "review")
    edited = {"f:subject": "New", "f:body": "Dear Ms Sato", "f:copies": "3", "f:tags": "party\noffice"}
    async with desk(house) as ana:
        preview = await ana.send(question, "preview", **edited)
        assert re.search(r'class="added">\+\s*&#34;subject&#34;: &#34;<mark>New</mark>', preview.text)
        assert (await ana.send(question, "verdict:edited", **{**edited, "f:copies": "0"})).status_code == 422
        assert (await ana.send(question, "verdict:edited", **edited)).status_code == 303
    assert (await house.output(question.run))["subject"] == "New"


def test_the_words_that_differ_are_marked_in_a_long_line() -> None:
    before, after = "Pay within 57 days.\nThe end", "Pay within 75 days.\nThe end"
    review = question(Review(message="?", payload=before))
    [_, removed, added, same] = list_changes(review, {"f:": [after]})
    assert removed == ("-", [("Pay within ", False), ("57", True), (" days.", False)])
    assert added == ("+", [("Pay within ", False), ("75", True), (" days.", False)])
    assert same == (" ", [("The end", False)])


@pytest.mark.slow
@pytest.mark.parametrize("verdict", ["unchanged", "rejected"])
async def test_a_review_takes_its_verdicts(house: Harness, verdict: str) -> None:
    question = await started(house, "review")
    async with desk(house) as ana:
        await ana.send(question, f"verdict:{verdict}", reason="so")
    answered = next(event for event in await house.runs.watch.events(question.run) if event.type == "question.answered")
    assert verdict in json.dumps(answered.data.content)


async def test_an_action_of_another_library_takes_what_that_allows(house: Harness) -> None:
    run = await house.start('steps: [{name: it, uses: "tests.graphs:inbox", input: {folder: ".", log: []}}]')
    [plan] = [one for one in await house.asked(run, 3) if one.address.endswith("level:plan:2")]
    async with desk(house) as ana:
        page = (await ana.get(question_address(plan))).text
        assert "Answer in its place" in page and "verdict:edited" not in page
        assert (await ana.send(plan, "verdict:respond", reason="in May")).status_code == 303
    answered = next(event for event in await house.runs.watch.events(run) if event.type == "question.answered")
    assert answered.data.content == {"verdict": "respond", "reason": "in May", "payload": {"n": 1}}


async def test_a_secret_goes_into_the_store_and_never_into_a_page(house: Harness) -> None:
    question = await started(house, "secret")
    async with desk(house) as ana:
        wrong = await ana.send(question, "answer", **{"s:PROXY": "hunter2-proxy"})
        assert wrong.status_code == 422 and "hunter2" not in wrong.text and "this field is needed" in wrong.text
        (house.folder / "secrets").mkdir(mode=0o755)
        unkept = await ana.send(question, "answer", **{"s:TOKEN": "hunter2"})
        assert (unkept.status_code, "nothing was sent" in unkept.text, str(house.folder) in unkept.text) == (
            503,
            True,
            False,
        )
        (house.folder / "secrets").chmod(0o700)
        await ana.send(question, "answer", **{"s:TOKEN": "hunter2"})
        closed = await ana.get(f"/questions/{question.run}/{question.id}")
    assert "hunter2" not in closed.text and "secret store" in closed.text
    assert [file.read_text() for file in (house.folder / "secrets").iterdir()] == ["hunter2"]
    for history in await house.histories(question.run):
        assert "hunter2" not in history.to_json()


LOGIN = {"f:user": "shop-admin", "f:port": "5432", "s:PASSWORD": "hunter2-in-full"}


async def test_plain_fields_beside_a_secret_are_plain(house: Harness) -> None:
    question = await started(house, "login")
    async with desk(house) as ana:
        page = await ana.get(f"/questions/{question.run}/{question.id}")
        assert (await ana.send(question, "answer", **LOGIN)).status_code == 303
    assert re.findall(r'<input id="(\S+)" name="\S+" type="text"', page.text) == ["f-port"]
    assert re.findall(r'<textarea id="(\S+)" name="\S+" rows="1"', page.text) == ["f-user"]
    assert re.search(r'type="password" id="s-PASSWORD".*placeholder="from us"', page.text)
    assert 'placeholder="shop-admin"' in page.text and "The other fields are part of your answer" in page.text
    output = await house.output(question.run)
    assert (output["user"], output["port"], output["PASSWORD"].startswith("secret:")) == ("shop-admin", 5432, True)


async def test_a_refused_form_keeps_all_but_its_secrets_and_tells_every_problem(house: Harness) -> None:
    question = await started(house, "login")
    async with desk(house) as ana:
        page = await ana.send(question, "answer", **{"f:user": "me", "f:port": "any", "s:PASSWORD": "hunter"})
    assert page.status_code == 422 and "hunter" not in page.text
    assert "\nme</textarea>" in page.text and 'value="any"' in page.text
    assert "Type the secret values again. The rest is still here." in page.text
    problems = dict(re.findall(r'class="problem" id="(\S+)-problem">([^<]*)<', page.text))
    assert problems == {
        "s-PASSWORD": "Eight characters or more.",
        "f-user": "must have at least 3 characters, not 2",
        "f-port": "write a whole number, such as 12",
    }


@pytest.mark.slow
@pytest.mark.parametrize("typed", [3_000_000 * "a", 600_000 * "ж"], ids=["of one byte", "of two bytes"])
async def test_a_text_that_is_too_large_is_refused_in_its_form(house: Harness, typed: str) -> None:
    question = await started(house, "text")
    async with desk(house) as ana:
        page = await ana.send(question, "answer", **{"f:": typed})
        assert (page.status_code, typed in page.text) == (413, True)
        told = re.search(r"([0-9,]+) bytes are too many; at most 1,048,576: send less, or a reference", page.text)
        assert told is not None and "What you typed is still here." in page.text
        assert (await ana.send(question, "answer", **{"f:": typed[:100]})).status_code == 303


async def test_a_context_is_edited_at_a_breakpoint(house: Harness) -> None:
    text = """
context_schema: {type: object, properties: {n: {type: integer}}}
context: {n: 1}
steps: [{kind: hitl, name: x, ask: hold, message: m, interrupt_before: true}]
"""
    run = await house.start(text)
    question = await house.one(run)
    async with desk(house) as ana:
        wrong = await ana.send(question, "answer", **{"f:": '{"n": "x"}'})
        assert wrong.status_code == 422 and "must be a whole number" in wrong.text
        broken = await ana.send(question, "answer", **{"f:": '{"n": 1,}'})
        assert "line 1, column 9" in broken.text
        assert (await ana.send(question, "answer", **{"f:": '{"n": 21}'})).status_code == 303
    assert (await house.runs.watch.outcome(await house.runs.state(run))).context == {"n": 21}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "do"), [("text", "decline"), ("text", "cancel"), ("permit", "cancel")])
async def test_a_person_declines_or_cancels_with_a_reason(house: Harness, name: str, do: str) -> None:
    question = await started(house, name)
    async with desk(house) as ana:
        assert (await ana.send(question, do, comment="not mine")).status_code == 303
        page = (await ana.get(f"/questions/{question.run}/{question.id}")).text
    assert "not mine" in page and ("Declined" in page or "Cancelled" in page)


@pytest.mark.first_row
@pytest.mark.parametrize("do", ["", "grant:always!", "verdict:edited", "answer", "stay", "grant:"])
async def test_a_permission_is_given_by_its_buttons_alone(house: Harness, do: str) -> None:
    question = await started(house, "permit")
    async with desk(house) as ana:
        page = await ana.send(question, do, **{"f:": '{"granted": true}', "choice": "yes"})
    assert page.status_code == 200
    assert [open_.id for open_ in await house.asked(question.run)] == [question.id]


async def test_the_form_counts_once_however_often_it_is_sent(house: Harness) -> None:
    question = await started(house, "decide")
    async with desk(house) as ana:
        page = (await ana.get(f"/questions/{question.run}/{question.id}")).text
        hidden = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', page))
        for _ in range(2):
            data = {**hidden, "do": "answer", "choice": "now"}
            answer = await ana.client.post(f"/questions/{question.run}/{question.id}", data=data)
            assert answer.status_code == 303
    assert (await house.one(question.run)).answers_so_far == 1


async def test_an_answer_to_what_has_changed_is_refused_and_kept(house: Harness) -> None:
    question = await started(house, "text")
    data = {"do": "answer", "f:": "typed long ago", "digest": "0" * 16, "key": "k1"}
    async with desk(house) as ana:
        page = await ana.client.post(f"/questions/{question.run}/{question.id}", data=data)
    assert page.status_code == 409 and "has changed" in page.text and "typed long ago" in page.text
    assert f'value="{question.digest}"' in page.text


async def test_somebody_else_s_answer_is_refused_with_the_reason(house: Harness) -> None:
    question = await started(house, "decide")
    async with desk(house, "mallory") as mallory:
        page = await mallory.send(question, "answer", choice="now")
    assert page.status_code == 403 and "user:mallory may not answer it" in page.text and "checked" in page.text


@pytest.mark.slow
async def test_a_claim_keeps_a_question_until_it_is_released(house: Harness) -> None:
    question = await started(house, "decide")
    async with desk(house) as ana, desk(house, "bob") as bob:
        assert (await ana.send(question, "claim")).status_code == 303
        refused = await bob.send(question, "answer", choice="now")
        assert refused.status_code == 403 and "ana" in refused.text
        await ana.send(question, "release")
        assert (await bob.send(question, "answer", choice="now")).status_code == 303


async def test_a_question_is_given_to_somebody_else(house: Harness) -> None:
    question = await started(house, "decide")
    async with desk(house) as ana:
        unsure = await ana.send(question, "delegate", to="cem")  # nobody of this name is known
        assert (unsure.status_code, 'name="sure" value="user:cem"' in unsure.text) == (409, True)
        assert (await ana.send(question, "delegate", to="cem", sure="user:cem")).status_code == 303
        assert (await ana.send(question, "answer", choice="now")).status_code == 403
    assert "user:cem" in (await house.one(question.run)).assignees


@pytest.mark.slow
async def test_the_page_of_a_closed_question_shows_the_next_one(house: Harness) -> None:
    run = await house.start(
        "steps: [{kind: hitl, name: a, message: First?}, {kind: hitl, name: b, message: And then?}]"
    )
    question = await house.one(run)
    async with desk(house) as ana:
        await ana.send(question, "answer", **{"f:": "one"})
        second: Question = await house.one(run)
        page = (await ana.get(f"/questions/{run}/{question.id}")).text
    assert "Answered" in page and f"/questions/{run}/{second.id}" in page and "And then?" in page
