"""A large map is read from its end: its earlier pages are not asked for what nobody looks at."""

from __future__ import annotations

import pytest

from holdfast.client.runs import Runs
from holdfast.client.views import StepView
from holdfast.protocol.runs import HistoryLimits
from tests.conftest import Harness, until
from tests.serve.failing import wired

MAP = """
steps:
  - kind: map
    name: each
    map:
      iterable_input: "{{ range(%d) }}"
      body: [{name: keep, input: "{{ item }}"}]
"""
PAGED = HistoryLimits(items=4)


async def last_items(house: Harness, run: str, last: int | None) -> tuple[StepView, int]:
    """The map of a run's trace with its last items, and the number of queries that it took."""
    client, wire = wired(house.client)
    runs = Runs(client, house.runs.task_queue)
    state = await runs.state(run)
    wire.calls.clear()
    [span] = (await runs.watch.trace(state, last)).steps
    return span, wire.calls["query_workflow"]


async def ended(house: Harness, count: int) -> str:
    run = await house.start(MAP % count, history_limits=PAGED)
    await house.output(run)
    return run


@pytest.mark.slow
async def test_only_the_pages_of_the_last_items_are_read(house: Harness) -> None:
    count = 60
    run = await ended(house, count)
    whole, every = await last_items(house, run, None)
    span, few = await last_items(house, run, 6)
    assert [item.n for item in span.map_items] == list(range(count - 6, count))
    assert (span.items_left_out, span.items) == (count - 6, (count, count, count))
    assert few < every / 2 and len(whole.map_items) == count


async def test_a_page_that_waits_is_read_as_well(house: Harness) -> None:
    ask = "{kind: hitl, name: ask, message: Go?, when: item == 1}"
    text = (MAP % 30).replace("body: [", f"max_concurrency: 2\n      body: [{ask}, ")
    run = await house.start(text, history_limits=PAGED)
    question = await house.one(run)

    async def others_are_done() -> bool:
        span, _ = await last_items(house, run, 3)
        return (span.items_left_out, span.items) == (27, (30, 29, 30))

    await until(others_are_done)
    await house.answer(run, "yes", question)
    await house.output(run)


@pytest.mark.slow
async def test_items_before_those_that_were_read_are_counted(house: Harness) -> None:
    span, _ = await last_items(house, await ended(house, 30), 3)
    assert span.earlier == 27
