"""The JSON API reads what the commands read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest
import pytest_asyncio

from holdfast.protocol.answers import REFUSALS
from holdfast.server.web.api.routes import WEB_PAGE
from holdfast.server.web.problems import STATUS_OF_ERROR, STATUS_OF_REFUSAL
from tests.conftest import Harness, until
from tests.serve.ground import WHO, client_of, person, site_of_house

TONE = """
name: brief
steps:
  - {kind: hitl, name: tone, message: Which tone?, ask: decision, options: [warm, formal]}
  - {kind: hitl, name: title, message: A title?}
output: "{{ steps.title.output }}"
"""
FOR_BOB = "{name: ours, steps: [{kind: hitl, name: ask, message: Well?, assignees: [user:bob]}]}"
FOR_EDITORS = "{name: ours, steps: [{kind: hitl, name: ask, message: Well?, assignees: [group:editors]}]}"


@pytest_asyncio.fixture
async def api(house: Harness) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(site_of_house(house), person("reader", "read"), person("mute", "answer")) as client:
        yield client


async def test_a_run_is_shown_as_the_command_shows_it(house: Harness, api: httpx.AsyncClient) -> None:
    run = await house.start(TONE)
    question = await house.one(run)
    shown = (await api.get(f"/api/v1/runs/{run}")).json()
    assert (shown["status"], shown["blueprint"]) == ("waiting", "brief")
    assert shown["questions"] == [question.model_dump(mode="json")]


async def test_the_list_of_runs_has_each_with_its_status(house: Harness, api: httpx.AsyncClient) -> None:
    run = await house.start(TONE)
    await house.one(run)

    async def statuses() -> list[str]:
        listed = (await api.get("/api/v1/runs", params={"status": "waiting"})).json()
        return [row["status"] for row in listed if row["run"] == run]

    assert await until(statuses, "the list to have the run") == ["waiting"]


async def test_what_waits_for_me_leaves_out_what_waits_for_others(house: Harness, api: httpx.AsyncClient) -> None:
    run = await house.start(FOR_BOB)
    question = await house.one(run)

    async def ids(who: str) -> list[str]:
        listed = await api.get("/api/v1/questions", params={"for": "me"}, headers={WHO: who})
        return [row["id"] for row in listed.json() if row["run"] == run]

    assert await until(lambda: ids("bob"), "the list to have the question") == [question.id]
    assert await ids("ana") == []


async def test_what_waits_for_me_has_what_waits_for_a_group_that_the_sign_in_proved(house: Harness) -> None:
    question = await house.one(await house.start(FOR_EDITORS))
    async with client_of(site_of_house(house), person("eve", groups=("group:editors",))) as api:

        async def ids() -> list[str]:
            listed = await api.get("/api/v1/questions", params={"for": "me"}, headers={WHO: "eve"})
            return [row["id"] for row in listed.json() if row["run"] == question.run]

        assert await until(ids, "the list to have the question") == [question.id]


async def test_an_unknown_run_is_a_problem_document(house: Harness, api: httpx.AsyncClient) -> None:
    response = await api.get("/api/v1/runs/nowhere")
    assert response.headers["content-type"] == "application/problem+json"
    assert (response.status_code, response.json()["code"]) == (404, "unknown_run")


async def test_nobody_is_asked_to_sign_in_and_a_token_without_the_scope_is_refused(api: httpx.AsyncClient) -> None:
    nobody = await api.get("/api/v1/runs", headers={WHO: "-"})
    mute = await api.get("/api/v1/runs", headers={WHO: "mute"})
    assert [(one.status_code, one.json()["code"]) for one in (nobody, mute)] == [
        (401, "unauthorized"),
        (403, "not_allowed"),
    ]


async def test_a_query_that_no_call_takes_is_malformed_with_its_place(api: httpx.AsyncClient) -> None:
    response = await api.get("/api/v1/runs?page=0&colour=red")
    assert (response.status_code, response.json()["code"]) == (400, "malformed")
    assert [error["path"] for error in response.json()["errors"]] == ["page", "colour"]


@pytest.mark.slow
async def test_the_link_of_a_list_leads_on_behind_its_page(house: Harness, api: httpx.AsyncClient) -> None:
    name = f"linked-{house.unique}"
    runs = await asyncio.gather(
        *(house.start(f"{{name: {name}, steps: [{{name: say}}]}}") for _ in range(WEB_PAGE + 1))
    )
    await until(lambda: _count(house, name, len(runs)), "all runs in the list")
    first = await api.get("/api/v1/runs", params={"blueprint": name})
    second = await api.get(first.links["next"]["url"])
    by_number = await api.get("/api/v1/runs", params={"blueprint": name, "page": 2})
    listed = [row["run"] for row in [*first.json(), *second.json()]]
    assert sorted(listed) == sorted(runs) and "next" not in second.links
    assert by_number.json() == second.json()


async def test_a_cursor_that_no_list_gave_is_refused_and_so_are_two_places(api: httpx.AsyncClient) -> None:
    for path in ("/api/v1/runs", "/api/v1/questions"):
        refused = await api.get(path, params={"after": "abcdefghijkl"})
        assert (refused.status_code, refused.json()["code"]) == (422, "input_invalid")
        assert (await api.get(path, params={"after": "x", "page": 2})).status_code == 400


async def _count(house: Harness, name: str, count: int) -> bool:
    # Of ended runs alone the order stays: a list has those that run before them.
    rows, _ = await house.runs.lists.page(blueprint=name, status="completed", size=count + 1)
    return len(rows) == count


async def test_an_address_or_a_method_that_there_is_not_is_a_problem_document(api: httpx.AsyncClient) -> None:
    nowhere, wrong = await api.get("/api/v1/answers"), await api.delete("/api/v1/runs")
    assert (nowhere.status_code, nowhere.json()["code"]) == (404, "not_found")
    assert (wrong.status_code, wrong.json()["code"]) == (405, "method_not_allowed")
    assert "GET" in wrong.headers["allow"]


def test_every_failure_has_a_status_and_no_base_class_hides_one() -> None:
    assert STATUS_OF_REFUSAL.keys() == set(REFUSALS)
    kinds = list(STATUS_OF_ERROR)
    assert not [(kind, later) for n, kind in enumerate(kinds) for later in kinds[n + 1 :] if issubclass(later, kind)]
