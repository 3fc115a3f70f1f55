"""Processor time in a unit that a slow or busy machine does not change: a fixed piece of work."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

SECOND = 85
"""About so many units take a second of an idle machine; a unit is 12 ms."""


def effort(work: Callable[[], object]) -> float:
    """Return how many units of processor time this takes in this thread."""
    gc.disable()  # the collector would count what all tests before have left: half a second of it
    try:
        before, taken = _seconds(_unit), _seconds(work)
        return taken / max(before, _seconds(_unit))
    finally:
        gc.enable()


def _seconds(work: Callable[[], object]) -> float:
    start = time.thread_time()
    work()
    return time.thread_time() - start


def _unit() -> int:
    value = 0
    for number in range(200_000):
        value = (value * 31 + number) % 1_000_003
    return value
