"""What was chosen by a seed: recorded, repeated, and shrunk."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence

Problem = Callable[[Sequence[int]], bool]


class Choices:
    """A sequence of choices. The first of what there is to choose is always the plain one: nothing is disturbed.

    Args:
        source: A generator of random numbers, or earlier choices; where they are at their end, the first is chosen.
    """

    def __init__(self, source: random.Random | Sequence[int]) -> None:
        self._random = source if isinstance(source, random.Random) else None
        self._given = iter(()) if isinstance(source, random.Random) else iter(source)
        self.made: list[int] = []

    def index(self, weights: Sequence[float]) -> int:
        """Return the index of one of these, by their weights."""
        if self._random is None:
            index = next(self._given, 0)
            index = index if index < len(weights) else 0
        elif len(weights) == 1:
            index = 0
        else:
            [index] = self._random.choices(range(len(weights)), weights)
        self.made.append(index)
        return index

    def below(self, most: int) -> int:
        """Return a number from 0, below this one."""
        return self.index([1.0] * most)

    def chance(self, share: float) -> bool:
        """Return true in this share of cases."""
        return self.index([1 - share, share]) == 1


def shrink(choices: Sequence[int], fails: Problem, most: int = 400) -> list[int]:
    """Return a shorter and plainer sequence that still fails.

    Args:
        choices: A sequence that fails.
        fails: Whether a sequence does.
        most: Sequences to try.
    """
    best, tries = _trim(choices), 0
    improved = True
    while improved and tries < most:
        improved = False
        for candidate in _make_plainer(best):
            tries += 1
            if tries > most:
                break
            if fails(candidate):
                best, improved = _trim(candidate), True
                break
    return best


def _make_plainer(choices: Sequence[int]) -> Iterator[list[int]]:
    """Yield plainer sequences: cut off, with a part left out, with a part that disturbs nothing."""
    size = len(choices)
    while size >= 1:
        for start in range(0, len(choices), size):
            part = choices[start : start + size]
            yield [*choices[:start], *choices[start + size :]]
            if any(part):
                yield [*choices[:start], *[0] * len(part), *choices[start + size :]]
        size //= 2


def _trim(choices: Sequence[int]) -> list[int]:
    """Return the choices without the plain ones at their end, which follow anyway."""
    last = max((index for index, choice in enumerate(choices) if choice), default=-1)
    return list(choices[: last + 1])
