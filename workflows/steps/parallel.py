"""The `parallel` kind: branches at once, each on its own fork of the context, joined in declared order.

A race ends once enough branches have completed with a result; the others are cancelled. Jobs come one at a time
(`activation`), so who comes first follows from the order of events, live and in replay. Of branches that one job
completes, the one that is declared first comes first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from temporalio import workflow
from temporalio.exceptions import ApplicationError

from holdfast.blueprint.expressions.bounds import MAX_VALUE
from holdfast.blueprint.json_values import JSON, JSONObject, same
from holdfast.blueprint.kinds import AnyStep, Parallel
from holdfast.blueprint.questions import brief
from holdfast.blueprint.reducers import is_below, split_keys
from holdfast.protocol.children import Failure
from holdfast.protocol.context import Path, changes, with_changes
from holdfast.protocol.events import BranchCompleted, BranchStarted, BranchSuperseded
from holdfast.workflows.concurrency import end, is_cancelled, raise_if_cancelled, run_together
from holdfast.workflows.failures import HANDLED, StepFailure, failure, find_context, find_failure
from holdfast.workflows.frame import ContextStore, Frame, Scope
from holdfast.workflows.items import take_changes
from holdfast.workflows.limits import Meter
from holdfast.workflows.rest import await_rest
from holdfast.workflows.sizes import check_weight
from holdfast.workflows.undoing import undo_all


@dataclass(frozen=True)
class _BranchEnd:
    """A branch that has ended: its output or failure, what it changed in the context, and whether it can win."""

    output: JSON | _Failed
    changed: dict[Path, JSON]
    has_result: bool


class _Failed:
    """The failure of a branch, where the step ignores failures."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


async def run_parallel(step: Parallel, frame: Frame) -> JSON:
    value = frame.read_input(step)
    branches = _choose_branches(step, frame.after(value))
    shares = frame.meter.split(len(branches))
    works = {
        name: _branch(step, name, steps, value, share, frame)
        for (name, steps), share in zip(branches.items(), shares, strict=True)
    }
    if step.until is None:
        done = dict(zip(works, await run_together(works.values()), strict=True))
        _check_some(done)
        winners = list(done)
    else:
        done, others = await run_race(
            frame, works, lambda ended: ended.has_result, lambda so_far: _is_over(step, so_far, frame)
        )
        await _undo_losers([name for name in branches if name not in done], frame)
        if not _is_over(step, done, frame):
            raise _fail_without_winner(step, done, others, frame)
        winners = list(done)
        done = {name: done[name] for name in branches if name in done}
    if step.merge_strategy != "no_merge":
        changed = {name: _map_paths(step, name, ended.changed) for name, ended in done.items()}
        take_changes(frame, changed, step.merge_strategy, began=_base(step, frame))
    outputs = _reduce(step, {name: ended.output for name, ended in done.items()}, frame)
    # Branches that pass on their input share it: in a loop it doubles as JSON each time, and takes no memory.
    check_weight(outputs, MAX_VALUE, f"the output of {step.name}", frame.address)
    return {"winner": winners, "outputs": outputs} if step.until is not None and step.reduce is None else outputs


async def _undo_losers(names: Sequence[str], frame: Frame) -> None:
    """Undo what the steps of branches that have not won did, where a block around them keeps how."""
    if frame.undos is None:
        return
    for name in names:
        if entries := frame.undos.take(frame.at("branch", name).address):
            await undo_all(entries, frame, "ask")


def _choose_branches(step: Parallel, frame: Frame) -> dict[str, list[AnyStep]]:
    """Return the branches that run, in declared order."""
    if step.choose is None:
        return step.branches
    chosen = frame.render(step.choose)
    names = [chosen] if isinstance(chosen, str) else chosen
    if not isinstance(names, list):
        raise failure(
            "unknown_branch", f"'choose' of {step.name} gives {brief(chosen)}, no list of names", frame.address
        )
    for name in names:
        if not isinstance(name, str) or name not in step.branches:
            there = ", ".join(step.branches)
            message = f"'choose' of {step.name} names {brief(name)}, which is no branch; branches: {there}"
            raise failure("unknown_branch", message, frame.address)
    return {name: steps for name, steps in step.branches.items() if name in names}


def _is_over(step: Parallel, winners: Mapping[str, _BranchEnd], frame: Frame) -> bool:
    """Return whether the branches that have completed with a result are enough."""
    if step.until_expression is None:
        return len(winners) >= (step.winners_wanted or 1)
    so_far: JSONObject = {name: winners[name].output for name in step.branches if name in winners}
    return frame.after(so_far).holds(step.until_expression)[0]


