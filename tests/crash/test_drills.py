"""A short drill: see the folder `drills`, and `make drills` for a long one."""

from __future__ import annotations

from pathlib import Path

import pytest

from drills.__main__ import drill
from drills.disturbances import Processes
from drills.replan.killed import run_killed

pytestmark = pytest.mark.slow


async def test_a_short_drill_ends_without_a_violation(tmp_path: Path) -> None:
    assert await drill(Processes(tmp_path), seconds=15, seed=22, pauses=(1, 4)) == []


async def test_plans_whose_worker_is_killed_pay_nothing_twice(tmp_path: Path) -> None:
    told = await run_killed(Processes(tmp_path), count=1, seed=0)
    assert (told.violations, dict(told.statuses)) == ([], {"completed": 1})
    assert told.kills
