"""`python -m drills.replan`: let plans fail and be made again, and count what was done twice."""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
import tempfile
from collections import Counter
from pathlib import Path

from temporalio.runtime import Runtime, TelemetryConfig

from drills.disturbances import Processes
from drills.replan.killed import run_killed
from drills.replan.simulated import run_seed


def main() -> int:
    """Run what the command line asks for; return the exit code: 1 if something was done twice, or lost."""
    parser = argparse.ArgumentParser(prog="python -m drills.replan", description=__doc__)
    parser.add_argument("--simulated", type=int, default=180, metavar="N", help="runs under simulated schedules (180)")
    parser.add_argument("--killed", type=int, default=20, metavar="N", help="runs whose worker is killed (20)")
    parser.add_argument(
        "--seed", type=int, default=0, metavar="N", help="the first seed of the schedules, and that of the kills"
    )
    options = parser.parse_args()
    broken = _simulate(range(options.seed, options.seed + options.simulated))
    if options.killed:
        broken += _kill(options.killed, options.seed)
    for line in broken:
        print(f"VIOLATION {line}")
    return 1 if broken else 0


def _simulate(seeds: range) -> list[str]:
    logging.disable(logging.CRITICAL)
    statuses, asked, broken = Counter[str](), 0, list[str]()
    for seed in seeds:
        status, questions, wrong = run_seed(seed)
        statuses[status] += 1
        asked += questions
        broken += wrong
    print(f"simulated: {_tell(statuses)}; asked about a second call {asked} times", flush=True)
    return broken


def _kill(count: int, seed: int) -> list[str]:
    Runtime.set_default(Runtime(telemetry=TelemetryConfig(logging=None)))
    folder = Path(tempfile.mkdtemp(prefix="holdfast-replan-"))
    print(f"logs of the killed in {folder}", flush=True)
    told = asyncio.run(run_killed(Processes(folder), count, seed))
    print(f"killed {told.kills} times: {_tell(told.statuses)}; asked about a second call {told.asked} times")
    return told.violations


def _tell(statuses: Counter[str]) -> str:
    return ", ".join(f"{count} {status}" for status, count in sorted(statuses.items())) or "no runs"


if __name__ == "__main__":
    sys.exit(main())
