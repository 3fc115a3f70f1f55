"""A map that failed tells which of its items have completed, wherever they ran."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.protocol.runs import HistoryLimits
from tests.conftest import Harness

MAP = """
steps:
  - kind: map
    name: each
    on_error: continue
    map:
      iterable_input: "{{ range(7) }}"
      %s
      body:
        - {name: bill, input: "{{ {'bill': item, 'text': input} }}"}
        - {name: pay, when: item == 5, uses: nobody_has_this_tool}
        - {name: paid, input: "{{ steps.bill.output }}"}
  - {name: after, input: "{{ steps.each.error }}"}
"""


async def fail(house: Harness, more: str = "", text: str = "x", **how: Any) -> Any:
    return await house.output(await house.start(MAP % more, text, **how))


@pytest.mark.parametrize("at_once", [1, 2])
@pytest.mark.parametrize("in_workflow", [7, 3, 2], ids=["inline", "pages", "pages of pages"])
async def test_the_completed_items_are_told(house: Harness, at_once: int, in_workflow: int) -> None:
    limits = HistoryLimits(items=in_workflow)
    error = await fail(house, f"max_concurrency: {at_once}", history_limits=limits)
    assert error["type"] != "plan_failed" and "nobody_has_this_tool" in error["message"]
    first = [{"index": n, "output": {"bill": n, "text": "x"}} for n in range(5)]
    assert error["output"][:5] == first
    assert [item["index"] for item in error["output"][5:]] in ([], [6])


async def test_the_completed_items_of_pages_that_are_cancelled_are_told(house: Harness) -> None:
    wait = "- {kind: hitl, name: wait, message: Go, when: item == 0 or item == 3}"
    text = MAP.replace("body:", f"body:\n        {wait}") % "max_concurrency: 3"
    error = await house.output(await house.start(text, "x", history_limits=HistoryLimits(items=2)))
    assert [item["index"] for item in error["output"]] == [1, 2, 4]


async def test_of_large_outputs_the_indices_are_told(house: Harness) -> None:
    error = await fail(house, text="x" * 40_000)
    assert error["output"] == [{"index": n} for n in range(5)]


NESTED = """
steps:
  - kind: map
    name: outer
    on_error: continue
    map:
      iterable_input: "[10, 20]"
      body:
        - kind: map
          name: inner
          map:
            iterable_input: "[item, item + 1]"
            body: [{name: pay, when: item == 21, uses: nobody_has_this_tool}]
  - {name: after, input: "{{ steps.outer.error.output }}"}
"""


@pytest.mark.slow
async def test_what_failed_inside_says_itself_what_it_had_done(house: Harness) -> None:
    assert await house.output(await house.start(NESTED)) == [{"index": 0, "output": 20}]
