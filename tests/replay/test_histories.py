"""Recorded histories lead to the same commands: a change that breaks parked runs is seen here.

`python -m tests.replay.record` records them anew; do so only for flows that are new, never to make this pass.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator

import pytest
import pytest_asyncio
import temporalio.workflow
from temporalio.client import WorkflowHistory
from temporalio.worker import Replayer

from examples.invite_guests.workflow import Invitations
from holdfast.blueprint.questions import QUESTION_KINDS
from holdfast.protocol.lookup import LOOK_UP_WORKFLOW
from holdfast.runtime.converters import DATA_CONVERTER
from holdfast.testkit.clock import CLOCK_RUNNER
from holdfast.workflows import RUNNER, WORKFLOWS
from tests.replay import recordings
from tests.repository import ROOT

NAMES = recordings.names()
LONG_LIVED = {"Pipeline", "Loop", "Agent", "Map", "Clarify", "Plan", "PlanLoop", "DrivenPlan"}
CONTINUING = {"Loop", "Agent", "Plan", "PlanLoop", "DrivenPlan"}
PAUSES = {
    *(f"question:{kind}" for kind, class_ in QUESTION_KINDS.items() if class_.__module__.startswith("holdfast.")),
    *("interrupt", "timer", "paused", "Invitations"),
    *LONG_LIVED,
    *(f"{type_} continued" for type_ in CONTINUING),
}
"""Each way to wait: kinds of questions, types of workflows, and those that have continued as new before."""


def test_every_type_of_workflow_is_known_here() -> None:
    types = {temporalio.workflow._Definition.must_from_class(class_).name for class_ in WORKFLOWS}
    assert types - {LOOK_UP_WORKFLOW} == LONG_LIVED


def test_every_example_is_recorded() -> None:
    tests = [path.name.removesuffix(".test.yaml") for path in (ROOT / "examples").glob("*/*.test.yaml")]
    assert {f"example.{name}" for name in tests} - set(NAMES) == set()


def test_every_kind_of_pause_is_recorded() -> None:
    recorded = {wait for name in NAMES for point in recordings.parked(name) for wait in point}
    assert PAUSES - recorded == set()


async def _failures(read: Callable[[str], Iterator[WorkflowHistory]]) -> dict[str, Exception | None]:
    """Replay everything with one worker, which takes long to start; the first failure of each file."""
    replayer = Replayer(
        workflows=[*WORKFLOWS, Invitations],
        workflow_runner=RUNNER,
        unsandboxed_workflow_runner=CLOCK_RUNNER,  # of the examples, whose tests move the clock
        data_converter=DATA_CONVERTER,
    )
    failures: dict[str, Exception | None] = dict.fromkeys(NAMES)
    names: list[str] = []

    async def histories() -> AsyncIterator[WorkflowHistory]:
        for name in NAMES:
            for history in read(name):
                names.append(name)
                yield history

    async with replayer.workflow_replay_iterator(histories()) as results:
        async for result in results:
            name = names.pop(0)
            failures[name] = failures[name] or result.replay_failure
    return failures


@pytest_asyncio.fixture(scope="module")
async def failures() -> dict[str, Exception | None]:
    return await _failures(recordings.histories)


@pytest_asyncio.fixture(scope="module")
async def parked_failures() -> dict[str, Exception | None]:
    return await _failures(recordings.parked_histories)


@pytest.mark.parametrize("name", NAMES)
def test_recorded_histories_replay(name: str, failures: dict[str, Exception | None]) -> None:
    if (failure := failures[name]) is not None:
        raise failure


@pytest.mark.slow  # the complete histories hold the same commands; a parked one ends where a worker would take it up
@pytest.mark.parametrize("name", [name for name in NAMES if any(recordings.parked(name))])
def test_parked_histories_replay(name: str, parked_failures: dict[str, Exception | None]) -> None:
    if (failure := parked_failures[name]) is not None:
        raise failure
