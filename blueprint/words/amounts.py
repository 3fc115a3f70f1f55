"""Upper bounds for requests and questions: a number, a number for each item of a loop, or no bound."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

LARGEST = 1_000_000_000
"""Bounds above it are reported as no bound."""


@dataclass(frozen=True)
class Each:
    """A number for each item of a plan's loop, inside the loops around it."""

    loops: tuple[str, ...]
    """Ids of the loops, outermost first."""
    items: int
    """The most items there can be, over all enclosing loops together."""
    most: int

    def __str__(self) -> str:
        return f"{self.most:,} for each item of {' in each item of '.join(reversed(self.loops))}"


@dataclass(frozen=True)
class Amount:
    """An upper bound: a number plus numbers for each item; `most` is None if unbounded, `why` says why."""

    most: int | None = 0
    why: tuple[str, ...] = ()
    each: tuple[Each, ...] = ()

    @property
    def bound(self) -> int | None:
        """The total if all lists are as long as allowed; None if unbounded or above `LARGEST`."""
        if self.most is None:
            return None
        whole = self.most + sum(each.items * each.most for each in self.each)
        return whole if whole <= LARGEST else None

    def times(self, number: int | None, why: str) -> Amount:
        if self.most is None or (self.most == 0 and not self.each):
            return self
        if number is None:
            return Amount(None, (why,))
        each = tuple(replace(amount, most=amount.most * number) for amount in self.each if number)
        return Amount(self.most * number, each=each)

    def for_each(self, loop: str, items: int) -> Amount:
        """Return this amount for each of an unknown number of items, at most `items`."""
        if self.most is None:
            return self
        own = [Each((loop,), items, self.most)] if self.most else []
        inner = [Each((loop, *inside.loops), items * inside.items, inside.most) for inside in self.each]
        return Amount(0, each=(*own, *inner))

    def __str__(self) -> str:
        """Return the amount in words.

        >>> str(Amount(2).for_each("guests", 1000)), str(Amount(3)), str(Amount())
        ('at most 2 for each item of guests', 'at most 3', 'none')
        """
        if self.most is None:
            return f"no upper bound: {'; '.join(self.why)}"
        parts = [*([f"{self.most:,}"] if self.most else []), *map(str, self.each)]
        return f"at most {' plus '.join(parts)}" if parts else "none"


def total(several: Iterable[Amount]) -> Amount:
    return _join(list(several), sum)


def largest(several: Iterable[Amount]) -> Amount:
    return _join(list(several), max)


def _join(amounts: list[Amount], join: Callable[[list[int]], int]) -> Amount:
    if any(amount.most is None for amount in amounts):
        return Amount(None, tuple(dict.fromkeys(reason for amount in amounts for reason in amount.why)))
    by_loops: dict[tuple[tuple[str, ...], int], list[int]] = {}
    for each in (each for amount in amounts for each in amount.each):
        by_loops.setdefault((each.loops, each.items), []).append(each.most)
    joined = tuple(Each(loops, items, join(most)) for (loops, items), most in by_loops.items())
    return Amount(join([0, *(amount.most or 0 for amount in amounts)]), each=joined)
