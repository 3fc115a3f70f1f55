"""My questions: what is listed, in which order, and what a question's page says. Without a browser."""

import html
import re
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Self

import pytest

from holdfast.client.runs import Runs
from holdfast.client.views.questions import QuestionView
from holdfast.protocol.answers import Answer
from holdfast.server.web import questions
from holdfast.server.web.addresses import question_address
from holdfast.server.web.pages import inbox, templating
from holdfast.server.web.pages.inbox import read_query
from tests.conftest import Harness, until, worker_for
from tests.serve.pages import Desk, desk, started


class BehindTheServer(datetime):
    """The clock of a machine that is five minutes behind Temporal's server."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> Self:
        return super().now(tz) - timedelta(minutes=5)


async def listed(desk: Desk, **query: str) -> list[str]:
    """The messages of the list."""
    page = (await desk.get("/", part="list", **query)).text
    return [text.strip() for text in re.findall(r'<span class="what"[^>]*>([^<]*)<', page)]


async def shown(desk: Desk, message: str, **query: str) -> bool:
    """Whether a message is in the list; visibility knows it a moment after the run."""

    async def is_listed() -> bool:
        return message in await listed(desk, **query)

    return bool(await until(is_listed, message))


def hitl(message: str, more: str = "") -> str:
    return f"steps: [{{kind: hitl, name: ask, message: '{message}'{more}}}]"


async def test_an_empty_inbox_says_so(house: Harness) -> None:
    async with desk(house, "nobody-at-all") as nobody:
        page = (await nobody.get("/", **{"for": "mine"})).text
    assert "No questions are assigned to you by name." in page


async def test_a_question_is_listed_with_its_place(house: Harness) -> None:
    await house.start(hitl("Which tone is right?"))
    async with desk(house) as ana:
        assert await shown(ana, "Which tone is right?")
        page = (await ana.get("/")).text
    assert "test › ask" in page and "anyone" in page


@pytest.mark.slow
@pytest.mark.parametrize(
    ("assignees", "parts"),
    [("'user:ana'", {"me", "mine"}), ("'group:editors'", {"me", "groups"}), ("", {"me", "anyone"})],
)
async def test_each_part_of_the_list_has_its_questions(house: Harness, assignees: str, parts: set[str]) -> None:
    message = f"For {assignees or 'all'}?".replace("'", "")
    await house.start(hitl(message, f", assignees: [{assignees}]" if assignees else ""))
    async with desk(house) as ana:
        await shown(ana, message, **{"for": "all"})
        in_parts = {
            part for part in ("me", "mine", "groups", "anyone") if message in await listed(ana, **{"for": part})
        }
    assert in_parts == parts


async def test_what_waits_for_others_is_not_mine_to_see_among_mine(house: Harness) -> None:
    await house.start(hitl("Only Bob?", ", assignees: ['user:bob']"))
    async with desk(house) as ana:
        await shown(ana, "Only Bob?", **{"for": "all"})
        assert "Only Bob?" not in await listed(ana)


async def test_a_search_finds_questions_behind_the_page(house: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(questions, "PAGE_ROWS", 1)
    name = f"searched-{house.unique}"
    asked = [
        await house.one(await house.start(f"name: {name}\n{hitl(message)}"))
        for message in ("About the apples?", "About the pears?", "About the Apples again?")
    ]
    async with desk(house) as ana:

        async def found(address: str) -> list[str]:
            page = html.unescape((await ana.client.get(address)).text)
            first = [question.message for question in asked if question_address(question) in page]
            older = re.search(r'href="([^"]+)" rel="next"', page)
            return first + (await found(older[1]) if older else [])

        for query, messages in {
            "q=APPLES": ["About the Apples again?", "About the apples?"],
            f"q={asked[1].run}": ["About the pears?"],
            "q=plums": [],
        }.items():

            async def are_found(query: str = query, messages: list[str] = messages) -> bool:
                return await found(f"/?blueprint={name}&{query}") == messages

            await until(are_found, f"what {query} finds")


@pytest.mark.slow
async def test_the_nearest_deadline_comes_first(house: Harness) -> None:
    for days in (3, 1, 2):
        await house.start(hitl(f"Within {days} days?", f", timeout: {days}d, on_timeout: skip"))
    await house.start(hitl("Without end?"))
    async with desk(house) as ana:
        await shown(ana, "Without end?")
        for days in (1, 2, 3):
            await shown(ana, f"Within {days} days?", due="7d")
        messages = [text for text in await listed(ana, sort="deadline", due="7d") if text.startswith("Within")]
        assert messages == ["Within 1 days?", "Within 2 days?", "Within 3 days?"]
        assert "Without end?" not in await listed(ana, due="7d")


@pytest.mark.slow
async def test_the_list_goes_on_behind_its_page_and_begins_anew_for_somebody_else(
    house: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(questions, "PAGE_ROWS", 1)
    monkeypatch.setitem(inbox.AGES, "1h", timedelta(0))
    name = f"paged-{house.unique}"
    asked = [await house.one(await house.start(f"name: {name}\n{hitl('Go?')}")) for _ in range(2)]
    async with desk(house) as ana, desk(house, "bob") as bob:

        async def first() -> str | None:
            page = html.unescape((await ana.get("/", blueprint=name, age="1h")).text)
            return page if 'rel="next"' in page else None

        begin = await until(first, "two pages")
        [link] = re.findall(r'href="([^"]+)" rel="next"', begin)
        end = html.unescape((await ana.client.get(link)).text)
        refused = await bob.client.get(link)
        beside = await bob.client.get(f"{question_address(asked[0])}{link.removeprefix('/')}")
    on_pages = [[question.id for question in asked if question_address(question) in page] for page in (begin, end)]
    assert sorted(sum(on_pages, [])) == sorted(question.id for question in asked)
    assert "after=" in link and "Page 2" in end
    assert f'href="/?blueprint={name}&age=1h" rel="first"' in end and 'rel="next"' not in end
    assert refused.status_code == 422 and "leads to a page of another list" in refused.text
    assert beside.status_code == 200 and "Page 2" not in beside.text


async def test_an_empty_list_says_that_nothing_matches(house: Harness) -> None:
    await house.one(await house.start(hitl("About the plums?")))
    async with desk(house) as ana:
        await shown(ana, "About the plums?")
        searched = (await ana.get("/", q="no such fruit")).text
        filtered = (await ana.get("/", blueprint="no-such-blueprint")).text
    assert "No question matches." in searched
    assert "No question matches." in filtered


async def test_what_has_happened_by_a_clock_that_is_ahead_is_just_now(
    house: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(templating, "datetime", BehindTheServer)
    question = await house.one(await house.start(hitl("Is it late?")))
    async with desk(house) as ana:
        await shown(ana, "Is it late?")
        paths = ("/", question_address(question), f"/runs/{question.run}", "/runs", f"/runs/{question.run}/history")
        pages = [(await ana.get(path)).text for path in paths]
    assert all(">just now<" in page and ">in 5 min<" not in page for page in pages)


@pytest.mark.slow
async def test_a_page_with_many_questions_is_shown_part_by_part(
    house: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inbox, "MOST_SHOWN", 2)
    body = "body: [{kind: hitl, name: ask, message: 'Part {{ item }}?'}]"
    items = "iterable_input: [1, 2, 3, 4, 5], max_concurrency: 5"
    run = await house.start(f"name: parts\nsteps: [{{kind: map, name: each, map: {{{items}, {body}}}}}]")
    await house.asked(run, 5)
    query, seen = {"for": "all", "blueprint": "parts"}, []
    async with desk(house) as ana:
        await until(lambda: listed(ana, **query), "the list")
        for _ in range(3):
            seen.append(await listed(ana, **query))
            page = html.unescape((await ana.get("/", **query)).text)
            query["from"] = (re.findall(r"from=(\d+)[^>]*>Next", page) or ["none"])[0]
    assert [len(messages) for messages in seen] == [2, 2, 1] and query["from"] == "none"
    assert sorted(sum(seen, [])) == [f"Part {n}?" for n in range(1, 6)]


@pytest.mark.slow
async def test_a_workflow_without_a_worker_does_not_keep_the_list_waiting(house: Harness) -> None:
    async with worker_for(house.client, "short-lived"):
        runs = Runs(house.client, "short-lived")
        run = await runs.start(house.load(hitl("Whose worker left?")))
        await until(lambda: runs.questions(run))
    async with desk(house) as ana:

        async def is_told() -> bool:
            return "no worker answers" in (await ana.get("/", **{"for": "anyone"})).text

        await until(is_told, "the row")
        page = (await ana.get("/")).text
    assert "Whose worker left?" not in page
    await house.client.get_workflow_handle(run).terminate()


async def test_a_question_that_was_answered_goes_from_the_list(house: Harness) -> None:
    run = await house.start(hitl("Gone soon?"))
    async with desk(house) as ana:
        await shown(ana, "Gone soon?")
        await house.answer(run, "yes")

        async def is_gone() -> bool:
            return "Gone soon?" not in await listed(ana)

        await until(is_gone)


async def test_markup_in_a_message_is_shown_and_not_followed(house: Harness) -> None:
    await house.start(hitl("<img src=//evil.example/x> ![i](https://evil.example/y) **bold**"))
    question = await house.one(house.started[-1])
    async with desk(house) as ana:
        page = (await ana.get(f"/questions/{question.run}/{question.id}")).text
    assert "<strong>bold</strong>" in page and "<img src=//" not in page and 'src="https://evil' not in page


async def test_an_unknown_question_is_not_found(house: Harness) -> None:
    run = await house.start(hitl("Real?"))
    await house.one(run)
    async with desk(house) as ana:
        assert (await ana.get(f"/questions/{run}/0000000000000000")).status_code == 404
        assert (await ana.get("/questions/no-such-run/0000000000000000")).status_code == 404


async def test_who_may_not_answer_is_told_before_typing(house: Harness) -> None:
    question = await started(house, "decide")
    async with desk(house, "mallory") as mallory:
        page = (await mallory.get(f"/questions/{question.run}/{question.id}")).text
    assert "You can see this question, but not answer it:" in page


async def test_the_default_is_named_by_the_label_of_its_option(house: Harness) -> None:
    question = await started(house, "decide")
    async with desk(house) as ana:
        page = (await ana.get(f"/questions/{question.run}/{question.id}")).text
    assert "then the answer is: “Wait for Monday”" in page


def test_a_filter_that_cannot_be_read_counts_as_left_out() -> None:
    now = datetime.now(UTC)
    wanted = read_query({"for": "x", "sort": "y", "page": "²", "age": "z"}, now)
    assert (wanted.whose, wanted.order, wanted.page, wanted.since) == ("me", "newest", 1, None)


@pytest.mark.first_row
@pytest.mark.parametrize(
    ("asked_days_ago", "hours_left", "near"), [(0, 2, False), (1, 2, True), (0, 0.5, True), (9, 48, False)]
)
async def test_a_near_deadline_is_marked(house: Harness, asked_days_ago, hours_left, near) -> None:
    now = datetime.now(UTC)
    question = await started(house, "text")
    times = {"asked_at": now - timedelta(days=asked_days_ago), "deadline": now + timedelta(hours=hours_left)}
    assert QuestionView(question.model_copy(update=times), now).is_near is near


async def test_nobody_sees_the_inbox_without_a_sign_in(house: Harness) -> None:
    async with desk(house, "-") as nobody:
        assert (await nobody.get("/")).status_code in (302, 303, 401)


async def test_the_same_answer_by_the_api_and_the_page_meets_one_question(house: Harness) -> None:
    question = await started(house, "text")
    await house.runs.answer(question.run, [Answer(question=question.id, content="first")], by="user:bob")
    async with desk(house) as ana:
        page = await ana.client.post(f"/questions/{question.run}/{question.id}", data={"do": "answer", "f:": "second"})
    assert page.status_code == 409 and "second" in page.text and "bob" in page.text


ITEMS = """
name: items
steps:
  - kind: map
    name: all
    map:
      iterable_input: "range(12) | list"
      max_concurrency: 12
      body: [{kind: hitl, name: ask, message: "Number {{ item }}?"}]
"""


async def test_questions_of_items_stand_in_the_order_of_the_items(house: Harness) -> None:
    run = await house.start(ITEMS)

    async def asked() -> bool:
        return len(await house.runs.questions(run)) == 12

    await until(asked, "twelve questions")
    wanted = [f"Number {n}?" for n in range(12)]
    assert [question.message for question in await house.runs.questions(run)] == wanted
    async with desk(house) as here:

        async def are_listed() -> bool:
            return [text for text in await listed(here, sort="blueprint") if text in wanted][:12] == wanted

        await until(are_listed, "the list")


async def test_a_search_leaves_the_filters_folded(house: Harness) -> None:
    async with desk(house) as here:
        pages = [(await here.get("/", **query)).text for query in ({"q": "x"}, {"sort": "deadline"})]
    assert ["<details open>" in page for page in pages] == [False, True]
