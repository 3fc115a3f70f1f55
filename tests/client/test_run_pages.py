"""Pages of the list of runs, and the blueprint of a run, as visibility and histories have them."""

from __future__ import annotations

import pytest

from holdfast.client.listing import RunsFilter, make_cursor, read_page
from holdfast.client.question_reader import QuestionReader
from holdfast.runtime.errors import BadInput
from tests.conftest import Harness, until

ASK = "name: {name}\nsteps: [{{name: ask, kind: hitl, message: 'Go on?'}}]"
LOOPED = "name: looped\nsteps: [{name: again, kind: loop, loop: {max_loops: 2, body: [{name: ask, kind: hitl}]}}]"


async def page(house: Harness, name: str, **how: object) -> list[tuple[str, str, list[str]]]:
    rows, _ = await house.runs.lists.page(blueprint=name, **how)
    return [(row.run, row.status, row.waiting_for) for row in rows]


async def test_a_page_has_the_newest_runs_and_tells_of_more(house: Harness) -> None:
    name = f"paged-{house.unique}"
    started = [await house.start(ASK.format(name=name)) for _ in range(3)]
    await until(lambda: _has(house, name, 3), "three rows")
    rows, more = await house.runs.lists.page(page=1, blueprint=name, size=2)
    last, none = await house.runs.lists.page(page=2, blueprint=name, size=2)
    assert [row.run for row in [*rows, *last]] == started[::-1] and (more is not None, none) == (True, None)


async def test_a_cursor_goes_on_behind_its_page_whatever_begins_meanwhile(house: Harness) -> None:
    name = f"cursor-{house.unique}"
    started = [await house.start(ASK.format(name=name)) for _ in range(5)]
    await until(lambda: _has(house, name, 5), "five rows")
    first, cursor = await house.runs.lists.page(blueprint=name, size=2)
    await house.start(ASK.format(name=name))
    await until(lambda: _has(house, name, 6), "the run that began meanwhile")
    second, again = await house.runs.lists.page(cursor, blueprint=name, size=2)
    last, end = await house.runs.lists.page(again, blueprint=name, size=2)
    assert [row.run for row in [*first, *second, *last]] == started[::-1] and end is None


async def test_runs_are_found_by_the_beginning_of_their_ids(house: Harness) -> None:
    name = f"found-{house.unique}"
    started = [await house.start(ASK.format(name=name), run=f"{name}-{part}") for part in ("a1", "a2", "b")]
    await until(lambda: _has(house, name, 3), "three rows")
    found = [[run for run, *_ in await page(house, name, beginning=f"{name}-{part}")] for part in ("a", "b", "c'd")]
    assert found == [started[1::-1], started[2:], []]


@pytest.mark.slow
async def test_a_cursor_stands_behind_the_last_run_that_fits(house: Harness) -> None:
    """Visibility does not know which of the running ones are paused: they lie among others."""
    name = f"among-{house.unique}"
    runs = [await house.start(ASK.format(name=name)) for _ in range(6)]
    paused = runs[::2]
    for run in paused:
        await house.runs.control.pause(run)
    await until(lambda: _has(house, name, 3, status="paused"), "three rows")
    await until(lambda: _has(house, name, 6), "six rows")
    found, cursor = await house.runs.lists.page(blueprint=name, status="paused", size=1)
    while cursor is not None:
        rows, cursor = await house.runs.lists.page(cursor, blueprint=name, status="paused", size=1)
        found += rows
    assert [row.run for row in found] == paused[::-1]
    third, _ = await house.runs.lists.page(page=3, blueprint=name, status="paused", size=1)
    assert [row.run for row in third] == [paused[0]]


async def test_open_questions_have_cursors_too(house: Harness) -> None:
    user = f"user:{house.unique}"
    text = ASK.replace("Go on?'", f"Go on?', assignees: ['{user}']").format(name="asked")
    runs = [await house.start(text) for _ in range(3)]
    await until(lambda: _waits(house, user, 3), "three rows")
    found, cursor = await house.runs.lists.find_waiting(user, size=2)
    while cursor is not None:  # what waits for anyone comes, too
        rows, cursor = await house.runs.lists.find_waiting(user, cursor=cursor, size=2)
        found += rows
    assert [row.run for row in found if row.waiting_for == [user]] == runs[::-1]


@pytest.mark.parametrize("cursor", ["x", "nonsense", "é" * 20, make_cursor(b"{}", RunsFilter("a"))[:-1] + "Q"])
async def test_a_cursor_that_was_not_given_is_refused(house: Harness, cursor: str) -> None:
    with pytest.raises(BadInput, match="not a cursor of this list"):
        await house.runs.lists.page(cursor, blueprint="a")


async def test_a_cursor_of_another_list_is_refused(house: Harness) -> None:
    cursor = make_cursor(b"{}", RunsFilter("a"))
    with pytest.raises(BadInput, match="with the same filters"):
        await house.runs.lists.page(cursor, blueprint="b")


async def test_the_status_of_a_run_tells_of_questions_inside_a_loop(house: Harness) -> None:
    name = f"looped-{house.unique}"
    run = await house.start(LOOPED.replace("name: looped", f"name: {name}"))
    await until(lambda: page(house, name, status="waiting"), "the run")
    assert await page(house, name) == [(run, "waiting", ["anyone"])]
    assert await page(house, name, status="running") == []


async def test_a_list_that_is_read_once_describes_no_run(house: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = RunsFilter(f"once-{house.unique}", "waiting")
    await house.start(ASK.format(name=wanted.blueprint))
    await until(lambda: page(house, str(wanted.blueprint), status="waiting"), "the run")
    monkeypatch.setattr(house.runs.reader.tree, "describe", None)
    rows, _ = await read_page(QuestionReader(house.runs.reader.tree), wanted, 1)
    assert [row.waiting_for for row in rows] == [["anyone"]]


async def test_a_filter_by_status_finds_paused_and_ended_runs(house: Harness) -> None:
    name = f"mixed-{house.unique}"
    paused, done = [await house.start(ASK.format(name=name)) for _ in range(2)]
    await house.runs.control.pause(paused)
    await house.answer(done, "yes")
    await house.output(done)
    await until(lambda: page(house, name, status="completed"), "the ended run")
    await until(lambda: page(house, name, status="paused"), "the paused run")
    assert [run for run, _, _ in await page(house, name, status="completed")] == [done]
    assert [run for run, _, _ in await page(house, name, status="paused")] == [paused]


async def test_the_blueprint_of_a_run_is_that_of_its_start(house: Harness) -> None:
    run = await house.start(ASK.format(name="kept"))
    blueprint = await house.runs.watch.blueprint(run)
    assert blueprint == house.load(ASK.format(name="kept"))


async def _has(house: Harness, name: str, count: int, **how: object) -> bool:
    return len(await page(house, name, **how)) == count


async def _waits(house: Harness, user: str, count: int) -> bool:
    return (
        len([row for row in (await house.runs.lists.find_waiting(user=user))[0] if row.waiting_for == [user]]) == count
    )
