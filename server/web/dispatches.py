"""What people send from pages to workflows: a page waits a moment for a worker to take it, and tells the rest live.

Without a worker an update takes a minute to be given up. Nobody looks at a blank page for so long: the sending goes on
behind the page, and its outcome is kept for the next look.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Coroutine
from typing import Any

from holdfast.server.web.identity import Identity

SOON_SECONDS = 0.7
"""Seconds after which a page that says "on its way" is prepared."""
PATIENCE_SECONDS = 2.5
"""Seconds after which that page is shown."""
MOST_KEPT = 1_000


class Dispatches:
    """The last thing that each person has sent to each question."""

    def __init__(self) -> None:
        self._last: OrderedDict[str, asyncio.Task[bool]] = OrderedDict()

    def begin(self, place: str, sending: Coroutine[Any, Any, bool]) -> asyncio.Task[bool]:
        """Send, whether or not the page that asks for it waits to the end; return the task.

        Args:
            place: The question and the person.
            sending: The sending, which returns whether a worker has received what was sent.
        """
        task = self._last[place] = asyncio.ensure_future(sending)
        task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())  # nobody may ever ask for it
        self._last.move_to_end(place)
        ended = [name for name, other in self._last.items() if other.done()]
        for name in ended[: max(len(self._last) - MOST_KEPT, 0)]:
            del self._last[name]
        return task

    def is_under_way(self, place: str) -> bool:
        """Return whether something that was sent there has not arrived yet."""
        task = self._last.get(place)
        return task is not None and not task.done()

    def forget(self, place: str) -> None:
        """Drop what was sent there last: whoever sent it has been told what came of it."""
        self._last.pop(place, None)

    def failure(self, place: str) -> BaseException | None:
        """Return why what was sent there last did not arrive; None if it did, or is on its way."""
        task = self._last.get(place)
        return None if task is None or not task.done() or task.cancelled() else task.exception()


def dispatch_place(run: str, question: str, identity: Identity) -> str:
    """Return the place of what a person sends to a question."""
    return f"{run}/{question} {identity.user}"


async def has_ended(task: asyncio.Task[bool], seconds: float) -> bool:
    """Wait so long for a task to end, and return whether it has; it goes on in any case."""
    done, _ = await asyncio.wait({task}, timeout=seconds)
    return bool(done)
