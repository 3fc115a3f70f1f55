"""A trouble of a background job that lasts: in the log once with its reason, then rarely, and once when it is over."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError, SQLAlchemyError

from holdfast.blueprint.words.text import duration

LOG_EVERY = 600.0
"""Seconds after which a trouble that lasts is logged again."""
MOST_REASONS = 3
"""Reasons that are each logged at once: some hold a number that is another one each time."""
LONGEST_REASON = 300


@dataclass
class LastingTrouble:
    """A thing that fails and is tried again every second or so.

    Args:
        log: The log of the job.
        what: What is tried, such as `planning notices`.
    """

    log: logging.Logger
    what: str
    _reasons: set[str] = field(default_factory=set, init=False)
    """Those that were logged since it worked; empty while it works."""
    _since: float = field(default=0.0, init=False)
    """On the monotonic clock."""
    _logged: float = field(default=0.0, init=False)

    def note(self, reason: str) -> None:
        """Log a failure, unless the same one was logged lately."""
        now, is_known = time.monotonic(), reason in self._reasons or len(self._reasons) >= MOST_REASONS
        if not self._reasons:
            self._since = now
            self.log.warning("%s fails, and is tried again: %s", self.what, reason)
        elif not is_known or now - self._logged >= LOG_EVERY:
            self.log.warning("%s has failed for %s: %s", self.what, self._length(now), reason)
        else:
            return
        self._reasons.add(reason)
        self._logged = now

    def end(self) -> None:
        """Log that it works again, if it did not."""
        if self._reasons:
            self.log.warning("%s works again, after %s", self.what, self._length(time.monotonic()))
            self._reasons.clear()

    def _length(self, now: float) -> str:
        return duration(max(1, round(now - self._since)))

    @contextmanager
    def noted(self, *kinds: type[Exception]) -> Iterator[None]:
        """Note one of these errors that ends the block, which goes on behind it; without one the trouble is over."""
        try:
            yield
        except kinds as error:
            self.note(reason_of(error))
        else:
            self.end()


def reason_of(error: Exception) -> str:
    """Return the reason of an error in one line; of a database's nothing that was to be written."""
    name = type(error).__name__
    match error:
        case OperationalError() | InterfaceError():  # the others may repeat values: a key that there is twice
            text = " ".join(str(error.orig).split())
        case DBAPIError():
            return f"{name} ({type(error.orig).__name__})"
        case SQLAlchemyError():
            return name
        case _:
            text = " ".join(str(error).split())
    return f"{name}: {text}"[:LONGEST_REASON] if text else name
