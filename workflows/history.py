"""The length of one history: what counts towards it, and when a workflow continues as new. Held by a `Host`.

A long history is slow, and in the end fatal: a cold resume took 63 ms at iteration 10 of a loop, 2.9 s at 1,000, and at
5,000 replay outlasted the workflow task, so that the run never came back. The server suggests to continue at 4,096
events only; a boundary costs 17 ms.
"""

from __future__ import annotations

from temporalio import workflow

from holdfast.protocol.runs import HistoryLimits


class History:
    """One history of a chain. Work in it is counted in rounds: iterations, turns, items."""

    def __init__(self, limits: HistoryLimits, most_rounds: int | None = None) -> None:
        self.limits = limits
        self.updates, self.signals = 0, 0
        """Accepted here. Temporal takes 2,000 updates and 10,000 signals, then none."""
        self._most_rounds = most_rounds
        self._rounds = 0
        self._begun_at = 0
        self._longest = 0

    def begin_round(self) -> None:
        self._longest = max(self._longest, self._length_of_round())
        self._begun_at = workflow.info().get_current_history_length()
        self._rounds += 1

    def add_round(self) -> None:
        """Begin a round beside the one at work, whose length then counts for both."""
        self._rounds += 1

    @property
    def is_long(self) -> bool:
        """Return whether to continue as new before the next round, so that the history stays within its limits.

        Never before the first round has ended: a state that alone is over a limit would continue for ever.
        """
        if not self._rounds:
            return False
        info, limits = workflow.info(), self.limits
        longest = max(self._longest, self._length_of_round())
        return (
            (self._most_rounds is not None and self._rounds >= self._most_rounds)
            or info.get_current_history_length() + longest > limits.events
            or info.get_current_history_size() > limits.bytes
            or self.updates + self.signals >= limits.commands
            or info.is_continue_as_new_suggested()
        )

    def _length_of_round(self) -> int:
        """Return the events of the round at work; 0 before the first."""
        return workflow.info().get_current_history_length() - self._begun_at if self._rounds else 0
