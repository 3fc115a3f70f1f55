"""What a run did before it failed, read from Temporal's histories and its workflows, for a run that goes on from it.

`Runs.retry` uses it. The calls and the children are in the histories; how questions ended is asked of the workflows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.blueprint.kinds import Blueprint
from holdfast.client.failed_steps import FailedSteps, find_open_failures, list_calls, list_failed
from holdfast.client.run_histories import Call, ChildRun, Histories, WorkflowHistory
from holdfast.client.tree import Tree
from holdfast.protocol.address import Address, is_inside, parts, segment, within
from holdfast.protocol.agents import CALL_MODEL, CALL_TOOL
from holdfast.protocol.children import Failure
from holdfast.protocol.events import BranchCompleted, BranchStarted, BranchSuperseded, Event, StepFailed
from holdfast.protocol.names import DRIVEN_PLAN_WORKFLOW, PLAN, PLAN_WORKFLOW, TELL
from holdfast.protocol.past import (
    Fork,
    Past,
    PastCall,
    PastChild,
    PastReply,
    PastWaits,
    ResumePoint,
    digest_child,
    digest_request,
)
from holdfast.protocol.tool_errors import may_have_acted
from holdfast.runtime.errors import BadInput

PLAN_FAILED = "plan_failed"
"""Type of the failure of a plan: its steps had failed one by one."""
SPENT = ("limit_reached",)
"""Types of failures after which the same call would only be paid again, unless a person might grant more."""
FREE_COMMANDS = {TELL: "told an agent something", PLAN: "changed a plan"}
"""Commands whose effect is in no result: who goes through the workflow again does not meet it."""


@dataclass(frozen=True)
class Break:
    """Where and when a run broke off. What had failed or was cancelled before then is met; what was later is not."""

    at: datetime
    address: str = ""
    """Of the failure; empty for a run that was ended from outside."""
    path: tuple[str, ...] = ()
    """The workflows around the failure, the run's own first."""
    calls: frozenset[str] = frozenset()
    """The ids of the calls at the failure that are made again."""
    asked_from: Mapping[str, datetime] = field(default_factory=dict)
    """By the address of the failure: what was answered there from then on is asked again."""
    begun_in: Mapping[str, str] = field(default_factory=dict)
    """By workflows that went on without what failed in them: Temporal's id of the history in which it did."""

    @property
    def repeats(self) -> bool:
        """Return whether anything is done again, so that another end is possible."""
        return not self.address or bool(self.calls or self.asked_from)

    def join(self, other: Break) -> Break:
        """Return the break of a child that had failed on its own, by what nothing around it had heard of."""
        return replace(
            self,
            at=min(self.at, other.at),
            path=(*self.path, *other.path),
            calls=self.calls | other.calls,
            asked_from={**self.asked_from, **other.asked_from},
            begun_in={**self.begun_in, **other.begun_in},
        )

    def asks_again(self, reply: PastReply) -> bool:
        """Return whether what was replied is asked again."""
        return any(_is_at(reply, address) and reply.at >= at for address, at in self.asked_from.items())


@dataclass(frozen=True)
class _BadEnds:
    """The last steps that blocks ran as they were ended by a break: they go on now, and run them at their end."""

    blocks: Sequence[Address]
    at: datetime
    """When the run broke off."""

    def hold(self, address: str, at: datetime) -> bool:
        """Return whether something was done in such last steps; `at`: when."""
        return at >= self.at and any(is_inside(address, within(block, "branch", "finally")) for block in self.blocks)


