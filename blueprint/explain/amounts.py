"""How often at most: a number, a number for each item of a list, or no bound, with the reason."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

LARGEST = 1_000_000_000
"""A bound above it is as good as none."""


@dataclass(frozen=True)
class Each:
    """So often for each item of a plan's loop, inside each item of the loops around it."""

    loops: tuple[str, ...]
    """The outermost first."""
    items: int
    """How many items there can be at most, those of all loops around counted."""
    most: int

    def __str__(self) -> str:
        return f"{self.most:,} for each item of {' in each item of '.join(reversed(self.loops))}"


@dataclass(frozen=True)
class Amount:
    """A number at most, beside what comes for each item; None where nothing bounds it, with the reasons."""

    most: int | None = 0
    why: tuple[str, ...] = ()
    each: tuple[Each, ...] = ()

    @property
    def bound(self) -> int | None:
        """The whole number at most, were all lists as long as they may be."""
        if self.most is None:
            return None
        whole = self.most + sum(one.items * one.most for one in self.each)
        return whole if whole <= LARGEST else None

    def times(self, number: int | None, why: str) -> Amount:
        if self.most is None or (self.most == 0 and not self.each):
            return self
        if number is None:
            return Amount(None, (why,))
        each = tuple(replace(one, most=one.most * number) for one in self.each if number)
        return Amount(self.most * number, each=each)

    def for_each(self, loop: str, items: int) -> Amount:
        """So often for each of an unknown number of items, `items` at most."""
        if self.most is None:
            return self
        own = [Each((loop,), items, self.most)] if self.most else []
        inner = [Each((loop, *one.loops), items * one.items, one.most) for one in self.each]
        return Amount(0, each=(*own, *inner))

    def __str__(self) -> str:
        """
        >>> str(Amount(2).for_each("guests", 1000)), str(Amount(3)), str(Amount())
        ('at most 2 for each item of guests', 'at most 3', 'none')
        """
        if self.most is None:
            return f"no upper bound: {'; '.join(self.why)}"
        said = [*([f"{self.most:,}"] if self.most else []), *map(str, self.each)]
        return f"at most {' plus '.join(said)}" if said else "none"


def total(several: Iterable[Amount]) -> Amount:
    return _joined(list(several), sum)


def largest(several: Iterable[Amount]) -> Amount:
    return _joined(list(several), max)


def _joined(every: list[Amount], join: Callable[[list[int]], int]) -> Amount:
    if any(one.most is None for one in every):
        return Amount(None, tuple(dict.fromkeys(reason for one in every for reason in one.why)))
    found: dict[tuple[tuple[str, ...], int], list[int]] = {}
    for each in (each for one in every for each in one.each):
        found.setdefault((each.loops, each.items), []).append(each.most)
    joined = tuple(Each(loops, items, join(most)) for (loops, items), most in found.items())
    return Amount(join([0, *(one.most or 0 for one in every)]), each=joined)
