"""What was closed shows nowhere, although the search attributes name it until the next question is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from temporalio.common import SearchAttributeKey

from holdfast.client.answering import Sender
from holdfast.client.listing import WaitingFilter, waiting_workflows
from holdfast.client.permissions import Permissions
from holdfast.client.states import Waiting
from holdfast.protocol.access import AccessRules, Person
from holdfast.protocol.answers import Refusal
from holdfast.protocol.incoming import read_event
from holdfast.protocol.names import EVENTS_ATTRIBUTE, QUESTIONS_ATTRIBUTE
from holdfast.protocol.questions import Question
from holdfast.server.web.dispatches import EventDelivery
from holdfast.server.web.live import Live
from holdfast.server.web.metrics import OpenQuestionCounts
from tests.conftest import Harness, until
from tests.serve.ground import client_of, site_of_house

ASK = "{kind: hitl, name: ask, message: Go?}"
WAIT = "{kind: wait, name: paid, for: paid, key: '{{ input }}'}"
"""It waits for an event: the search attributes of questions stay as they were."""
ASK_THEN_WAIT = f"{ASK}, {WAIT}"
IN_A_RUN = f"name: NAME\nsteps: [{ASK_THEN_WAIT}]"
IN_A_LOOP = f"name: NAME\nsteps: [{{kind: loop, name: l, loop: {{max_loops: 3, body: [{ASK_THEN_WAIT}]}}}}]"
ACROSS = (
    f"name: NAME\nsteps: [{{kind: loop, name: l, loop: {{max_loops: 3, checkpoint_every: 1, body: [{WAIT}, {ASK}]}}}}]"
)
"""The history that goes on has the attributes of the one before."""


def named(text: str, house: Harness) -> str:
    return text.replace("NAME", f"'{house.unique}'")  # it may be all digits


async def closed_question(house: Harness, text: str) -> Question:
    """A question that was answered, and that the attributes of its workflow still name."""
    run = await house.start(named(text, house), house.unique)
    if text is ACROSS:
        await waited(house, run)
        await house.runs.external_events.send(run, "paid", house.unique, 1)
    question = await house.one(run)
    await house.answer(run, "yes", question)
    await waited(house, run)

    async def is_named() -> bool:
        return question.id in await attribute(house, question.owner, QUESTIONS_ATTRIBUTE)

    await until(is_named, "the question in the attributes")
    await until(lambda: listed(house, question.owner), "the workflow in visibility")
    return question


async def waited(house: Harness, run: str) -> Question:
    """The event that a run waits for."""

    async def events() -> list[Question]:
        return (await house.runs.state(run)).events

    [event] = await until(events, "the wait")
    return event


async def attribute(house: Harness, workflow: str, name: str) -> list[str]:
    described = await house.client.get_workflow_handle(workflow).describe()
    return list(described.typed_search_attributes.get(SearchAttributeKey.for_keyword_list(name)) or [])


async def listed(house: Harness, workflow: str) -> list[Waiting]:
    """The rows of visibility, which nobody has confirmed."""
    return [row async for row in waiting_workflows(house.client) if row.owner == workflow]


@pytest.mark.slow
@pytest.mark.parametrize(
    "text", [IN_A_RUN, pytest.param(IN_A_LOOP, marks=pytest.mark.slow), ACROSS], ids=["run", "loop", "continued"]
)
async def test_a_closed_question_is_in_no_list_and_no_count(house: Harness, text: str) -> None:
    question = await closed_question(house, text)
    runs, name, run = house.runs, house.unique, question.run
    assert [row for row in (await runs.lists.find_waiting())[0] if row.run == run] == []
    [row] = (await runs.lists.page(blueprint=name))[0]
    assert (row.status, row.waiting_for) == ("running", [])
    assert (await runs.lists.page(blueprint=name, status="waiting"))[0] == []
    assert [row.status for row in await runs.lists.all(blueprint=name)] == ["running"]
    with pytest.raises(Refusal, match="no open question"):
        await runs.lists.find_question(question.id)
    site = site_of_house(house)
    assert name not in (await OpenQuestionCounts.read(site)).count
    async with client_of(site) as client:
        assert run not in (await client.get("/")).text
        assert run not in (await client.get("/api/v1/questions")).text


async def test_what_is_asked_after_it_is_listed_alone(house: Harness) -> None:
    text = f"name: NAME\nsteps: [{ASK_THEN_WAIT}, {{kind: hitl, name: then, message: And?, timeout: 1d}}]"
    before = await closed_question(house, text)
    await house.runs.external_events.send(before.run, "paid", house.unique, 1)
    [question] = await house.asked(before.run)
    [row] = await until(lambda: rows(house, before.run), "the row")
    assert ([one.message for one in row.open or ()], row.questions, row.deadline) == (
        ["And?"],
        [question.id],
        question.deadline,
    )
    assert await attribute(house, question.owner, QUESTIONS_ATTRIBUTE) == [question.id]


async def rows(house: Harness, run: str) -> list[Waiting]:
    return [row for row in (await house.runs.lists.find_waiting())[0] if row.run == run]


BOTH = """
name: NAME
steps:
  - kind: parallel
    name: both
    branches:
      one: {kind: hitl, name: one, message: One?, assignees: ["user:ana"], timeout: 1h}
      two: {kind: hitl, name: two, message: Two?, assignees: ["user:bob"], timeout: 3h}