class PastReader:
    """Reads what a run did, for the run that goes on from it."""

    def __init__(
        self, tree: Tree, run: str, events: Sequence[Event], blueprint: Blueprint, *, is_changed: bool
    ) -> None:
        """`events` are those of the run, in order; `blueprint` is its own, and the other run has another or not."""
        self._is_changed = is_changed
        self._events, self._blueprint = events, blueprint
        self._orders = _find_orders(events)
        self._places = {event.address for event in events}
        self._came_to = {event.address: -number for number, event in enumerate(reversed(events))}
        self._has_other_input = False
        """Whether the run was begun with another input somewhere."""
        self._failed_at: dict[str, datetime] = {
            event.address: event.time for event in events if isinstance(event.data, StepFailed)
        }
        self._lost = [event for event in events if isinstance(event.data, BranchSuperseded)]
        """The ends of the branches that lost a race."""
        self._forked_at = ""
        """The address from which a fork goes on; empty for a retry."""
        self._run = run
        self._histories = Histories(tree, run)

    async def find_break(self, failure: Failure | None, ended: datetime) -> Break:
        """Return where the run broke off.

        Args:
            failure: Its failure; None for a run that was ended from outside.
            ended: When it was ended, or its end was requested.
        """
        broken, own = Break(ended), await self._histories.read(self._run)
        if failure is not None and failure.address:
            broken = await self._find_cause(own, failure, ended)
        for open_ in find_open_failures(self._events, self._blueprint, broken.at):
            broken = broken.join(await self._find_cause(own, open_, broken.at))
        return await self._join_plans(broken, own)

    async def _join_plans(self, broken: Break, around: WorkflowHistory) -> Break:
        """Return the break with what had failed in the steps of plans that were under way then, and went on."""
        for child in around.children:
            if child.is_own or child.workflow in broken.path or (child.ended is not None and child.ended < broken.at):
                continue
            history = await self._histories.read(child.workflow)
            if child.type not in (PLAN_WORKFLOW, DRIVEN_PLAN_WORKFLOW):
                broken = await self._join_plans(broken, history)
                continue
            steps = FailedSteps(self._histories, self._failed_at)
            await steps.read(history)
            if steps.calls:
                broken = broken.join(_make_break(steps, broken))
        return broken

    async def _find_cause(self, failed_run: WorkflowHistory, failure: Failure, ended: datetime) -> Break:
        """Return the break by a failure that a workflow has ended with."""
        path = await self._find_path(failed_run, failure)
        failure = await self._read_failure(path[-1]) or failure
        around = tuple(history.workflow for history in path)
        failed = [call for history in path for call in list_failed(history, failure.address)]
        again, begun_in = frozenset[str](), {}
        if failure.type == PLAN_FAILED:
            steps = FailedSteps(self._histories, self._failed_at)
            await steps.read(path[-1])
            around, failed = (*around, *steps.around), steps.calls
            again, begun_in = frozenset(steps.asked_later), steps.begun_in
        if failed:
            times = [(call.address, call.ended) for call in failed if call.ended is not None]
            asked_from = {address: min(at for there, at in times if there == address) for address, _ in times}
            at = max(at for _, at in times)
            calls = again | {call.id for call in failed}
            return Break(at, failure.address, around, calls, asked_from, begun_in)
        return await self._find_other_cause(path, around, failure, ended)

    async def _find_path(self, failed_run: WorkflowHistory, failure: Failure) -> list[WorkflowHistory]:
        """Return the histories of the workflows around a failure that failed with it, from the outermost one on."""
        path = [failed_run]
        while True:
            around = [
                child
                for child in path[-1].children
                if _has_failed(child, failure) and not child.is_own and is_inside(failure.address, child.place)
            ]
            if not around:
                return path
            path.append(await self._histories.read(around[-1].workflow))

    async def _find_other_cause(
        self, path: Sequence[WorkflowHistory], around: tuple[str, ...], failure: Failure, ended: datetime
    ) -> Break:
        """Return the break of a run in which no call failed at the failure: an answer did, or what a model replied."""
        for history in reversed(path):
            waits = await self._histories.read_waits(history)
            replies = [reply for reply in waits.replies if _is_at(reply, failure.address) and not reply.left]
            if failure.type in SPENT:
                replies = [reply for reply in replies[-1:] if _grants_nothing(reply, failure.address)]
            if replies:
                at = replies[-1].at
                return Break(at, failure.address, around, asked_from={failure.address: at})
        asked = [call for call in list_calls(path[-1], CALL_MODEL, failure.address) if call.status == "completed"]
        again = frozenset(call.id for call in asked[-1:] if failure.type not in SPENT)
        at = min(path[-1].closed or ended, self._find_failed_at(failure.address) or ended)
        return Break(at, failure.address, around, again)

    def _find_failed_at(self, address: str) -> datetime | None:
        """Return when the innermost step around a failure had failed: what it ended beside it came later."""
        return next((self._failed_at[step] for step in _list_around(address) if step in self._failed_at), None)

    async def read(
        self, broken: Break, workflow: str | None = None, place: ResumePoint | None = None, iteration: int | None = None
    ) -> Past:
        """Return what a workflow did, and all below it. Raises `BadInput` for what cannot be gone through again.

        Args:
            broken: Where the run broke off.
            workflow: The workflow; None: the run's own.
            place: Where the other run goes on, if that is in this workflow or below it; from a fork on nothing is met.
            iteration: For a loop around that place: the iteration in which it is.
        """
        workflow = workflow or self._run
        self._forked_at = place.address if isinstance(place, Fork) else self._forked_at
        history = await self._histories.read(workflow, iteration, broken.begun_in.get(workflow))
        for command in sorted(history.commands & FREE_COMMANDS.keys()):
            message = (
                f"somebody {FREE_COMMANDS[command]} in {workflow}, which a run that goes on from it would not meet"
            )
            raise BadInput(message)
        changed = self._list_changed(history, place)
        self._has_other_input = self._has_other_input or any(fork.input for fork in changed)
        waits = await self._histories.read_waits(history)
        before = self._read_before(history, waits)
        bad_ends = _BadEnds(waits.broken_blocks, broken.at)
        return Past(
            run=self._run,
            fork=place if isinstance(place, Fork) else None,
            until=None if isinstance(place, Fork) else place,
            state=history.state,
            calls=await self._collect_calls(history, before, broken, bad_ends),
            children=await self._collect_children(history, before, broken, bad_ends, place, changed),
            changed=changed,
            input=[history.input] if self._has_other_input and history.before is not None else [],
            replies=[
                # By the same blueprint words may differ all the same: those with the run's id, or the time.
                reply if self._is_changed else reply.model_copy(update={"digest": ""})
                for reply in waits.replies
                if self._is_reply_met(reply, broken, bad_ends)
            ],
            done=waits.done,
            orders=self._orders,
        )

    async def read_input(self, place: ResumePoint) -> list[JSON]:
        """Return the run's input at a place, where it was changed by a fork before, in a list; else []."""
        forks = self._list_changed(await self._histories.read(self._run), place)
        inputs = [fork.input for fork in forks if fork.input and not fork.is_beside(place.address)]
        return inputs[-1] if inputs else []

    def _list_changed(self, history: WorkflowHistory, place: ResumePoint | None) -> list[Fork]:
        """Return where the values of a run were changed that it met, but for what comes behind the place of a fork."""
        met = history.past
        forks = [] if met is None else [*met.changed, *([] if met.fork is None else [met.fork])]
        forks = [fork for fork in forks if fork.changes or fork.input]
        if not isinstance(place, Fork):
            return forks
        return [fork for fork in forks if fork.address == place.address or self._is_before(fork, place)]

    def _is_before(self, fork: Fork, place: ResumePoint) -> bool:
        """Return whether the run had come to a fork before it came to a place, or it stands beside that."""
        if place.is_beside(fork.address):
            return True
        came_here = self._came_to.get(place.address)
        if came_here is None or is_inside(fork.address, place.address):
            return False
        if (came_to := self._came_to.get(fork.address)) is not None:
            return came_to < came_here
        # The run met what is around it as a whole, or has begun behind it: with a later state of a loop.
        met = next((address for address in map(Address, _list_around(fork.address)) if address in self._came_to), None)
        return met is not None and (is_inside(place.address, met) or self._came_to[met] < came_here)

    def _read_before(self, history: WorkflowHistory, waits: PastWaits) -> Past:
        """Return what the workflow met, or may still meet, where the run itself goes on from another one.

        In a fork that is not what the other run did from the place on.
        """
        past = history.past or Past(run="")
        fork = past.fork
        if fork is None:
            return past
        if history.workflow == self._run and fork.address not in self._places:
            message = f"{self._run} has ended before it came to {fork.address}, where it begins"
            raise BadInput(f"{message}: fork {past.run} there once more")
        met = set(waits.met)
        calls = {id_: call for id_, call in past.calls.items() if id_ in met or fork.is_beside(call.address)}
        children = {
            address: [child for child in there if child.workflow in met or fork.is_beside(address)]
            for address, there in past.children.items()
        }
        return past.model_copy(update={"calls": calls, "children": children})

    async def _collect_calls(
        self, history: WorkflowHistory, before: Past, broken: Break, bad_ends: _BadEnds
    ) -> dict[str, PastCall]:
        calls = {id_: call for id_, call in before.calls.items() if id_ not in broken.calls | history.calls.keys()}
        for call in history.calls.values():
            status = _find_status(call, broken)
            if status is None:
                continue
            digest, address, answered, result, failure = "", call.address, call.answered, None, None
            if call.request is not None:
                request = await self._histories.decode(call.request)
                digest, address = digest_request(call.activity, request), request.get("address", "")
                answered = request.get("fresh", ())
            if bad_ends.hold(address, call.at):
                continue
            if status == "left" and self._is_raced_again(address):
                if call.activity != CALL_TOOL:
                    continue
                status = "begun"  # perhaps it has taken effect before it was cancelled
            if status == "completed":
                result = await self._histories.decode(call.result)
            if status == "failed":
                followed = call.request is None and not _is_final(call)
                failure = (await self._histories.read_failure(call.failure)).model_copy(update={"followed": followed})
            calls[call.id] = PastCall(
                status=status,
                request=digest,
                address=address,
                made_in=call.made_in if status in ("begun", "again") else "",
                answered=list(answered),
                result=result,
                failure=failure,
            )
        return calls

    def _is_reply_met(self, reply: PastReply, broken: Break, bad_ends: _BadEnds) -> bool:
        """Return whether a reply is met; else the question is asked again."""
        if reply.left:
            is_met = reply.at < broken.at or self._has_lost(reply.address, broken)
            return is_met and not self._is_raced_again(reply.address)
        return not (broken.asks_again(reply) or bad_ends.hold(reply.address, reply.at))

    def _has_lost(self, address: str, broken: Break) -> bool:
        """Return whether a branch around an address had lost a race, maybe in the very task that broke off the run."""
        return any(is_inside(address, event.address) for event in self._lost if event.time <= broken.at)

    def _is_raced_again(self, address: str) -> bool:
        """Return whether an address is in a branch that had lost a race in the midst of which a fork begins.

        The race may be decided in another way now: what the branch left is open again.
        """
        return any(
            is_inside(address, event.address)
            and is_inside(self._forked_at, event.address.rpartition(";")[0])
            and not is_inside(self._forked_at, event.address)
            for event in self._lost
            if self._forked_at
        )

    async def _collect_children(
        self,
        history: WorkflowHistory,
        before: Past,
        broken: Break,
        bad_ends: _BadEnds,
        place: ResumePoint | None,
        changed: Sequence[Fork],
    ) -> dict[str, list[PastChild]]:
        around = [] if place is None else [child for child in history.children if _is_around(child, place)]
        own: dict[str, list[PastChild]] = {}
        for child in history.children:
            if bad_ends.hold(child.address, child.at):
                continue
            inner = place if around and child is around[-1] else None
            met = await (
                self._read_forked(child, broken, inner)
                if isinstance(inner, Fork)
                else self._read_child(child, broken, inner)
            )
            if met is not None:
                inside = [fork.address for fork in changed if _is_around(child, fork)]
                own.setdefault(child.address, []).append(met.model_copy(update={"changed": inside}))
        addresses = dict.fromkeys([*before.children, *own])
        return {address: _join(before.children.get(address, []), own.get(address, [])) for address in addresses}

    async def _read_forked(self, child: ChildRun, broken: Break, fork: Fork) -> PastChild:
        """Return a child in which, or below which, the fork is: it is gone through again, whatever came of it."""
        iteration = _find_iteration(child, fork)
        past = await self.read(broken, child.workflow, fork, iteration)
        return await self._open(child, past)

    async def _read_child(self, child: ChildRun, broken: Break, place: ResumePoint | None) -> PastChild | None:
        """Return what a child did; None for one that is no part of the run, and is started again.

        `place` is where the other run goes on, if that is inside.
        """
        id_, digest = child.workflow, await self._digest(child)
        is_left = child.cancelled is not None and child.cancelled < broken.at
        if is_left and not self._is_raced_again(child.place):
            return PastChild(workflow=id_, request=digest, status="left")
        if child.status == "completed" and id_ not in broken.path:
            result = await self._histories.decode(child.result)
            if child.is_own or not _was_cancelled(child, result, broken):
                return PastChild(workflow=id_, request=digest, status="completed", result=result)
        elif child.status == "failed" and self._is_handled(child, broken):
            failure = await self._histories.read_failure(child.failure)
            return PastChild(workflow=id_, request=digest, status="failed", failure=failure)
        if child.is_own:
            return None
        past = await self.read(await self._find_break_of_child(child, broken), id_, place)
        return await self._open(child, past)

    async def _open(self, child: ChildRun, past: Past) -> PastChild:
        """Return a child that is gone through again; it keeps what it was to do, as its state may be another one."""
        past = past.model_copy(update={"request": await self._digest(child)})
        return PastChild(workflow=child.workflow, status="open", past=past)

    async def _find_break_of_child(self, child: ChildRun, broken: Break) -> Break:
        """Return where a child broke off that had no end to the run: it may have failed, and nobody had heard of it."""
        history = await self._histories.read(child.workflow)
        failure = None if child.workflow in broken.path else await self._read_failure(history)
        return broken if failure is None else broken.join(await self._find_cause(history, failure, broken.at))

    async def _read_failure(self, history: WorkflowHistory) -> Failure | None:
        """Return the failure that a workflow has ended with; None if it has not failed, or by an error of no step."""
        if history.failure is None:
            return None
        cause = await self._histories.read_failure(history.failure)
        return Failure.read(cause.details, cause.type)

    async def _digest(self, child: ChildRun) -> str:
        """Return the digest of what a child was to do; empty for a workflow of the author's own."""
        if child.is_own:
            return ""
        definition, state = [await self._histories.decode(argument) for argument in child.arguments[:2]]
        met = definition.get("past") or {}
        return met.get("request") or digest_child(definition, state)

    def _is_handled(self, child: ChildRun, broken: Break) -> bool:
        """Return whether the run went on after a child had failed."""
        if child.workflow in broken.path or (child.is_own and child.address == broken.address):
            return False
        return child.ended is not None and child.ended < broken.at


