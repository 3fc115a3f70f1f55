"""Which failures a run had met and not handled yet when it broke off."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest
import yaml

from holdfast.blueprint.load import loads
from holdfast.client.failed_steps import find_open_failures
from holdfast.protocol.address import Address
from holdfast.protocol.events import BranchCompleted, Event, EventData, StepCompleted, StepFailed, StepStarted

BLUEPRINT = """
steps:
  - kind: parallel
    name: both
    branches:
      a: [{name: inner, kind: parallel, branches: {x: [{name: falls}], y: [{name: waits}]}}]
      b: [{name: may_fail, on_error: continue}]
"""
INNER = "pipeline:test;parallel:both;branch:a;parallel:inner"
FALLS = f"{INNER};branch:x;step:falls"
MAY_FAIL = "pipeline:test;parallel:both;branch:b;step:may_fail"
AT = datetime(2026, 1, 1, tzinfo=UTC)


def failed(name: str) -> StepFailed:
    return StepFailed(name=name, kind="step", error="tool_error", message=f"{name} fell")


def find(told: Sequence[tuple[str, EventData]], broken: int = 9) -> list[tuple[str, str]]:
    """Return address and message of what is open once so many of these events have happened."""
    events = [
        Event(offset=n, time=AT + timedelta(seconds=n), address=Address(address), type=data.type, data=data)
        for n, (address, data) in enumerate(told)
    ]
    found = find_open_failures(
        events, loads(yaml.safe_dump({"name": "test", **yaml.safe_load(BLUEPRINT)})), AT + timedelta(seconds=broken)
    )
    return [(failure.address, failure.message) for failure in found]


def test_a_failure_on_its_way_outwards_is_open_with_its_innermost_step() -> None:
    assert find([(FALLS, failed("falls"))]) == [(FALLS, "falls fell")]
    assert find([(FALLS, failed("falls")), (INNER, failed("inner"))]) == [(FALLS, "falls fell")]


def test_what_failed_later_than_the_break_is_not() -> None:
    assert find([(FALLS, failed("falls"))], broken=0) == []


@pytest.mark.parametrize(
    ("at", "after"),
    [
        (INNER, StepCompleted(name="inner", kind="parallel", output=None)),
        (f"{INNER};branch:x", BranchCompleted(branch="x", error="tool_error", message="falls fell")),
        (FALLS, StepStarted(name="falls", kind="step")),
    ],
    ids=["its parallel went on", "its branch may fail", "it ran again"],
)
def test_a_failure_that_was_handled_is_closed(at: str, after: EventData) -> None:
    assert find([(FALLS, failed("falls")), (at, after)]) == []


def test_a_step_that_may_fail_handles_its_own_failure() -> None:
    assert find([(MAY_FAIL, failed("may_fail"))]) == []
