"""Pages of the list of workflows that wait, over Temporal's visibility."""

import uuid
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from holdfast.client.listing import WaitingFilter, read_page, waiting_workflows
from holdfast.runtime.errors import BadCursor, NotReadable
from holdfast.runtime.workers import WorkflowNotReadable
from tests.conftest import Harness, until
from tests.unread import refuse_queries


async def listed(house: Harness, count: int) -> tuple[WaitingFilter, list[str]]:
    """Start runs that ask; a filter for them, and their ids as the list has them."""
    name = f"listed-{uuid.uuid4().hex[:8]}"
    for _ in range(count):
        await house.start(f"{{name: {name}, steps: [{{kind: hitl, name: ask, message: Go?}}]}}")
    wanted = WaitingFilter(blueprint=name)

    async def all_of_them() -> list[str]:
        found = [row.run async for row in waiting_workflows(house.client, wanted=wanted)]
        return found if len(found) == count else []

    return wanted, await until(all_of_them, "the list")


@pytest.mark.slow
async def test_pages_hold_each_run_once_by_number_and_by_cursor(house: Harness) -> None:
    wanted, runs = await listed(house, 5)
    cursor = None
    for page in (1, 2, 3):
        by_number, _ = await read_page(house.runs.reader, wanted, 2, page=page)
        rows, cursor = await read_page(house.runs.reader, wanted, 2, cursor=cursor)
        assert [row.run for row in rows] == [row.run for row in by_number] == runs[2 * page - 2 : 2 * page]
        assert (cursor is not None) == (page < 3)


async def test_a_full_last_page_is_the_last_and_none_is_behind_it(house: Harness) -> None:
    wanted, runs = await listed(house, 4)
    rows, cursor = await read_page(house.runs.reader, wanted, 2, page=2)
    assert ([row.run for row in rows], cursor) == (runs[2:], None)
    assert await read_page(house.runs.reader, wanted, 2, page=9) == ([], None)


async def test_a_cursor_is_good_at_a_later_time_and_for_no_other_list(house: Harness) -> None:
    wanted, runs = await listed(house, 2)
    now = datetime.now(UTC)
    _, cursor = await read_page(house.runs.reader, replace(wanted, since=now), 1)
    assert cursor is not None
    later = replace(wanted, since=now + timedelta(seconds=3))
    rows, _ = await read_page(house.runs.reader, later, 1, cursor=cursor)
    assert [row.run for row in rows] == runs[1:]
    with pytest.raises(BadCursor):
        await read_page(house.runs.reader, replace(wanted, names=["user:bob"]), 1, cursor=cursor)


async def test_a_run_that_cannot_be_read_stands_in_the_list_without_its_question(
    house: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted, runs = await listed(house, 2)
    with monkeypatch.context() as patch:
        refuse_queries(patch, runs[0], NotReadable("a codec is missing"))
        rows, _ = await read_page(house.runs.reader, wanted, 10)
        assert [(row.run, bool(row.open)) for row in rows] == [(runs[0], False), (runs[1], True)]
        with pytest.raises(WorkflowNotReadable, match="cannot be read here: a codec is missing"):
            await house.runs.state(runs[0])