def _make_break(steps: FailedSteps, broken: Break) -> Break:
    """Return the break by steps of a plan that had failed before the run broke off."""
    failed = [call for call in steps.calls if call.ended is not None and call.ended < broken.at]
    asked_from = {call.address: broken.at for call in failed}
    for call in failed:
        assert call.ended is not None
        asked_from[call.address] = min(asked_from[call.address], call.ended)
    again = frozenset(call.id for call in failed) | steps.asked_later
    return Break(broken.at, "", tuple(steps.around), again, asked_from, steps.begun_in)


def _find_orders(events: Sequence[Event]) -> dict[Address, list[str]]:
    """Return the order in which branches ended, by the address of their step, where that is not the declared one."""
    begun: dict[Address, list[str]] = {}
    ended: dict[Address, list[str]] = {}
    for event in events:
        if isinstance(event.data, BranchStarted | BranchCompleted):
            ways = begun if isinstance(event.data, BranchStarted) else ended
            around = Address(event.address.rpartition(";")[0])
            ways.setdefault(around, []).append(event.data.branch)
    declared = {place: [name for name in begun.get(place, []) if name in order] for place, order in ended.items()}
    return {place: order for place, order in ended.items() if order != declared[place]}


def _list_around(address: str) -> Iterator[str]:
    """Yield an address and those of what is around it, from the innermost on, without numbers of iterations and items.

    >>> list(_list_around("pipeline:p;loop:l:2;step:a"))
    ['pipeline:p;loop:l:2;step:a', 'pipeline:p;loop:l', 'pipeline:p']
    """
    while address:
        around, _, last = address.rpartition(";")
        kind, name, _ = parts(last)[0]
        yield f"{around};{segment(kind, name)}" if around else last
        address = around


