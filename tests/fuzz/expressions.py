"""Evaluates expressions and templates that grow at random, until one hangs, crashes or breaks a bound: `make fuzz`.

Another process evaluates, so that whatever it does, the text that made it do so is known.
"""

from __future__ import annotations

import json
import math
import multiprocessing
import resource
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from random import Random, randrange
from typing import Any

from holdfast.blueprint.expressions.bounds import MAX_ITEMS, MAX_LEVELS, MAX_VALUE
from holdfast.blueprint.expressions.error import ExpressionError, shorten
from holdfast.blueprint.expressions.evaluation import holds, names_in, names_in_expression, render
from holdfast.blueprint.expressions.values import MAX_NUMBER
from tests.fuzz.growing import WORLD, Grown, grown

SECONDS_EACH = 2.0
"""Of computing; Temporal takes a workflow that computes for longer for a deadlock."""
MOST_SECONDS_EACH = 10.0
"""By the wall clock, on a machine that has other things to do."""
SLOW = 0.0005
"""An expression that takes longer is tried in a loop, too."""
MOST_MEMORY = 2 << 30
LARGEST = 12
LEAVES = 1000
LONGEST = 80
"""Characters of what may stand inside others."""

Verdict = tuple[bool, str]
"""Whether there was a value, and what is wrong, if anything is."""
Timed = tuple[bool, str, float]
"""The same, and the seconds that it took."""


def judged(text: str) -> Verdict:
    try:
        (names_in if is_template(text) else names_in_expression)(text)
        value = render(text, WORLD) if is_template(text) else holds(text, WORLD)[1]
    except ExpressionError as error:
        return False, "" if str(error) else "an error that says nothing"
    return True, beyond(value)


def is_template(text: str) -> bool:
    return any(mark in text for mark in ("{{", "{%", "{#"))


def beyond(value: Any) -> str:
    """Which bound the value breaks; what stands among the names may be read whatever its size."""
    seen = {id(part) for part in WORLD.values()}
    waiting = [(value, 0)]
    while waiting:
        part, level = waiting.pop()
        if id(part) in seen:
            continue
        if told := _beyond(part, level):
            return told
        if isinstance(part, (list, dict)):
            seen.add(id(part))
            waiting += [(one, level + 1) for one in (part.values() if isinstance(part, dict) else part)]
    json.dumps(value, allow_nan=False)
    return ""


def _beyond(part: Any, level: int) -> str:
    match part:
        case str() if len(part) > MAX_VALUE:
            return f"a text of {len(part):,} characters"
        case list() if len(part) > MAX_ITEMS:
            return f"a list of {len(part):,} elements"
        case list() | dict() if level > MAX_LEVELS:
            return f"over {MAX_LEVELS} levels"
        case dict() if not all(isinstance(key, str) for key in part):
            return "a key that is no text"
        case int() if abs(part) > MAX_NUMBER:
            return "a whole number over 2^63"
        case float() if not math.isfinite(part):
            return "a number that is not finite"
        case None | str() | int() | float() | list() | dict():
            return ""
    return f"a value that is not JSON: {type(part).__name__}"


def serve(judge: Callable[[str], Verdict], texts: Connection) -> None:
    """Whatever is raised, or takes too much memory, ends the process."""
    if sys.platform == "linux":
        resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    texts.send("ready")
    while True:
        text, before = texts.recv(), time.process_time()
        had_value, wrong = judge(text)
        seconds = time.process_time() - before
        slow = f"takes {seconds:.1f} seconds" if seconds > SECONDS_EACH else ""
        texts.send((had_value, wrong or slow, seconds))


class Judge:
    """Asks the other process, and starts it anew when it had to be ended."""

    def __init__(self, judge: Callable[[str], Verdict], most_seconds: float) -> None:
        self.judge = judge
        self.most_seconds = most_seconds
        self._start()

    def __call__(self, text: str) -> Timed:
        self.texts.send(text)
        try:
            if self.texts.poll(self.most_seconds):
                timed: Timed = self.texts.recv()
                return timed
            told = f"takes over {self.most_seconds} seconds"
        except EOFError:
            self.process.join()
            told = f"crashes (exit code {self.process.exitcode})"
        self.stop()
        self._start()
        return False, told, self.most_seconds

    def stop(self) -> None:
        self.process.kill()
        self.process.join()

    def _start(self) -> None:
        processes = multiprocessing.get_context("spawn")
        self.texts, theirs = processes.Pipe()
        self.process = processes.Process(target=serve, args=(self.judge, theirs), daemon=True)
        self.process.start()
        theirs.close()
        assert self.texts.recv() == "ready"


@contextmanager
def judging(judge: Callable[[str], Verdict] = judged, most_seconds: float = MOST_SECONDS_EACH) -> Iterator[Judge]:
    asked = Judge(judge, most_seconds)
    try:
        yield asked
    finally:
        asked.stop()


def smallest(source: Grown, judge: Callable[[str], Timed]) -> Grown:
    """As much of it as has to stay for something to be wrong."""
    less = next((one for one in source.smaller() if judge(str(one))[1]), None)
    return source if less is None else smallest(less, judge)


def repeated(source: Grown) -> Grown:
    """An expression again and again, until the steps are spent: if it takes time and pays no steps, that is a hang."""
    loops = "{{% for one in range(1000) %}}{{% for two in range(100) %}}{{% if {} is defined %}}{{% endif %}}"
    return Grown(loops + "{{% endfor %}}" * 2, (source,))


def fuzz(seconds: float, seed: int) -> int:
    """The exit code: 0 if nothing was found."""
    random, evaluated, valued, slowest = Random(seed), 0, 0, (0.0, "")
    leaves: list[Grown] = []
    waiting: list[Grown] = []
    with judging() as judge:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            source = waiting.pop() if waiting else grown(random, random.randint(1, LARGEST), leaves)
            had_value, wrong, took = judge(str(source))
            evaluated, valued, slowest = evaluated + 1, valued + had_value, max(slowest, (took, str(source)))
            if wrong:
                print(f"number {evaluated:,} of seed {seed} {wrong}: {str(source)!r}", flush=True)
                print(f"as does: {str(smallest(source, judge))!r}")
                return 1
            if is_template(str(source)) or not had_value:
                continue
            if took > SLOW:
                waiting.append(repeated(source))
            if len(str(source)) <= LONGEST:
                leaves.append(source)
                del leaves[: max(0, len(leaves) - LEAVES)]
    print(f"{evaluated:,} expressions and templates of seed {seed}: {valued:,} gave a value, the others an error")
    print(f"the slowest took {slowest[0]:.2f} s: {shorten(slowest[1], 200)!r}")
    return 0


if __name__ == "__main__":
    given = sys.argv[1:]
    sys.exit(fuzz(float(given[0]) if given else 60, int(given[1]) if given[1:] else randrange(2**32)))
