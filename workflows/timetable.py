"""The moments that an open question waits for: its deadline, reminders and escalations. Used by `Questions`."""

from __future__ import annotations

from datetime import datetime, timedelta

from holdfast.protocol.people import People, Rung

MOST_REMINDERS = 100
SHORTEST_REMINDER = timedelta(minutes=15)


class Timetable:
    """The times of one question, absolute. Those that pass while no worker runs are made up for once."""

    def __init__(self, asked_at: datetime, deadline: datetime | None, people: People) -> None:
        self.deadline = deadline
        self.reminders = 0
        self._asked_at = asked_at
        self._every = None if people.remind_every is None else timedelta(seconds=people.remind_every)
        self._periods = 0
        """Periods between reminders that have passed."""
        self._ladder = list(people.ladder)

    @property
    def next(self) -> datetime | None:
        """Return the next moment at which something happens if nobody answers."""
        rung = self._at(self._ladder[0]) if self._ladder else None
        return min((at for at in (self.deadline, rung, self._next_reminder) if at is not None), default=None)

    def has_expired(self, now: datetime) -> bool:
        return self.deadline is not None and self.deadline <= now

    def climb(self, now: datetime) -> list[Rung]:
        """Return the rungs that are newly reached."""
        reached = [rung for rung in self._ladder if self._at(rung) <= now]
        del self._ladder[: len(reached)]
        return reached

    def remind(self, now: datetime) -> bool:
        """Return whether to remind now; several missed reminders become one."""
        due = self._next_reminder
        if self._every is None or due is None or now < due:
            return False
        self._periods = (now - self._asked_at) // self._every
        self.reminders += 1
        return True

    @property
    def _next_reminder(self) -> datetime | None:
        if self._every is None or self.reminders == MOST_REMINDERS:
            return None
        return self._asked_at + self._every * (self._periods + 1)

    def _at(self, rung: Rung) -> datetime:
        return self._asked_at + timedelta(seconds=rung.after)
