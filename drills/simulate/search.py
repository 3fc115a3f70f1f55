"""Many seeds over several processes. What a process is given is found by name, so this is no part of `__main__`."""

from __future__ import annotations

import gc
import logging
import multiprocessing
import time
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from drills.simulate.breaks import BREAKS, Break, plant
from drills.simulate.real import run_seed_for_real
from drills.simulate.simulation import SCHEDULES, Failure, forget_prepared, is_small, run_seed

REPLAYED = 5
"""Of so many schedules in a cheap search one has its histories replayed to their ends."""
YOUNG = 20_000
"""Objects until the collector looks at the new ones: of the few in a cycle it would look for, 700 cost a tenth."""


class Batch(NamedTuple):
    """What came of some consecutive seeds."""

    seeds: int
    """Those that were run."""
    left_out: int
    """Those of a large blueprint in a cheap search."""
    seconds: float
    """Of processor time."""
    failed: list[int]
    differing: dict[int, str]
    """How seeds that also ran on a real server differ from the simulated run."""
    real: int
    """How many ran on a real server."""


class Found(NamedTuple):
    """What came of a break that was planted."""

    name: str
    schedules: int
    """How many were run."""
    seed: int | None
    """The last of them, by which it was found; None where it was not."""
    reason: str | None
    """Which promise was broken by it."""


def split_seeds(first: int, count: int) -> list[range]:
    """Return the seeds in batches that share a blueprint."""
    return [range(start, min(start + SCHEDULES, first + count)) for start in range(first, first + count, SCHEDULES)]


def run_batches(
    batches: Sequence[range], processes: int, real: int | None = None, *, cheap: bool = False
) -> Iterator[Batch]:
    """Run the batches, and yield what came of each.

    Args:
        batches: Each of seeds that share a blueprint.
        processes: How many run at once; 1: this one.
        real: One seed in so many also runs on a real server.
        cheap: Leave out large blueprints, most replays at the end, and chains of runs.
    """
    run = partial(_run_batch, real=real, cheap=cheap)
    if processes == 1:
        yield from map(run, batches)
        return
    with multiprocessing.get_context("spawn").Pool(processes, _begin_process, maxtasksperchild=200) as pool:
        yield from pool.imap_unordered(run, batches)


def find_breaks(names: Sequence[str], most: int, processes: int) -> Iterator[Found]:
    """Plant each of these breaks, and yield after how many seeds it was found, in any order.

    Args:
        names: Of the breaks.
        most: Seeds for each.
        processes: How many run at once; 1: this one.
    """
    find = partial(find_break, most=most)
    if processes == 1:
        yield from map(find, names)
        return
    with multiprocessing.get_context("spawn").Pool(processes, _begin_process) as pool:
        yield from pool.imap_unordered(find, names)


def find_break(name: str, most: int, first: int = 0) -> Found:
    """Plant a break, and run seeds from the first on until one breaks a promise that it keeps without the break."""
    [planted] = [each for each in BREAKS if each.name == name]
    seeds = iter(range(first, first + most))
    while (failure := _find_failure(planted, seeds)) is not None:
        assert failure.seed is not None
        if "broken()" in failure.reason:
            raise RuntimeError(f"what {name!r} replaces is another one now: {failure.reason}")
        if run_seed(failure.seed) is None:
            return Found(name, failure.seed + 1 - first, failure.seed, failure.reason)
    return Found(name, most, None, None)


def _find_failure(planted: Break, seeds: Iterable[int]) -> Failure | None:
    """Return the first failure of these seeds under a break."""
    forget_prepared()
    try:
        with plant(planted):
            return next((failure for seed in seeds if (failure := run_seed(seed)) is not None), None)
    finally:
        forget_prepared()


def _begin_process() -> None:
    logging.disable(logging.CRITICAL)
    gc.freeze()  # all that was imported: else each collection would look at it again
    gc.set_threshold(YOUNG)


def _run_batch(seeds: range, real: int | None, *, cheap: bool) -> Batch:
    began = time.process_time()
    if cheap and not is_small(seeds[0]):
        return Batch(0, len(seeds), time.process_time() - began, [], {}, 0)
    failed = [
        seed
        for seed in seeds
        if run_seed(seed, replays=not cheap or seed % REPLAYED == 0, chains=not cheap) is not None
    ]
    spent = time.process_time() - began
    chosen = [seed for seed in seeds if real and seed % real == 0]
    found = {seed: run_seed_for_real(seed) for seed in chosen}
    differing = {seed: difference for seed, difference in found.items() if difference is not None}
    return Batch(len(seeds), 0, spent, failed, differing, len(chosen))
