"""What had failed when a run or a plan broke off or went on, in every history of it. For `past_runs`.

The plan may have continued as new since, and so may its loops. Where an agent drives it, all that the agent has said
since followed from what it was told of the failure.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime

from holdfast.blueprint.kinds import Blueprint
from holdfast.client.places import list_steps
from holdfast.client.run_histories import Call, ChildRun, Histories, WorkflowHistory
from holdfast.protocol.address import Address, is_inside, name_at, parts
from holdfast.protocol.agents import CALL_MODEL
from holdfast.protocol.children import Failure
from holdfast.protocol.events import (
    BranchCompleted,
    Event,
    ItemCompleted,
    StepCompleted,
    StepFailed,
    StepSkipped,
    StepStarted,
)
from holdfast.protocol.names import DRIVEN_PLAN_WORKFLOW, PLAN_LOOP_WORKFLOW
from holdfast.protocol.values import make_digest


class FailedSteps:
    """What failed in the steps of a plan, or of a loop of one: calls, and child workflows.

    A loop that has failed returns what its items gave; one that an agent drives returns the plan.
    """

    def __init__(self, histories: Histories, failed: Collection[str]) -> None:
        """`failed` are the addresses of all that has failed in the run."""
        self._histories = histories
        self._failed = [address for address in failed if parts(address)[-1][0] == "step"]
        self.calls: list[Call] = []
        """The calls that failed."""
        self.around: list[str] = []
        """The workflows below the plan that are gone through again."""
        self.begun_in: dict[str, str] = {}
        """By the workflows that went on: Temporal's id of the history in which the first step failed."""
        self.asked_later: set[str] = set()
        """The ids of the calls by which an agent that drives the plan was asked later."""

    async def read(self, plan: WorkflowHistory) -> None:
        """Read the histories of a plan."""
        await self._read_chain(plan.workflow)
        times = [call.ended for call in self.calls if call.ended is not None]
        if plan.type == DRIVEN_PLAN_WORKFLOW and times:
            await self._read_conversation(plan.workflow, min(times))

    async def _read_chain(self, workflow: str) -> None:
        for history in await self._histories.read_chain(workflow):
            failed = await self._list_calls(history)
            self.calls += failed
            below = [await self._read_child(child) for child in history.children if not child.is_own]
            if failed or any(below):
                self.begun_in.setdefault(workflow, history.run_id)

    async def _list_calls(self, history: WorkflowHistory) -> list[Call]:
        addresses = {
            call.address or (await self._histories.decode(call.request)).get("address", "")
            for call in history.calls.values()
            if call.status == "failed"
        }
        failed = (address for address in sorted(addresses) if self._has_failed(address))
        return [call for address in failed for call in list_failed(history, address)]

    def _has_failed(self, address: str) -> bool:
        """Return whether the step around an address has failed: an agent may have called again what failed at first."""
        return any(is_inside(address, step) for step in self._failed)

    async def _read_child(self, child: ChildRun) -> bool:
        """Read a child of the plan; return whether anything has failed in it."""
        is_part = child.type in (PLAN_LOOP_WORKFLOW, DRIVEN_PLAN_WORKFLOW)
        if child.status == "failed" and (is_part or self._has_failed(child.place)):
            history = await self._histories.read(child.workflow)
            cause = await self._histories.read_failure(child.failure)
            typed = Failure.read(cause.details, cause.type)
            self.around.append(child.workflow)
            self.calls += list_failed(history, child.place if typed is None else typed.address)
            return True
        if child.status != "completed" or not is_part:
            return False
        await self._read_chain(child.workflow)
        if child.workflow in self.begun_in:
            self.around.append(child.workflow)
        return child.workflow in self.begun_in

    async def _read_conversation(self, workflow: str, failed_at: datetime) -> None:
        """Note what an agent was asked after the first failure, in a workflow of the plan and those below it."""
        chain = await self._histories.read_chain(workflow)
        first = max(number for number, history in enumerate(chain) if not number or history.begun < failed_at)
        self.begun_in[workflow] = chain[first].run_id
        self.asked_later |= _list_later(chain[first], failed_at, {call.id for call in self.calls})
        for child in (child for history in chain[first:] for child in history.children):
            is_later = child.ended is not None and child.ended >= failed_at
            if child.type == DRIVEN_PLAN_WORKFLOW and is_later:
                self.around.append(child.workflow)
                await self._read_conversation(child.workflow, failed_at)


def _list_later(history: WorkflowHistory, failed_at: datetime, failed: Collection[str]) -> set[str]:
    """Return the ids of the calls of models after the first failure; local calls of one task have the same time."""
    calls = list(history.calls.values())
    first = next((number for number, call in enumerate(calls) if call.id in failed), None)
    later = [call for call in calls if call.at >= failed_at] if first is None else calls[first + 1 :]
    return {call.id for call in later if call.activity == CALL_MODEL}


def list_failed(history: WorkflowHistory, address: str) -> list[Call]:
    """Return the last calls at an address, as far as they failed one after the other."""
    failed: list[Call] = []
    for activity in {call.activity for call in history.calls.values()}:
        calls = list_calls(history, activity, address)
        while calls and calls[-1].status == "failed":
            failed.append(calls.pop())
    return failed


def list_calls(history: WorkflowHistory, activity: str, address: str) -> list[Call]:
    """Return the calls of an activity at an address, in their order: their ids follow from it."""
    known = set(history.calls) | (set() if history.past is None else set(history.past.calls))
    calls, count = [], 1
    while (id_ := make_digest(activity, address, count)) in known:
        if id_ in history.calls:
            calls.append(replace(history.calls[id_], address=address))
        count += 1
    return calls


_ENDS = (BranchCompleted, ItemCompleted, StepCompleted, StepSkipped, StepStarted)
"""Events that what is around a failure has after it was handled; `StepStarted`, where the step runs again."""


def find_open_failures(events: Sequence[Event], blueprint: Blueprint, broken_at: datetime) -> list[Failure]:
    """Return the failures before a moment that were on their way outwards then, each with its innermost step.

    A step that fails ends the branches beside it, and waits for their end before it fails what is around it. If the
    run breaks off meanwhile, by a cancel or by another failure, nobody has heard of this one.

    Args:
        events: Those of the run, in any order.
        blueprint: Its blueprint.
        broken_at: When the run broke off.
    """
    open_: dict[str, Failure] = {}
    before = (event for event in events if event.time < broken_at)
    for event in sorted(before, key=lambda event: event.time):
        if not isinstance(event.data, (StepFailed, *_ENDS)):
            continue
        inside = [open_.pop(address) for address in list(open_) if is_inside(address, event.address)]
        if isinstance(event.data, StepFailed) and _fails_around(event.address, blueprint):
            own = Failure(type=event.data.error, message=event.data.message, address=Address(event.address))
            open_[event.address] = inside[-1] if inside else own
    return list(open_.values())


def _fails_around(address: str, blueprint: Blueprint) -> bool:
    """Return whether the step at an address fails what is around it; the steps of a plan do not."""
    steps = list_steps(blueprint, Address(address))
    is_its = bool(steps) and (steps[-1].segment, steps[-1].name) == (parts(address)[-1][0], name_at(address))
    return is_its and steps[-1].on_error == "fail"