def _fail_without_winner(
    step: Parallel, winners: Mapping[str, _BranchEnd], others: Mapping[str, _BranchEnd], frame: Frame
) -> ApplicationError:
    """Return the failure of a race in which every branch has ended."""
    told = [f"{name} completed" for name in winners]
    for name, ended in others.items():
        is_failed = isinstance(ended.output, _Failed)
        told.append(f"{name} {'failed' if is_failed else 'gave no result'}")
    ends = ", ".join(told) or "no branch was chosen"
    return failure(
        "no_winner", f"every branch of {step.name} has ended, and none of them ended it: {ends}", frame.address
    )


async def _branch(
    step: Parallel, name: str, steps: list[AnyStep], value: object, share: Meter, frame: Frame
) -> _BranchEnd:
    """Run a branch to its end."""
    base = _base(step, frame)
    is_whole = step.context_include_keys is None
    fork = frame.store.fork() if is_whole else ContextStore(base, None, frame.store.reducers)
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
        return _BranchEnd(_Failed(error), {}, has_result=False)
    inside.note(BranchCompleted(branch=name))
    return _BranchEnd(output, changes(base, fork.value), _has_result(steps, inside.scope, output))


def _has_result(steps: Sequence[AnyStep], scope: Scope, output: JSON) -> bool:
    """Return whether a branch has completed with a result: a skipped one only passes its input on.

    A timer passes on its input, too, but that it is over is what its branch waits for.
    """
    ended = [step for step in steps if scope.steps[step.name]["status"] != "skipped"]
    return bool(ended) and (output is not None or ended[-1].passes_input)


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


def _check_some(done: Mapping[str, _BranchEnd]) -> None:
    """Raise the first failure if every branch failed."""
    failed = [ended.output.error for ended in done.values() if isinstance(ended.output, _Failed)]
    if failed and len(failed) == len(done):
        raise failed[0]


def _map_paths(step: Parallel, name: str, changed: dict[Path, JSON]) -> dict[Path, JSON]:
    """Return the changes of a branch, with a `field_mapping` only those on its paths."""
    if step.field_mapping is None or name not in step.field_mapping:
        return changed
    wanted = [split_keys(path) for path in step.field_mapping[name]]
    return {path: value for path, value in changed.items() if is_below(path, wanted)}


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
    return max(values, key=lambda value: sum(same(value, other) for other in values), default=None)


REDUCERS: dict[str, Callable[[JSONObject], Any]] = {
    "keys": list,
    "values": lambda outputs: list(outputs.values()),
    "union": _unite,
    "concat": _concatenate,
    "dedupe": _dedupe,
    "first": lambda outputs: next(iter(outputs.values()), None),
    "last": lambda outputs: next(reversed(outputs.values()), None),
    "majority_vote": _majority,
}


Result = TypeVar("Result")


async def run_race(
    frame: Frame,
    works: Mapping[str, Coroutine[Any, Any, Result]],
    counts: Callable[[Result], bool],
    is_over: Callable[[Mapping[str, Result]], bool],
) -> tuple[dict[str, Result], dict[str, Result]]:
    """Return the results of the winners, the first one first, and those of the branches that ended without.

    The first failure of a branch cancels the others, and is raised as itself.

    Args:
        frame: The frame of the step whose branches they are.
        works: The branches by name, in declared order.
        counts: Whether the branch that gave a result is a winner.
        is_over: Whether the winners so far are enough.
    """
    tasks = {name: asyncio.create_task(work) for name, work in works.items()}
    winners: dict[str, Result] = {}
    others: dict[str, Result] = {}
    try:
        while running := {name: task for name, task in tasks.items() if name not in winners and name not in others}:
            await workflow.wait(running.values(), return_when=asyncio.FIRST_COMPLETED)
            await await_rest(whole_task=False)  # a job may complete several
            ended = [name for name, task in running.items() if task.done()]
            for name in frame.host.earlier.sort_branches(frame.address, ended):
                result = tasks[name].result()
                (winners if counts(result) else others)[name] = result
                if name in winners and is_over(winners):
                    await _supersede({name: task for name, task in tasks.items() if not task.done()}, frame)
                    return winners, others
    except (asyncio.CancelledError, *HANDLED):
        await end(tasks.values())
        raise
    return winners, others


async def _supersede(losers: Mapping[str, asyncio.Task[Result]], frame: Frame) -> None:
    """Cancel the branches that have lost, and wait for their end."""
    frames = {name: frame.at("branch", name) for name in losers}
    with frame.host.superseding.supersede([each.address for each in frames.values()]):
        await end(losers.values())
    for name, each in frames.items():
        each.note(BranchSuperseded(branch=name))
    raise_if_cancelled()  # meanwhile: `end` waits on
