"""The health of a channel: one that takes nothing rests, and is then tried with a single notice. Its sender asks it."""

from __future__ import annotations

import time
from dataclasses import dataclass

from holdfast.server.notices.delivering import DeliveryFailed

FAILURES = 5
"""Failures in a row after which a channel rests: fewer may be the fault of single notices."""
FIRST_REST, LONGEST_REST = 5.0, 60.0
"""Seconds of rests; each is twice the one before. A receiver that comes back hears of it within the longest one."""
LONGEST_ASKED = 3600.0
"""Seconds that a receiver may ask to wait (`Retry-After`)."""


@dataclass
class Health:
    """The state of a channel, from its last deliveries. A new process knows nothing, and begins anew.

    Args:
        max_concurrency: Deliveries at the same time while all is well.
    """

    max_concurrency: int
    rests_until: float = 0.0
    """On the monotonic clock."""
    is_gone: bool = False
    """True if the receiver wants nothing more at this address; the next process may have another one."""
    has_recovered: bool = False
    """True if what was refused may go now: after the first delivery that follows a rest, until it is set back."""
    _failures: int = 0
    _rests: int = 0

    @property
    def is_failing(self) -> bool:
        """Return whether the channel has rested, and nothing has gone out since."""
        return self._rests > 0

    def free(self, sending: int) -> int:
        """Return how many deliveries may be started now, beside those that are being sent."""
        if self.is_gone or time.monotonic() < self.rests_until:
            return 0
        return max(0, (1 if self.is_failing else self.max_concurrency) - sending)

    def succeed(self) -> None:
        """Note a delivery."""
        self.has_recovered = self.has_recovered or self.is_failing
        self._failures = self._rests = 0
        self.rests_until = 0.0

    def fail(self, error: DeliveryFailed) -> None:
        """Note a try that did not succeed, and rest if it was one too many, or the receiver asks for it."""
        # By the Standard Webhooks, 410 is for the address: whoever sends to it should stop. One delivery that was under
        # way beside it may still succeed.
        if error.is_gone:
            self.is_gone = True
            return
        self._failures += 1
        now = time.monotonic()
        if error.retry_after:
            self._rest(now + min(error.retry_after, LONGEST_ASKED))
        elif self._failures >= FAILURES and now >= self.rests_until:
            self._rest(now + min(FIRST_REST * 2**self._rests, LONGEST_REST))

    def _rest(self, until: float) -> None:
        self.rests_until = max(self.rests_until, until)
        self._rests += 1
