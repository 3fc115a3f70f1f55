"""Plans that fail and are made again, under the simulator's schedules: nothing is paid twice."""

from __future__ import annotations

import pytest

from drills.replan.plans import SHAPES
from drills.replan.simulated import run_seed
from holdfast.workflows import approvals


@pytest.mark.parametrize("seed", range(len(SHAPES)))
def test_what_an_earlier_plan_paid_is_not_paid_again(seed: int) -> None:
    assert run_seed(seed)[2] == [], f"python -m drills.replan --seed {seed} --simulated 1 --killed 0"


@pytest.mark.slow
def test_a_plan_that_forgets_what_was_done_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(approvals, "_find_earlier", lambda *_: None)
    assert any("times" in line for seed in range(len(SHAPES)) for line in run_seed(seed)[2])
