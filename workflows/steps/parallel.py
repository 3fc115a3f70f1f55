"""The `parallel` kind: branches at once, each on its own fork of the context, joined in declared order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from temporalio import workflow

from blueprint.grammar import AnyStep, Parallel
from protocol.context import Path, changes, keys_of
from workflows.failures import HANDLED, failure, failure_of
from workflows.frame import Frame, Store
from workflows.items import take_changes
from workflows.limits import Meter, old_share
from workflows.together import is_cancelled, together

Json = dict[str, Any]


class _Failed:
    """What became of a branch that failed, and whose failure is ignored."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


async def run_parallel(step: Parallel, frame: Frame) -> Any:
    value = frame.input_of(step)
    shares = _shares(frame.meter, len(step.branches))
    works = [
        _branch(step, name, steps, value, share, frame)
        for (name, steps), share in zip(step.branches.items(), shares, strict=True)
    ]
    done = dict(zip(step.branches, await together(works), strict=True))
    _check_some(done)
    if step.merge_strategy != "no_merge":
        take_changes(
            frame, {name: _mapped(step, name, changed) for name, (_, changed) in done.items()}, step.merge_strategy
        )
    outputs = {name: output for name, (output, _) in done.items()}
    return _reduced(step, outputs, frame)


def _shares(meter: Meter, branches: int) -> list[Meter]:
    if not meter.budgets or workflow.patched("shares-with-what-is-over"):
        return meter.split(branches)
    return [Meter([old_share(one, branches) for one in meter.budgets], meter) for _ in range(branches)]


async def _branch(
    step: Parallel, name: str, steps: list[AnyStep], value: Any, share: Meter, frame: Frame
) -> tuple[Any, dict[Path, Any]]:
    """The branch's output, and what it changed."""
    base, schema = frame.store.value, frame.store.schema
    if step.context_include_keys is not None:
        base, schema = {key: base[key] for key in step.context_include_keys if key in base}, None
    fork = Store(base, schema)
    inside = replace(frame.inside("branch", name), store=fork, meter=share)
    inside.note("branch.started", branch=name)
    try:
        output = await frame.run_steps(steps, inside, value)
    except HANDLED as error:
        what = failure_of(error, inside.address)
        if is_cancelled(error) or what.final or step.on_branch_failure == "propagate":
            raise
        inside.note("branch.completed", branch=name, error=what.type, message=what.message)
        return _Failed(error), {}
    inside.note("branch.completed", branch=name)
    return output, changes(base, fork.value)


def _check_some(done: dict[str, tuple[Any, Any]]) -> None:
    """Failures are ignored as long as one branch gave something."""
    failed = [output.error for output, _ in done.values() if isinstance(output, _Failed)]
    if len(failed) == len(done):
        raise failed[0]


def _mapped(step: Parallel, name: str, changed: dict[Path, Any]) -> dict[Path, Any]:
    """Of a branch with a `field_mapping` only those paths."""
    if step.field_mapping is None or name not in step.field_mapping:
        return changed
    wanted = [tuple(keys_of(path)) for path in step.field_mapping[name]]
    return {path: value for path, value in changed.items() if any(path[: len(one)] == one for one in wanted)}


def _reduced(step: Parallel, outputs: Json, frame: Frame) -> Any:
    if step.reduce is None:
        return {name: None if isinstance(output, _Failed) else output for name, output in outputs.items()}
    given = {name: output for name, output in outputs.items() if not isinstance(output, _Failed)}
    try:
        return REDUCERS[step.reduce](given)
    except TypeError as error:
        raise failure("bad_reduce", f"{step.reduce} of {step.name}: {error}", frame.address) from None


def _union(outputs: Json) -> Json:
    merged: Json = {}
    for name, output in outputs.items():
        if not isinstance(output, dict):
            raise TypeError(f"the output of branch {name!r} is no object")
        merged |= output
    return merged


def _concat(outputs: Json) -> list[Any]:
    joined: list[Any] = []
    for name, output in outputs.items():
        if not isinstance(output, list):
            raise TypeError(f"the output of branch {name!r} is no list")
        joined += output
    return joined


def _dedupe(outputs: Json) -> list[Any]:
    kept: list[Any] = []
    for item in _concat(outputs):
        if not any(_same(item, other) for other in kept):
            kept.append(item)
    return kept


def _majority(outputs: Json) -> Any:
    """The output that most branches gave; of those that as many gave, the first declared."""
    values = list(outputs.values())
    return max(values, key=lambda value: sum(_same(value, other) for other in values))


def _same(one: Any, other: Any) -> bool:
    """Equal as JSON: `true` is not 1."""
    return one == other and isinstance(one, bool) == isinstance(other, bool)


REDUCERS: dict[str, Callable[[Json], Any]] = {
    "keys": list,
    "values": lambda outputs: list(outputs.values()),
    "union": _union,
    "concat": _concat,
    "dedupe": _dedupe,
    "first": lambda outputs: next(iter(outputs.values())),
    "last": lambda outputs: list(outputs.values())[-1],
    "majority_vote": _majority,
}
