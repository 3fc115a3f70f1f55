"""Answers over HTTP: the server says who answers, a consent needs the digest, a refusal has its status and place."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import pytest_asyncio

from tests.conftest import Harness, until
from tests.serve.ground import WHO, client_of, person, site_of_house

TITLE = "{name: brief, steps: [{kind: hitl, name: title, message: A title?}]}"
TONE = """
name: brief
steps: [{kind: hitl, name: tone, message: Which tone?, ask: decision, options: [warm, formal]}]
"""
FORM = """
name: brief
steps:
  - kind: hitl
    name: form
    message: Who?
    input_schema:
      type: object
      required: [name, age]
      properties: {name: {type: string}, age: {type: integer}}
"""
FOR_BOB = "{name: ours, steps: [{kind: hitl, name: ask, message: Well?, assignees: [user:bob]}]}"


@pytest_asyncio.fixture
async def api(house: Harness) -> AsyncIterator[httpx.AsyncClient]:
    service = person("bot", is_service=True)
    async with client_of(site_of_house(house), person("reader", "read"), service) as client:
        yield client


async def send(api: httpx.AsyncClient, run: str, *answers: dict[str, Any], who: str = "ana", **fields: Any) -> Any:
    body = {"answers": list(answers), **fields}
    return await api.post(f"/api/v1/runs/{run}/answers", json=body, headers={WHO: who})


def told(response: httpx.Response) -> tuple[int, str]:
    return response.status_code, response.json()["code"]


async def test_an_answer_is_that_of_the_person_who_signed_in(house: Harness, api: httpx.AsyncClient) -> None:
    run = await house.start(TITLE)
    question = await house.one(run)
    response = await send(api, run, {"question": question.id, "content": "Spring & 'co'"})
    [receipt] = response.json()
    assert (response.status_code, receipt["status"], receipt["by"]) == (200, "answered", "user:ana")
    assert await house.output(run) == "Spring & 'co'"


async def test_a_body_that_says_who_answers_is_malformed(house: Harness, api: httpx.AsyncClient) -> None:
    run = await house.start(TITLE)
    await house.one(run)
    response = await send(api, run, {"question": "title", "content": "x"}, by="user:bob", token="t")
    assert told(response) == (400, "malformed")
    assert [error["path"] for error in response.json()["errors"]] == ["by", "token"]


async def test_a_decision_needs_the_digest_of_what_was_shown(house: Harness, api: httpx.AsyncClient) -> None:
    run = await house.start(TONE)
    question = await house.one(run)
    without = await send(api, run, {"question": question.id, "content": "warm"})
    other = await send(api, run, {"question": question.id, "content": "warm", "digest": "0" * 16})
    right = await send(api, run, {"question": question.id, "content": "warm", "digest": question.digest})
    assert told(without) == (422, "invalid_answer")
    assert [error["path"] for error in without.json()["errors"]] == ["answers[0].digest"]
    assert told(other) == (409, "question_changed")
    assert right.status_code == 200


async def test_every_problem_of_a_form_is_told_at_its_place(house: Harness, api: httpx.AsyncClient) -> None:
    run = await house.start(FORM)
    question = await house.one(run)
    response = await send(api, run, {"question": question.id, "content": {"name": 7, "age": "old"}})
    assert told(response) == (422, "invalid_answer")
    places = [error["path"] for error in response.json()["errors"]]
    assert places == ["answers[0].content.age", "answers[0].content.name"]


async def test_the_same_key_gets_the_same_receipt_and_other_content_a_conflict(
    house: Harness, api: httpx.AsyncClient
) -> None:
    run = await house.start(TITLE)
    question = await house.one(run)

    async def answer(content: str) -> httpx.Response:
        body = {"answers": [{"question": question.id, "content": content}]}
        return await api.post(f"/api/v1/runs/{run}/answers", json=body, headers={"Idempotency-Key": "k1"})

    first, again, other = await answer("a"), await answer("a"), await answer("b")
    assert first.json() == again.json()
    assert told(other) == (409, "key_conflict")


LOOP = """
name: rounds
steps:
- {kind: loop, name: l, loop: {max_loops: 3, checkpoint_every: 1, body: [{kind: hitl, name: n, message: Next?}]}}
"""


@pytest.mark.slow
async def test_a_repeated_answer_by_step_name_is_not_one_to_the_next_question(
    house: Harness, api: httpx.AsyncClient
) -> None:
    run = await house.start(LOOP)

    async def answer(key: str) -> httpx.Response:
        body = {"answers": [{"question": "n", "content": "a"}]}
        return await api.post(f"/api/v1/runs/{run}/answers", json=body, headers={"Idempotency-Key": key})

    async def asks_another() -> bool:
        return [one.id for one in await house.runs.questions(run)] not in ([], [question.id])

    for key in ("k1", "k2"):
        question = await house.one(run)
        first = await answer(key)
        assert (first.status_code, first.json()[0]["question"]) == (200, question.id)
        await until(asks_another, "the next question")
        assert (await answer(key)).json() == first.json()
    await house.one(run)
    last = await answer("k3")
    await house.result(run)
    assert (await answer("k3")).json() == last.json()


async def test_the_second_person_is_told_who_was_first(house: Harness, api: httpx.AsyncClient) -> None:
    run = await house.start(TITLE + "\n")
    question = await house.one(run)
    await send(api, run, {"question": question.id, "content": "a"})
    response = await send(api, run, {"question": question.id, "content": "b"}, who="bob")
    assert told(response) == (409, "already_answered")
    assert "user:ana" in response.json()["detail"]


async def test_who_may_not_answer_is_refused(house: Harness, api: httpx.AsyncClient) -> None:
    run = await house.start(FOR_BOB)
    question = await house.one(run)
    assert told(await send(api, run, {"question": question.id, "content": "x"})) == (403, "not_allowed")
    assert told(await send(api, run, {"question": question.id, "content": "x"}, who="reader")) == (403, "not_allowed")
    assert (await send(api, run, {"question": question.id, "content": "x"}, who="bob")).status_code == 200


async def test_a_service_may_not_consent(house: Harness, api: httpx.AsyncClient) -> None:
    run = await house.start(TONE)
    question = await house.one(run)
    answer = {"question": question.id, "content": "warm", "digest": question.digest}
    assert told(await send(api, run, answer, who="bot")) == (403, "not_allowed")
    assert [one.id for one in await house.runs.questions(run)] == [question.id]


async def test_a_service_may_decline(house: Harness, api: httpx.AsyncClient) -> None:
    question = await house.one(await house.start(TONE))
    answer = {"question": question.id, "action": "decline", "digest": question.digest}
    assert (await send(api, question.run, answer, who="bot")).json()[0]["status"] == "answered"


async def test_a_question_that_is_answered_twice_in_a_batch_is_named(house: Harness, api: httpx.AsyncClient) -> None:
    run = await house.start(TITLE)
    question = await house.one(run)
    await api.get("/api/v1/questions", headers={WHO: "reader"})  # so that it is remembered
    response = await send(api, run, *[{"question": question.id, "content": "x"}] * 2)
    assert told(response) == (422, "invalid_answer")
    assert f"question {question.id} appears twice in this batch" in response.json()["detail"]


async def test_a_question_that_there_is_not_and_a_run_that_there_is_not(house: Harness, api: httpx.AsyncClient) -> None:
    run = await house.start(TITLE)
    await house.one(run)
    assert told(await send(api, run, {"question": "nothing", "content": "x"})) == (404, "unknown_question")
    assert told(await send(api, "nowhere", {"question": "title", "content": "x"})) == (404, "unknown_run")


@pytest.mark.first_row
@pytest.mark.parametrize(
    ("body", "place"),
    [
        ('{"answers": [], "answers": []}', "'answers' appears twice"),
        ('{"answers": [{"question": "a", "content": NaN}]}', "NaN is not a number"),
        ('{"answers": [{"question": "a", "content": {"b": 1e999}}]}', "answers[0].content.b"),
        ('{"answers": [{"question": "a", "content": "\\ud800"}]}', "answers[0].content"),
        ('{"answers": ', "line 1 column"),
        ('{"answers": [{"question": 7}]}', "answers[0].question"),
    ],
)
async def test_what_is_no_answer_is_malformed_with_its_place(api: httpx.AsyncClient, body: str, place: str) -> None:
    headers = {"Content-Type": "application/json"}
    response = await api.post("/api/v1/runs/any/answers", content=body, headers=headers)
    assert told(response) == (400, "malformed")
    assert place in response.json()["detail"]


async def test_a_body_is_measured_before_it_is_parsed(api: httpx.AsyncClient) -> None:
    headers = {"Content-Type": "application/json"}
    body = b'{"answers": ' + b"[" * (1024 * 1024)
    assert told(await api.post("/api/v1/runs/any/answers", content=body, headers=headers)) == (413, "too_large")


@pytest.mark.slow
async def test_a_form_of_a_browser_is_no_answer(api: httpx.AsyncClient) -> None:
    response = await api.post("/api/v1/runs/any/answers", data={"answers": "x"})
    assert told(response) == (415, "unsupported_media_type")
