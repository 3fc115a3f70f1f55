"""A block whose worker is killed again and again: while it works, while it undoes, while a person is asked."""

from __future__ import annotations

from typing import Any

import pytest
from temporalio.client import WorkflowExecutionStatus

from holdfast.protocol.runs import LossPolicy
from tests.conftest import Harness, until
from tests.crash.machines import Machines, asked
from tests.flows import repeat, written
from tests.tools import calls, read_done

pytestmark = pytest.mark.slow

KILLS = 2
"""Of the worker at each of the two questions: one that has the run in its cache, and one that has read its history."""
QUICK = LossPolicy(heartbeat=8, backoff=0.1, factor=1)


def call(machines: Machines, tool: str, what: str) -> dict[str, Any]:
    return {"uses": tool, "arguments": {"folder": str(machines.folder), "what": what}}


async def cancelled(house: Harness, run: str) -> None:
    async def has_ended() -> bool:  # as Temporal says: a worker may not be up again
        return (await house.client.get_workflow_handle(run).describe()).status == WorkflowExecutionStatus.CANCELED

    await until(has_ended, "the end")
    await house.replay()


async def test_kills_undo_each_step_once(machines: Machines) -> None:
    house = await machines.house()
    machines.start_worker()
    (machines.folder / "shut").touch()
    steps = [
        {"name": "a", **call(machines, "does", "a"), "undo": call(machines, "does", "una")},
        {"name": "b", **call(machines, "does", "b"), "undo": call(machines, "cannot_undo", "unb")},
        {"kind": "hitl", "name": "ask", "message": "Go on?"},
    ]
    last = [{"name": "end", **call(machines, "does", "end")}]
    run = await house.start(written({"kind": "block", "name": "all", "steps": steps, "finally": last}))
    for _ in range(KILLS):
        await asked(house, run, "Go on?")
        machines.restart_worker()
    await house.client.get_workflow_handle(run).cancel()
    for _ in range(KILLS):
        question = await asked(house, run, "b could not be undone")
        machines.restart_worker()
    (machines.folder / "shut").unlink()
    question = await asked(house, run, "b could not be undone")
    await house.answer(run, {"action": "retry"}, question)
    await cancelled(house, run)
    assert read_done(machines.folder) == ["a", "b", "unb", "una", "end"]


async def test_kills_at_the_boundaries_of_a_loop_and_in_the_middle_of_its_undos_and_of_the_end(
    machines: Machines,
) -> None:
    house = await machines.house()
    machines.start_worker()
    for what in ("una2", "end"):
        (machines.folder / f"shut-{what}").touch()
    undo = call(machines, "does_once_open", "una{{ iteration }}")
    body = [
        {"name": "a", **call(machines, "does", "a{{ iteration }}"), "undo": undo},
        {"kind": "hitl", "name": "ask", "message": "Go on from {{ iteration }}?"},
    ]
    last = [{"name": "end", **call(machines, "does_once_open", "end")}]
    block = {"kind": "block", "name": "all", "steps": [repeat(*body)], "finally": last}
    run = await house.start(written(block), loss_policy=QUICK)
    for number in (1, 2):
        question = await asked(house, run, f"Go on from {number}?")
        await house.answer(run, "yes", question)
        machines.restart_worker()
    await asked(house, run, "Go on from 3?")
    await house.client.get_workflow_handle(run).cancel()
    for what in ("una2", "end"):
        for count in (1, 2):
            await _begun(machines, what, count)
            machines.restart_worker()
        (machines.folder / f"shut-{what}").unlink()
    await cancelled(house, run)
    assert read_done(machines.folder) == ["a1", "a2", "a3", "una3", "una2", "una1", "end"]


async def _begun(machines: Machines, what: str, count: int) -> None:
    """Wait until a call has begun so often."""

    async def has_begun() -> bool:
        return calls(machines.folder, f"begun-{what}") >= count

    await until(has_begun, what)
