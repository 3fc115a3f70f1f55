"""The differences between two runs, step by step. `holdfast diff` prints them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from holdfast.blueprint.json_values import JSONObject
from holdfast.client.views.runs import RunView
from holdfast.client.views.steps import StepView
from holdfast.protocol.address import parts, segment

Steps = dict[str, StepView]


@dataclass(frozen=True)
class StepDifference:
    """What differs at one address; a value is None where there is none."""

    address: str
    what: Literal["step", "status", "answer", "output", "error", "result", "context"]
    """`step`: only one of the runs came there; the values are then its status and null."""
    one: Any
    other: Any


@dataclass(frozen=True)
class Comparison:
    """Two runs side by side."""

    one: str
    other: str
    differences: Sequence[StepDifference]
    alike: int
    """Number of steps that were the same in both."""

    def to_json(self) -> JSONObject:
        """Return the JSON object of `diff --json`."""
        return {
            "runs": [self.one, self.other],
            "differences": [asdict(difference) for difference in self.differences],
            "alike": self.alike,
        }


def compare_runs(one: RunView, other: RunView) -> Comparison:
    """Return what differs between two runs: steps in the order of their addresses' appearance, then the ends.

    Of a long output the views have the beginning, which is what is compared.
    """
    steps, others = _drop_earlier(_index(one.trace), _index(other.trace))
    addresses = list(dict.fromkeys([*steps, *others]))
    found = {address: _compare_steps(address, steps.get(address), others.get(address)) for address in addresses}
    differences = [difference for each in found.values() for difference in each]
    ends = {
        "status": (one.state.status, other.state.status),
        "result": (one.outcome.output, other.outcome.output),
        "context": (one.outcome.context, other.outcome.context),
    }
    differences += _list_unequal("", ends)
    return Comparison(one.state.run, other.state.run, differences, sum(not each for each in found.values()))


def _index(trace: StepView) -> Steps:
    """Return every step below the root by its address below the blueprint, which may have another name."""
    return {step.address.partition(";")[2]: step for step in trace.below() if ";" in step.address}


def _drop_earlier(one: Steps, other: Steps) -> tuple[Steps, Steps]:
    """Return the steps of two runs without those of iterations before the first one that both have.

    A run that goes on from another begins a loop that had continued as new with the state of its last history.
    """
    firsts = [_find_first_iterations(steps) for steps in (one, other)]
    first = {loop: max(firsts[0][loop], firsts[1][loop]) for loop in firsts[0].keys() & firsts[1].keys()}
    kept = [{address: step for address, step in steps.items() if _is_from(address, first)} for steps in (one, other)]
    return kept[0], kept[1]


def _find_first_iterations(steps: Steps) -> dict[str, int]:
    """Return the number of the first iteration of each loop, by the loop's address."""
    first: dict[str, int] = {}
    for loop, number in (pair for address in steps for pair in _list_iterations(address)):
        first[loop] = min(number, first.get(loop, number))
    return first


def _list_iterations(address: str) -> Iterator[tuple[str, int]]:
    """Yield each loop around an address, and the iteration.

    >>> list(_list_iterations("loop:l:2;step:x"))
    [('loop:l', 2)]
    """
    segments = address.split(";")
    for depth, (kind, name, sub) in enumerate(parts(address)):
        if kind == "loop" and sub is not None and sub.isdigit():
            yield ";".join([*segments[:depth], segment(kind, name)]), int(sub)


def _is_from(address: str, first: Mapping[str, int]) -> bool:
    return all(number >= first.get(loop, 0) for loop, number in _list_iterations(address))


def _compare_steps(address: str, one: StepView | None, other: StepView | None) -> list[StepDifference]:
    if one is None or other is None:
        marks = [None if step is None else step.status for step in (one, other)]
        return [StepDifference(address, "step", *marks)]
    values = {
        "status": (one.status, other.status),
        "answer": (_list_answers(one), _list_answers(other)),
        "output": (one.output, other.output),
        "error": (one.error and one.error.message, other.error and other.error.message),
    }
    return _list_unequal(address, values)


def _list_answers(step: StepView) -> list[Any]:
    """Return what was answered, and by whom; whether here or in the run before is no difference."""
    return [[answer.reply.by, answer.reply.content] for answer in step.answers]


def _list_unequal(address: str, values: Mapping[Any, tuple[Any, Any]]) -> list[StepDifference]:
    return [StepDifference(address, what, *pair) for what, pair in values.items() if pair[0] != pair[1]]
