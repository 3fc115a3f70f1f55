"""What can be started over HTTP: files of the folders that the configuration names, and no others."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest
import pytest_asyncio

from holdfast.runtime.config.sections import ServeSection
from tests.conftest import Harness
from tests.serve.ground import WHO, blueprint_file, client_of, person, site_of_house

BRIEF = """
name: brief
description: Write a brief.
inputs: {type: object, required: [topic], properties: {topic: {type: string}}}
steps: [{kind: hitl, name: title, message: "A title about {{ input.topic }}?"}]
"""

TESTS = """
blueprint: brief.yaml
tests: [{name: tea, input: {topic: tea}, expect: {steps: {title: {status: completed}}}}]
"""


@pytest_asyncio.fixture
async def api(house: Harness) -> AsyncIterator[httpx.AsyncClient]:
    folder = house.folder / "blueprints"
    blueprint_file(folder, "brief.yaml", BRIEF)
    blueprint_file(folder, "broken.yaml", "steps: [{name: x, usess: passthrough}]")
    blueprint_file(folder, "brief.replies.yaml", "planner: [{output: {steps: [], goal: tea}}]")
    blueprint_file(folder, "brief.test.yaml", TESTS)
    blueprint_file(house.folder, "outside.yaml", BRIEF)
    (folder / "link.yaml").symlink_to(house.folder / "outside.yaml")
    site = site_of_house(house, serve=ServeSection(blueprints=["blueprints"]))
    async with client_of(site, person("clerk", "read", "answer")) as client:
        yield client


async def started(house: Harness, api: httpx.AsyncClient, **body: object) -> httpx.Response:
    key = {"Idempotency-Key": str(body.pop("key"))} if "key" in body else {}
    response = await api.post("/api/v1/runs", json=body, headers=key)
    if response.status_code == 201 and response.json()["run"] not in house.started:
        house.started.append(response.json()["run"])
    return response


async def test_the_list_has_the_blueprints_with_their_inputs_and_mistakes(api: httpx.AsyncClient) -> None:
    brief, broken = (await api.get("/api/v1/blueprints")).json()
    assert (brief["blueprint"], brief["description"]) == ("brief", "Write a brief.")
    assert brief["inputs"]["required"] == ["topic"]
    assert broken["problems"][0].startswith("broken.yaml:1:")


async def test_what_cannot_be_is_told_in_the_list_and_where_it_is_started(
    house: Harness, api: httpx.AsyncClient
) -> None:
    """As by `validate`: the same place, words and hint."""
    asks = "{kind: hitl, name: pick, ask: decision, message: Which?, options: [red, green]}"
    text = f"steps: [{asks}, {{name: x, input: 1, when: steps.pick.output == 'grene'}}]"
    blueprint_file(house.folder / "blueprints", "shaped.yaml", text)
    says = "steps[1].when: steps.pick.output is never 'grene' (did you mean 'green'?)"
    *_, shaped = (await api.get("/api/v1/blueprints")).json()
    assert [one.endswith(says) for one in shaped["problems"]] == [True]
    refused = await started(house, api, blueprint="shaped", id="shaped-1")
    assert (refused.status_code, says in refused.text) == (422, True)
    assert (await api.get("/api/v1/runs/shaped-1")).status_code == 404


async def test_a_run_is_started_by_who_signed_in(house: Harness, api: httpx.AsyncClient) -> None:
    response = await started(house, api, blueprint="brief", input={"topic": "tea"}, id="tea-1")
    assert (response.status_code, response.json()) == (201, {"run": "tea-1"})
    assert response.headers["location"] == "/api/v1/runs/tea-1"
    assert (await house.one("tea-1")).message == "A title about tea?"
    again = await started(house, api, blueprint="brief.yaml", input={"topic": "tea"}, id="tea-1")
    assert (again.status_code, again.json()["code"]) == (409, "run_exists")


async def test_the_same_key_starts_one_run_and_other_input_is_a_conflict(
    house: Harness, api: httpx.AsyncClient
) -> None:
    first = await started(house, api, blueprint="brief", input={"topic": "tea"}, key="k")
    again = await started(house, api, blueprint="brief", input={"topic": "tea"}, key="k")
    other = await started(house, api, blueprint="brief", input={"topic": "milk"}, key="k")
    assert (first.status_code, first.json()) == (201, again.json())
    assert (other.status_code, other.json()["code"]) == (409, "key_conflict")
    await house.one(first.json()["run"])


@pytest.mark.first_row
@pytest.mark.parametrize("name", ["../outside", "outside", "link", "/etc/hosts", "replies", "nothing", "."])
async def test_no_other_file_is_started(house: Harness, api: httpx.AsyncClient, name: str) -> None:
    response = await started(house, api, blueprint=name)
    assert (response.status_code, response.json()["code"]) == (422, "input_invalid")
    assert "there are: brief, broken" in response.json()["detail"]


async def test_input_that_does_not_fit_and_a_blueprint_with_mistakes_are_refused(
    house: Harness, api: httpx.AsyncClient
) -> None:
    unfit = await started(house, api, blueprint="brief", input={})
    broken = await started(house, api, blueprint="broken")
    assert (unfit.status_code, unfit.json()["code"]) == (422, "input_invalid")
    assert (broken.status_code, broken.json()["code"]) == (422, "blueprint_invalid")
    assert str(house.folder) not in broken.text


async def test_who_may_only_answer_starts_nothing(api: httpx.AsyncClient) -> None:
    response = await api.post("/api/v1/runs", json={"blueprint": "brief"}, headers={WHO: "clerk"})
    assert (response.status_code, response.json()["code"]) == (403, "not_allowed")
