"""The metrics of several processes as one text: each sample gets the label `process`.

They are not added up here: the counters of a process that was started again begin at 0, which Prometheus sees in a
series of its own and would take for a large increase in a sum.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

SAMPLE = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})?( .*)", re.DOTALL)


@dataclass
class MetricFamily:
    """A metric: its comments, and its samples in all processes."""

    comments: dict[str, str] = field(default_factory=dict)
    samples: list[str] = field(default_factory=list)

    def lines(self) -> Iterator[str]:
        """Yield the lines of the metric."""
        yield from self.comments.values()
        yield from self.samples


def labelled(texts: Mapping[int, str]) -> str:
    """Return the metrics of processes, by number, as one text.

    >>> print(labelled({1: "# TYPE a counter\\na 1", 2: '# TYPE a counter\\na{b="c"} 2'}), end="")
    # TYPE a counter
    a{process="1"} 1
    a{process="2",b="c"} 2
    """
    families: dict[str, MetricFamily] = {}
    for number, text in texts.items():
        _add(families, number, text)
    return "".join(f"{line}\n" for family in families.values() for line in family.lines())


def _add(families: dict[str, MetricFamily], number: int, text: str) -> None:
    family = MetricFamily()
    for line in filter(None, text.splitlines()):
        if line.startswith("#"):
            _, kind, name, *_ = line.split(" ", 3)
            family = families.setdefault(name, MetricFamily())
            family.comments.setdefault(kind, line)
        elif sample := SAMPLE.fullmatch(line):
            name, labels, rest = sample.groups()
            own = f'process="{number}"'
            family.samples.append(f"{name}{{{f'{own},{labels}' if labels else own}}}{rest}")
