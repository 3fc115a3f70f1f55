"""A short drill: see the folder `drills`, and `make drills` for a long one."""

from __future__ import annotations

from pathlib import Path

import pytest

from drills.__main__ import drill
from drills.disturbances import Processes

pytestmark = pytest.mark.slow


async def test_a_short_drill_ends_without_a_violation(tmp_path: Path) -> None:
    assert await drill(Processes(tmp_path), seconds=15, seed=22, pauses=(1, 4)) == []