def _was_cancelled(child: ChildRun, result: JSONObject, broken: Break) -> bool:
    """Return whether a child with a result was cancelled: it hands over what it did. A plan has that as its status."""
    inner = result.get("result")
    statuses = [result.get("status"), inner.get("status") if isinstance(inner, dict) else None]
    is_later = child.ended is not None and child.ended >= broken.at
    return bool(result.get("cancelled")) or (is_later and "cancelled" in statuses)


def _is_around(child: ChildRun, place: ResumePoint) -> bool:
    """Return whether a place is inside a child; a page of a map has some of its items."""
    if child.is_own or not is_inside(place.address, child.place):
        return False
    _, _, page = child.address.rpartition(";page:")
    if child.address == child.place or not page:
        return True
    first, _, last = page.partition("-")
    index = _find_iteration(child, place)
    return index is not None and int(first) <= index <= int(last)


def _find_iteration(child: ChildRun, place: ResumePoint) -> int | None:
    """Return the number of the iteration, or of the item, of a loop or map in which a place is."""
    sub = parts(place.address)[len(parts(child.place)) - 1][2]
    return int(sub) if sub is not None and sub.isdigit() else None


def _has_failed(child: ChildRun, failure: Failure) -> bool:
    """Return whether a child ended with a failure; a plan returns what its steps gave, and its step fails."""
    return child.status == "failed" or (failure.type == PLAN_FAILED and child.place == failure.address)


