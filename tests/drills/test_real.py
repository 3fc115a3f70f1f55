"""The undisturbed run of a seed on a real server ends as the simulated one, and one that does not is told."""

from __future__ import annotations

import pytest

from drills.simulate import real
from drills.simulate.real import run_seed_for_real
from drills.simulate.simulation import prepare_seed

SEEDS = (0, 170, 190)
"""Of blueprints that ask, call, and wait."""


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_a_run_on_a_real_server_ends_as_the_simulated_one(seed: int) -> None:
    assert run_seed_for_real(seed) is None, f"python -m drills.simulate --seed {seed} --real"


@pytest.mark.slow
def test_a_run_on_a_real_server_that_ends_otherwise_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    generated, expected = prepare_seed(SEEDS[0])
    monkeypatch.setattr(real, "prepare_seed", lambda _: (generated, expected._replace(output="another")))
    assert "ends otherwise" in str(run_seed_for_real(SEEDS[0]))
