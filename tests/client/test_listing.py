"""Pages of the list of workflows that wait, over Temporal's visibility."""

import uuid

import pytest

from holdfast.client.listing import PageStarts, WaitingFilter, has_more_behind, waiting_page, waiting_workflows
from tests.conftest import Harness, until


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


@pytest.mark.parametrize("order", [(1, 2, 3), (3, 1, 2), (2, 3)])
async def test_pages_hold_each_run_once_in_any_order_of_reading(house: Harness, order: tuple[int, ...]) -> None:
    wanted, runs = await listed(house, 5)
    starts = PageStarts()
    for page in (*order, *order):
        rows, place = await waiting_page(house.client, wanted, page, 2, starts)
        assert [row.run for row in rows] == runs[2 * page - 2 : 2 * page]
        assert await has_more_behind(house.client, wanted, place) == (page < 3)


async def test_a_full_last_page_is_the_last_and_none_is_behind_it(house: Harness) -> None:
    wanted, runs = await listed(house, 4)
    for starts in (PageStarts(), shared := PageStarts(), shared):
        rows, place = await waiting_page(house.client, wanted, 2, 2, starts)
        has_more = await has_more_behind(house.client, wanted, place)
        assert ([row.run for row in rows], has_more) == (runs[2:], False)
        assert await waiting_page(house.client, wanted, 9, 2, starts) == ([], None)


async def test_a_known_place_is_not_read_up_to_again(house: Harness) -> None:
    wanted, _ = await listed(house, 4)
    starts = PageStarts()
    await waiting_page(house.client, wanted, 1, 1, starts)
    await waiting_page(house.client, wanted, 2, 1, starts)
    known, place = starts.before(wanted, 4)
    assert known == 3 and place
