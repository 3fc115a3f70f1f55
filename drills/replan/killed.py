"""Plans that are made again while their worker is killed again and again: real processes."""

from __future__ import annotations

import asyncio
import json
import random
import signal
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from drills.disturbances import Processes
from drills.people import OUTAGES, Person
from drills.replan.plans import FAILURES, MOST_REPLANS, fill, list_items, make_blueprint, make_plan
from drills.tools import list_effects
from holdfast.blueprint.json_values import JSON
from holdfast.protocol.questions import Question
from holdfast.protocol.runs import LossPolicy
from holdfast.runtime.errors import RunExists
from tests.conftest import Harness, replayed

AT_ONCE = 4
KILLS = 2
"""For each run."""
POLLING = "polling task queue"
"""What a worker says when it begins to work."""
MOST_PLANS = MOST_REPLANS + 1
KILLED_SHAPES = ("line", "loop", "agent", "helper")
LOSSES = LossPolicy(backoff=0.5, longest=5)


@dataclass
class Killed:
    """What came of the runs."""

    statuses: Counter[str] = field(default_factory=Counter)
    kills: int = 0
    asked: int = 0
    """Questions whether a call of an earlier plan is made again."""
    violations: list[str] = field(default_factory=list)


class Careful(Person):
    """Answers by what the file of effects says; of half of the lost calls they cannot tell."""

    def choose_content(self, question: Question) -> JSON:
        """See base class."""
        if question.asked.kind == "permission":
            return {"granted": question.info["args"]["key"] not in list_effects(self._folder)}
        if question.asked.kind == "lost_call" and int(question.id[:4], 16) % 2:
            return {"outcome": "fail"}
        return super().choose_content(question)


def write_script(folder: Path, shape: str, run: str) -> str:
    """Write what planner and agents say; return the blueprint of the run."""
    pay = {"folder": str(folder), "key": f"{run}.ITEM"}
    stop = {"tools": ["falter"], "arguments": {"folder": str(folder), "key": run, "times": FAILURES}}
    call = {item: {"tool_calls": [{"name": "charge", "args": fill(pay, item)}]} for item in list_items(shape)}
    script: dict[str, JSON] = {"think": {"output": make_plan(shape, "charge", pay, stop)}, **call}
    if shape == "helper":
        asks = {"tool_calls": [{"name": "helper", "args": {"input": "Pay"}}]}
        script |= {"a": [asks, "paid"] * MOST_PLANS, "helper": [call["a"], "paid"] * MOST_PLANS}
    path = folder / f"{run}.json"
    path.write_text(json.dumps(script))
    return make_blueprint(shape, f"scripted:{path}", ["charge", "falter"])


async def run_killed(processes: Processes, count: int, seed: int) -> Killed:
    """Run so many runs while the worker is killed, and judge each."""
    dice, told = random.Random(seed), Killed()
    (processes.folder / "holdfast.toml").write_text('[record]\nstore = "sqlite:record.sqlite"\n')
    processes.make_folders()
    try:
        processes.start("server")
        processes.start("worker")
        house = await processes.house()
        person, running = Careful(house.runs, processes.folder), set[str]()
        tasks = [
            asyncio.create_task(person.answer_all(running)),
            asyncio.create_task(_kill(processes, dice, told, KILLS * count)),
        ]
        room = asyncio.Semaphore(AT_ONCE)
        await asyncio.gather(*(_run_one(house, processes.folder, n, room, running, told) for n in range(count)))
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        given = [content for answers in person.given.values() for content in answers.values()]
        told.asked = sum(isinstance(content, dict) and "granted" in content for content in given)
        failures = await replayed(await house.recorded())
        told.violations += [f"history {run} does not replay: {error}" for run, error in failures.items()]
    finally:
        processes.stop()
    return told


async def _kill(processes: Processes, dice: random.Random, told: Killed, most: int) -> None:
    while told.kills < most:
        # A busy machine takes longer to start a worker than one lives: it is killed at work, and not at its start.
        while processes.log("worker").count(POLLING) <= told.kills:
            await asyncio.sleep(0.2)
        await asyncio.sleep(dice.uniform(0.5, 5))
        await processes.disturb("worker", signal.SIGKILL, dice)
        told.kills += 1


async def _run_one(
    house: Harness, folder: Path, n: int, room: asyncio.Semaphore, running: set[str], told: Killed
) -> None:
    shape, run = KILLED_SHAPES[n % len(KILLED_SHAPES)], f"replan-{n}"
    async with room:
        await _start(house, write_script(folder, shape, run), run)
        running.add(run)
        status = await _wait(house, run)
        running.discard(run)
    told.statuses[status] += 1
    made = Counter(effect for effect in list_effects(folder) if effect.split(".")[0] == run)
    told.violations += [f"{run} ({shape}): {effect} {times} times" for effect, times in made.items() if times > 1]
    if status == "completed" and len(made) < len(list_items(shape)):
        told.violations.append(f"{run} ({shape}): {sorted(made)} of {list_items(shape)}")
    if status != "completed":
        told.violations.append(f"{run} ({shape}) {status}")


async def _start(house: Harness, text: str, run: str) -> None:
    while True:
        try:
            await house.start(text, run=run, loss_policy=LOSSES)
            return
        except RunExists:  # it was started, and the reply was lost
            house.started.append(run)
            return
        except OUTAGES:
            await asyncio.sleep(1)


async def _wait(house: Harness, run: str) -> str:
    while True:
        try:
            return (await house.runs.result(run)).status
        except OUTAGES:
            await asyncio.sleep(1)