def _is_final(call: Call) -> bool:
    """Return whether no further call follows the failure of one."""
    return call.failure is not None and call.failure.application_failure_info.non_retryable


def _find_status(call: Call, broken: Break) -> Any:
    """Return how a call is met; None if it is made again as if it had never been.

    One that has failed and may have taken effect all the same was begun: a person is asked before it is made again.
    """
    if call.cancelled is not None and call.cancelled < broken.at:
        return "left"
    if call.status == "unsent":
        return None
    has_failed = call.status == "failed" and call.ended is not None and call.ended >= broken.at
    if not has_failed and call.id not in broken.calls:
        return call.status
    if call.activity != CALL_TOOL or call.request is None:
        return None
    failure = call.failure
    return "begun" if failure is not None and may_have_acted(failure.application_failure_info.type) else "again"


def _join(before: Sequence[PastChild], own: Sequence[PastChild]) -> list[PastChild]:
    """Return the children of an address: those that were met, and in place of each that was not its new run."""
    left = list(own)
    met = [left.pop(0) if child.status == "open" and left else child for child in before]
    return [*met, *left]


def _grants_nothing(reply: PastReply, address: str) -> bool:
    """Return whether a person was asked at a limit, and let what stands at the address fail."""
    return reply.address == f"{address};hitl:limit" and reply.content not in ("more", "finish")


def _is_at(reply: PastReply, address: str) -> bool:
    """Return whether a question was asked at an address, or right there about a limit."""
    return reply.address == address or reply.address.startswith(f"{address};hitl:")
