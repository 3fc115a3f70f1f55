"""`python -m drills.simulate`: run seeds, repeat and shrink one that fails, or try the breaks planted on purpose."""

from __future__ import annotations

import argparse
import logging
import os
import platform
import sys
import time
from collections.abc import Sequence

from drills.simulate.breaks import BREAKS
from drills.simulate.real import run_seed_for_real
from drills.simulate.sdk import check_version
from drills.simulate.search import find_breaks, run_batches, split_seeds
from drills.simulate.simulation import Failure, run_seed, shrink_failure

MOST_OF_BREAK = 10_000
"""Schedules in which a break must be found."""
ONE_IN = 1_000
"""Of so many seeds one also runs on a real server."""
MOST_FAILURES = 5
"""So many are shown, then the search ends."""


def main() -> int:
    """Run what the command line asks for; return the exit code: 1 if a promise was broken."""
    parser = argparse.ArgumentParser(prog="python -m drills.simulate", description=__doc__)
    parser.add_argument("--schedules", type=int, default=1_000, metavar="N", help="how many seeds to run")
    parser.add_argument("--first", type=int, default=0, metavar="N", help="the first of them")
    parser.add_argument("--seed", type=int, metavar="N", help="run this one, and show each move; shrink it if it fails")
    help_ = "spare large blueprints, most replays at the end, and chains of runs: what `make all` can pay for"
    parser.add_argument("--cheap", action="store_true", help=help_)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, metavar="N")
    help_ = "also run one seed in so many on a real server (1000), and compare; with --seed: that one"
    parser.add_argument("--real", type=int, nargs="?", const=ONE_IN, metavar="N", help=help_)
    help_ = "plant each break with this word in its name, and run seeds until it is found"
    parser.add_argument("--breaks", nargs="?", const="", metavar="WORD", help=help_)
    options = parser.parse_args()
    check_version()
    logging.disable(logging.CRITICAL)  # each refused answer would be a traceback
    if options.breaks is not None:
        return _plant(options.breaks, options.processes)
    if options.seed is not None:
        return _show(options.seed, chains=not options.cheap) or (_show_real(options.seed) if options.real else 0)
    # Of a cheap search two seeds in five are left out: these are enough.
    batches = split_seeds(options.first, options.schedules * (3 if options.cheap else 1))
    return _run(batches, options.schedules, options.processes, options.real, cheap=options.cheap)


def _run(batches: Sequence[range], count: int, processes: int, real: int | None, *, cheap: bool) -> int:
    """Run so many seeds of the batches, print what came of them, and return the exit code."""
    began, done, left_out, spent, failed = time.monotonic(), 0, 0, 0.0, list[int]()
    compared, differing = 0, dict[int, str]()
    for batch in run_batches(batches, processes, real, cheap=cheap):
        done, left_out, spent = done + batch.seeds, left_out + batch.left_out, spent + batch.seconds
        failed += batch.failed
        compared += batch.real
        differing |= batch.differing
        if len(failed) + len(differing) >= MOST_FAILURES or done >= count:
            break
    took = time.monotonic() - began
    spared = f", and {left_out:,} of large blueprints were left out" if cheap else ""
    each = f"{spent / max(done, 1) * 1000:.0f} ms of processor time each"
    print(f"{done:,} schedules from seed {batches[0].start}{spared}: {took:.0f} s, {each}")
    print(f"Python {platform.python_version()}, {platform.machine()}, {os.cpu_count()} processors, {processes} used")
    for seed in failed:
        _show(seed, chains=not cheap)
    for seed, difference in differing.items():
        print(f"seed {seed} on a real server: {difference}")
    if real:
        print(f"{compared} ran on a real server, too: {compared - len(differing)} as simulated")
    print(f"{len(failed)} promises were broken" if failed else "every promise held")
    return 1 if failed or differing else 0


def _show_real(seed: int) -> int:
    difference = run_seed_for_real(seed)
    print(f"seed {seed} on a real server: {difference or 'as simulated'}")
    return 0 if difference is None else 1


def _plant(word: str, processes: int) -> int:
    """Print by which seed each break was found, the first of all, and which promise it broke."""
    names = [each.name for each in BREAKS if word in each.name]
    missed = 0
    for found in find_breaks(names, MOST_OF_BREAK, processes):
        missed += found.seed is None
        seed = "NOT FOUND" if found.seed is None else f"seed {found.seed}"
        print(f"{found.name:55} {seed:10}  {(found.reason or '')[:100]}", flush=True)
    print(f"{len(names) - missed} of {len(names)} breaks were found")
    return 1 if missed else 0


def _show(seed: int, *, chains: bool) -> int:
    failure = run_seed(seed, chains=chains)
    if failure is None:
        print(f"seed {seed}: every promise held")
        return 0
    print(f"\nseed {seed}: {failure.reason}")
    print("\n".join(_describe(shrink_failure(failure))))
    return 1


def _describe(failure: Failure) -> list[str]:
    return [
        f"  shrunk: {failure.reason}",
        *(f"    {line}" for line in failure.blueprint.text.splitlines()),
        f"  {len(failure.moves)} moves:",
        *(f"    {move}" for move in failure.moves),
    ]


if __name__ == "__main__":
    sys.exit(main())
