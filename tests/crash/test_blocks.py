"""A block whose worker is killed again and again: while it works, while it undoes, while a person is asked."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conftest import until
from tests.crash.machines import Machines, asked
from tests.flows import written
from tests.tools import read_done

pytestmark = pytest.mark.slow

KILLS = 10


async def test_ten_kills_undo_each_step_once(machines: Machines) -> None:
    house = await machines.house()
    machines.start_worker()
    (machines.folder / "shut").touch()

    def call(tool: str, what: str) -> dict[str, Any]:
        return {"uses": tool, "arguments": {"folder": str(machines.folder), "what": what}}

    steps = [
        {"name": "a", **call("does", "a"), "undo": call("does", "una")},
        {"name": "b", **call("does", "b"), "undo": call("cannot_undo", "unb")},
        {"kind": "hitl", "name": "ask", "message": "Go on?"},
    ]
    last = [{"name": "end", **call("does", "end")}]
    run = await house.start(written({"kind": "block", "name": "all", "steps": steps, "finally": last}))
    for _ in range(KILLS // 2):
        await asked(house, run, "Go on?")
        machines.restart_worker()
    await house.client.get_workflow_handle(run).cancel()
    for _ in range(KILLS // 2):
        question = await asked(house, run, "b could not be undone")
        machines.restart_worker()
    (machines.folder / "shut").unlink()
    question = await asked(house, run, "b could not be undone")
    await house.answer(run, {"action": "retry"}, question)

    async def has_ended() -> bool:
        return (await house.runs.state(run)).status == "cancelled"

    await until(has_ended, "the end")
    assert read_done(machines.folder) == ["a", "b", "unb", "una", "end"]
    await house.replay()
