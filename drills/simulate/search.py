"""Many seeds over several processes. What a process is given is found by name, so this is no part of `__main__`."""

from __future__ import annotations

import logging
import multiprocessing
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from drills.simulate.simulation import SCHEDULES, run_seed


class Batch(NamedTuple):
    """What came of some consecutive seeds."""

    count: int
    seconds: float
    """Of processor time."""
    failed: list[int]


def split_seeds(first: int, count: int) -> list[range]:
    """Return the seeds in batches that share a blueprint."""
    return [range(start, min(start + SCHEDULES, first + count)) for start in range(first, first + count, SCHEDULES)]


def run_batches(batches: Sequence[range], processes: int) -> Iterator[Batch]:
    """Run the batches, and yield what came of each."""
    if processes == 1:
        yield from map(_run_batch, batches)
        return
    with multiprocessing.get_context("spawn").Pool(processes, _begin_process, maxtasksperchild=200) as pool:
        yield from pool.imap_unordered(_run_batch, batches)


def _begin_process() -> None:
    logging.disable(logging.CRITICAL)


def _run_batch(seeds: range) -> Batch:
    began = time.process_time()
    failed = [seed for seed in seeds if run_seed(seed) is not None]
    return Batch(len(seeds), time.process_time() - began, failed)
