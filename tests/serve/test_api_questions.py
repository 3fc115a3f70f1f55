"""One question over HTTP: shown by its id, claimed, released, handed on; and how a run looks beside it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest
import pytest_asyncio

from tests.conftest import Harness, until
from tests.serve.ground import WHO, client_of, site_of_house

FOR_TWO = "{name: ours, steps: [{kind: hitl, name: ask, message: Well?, assignees: [user:ana, user:bob]}]}"


@pytest_asyncio.fixture
async def api(house: Harness) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(site_of_house(house, groups={"editors": ["user:ana"]})) as client:
        yield client


async def test_a_question_is_found_by_its_id_alone(house: Harness, api: httpx.AsyncClient) -> None:
    question = await house.one(await house.start(FOR_TWO))
    house.runs.answering.memory._seen.clear()

    async def listed() -> bool:
        return (await api.get(f"/api/v1/questions/{question.id}")).status_code == 200

    await until(listed, "visibility")
    assert (await api.get(f"/api/v1/questions/{question.id}")).json() == question.model_dump(mode="json")


@pytest.mark.slow
async def test_a_question_that_was_answered_is_unknown(house: Harness, api: httpx.AsyncClient) -> None:
    question = await house.one(await house.start(FOR_TWO))
    await house.answer(question.run, "x", question, by="user:ana")
    response = await api.get(f"/api/v1/questions/{question.id}")
    assert (response.status_code, response.json()["code"]) == (404, "unknown_question")


async def test_what_no_name_can_be_is_no_query(house: Harness, api: httpx.AsyncClient) -> None:
    """A quotation mark, or a NUL, in a query of Temporal's visibility fails in its database."""
    quoted = await api.get("/api/v1/questions/a%22")
    assert (quoted.status_code, quoted.json()["code"]) == (404, "unknown_question")
    for address in ("/api/v1/questions/%00", "/api/v1/runs?blueprint=%00", "/api/v1/runs/%00"):
        refused = await api.get(address)
        assert (refused.status_code, refused.json()["code"]) == (400, "malformed"), address


async def test_a_claim_keeps_a_question_until_it_is_released(house: Harness, api: httpx.AsyncClient) -> None:
    question = await house.one(await house.start(FOR_TWO))
    place = f"/api/v1/questions/{question.id}"
    claimed = await api.post(f"{place}/claim")
    taken = await api.post(f"{place}/claim", headers={WHO: "bob"})
    released = await api.post(f"{place}/release", json={"comment": "busy"})
    assert (claimed.json()["status"], released.json()["status"]) == ("claimed", "released")
    assert (taken.status_code, taken.json()["code"]) == (403, "not_allowed")


async def test_a_question_is_handed_on(house: Harness, api: httpx.AsyncClient) -> None:
    question = await house.one(await house.start(FOR_TWO))
    handed = await api.post(f"/api/v1/questions/{question.id}/delegate", json={"to": "user:carl"})
    assert (handed.json()["status"], handed.json()["unknown"]) == ("delegated", ["user:carl"])
    assert (await house.one(question.run)).assignees == ["user:bob", "user:carl"]


@pytest.mark.slow
async def test_the_assignees_of_a_question_are_replaced_by_who_may_steer(
    house: Harness, api: httpx.AsyncClient
) -> None:
    question = await house.one(await house.start(FOR_TWO, started_by="user:ana"))
    moved = await api.post(f"/api/v1/questions/{question.id}/reassign", json={"to": ["user:dora"]})
    assert moved.json()["status"] == "reassigned", moved.text
    assert (await house.one(question.run)).assignees == ["user:dora"]


PLANNED = """
agents: {clerk: {model: echo}}
steps:
  - kind: plan
    name: work
    plan:
      goal: Ask
      agent: clerk
      steps: [{id: "1", instruction: "Which one?", pause_for_response: true}, {id: "2", instruction: Say it}]
"""


@pytest.mark.slow
async def test_the_plan_of_a_run_and_what_differs_from_another(house: Harness, api: httpx.AsyncClient) -> None:
    question = await house.one(await house.start(PLANNED))
    other = await house.start(PLANNED)
    plan = (await api.get(f"/api/v1/runs/{question.run}/plan")).json()
    assert (plan["goal"], plan["steps"]["1"]["status"], plan["steps"]["2"]["status"]) == (
        "Ask",
        "waiting_input",
        "pending",
    )
    missing = await api.get(f"/api/v1/runs/{question.run}/plan", params={"plan": "none"})
    assert missing.status_code == 422 and "has no plan 'none'; it has" in missing.text
    await house.one(other)
    await house.answer(question.run, "x", question, by="user:bob")
    await house.output(question.run)
    diff = (await api.get(f"/api/v1/runs/{question.run}/diff/{other}")).json()
    assert diff["runs"] == [question.run, other]
    assert {"completed", "waiting"} in [
        {one["one"], one["other"]} for one in diff["differences"] if one["what"] == "status"
    ]


async def test_the_history_and_the_graph_of_a_run(house: Harness, api: httpx.AsyncClient) -> None:
    question = await house.one(await house.start(FOR_TWO))
    await house.answer(question.run, "x", question, by="user:bob")
    await house.output(question.run)
    [entry] = (await api.get(f"/api/v1/runs/{question.run}/history")).json()
    graph = await api.get(f"/api/v1/runs/{question.run}/graph")
    assert (entry["by"], entry["content"]) == ("user:bob", "x")
    assert graph.text.startswith("flowchart") and "ask" in graph.text
