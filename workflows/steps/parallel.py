"""The `parallel` kind: branches at once, each on its own fork of the context, joined in declared order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from holdfast.blueprint.json_values import JSON, JSONObject, same
from holdfast.blueprint.kinds import AnyStep, Parallel
from holdfast.protocol.context import Path, changes, keys_of, with_changes
from holdfast.protocol.events import BranchCompleted, BranchStarted
from holdfast.protocol.runs import Failure
from holdfast.workflows.concurrency import is_cancelled, run_together
from holdfast.workflows.failures import HANDLED, StepFailure, failure, find_context, find_failure
from holdfast.workflows.frame import ContextStore, Frame
from holdfast.workflows.items import take_changes
from holdfast.workflows.limits import Meter


class _Failed:
    """The failure of a branch, where the step ignores failures."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


async def run_parallel(step: Parallel, frame: Frame) -> JSON:
    value = frame.read_input(step)
    shares = frame.meter.split(len(step.branches))
    works = [
        _branch(step, name, steps, value, share, frame)
        for (name, steps), share in zip(step.branches.items(), shares, strict=True)
    ]
    done = dict(zip(step.branches, await run_together(works), strict=True))
    _check_some(done)
    if step.merge_strategy != "no_merge":
        changed = {name: _map_paths(step, name, own) for name, (_, own) in done.items()}
        take_changes(frame, changed, step.merge_strategy, began=_base(step, frame))
    outputs = {name: output for name, (output, _) in done.items()}
    return _reduce(step, outputs, frame)


async def _branch(
    step: Parallel, name: str, steps: list[AnyStep], value: object, share: Meter, frame: Frame
) -> tuple[JSON, dict[Path, JSON]]:
    """Run a branch; return its output, and what it changed."""
    base, schema = _base(step, frame), frame.store.schema if step.context_include_keys is None else None
    fork = ContextStore(base, schema, frame.store.reducers)
    counts = frame.request_counts.within(step.name, name)
    inside = replace(frame.at("branch", name).isolate(), store=fork, meter=share, request_counts=counts)
    inside.note(BranchStarted(branch=name))
    try:
        output = await frame.run_steps(steps, inside, value, step.max_parallel)
    except HANDLED as error:
        cause = find_failure(error, inside.address)
        if is_cancelled(error):
            raise
        if cause.final or step.on_branch_failure == "propagate":
            raise _with_all_keys(error, cause, base, inside, frame) from error
        inside.note(BranchCompleted(branch=name, error=cause.type, message=cause.message))
        return _Failed(error), {}
    inside.note(BranchCompleted(branch=name))
    return output, changes(base, fork.value)


def _base(step: Parallel, frame: Frame) -> JSONObject:
    """Return the context that the branches begin with."""
    whole = frame.store.value
    if step.context_include_keys is None:
        return whole
    return {key: whole[key] for key in step.context_include_keys if key in whole}


def _with_all_keys(error: BaseException, cause: Failure, base: JSONObject, inside: Frame, frame: Frame) -> StepFailure:
    """Return a branch's failure with the whole context, where the branch sees only some keys of it."""
    inner = find_context(error, inside.address)
    reached = changes(base, inside.store.value if inner is None else inner)
    return StepFailure(cause.model_copy(update={"reached": None}), with_changes(frame.store.value, reached))


def _check_some(done: dict[str, tuple[Any, Any]]) -> None:
    """Raise the first failure if every branch failed."""
    failed = [output.error for output, _ in done.values() if isinstance(output, _Failed)]
    if len(failed) == len(done):
        raise failed[0]


def _map_paths(step: Parallel, name: str, changed: dict[Path, JSON]) -> dict[Path, JSON]:
    """Return the changes of a branch, with a `field_mapping` only those on its paths."""
    if step.field_mapping is None or name not in step.field_mapping:
        return changed
    wanted = [tuple(keys_of(path)) for path in step.field_mapping[name]]
    return {path: value for path, value in changed.items() if any(path[: len(prefix)] == prefix for prefix in wanted)}


def _reduce(step: Parallel, outputs: JSONObject, frame: Frame) -> JSON:
    if step.reduce is None:
        return {name: None if isinstance(output, _Failed) else output for name, output in outputs.items()}
    completed = {name: output for name, output in outputs.items() if not isinstance(output, _Failed)}
    try:
        return REDUCERS[step.reduce](completed)
    except TypeError as error:
        raise failure("bad_reduce", f"{step.reduce} of {step.name}: {error}", frame.address) from None


def _unite(outputs: JSONObject) -> JSONObject:
    merged: JSONObject = {}
    for name, output in outputs.items():
        if not isinstance(output, dict):
            raise TypeError(f"the output of branch {name!r} is not an object")
        merged |= output
    return merged


def _concatenate(outputs: JSONObject) -> list[JSON]:
    joined: list[JSON] = []
    for name, output in outputs.items():
        if not isinstance(output, list):
            raise TypeError(f"the output of branch {name!r} is not a list")
        joined += output
    return joined


def _dedupe(outputs: JSONObject) -> list[JSON]:
    kept: list[JSON] = []
    for item in _concatenate(outputs):
        if not any(same(item, other) for other in kept):
            kept.append(item)
    return kept


def _majority(outputs: JSONObject) -> JSON:
    """Return the output that most branches gave; of several, the one declared first."""
    values = list(outputs.values())
    return max(values, key=lambda value: sum(same(value, other) for other in values))


REDUCERS: dict[str, Callable[[JSONObject], Any]] = {
    "keys": list,
    "values": lambda outputs: list(outputs.values()),
    "union": _unite,
    "concat": _concatenate,
    "dedupe": _dedupe,
    "first": lambda outputs: next(iter(outputs.values())),
    "last": lambda outputs: list(outputs.values())[-1],
    "majority_vote": _majority,
}