"""


@pytest.mark.slow
async def test_of_two_questions_the_open_one_decides_who_sees_the_row_and_when_it_is_due(house: Harness) -> None:
    run = await house.start(named(BOTH, house))
    one, two = sorted(await house.asked(run, 2), key=lambda question: question.message)
    await until(lambda: listed(house, run), "the row")
    await house.answer(run, "yes", one, by="user:ana")
    assert sorted(await attribute(house, run, QUESTIONS_ATTRIBUTE)) == sorted([one.id, two.id])
    lists, name = house.runs.lists, house.unique
    assert (await lists.find_waiting("user:ana", WaitingFilter(blueprint=name)))[0] == []
    assert (await lists.find_waiting(wanted=WaitingFilter(blueprint=name, deadline=one.deadline)))[0] == []
    [row] = (await lists.find_waiting("user:bob", WaitingFilter(blueprint=name, deadline=two.deadline)))[0]
    assert (row.waiting_for, row.questions, row.open) == (["user:bob"], [two.id], [two])


@pytest.mark.slow
async def test_a_page_is_filled_from_behind_the_workflows_that_wait_no_more(house: Harness) -> None:
    started = [await house.start(named(IN_A_RUN, house), house.unique) for _ in range(5)]
    questions = {run: await house.one(run) for run in started}
    await until(lambda: visible(house, 5), "five rows")
    for run in (started[4], started[2], started[1]):
        await house.answer(run, "yes", questions[run])
    rows, following = await house.runs.lists.find_waiting(wanted=WaitingFilter(blueprint=house.unique), size=2)
    assert ([row.run for row in rows], following) == ([started[3], started[0]], None)
    first, cursor = await house.runs.lists.find_waiting(wanted=WaitingFilter(blueprint=house.unique), size=1)
    second, end = await house.runs.lists.find_waiting(
        wanted=WaitingFilter(blueprint=house.unique), size=1, cursor=cursor
    )
    assert ([row.run for row in [*first, *second]], end) == ([started[3], started[0]], None)


async def visible(house: Harness, count: int) -> bool:
    found = [row async for row in waiting_workflows(house.client) if row.blueprint == house.unique]
    return len(found) == count


async def test_a_page_is_filled_from_behind_what_a_person_may_not_see(
    house: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = ", ".join(f"user:u{n}" for n in range(21))
    text = "name: NAME\nsteps: [{kind: hitl, name: ask, message: Go?, assignees: [WHO]}]"
    hers = await house.start(named(text.replace("WHO", "user:eve"), house))
    for _ in range(3):
        await house.start(named(text.replace("WHO", many), house))
    await until(lambda: visible(house, 4), "four rows")
    eve = Permissions(Person.of("user:eve", {}), AccessRules(enforced=True))
    lists = house.runs.acting_as(Sender("user:eve"), eve).lists
    rows, following = await lists.find_waiting(wanted=WaitingFilter(blueprint=house.unique), size=1)
    assert ([row.run for row in rows], following) == ([hers], None)

    async def has_no_worker(*_: object) -> bool:
        return False

    monkeypatch.setattr("holdfast.client.question_reader.is_polled", has_no_worker)
    rows, _ = await lists.find_waiting(wanted=WaitingFilter(blueprint=house.unique))
    assert [(row.run, row.open) for row in rows] == [(hers, None)]


async def test_who_looks_at_the_list_learns_that_a_question_was_closed(house: Harness) -> None:
    run = await house.start(named(IN_A_RUN, house), house.unique)
    question = await house.one(run)
    await until(lambda: listed(house, run), "the row")
    live = Live(house.runs)
    before = await live._look_at_questions()
    await house.answer(run, "yes", question)
    assert await live._look_at_questions() != before


BROADCASTS = {
    "run": f"name: NAME\nsteps: [{WAIT}, {ASK}]",
    "continued": ACROSS.replace(f"[{WAIT}, {ASK}]", f"[{ASK}, {WAIT}]"),
}


@pytest.mark.slow
@pytest.mark.parametrize("text", BROADCASTS.values(), ids=list(BROADCASTS))
async def test_an_event_for_all_that_wait_is_not_kept_by_a_run_that_waits_no_more(house: Harness, text: str) -> None:
    run = await house.start(named(text, house), house.unique)
    if text == BROADCASTS["continued"]:
        await house.answer(run, "yes", await house.one(run))
    await waited(house, run)
    delivery, runs = EventDelivery(), house.runs
    await until(lambda: runs.external_events.find_runs("paid", house.unique), "the event in visibility")
    [taken] = await delivery.deliver(runs, broadcast(house, "one"))
    assert (taken.run, taken.status) == (run, "taken")
    question = await house.one(run)
    assert len(await attribute(house, question.owner, EVENTS_ATTRIBUTE)) == 1
    assert await runs.external_events.find_runs("paid", house.unique) == []
    with pytest.raises(Refusal, match="no run waits"):
        await delivery.deliver(runs, broadcast(house, "two"))
    with pytest.raises(Refusal, match="no step of"):  # it has stopped waiting since it was found
        await runs.external_events.send(run, "paid", house.unique, 2, id="three", keep=False)
    assert all(view.kept == [] for view in (await runs.state(run)).views)
    assert await delivery.deliver(runs, broadcast(house, "one")) == [taken]


def broadcast(house: Harness, id_: str) -> Any:
    return read_event({"name": "paid", "key": house.unique, "payload": 1, "id": id_})


class CountedReader:
    """Counts the queries of the reader of a house."""

    def __init__(self, house: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
        self.queries = 0
        tree = house.runs.reader.tree
        view: Callable[..., Awaitable[Any]] = tree.view

        async def counted(*args: Any, **how: Any) -> Any:
            self.queries += 1
            return await view(*args, **how)

        monkeypatch.setattr(tree, "view", counted)


@pytest.mark.slow
async def test_one_query_serves_all_who_look_until_something_happens(
    house: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = await house.start(named(IN_A_RUN, house), house.unique)
    question = await house.one(run)
    await until(lambda: attribute(house, run, QUESTIONS_ATTRIBUTE), "the end of the task that asks")
    counted, reader = CountedReader(house, monkeypatch), house.runs.reader
    found = await asyncio.gather(*(reader.read(run) for _ in range(20)))
    assert found == [[question]] * 20
    assert await reader.read(run) == [question]
    assert counted.queries == 1
    await house.answer(run, "yes", question)
    await until(lambda: attribute(house, run, EVENTS_ATTRIBUTE), "the end of the task that waits")
    counted.queries = 0
    assert [await reader.read(run), await reader.read(run), counted.queries] == [[], [], 1]
