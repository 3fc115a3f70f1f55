"""What a page costs: the calls to Temporal that it makes. The processor's time is measured by `benchmarks.inbox`."""

from __future__ import annotations

import asyncio
import uuid

import httpx
import pytest

from holdfast.client.runs import Runs
from holdfast.server.web.addresses import question_address
from holdfast.server.web.site import Site
from tests.conftest import Harness, until
from tests.serve.failing import Wire, wired
from tests.serve.ground import client_of, site_of_house

LISTED, QUERIED = "list_workflow_executions", "query_workflow"
DESCRIBED = "describe_workflow_execution"


@pytest.fixture
def name() -> str:
    return f"cost-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def site(house: Harness) -> tuple[Site, Wire]:
    client, wire = wired(house.client)
    config = site_of_house(house).config
    return Site(config, Runs(client, house.runs.task_queue, house.runs.answering)), wire


async def listed(browser: httpx.AsyncClient, name: str, count: int) -> str:
    """Look at the list of a blueprint until it has so many questions; its address."""
    address = f"/?for=all&blueprint={name}"

    async def is_whole() -> bool:
        return (await browser.get(address)).text.count("data-item") == count

    await until(is_whole, "the list")
    return address


async def test_a_list_that_was_seen_costs_no_query(house: Harness, site: tuple[Site, Wire], name: str) -> None:
    for _ in range(3):
        await house.start(f"{{name: {name}, steps: [{{kind: hitl, name: ask, message: Go?}}]}}")
    async with client_of(site[0]) as browser:
        address = await listed(browser, name, 3)
        site[1].calls.clear()
        await browser.get(address)
    assert site[1].calls == {LISTED: 1, DESCRIBED: 3}  # whether something has happened in what is listed


async def test_a_question_costs_its_list_and_one_query(house: Harness, site: tuple[Site, Wire], name: str) -> None:
    run = await house.start(f"{{name: {name}, steps: [{{kind: hitl, name: ask, message: Go?}}]}}")
    question = await house.one(run)
    async with client_of(site[0]) as browser:
        query = (await listed(browser, name, 1)).partition("?")[2]
        site[1].calls.clear()
        page = await browser.get(f"{question_address(question)}?{query}")
    assert page.status_code == 200
    assert site[1].calls == {LISTED: 1, DESCRIBED: 3, QUERIED: 1}  # the events of the story; the list has read the view


async def test_the_first_page_of_runs_reads_no_more_than_it_shows(
    house: Harness, site: tuple[Site, Wire], name: str
) -> None:
    for _ in range(3):
        await house.start(f"{{name: {name}, steps: [{{kind: hitl, name: ask, message: Go?}}]}}")
    async with client_of(site[0]) as browser:
        await listed(browser, name, 3)
        site[1].calls.clear()
        await browser.get(f"/runs?blueprint={name}")
    assert site[1].calls == {LISTED: 2, DESCRIBED: 3}  # the runs, whom they may wait for, and whether they still do


async def test_an_answer_costs_one_update(house: Harness, site: tuple[Site, Wire], name: str) -> None:
    run = await house.start(f"{{name: {name}, steps: [{{kind: hitl, name: ask, message: Go?}}]}}")
    question = await house.one(run)
    async with client_of(site[0]) as browser:
        await listed(browser, name, 1)
        form = {"do": "answer", "f:": "yes", "digest": question.digest, "key": "k1"}
        site[1].calls.clear()
        sent = await browser.post(question_address(question), data=form)
    assert (sent.status_code, site[1].calls) == (303, {"update_workflow_execution": 1})


@pytest.mark.slow
async def test_an_answer_that_comes_too_late_says_who_was_first(
    house: Harness, site: tuple[Site, Wire], name: str
) -> None:
    run = await house.start(f"{{name: {name}, steps: [{{kind: hitl, name: ask, message: Go?}}]}}")
    question = await house.one(run)
    async with client_of(site[0]) as browser:
        await listed(browser, name, 1)
        await house.answer(run, "no", question, by="user:bob")
        form = {"do": "answer", "f:": "yes", "digest": question.digest, "key": "k1"}
        late = await browser.post(question_address(question), data=form)
        assert late.status_code in (409, 410) and "bob" in late.text
        site[1].calls.clear()
        await browser.get(f"{question_address(question)}?blueprint={name}")
    assert site[1].calls[QUERIED] <= 4 and site[1].calls[LISTED] == 1  # one less where the list has it still


async def test_all_who_look_at_a_run_share_its_queries(house: Harness, site: tuple[Site, Wire], name: str) -> None:
    run = await house.start(f"{{name: {name}, steps: [{{kind: hitl, name: ask, message: Go?}}]}}")
    await house.one(run)
    site[1].calls.clear()
    async with client_of(site[0]) as browser:
        first = await asyncio.gather(*(browser.get(f"/runs/{run}") for _ in range(8)))
        queries = site[1].calls[QUERIED]
        again = await browser.get(f"/runs/{run}")
        assert site[1].calls[QUERIED] == queries
        await house.answer(run, "yes")
        await house.result(run)
        later = await browser.get(f"/runs/{run}")
    assert queries <= 4  # the view, the events, the context
    assert {page.status_code for page in (*first, again, later)} == {200}
    assert "Go?" in again.text and later.text != again.text
