"""Numbers of model requests by step, for frames: a scripted model replies by number."""

from __future__ import annotations

from collections.abc import Callable, Mapping

EVERY_OTHER = ""
"""Key of the number from which steps that are not yet counted begin."""


class RequestCounts:
    """Requests made so far, by step; what is counted here is counted in `outer`, too.

    A count only ever grows, so copies that ran at once are joined by taking the higher one: the order in which they
    end, which is chance, changes nothing.
    """

    def __init__(
        self, counted: Mapping[str, int] | None = None, outer: RequestCounts | None = None, prefix: str = ""
    ) -> None:
        self.counted = dict(counted or {})
        self._outer, self._prefix = outer, prefix

    def next(self, step: str) -> int:
        """Return the number of the step's next request, from 1.

        >>> counts = RequestCounts()
        >>> counts.next("draft"), counts.next("draft"), counts.next("judge")
        (1, 2, 1)
        """
        n = self.counted.get(step, self.counted.get(EVERY_OTHER, 0)) + 1
        self.take({step: n})
        return n

    def take(self, counted: Mapping[str, int]) -> None:
        """Raise the counts to at least these."""
        for key, n in counted.items():
            self.counted[key] = max(n, self.counted.get(key, 0))
        if self._outer is not None:
            self._outer.take({f"{self._prefix}{key}": n for key, n in counted.items() if key != EVERY_OTHER})

    def within(self, *place: str) -> RequestCounts:
        """Return the counts of a branch, a map or an import, which go on where they were when it ran before.

        >>> counts = RequestCounts()
        >>> counts.within("sides", "left").next("draft"), counts.within("sides", "left").next("draft")
        (1, 2)
        >>> counts.within("sides", "right").next("draft"), counts.next("draft")
        (1, 1)
        """
        prefix = "".join(f"{name}/" for name in place)
        inside = {key.removeprefix(prefix): n for key, n in self.counted.items() if key.startswith(prefix)}
        return RequestCounts(inside, self, prefix)

    def make_fork(self) -> Callable[[], RequestCounts]:
        """Return a function that makes copies of the counts as they are now: one for each of what may run at once.

        >>> counts = RequestCounts()
        >>> fork = counts.make_fork()
        >>> one, other = fork(), fork()
        >>> one.next("draft"), one.next("draft"), other.next("draft"), counts.next("draft")
        (1, 2, 1, 3)
        """
        now = dict(self.counted)
        return lambda: RequestCounts(now, self)

    def item(self, index: int) -> RequestCounts:
        """Return counts for one of several items that run at once, as if those before it had made a request a step.

        >>> loop = RequestCounts()
        >>> loop.item(0).next("look"), loop.item(1).next("look"), loop.next("look")
        (1, 2, 3)
        """
        return RequestCounts({EVERY_OTHER: index}, self)
