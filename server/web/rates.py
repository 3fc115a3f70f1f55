"""Rates: how many events of one sender are taken in a time."""

from __future__ import annotations

import time
from collections import OrderedDict

from starlette.exceptions import HTTPException

MOST_SENDERS = 10_000
"""The number of senders whose rate is remembered."""


class Rate:
    """At most `burst` events of one sender at once, and `per_minute` in the long run.

    >>> rate = Rate(2, 60)
    >>> [rate.wait("ana", 0.0), rate.wait("ana", 0.0), rate.wait("ana", 0.0), rate.wait("ana", 1.0)]
    [0.0, 0.0, 1.0, 0.0]
    """

    def __init__(self, burst: int, per_minute: float) -> None:
        self.burst, self.pace = burst, per_minute / 60
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait(self, sender: str, now: float | None = None) -> float:
        """Count an event; return 0, or the seconds until one is allowed again."""
        now = time.monotonic() if now is None else now
        tokens, at = self._left.pop(sender, (float(self.burst), now))
        tokens = min(self.burst, tokens + (now - at) * self.pace)
        self._left[sender] = (tokens - 1 if tokens >= 1 else tokens, now)
        if len(self._left) > MOST_SENDERS:
            self._left.popitem(last=False)
        return 0.0 if tokens >= 1 else (1 - tokens) / self.pace

    def check(self, sender: str) -> None:
        """Count an event. Raises `HTTPException` 429 if it is one too many."""
        if wait := self.wait(sender):
            seconds = max(1, round(wait))
            raise HTTPException(429, f"too many requests; try again in {seconds} s", {"Retry-After": str(seconds)})
