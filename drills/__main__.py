"""`python -m drills`: run the drill, and print what came of it."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from temporalio.runtime import Runtime, TelemetryConfig

from drills.cluster import NoToolchain, make_cluster
from drills.disturbances import SHARES, Processes, disturb_all
from drills.people import OUTAGES, Person
from drills.tools import LONG, list_effects
from drills.work import KINDS, ROUNDS, SlowProvider, blueprint, effects_of, expect_local, reply
from holdfast.client.states import Outcome
from holdfast.protocol.runs import LossPolicy
from holdfast.runtime.errors import RunExists
from holdfast.server.record.store import read_store
from tests.conftest import Harness, replayed

AT_ONCE = 2
"""Runs of each kind that are under way at the same time."""
PATIENCE = 300.0
"""Seconds in which something must happen in the last runs, once nothing is disturbed any more."""
LOSSES = LossPolicy(backoff=0.5, longest=5)


@dataclass
class Tally:
    """What came of the runs of a kind of work."""

    runs: int = 0
    completed: int = 0
    effects: int = 0
    answers: int = 0
    violations: list[str] = field(default_factory=list)


class Drill:
    """Runs under drill, from their start to the judgement of each.

    Args:
        processes: What is disturbed.
        house: Starts runs, and replays them.
        url: Of the provider of models.
        kinds: Of the work.
    """

    def __init__(self, processes: Processes, house: Harness, url: str, kinds: Sequence[str]) -> None:
        self._house, self._url, self._folder = house, url, processes.folder
        self.person = Person(house.runs, processes.folder)
        self.tallies = {kind: Tally() for kind in kinds}
        self.running: set[str] = set()
        self.is_over = False
        """True once no further run is to be started."""

    async def work(self) -> None:
        """Keep runs of each kind under way until it is over, and wait for their ends."""
        people = asyncio.create_task(self.person.answer_all(self.running))
        runs = asyncio.gather(*(self._repeat(kind, n) for kind in self.tallies for n in range(AT_ONCE)))
        try:
            both: set[asyncio.Future[Any]] = {people, runs}
            done, _ = await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        finally:
            people.cancel()
            runs.cancel()
            await asyncio.gather(people, runs, return_exceptions=True)
        for task in done:
            task.result()

    async def _repeat(self, kind: str, n: int) -> None:
        count = 0
        while not self.is_over:
            count += 1
            await self._run(kind, f"{kind}-{n}-{count}")

    async def _run(self, kind: str, run: str) -> None:
        text = blueprint(kind, self._url, str(self._folder), run)
        await self._start(text, run, check=kind == "local")
        self.running.add(run)
        self.tallies[kind].runs += 1
        outcome = await self._end(run)
        self.running.discard(run)
        self._judge(kind, run, outcome)

    async def _start(self, text: str, run: str, *, check: bool) -> None:
        """Start a run; with `check` its worker says first which of its tools are local."""
        while True:
            try:
                await self._house.start(text, run=run, loss_policy=LOSSES, check=check)
                return
            except RunExists:  # it was started, and the reply was lost
                self._house.started.append(run)
                return
            except OUTAGES:
                await asyncio.sleep(1)

    async def _end(self, run: str) -> Outcome:
        while True:
            try:
                return await self._house.runs.result(run)
            except OUTAGES:
                await asyncio.sleep(1)

    async def count_events(self) -> int:
        """Return how many events the histories of all runs have."""
        return sum(len(history.events) for history in await self._house.recorded())

    def _judge(self, kind: str, run: str, outcome: Outcome) -> None:
        """Note what a run that has ended shows, and what it should not."""
        tally = self.tallies[kind]
        tally.completed += outcome.status == "completed"
        if outcome.status != "completed":
            tally.violations.append(f"{run} {outcome.status}: {outcome.error and outcome.error.message}")
            return
        made = Counter(effect for effect in list_effects(self._folder) if effect.split(".")[0] == run)
        tally.effects += made.total()
        if made != Counter(effects_of(kind, run)):
            tally.violations.append(f"{run}: effects {dict(made)}, not each of {effects_of(kind, run)} once")
        if kind == "loop":
            said = self.person.said(run)
            tally.answers += len(said)
            if outcome.output != said:
                tally.violations.append(f"{run}: it has the answers {outcome.output}, and {said} were given")
        if kind == "long" and outcome.output != len(f"found {run}.{ROUNDS} {LONG}"):
            tally.violations.append(f"{run}: its text has {outcome.output} characters")
        if kind == "local" and outcome.output != expect_local(run):
            tally.violations.append(f"{run}: its local calls gave {outcome.output}")
        if kind == "plan" and outcome.output["status"] != "completed":
            tally.violations.append(f"{run}: its plan is {outcome.output['status']}")
        if kind == "agent" and outcome.output != f"done {run}":
            tally.violations.append(f"{run}: another model answered: {outcome.output}")
        if kind == "graph" and outcome.output != "read write check":
            tally.violations.append(f"{run}: its nodes are {outcome.output}")


async def drill(
    processes: Processes,
    seconds: float,
    seed: int,
    pauses: tuple[float, float],
    kinds: Sequence[str] = KINDS,
    disturbances: Sequence[str] = tuple(SHARES),
) -> list[str]:
    """Run the drill, print what came of it, and return the violations."""
    dice = random.Random(seed)
    async with SlowProvider() as provider:
        provider.always(reply)
        try:
            processes.mount_disks()
            await processes.begin(dice)
            house = await processes.house()
            whole = Drill(processes, house, provider.url, kinds)
            revival = asyncio.create_task(processes.revive())
            work = asyncio.create_task(whole.work())
            disturbed = await disturb_all(processes, dice, seconds, pauses, disturbances)
            whole.is_over = True
            unfinished = await _wait(work, whole)
            unfinished += await _await_record(processes, house)
            revival.cancel()
            histories = await house.recorded()
            failures = await replayed(histories, converter=processes.converter)
        finally:
            processes.stop()
    violations = [line for tally in whole.tallies.values() for line in tally.violations]
    violations += unfinished + [f"history {run} does not replay: {error}" for run, error in failures.items()]
    _print(whole, disturbed, len(histories), violations)
    return violations


async def _wait(work: asyncio.Task[None], whole: Drill) -> list[str]:
    """Wait for the ends of the last runs; return a violation for each that does not come."""
    before, events = -1, 0
    while events != before:
        done, _ = await asyncio.wait([work], timeout=PATIENCE)
        if done:
            work.result()
            return []
        before, events = events, await whole.count_events()
    work.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await work
    return [f"{run} has not ended, and nothing happens for {PATIENCE:g} s" for run in sorted(whole.running)]


async def _await_record(processes: Processes, house: Harness) -> list[str]:
    """Wait until the end of each run is in the record; return a violation for each that does not come."""
    end = asyncio.get_running_loop().time() + PATIENCE
    while missing := _list_unrecorded(processes.record_place, house):
        if asyncio.get_running_loop().time() > end:
            return [f"{run} has ended, and its end is not in the record" for run in missing]
        await asyncio.sleep(1)
    return []


def _list_unrecorded(place: str, house: Harness) -> list[str]:
    """Return the runs whose end the record does not have."""
    if (store := read_store(place)) is None:
        return house.started
    try:
        recorded = {run: store.run(house.client.namespace, run) for run in house.started}
        return [run for run, known in recorded.items() if known is None or store.read_end(known) is None]
    finally:
        store.close()


def _print(whole: Drill, disturbed: Counter[str], histories: int, violations: list[str]) -> None:
    print(f"{'work':8}{'runs':>6}{'completed':>11}{'effects':>9}{'answers':>9}{'violations':>12}")
    for kind, tally in whole.tallies.items():
        row = f"{kind:8}{tally.runs:6}{tally.completed:11}{tally.effects:9}{tally.answers:9}{len(tally.violations):12}"
        print(row)
    judged = ", ".join(f"{count} {outcome}" for outcome, count in whole.person.judged.items()) or "none"
    print(f"disturbed {disturbed.total()} times: {', '.join(f'{name} {n}' for name, n in sorted(disturbed.items()))}")
    print(f"lost calls that a person judged: {judged}; histories replayed: {histories}")
    for line in violations:
        print(f"VIOLATION {line}")


def main(arguments: list[str]) -> int:
    """Run the command. Return the exit code: 0 if everything held, 1 if not."""
    parser = argparse.ArgumentParser(prog="python -m drills", description="Disturb a deployment that works.")
    parser.add_argument("--seconds", type=float, default=600.0, help="how long it is disturbed (600)")
    parser.add_argument("--seed", type=int, default=None, help="the seed of the disturbances; default: a new one")
    parser.add_argument("--pauses", type=float, nargs=2, default=(1.0, 6.0), help="shortest and longest pause (1 6)")
    parser.add_argument("--cluster", type=Path, help="run on a cluster; the folder into which its server is built")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS, help="what runs (all)")
    parser.add_argument(
        "--disturb", nargs="+", choices=list(SHARES), default=list(SHARES), help="what is disturbed (all)"
    )
    options = parser.parse_args(arguments)
    seed = random.SystemRandom().randrange(10**6) if options.seed is None else options.seed
    # The SDK would log each request that an outage meets.
    Runtime.set_default(Runtime(telemetry=TelemetryConfig(logging=None)))
    folder = Path(tempfile.mkdtemp(prefix="holdfast-drill-"))
    print(f"seed {seed}, {options.seconds:g} s; logs in {folder}", flush=True)
    try:
        processes = Processes(folder) if options.cluster is None else make_cluster(folder, options.cluster.resolve())
        processes.follow_clock()
    except NoToolchain as error:
        print(f"no cluster: {error}")
        return 2
    how = seed, tuple(options.pauses), options.kinds, options.disturb
    return 1 if asyncio.run(drill(processes, options.seconds, *how)) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
