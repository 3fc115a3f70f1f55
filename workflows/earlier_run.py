"""What the earlier run did, for a workflow of a run that goes on from it: calls, children and questions look here.

Nothing is copied as state. The workflow runs from its start, and meets what was recorded where the earlier run had made
the same call; so it comes to where that one ended, and calls from there.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection, Sequence
from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError, ChildWorkflowError, FailureError

from holdfast.blueprint.json_values import JSON
from holdfast.protocol.address import Address, is_inside
from holdfast.protocol.past import (
    Fork,
    Past,
    PastCall,
    PastChild,
    PastFailure,
    PastReply,
    digest_child,
    digest_request,
)
from holdfast.workflows.failures import failure, make_child_error

NO_PAST = Past(run="")
MOST_AT_ONCE = 200
"""Calls that are met in one activation: one of two seconds is a deadlock to the SDK, and the task fails for ever."""


class EarlierRun:
    """What the same workflow did in the earlier run; empty in a run that goes on from none."""

    def __init__(self, past: Past | None) -> None:
        past = past or NO_PAST
        self.run, self.by = past.run, past.by
        self._calls = dict(past.calls)
        self._children = {address: list(children) for address, children in past.children.items()}
        self._replies = {(reply.address, reply.round): reply for reply in past.replies}
        self._done = list(past.done)
        self.met: list[str] = []
        """The ids of the calls and children that were met."""
        self._met_calls = 0
        self._orders = past.orders
        self._fork = past.fork
        self._place = past.place
        self._is_reached = False
        """True once the run has come to the place where it goes on: from that of a fork on nothing is met."""
        self._changed = ChangedValues(past)

    def sort_branches(self, address: Address, names: Sequence[str]) -> list[str]:
        """Return branches that one job has ended as they ended in the earlier run; what is met ends all at once."""
        order = self._orders.get(address, [])
        return sorted(names, key=lambda name: order.index(name) if name in order else len(order))

    def arrive(self, address: str) -> None:
        """Note that the run has come to an address."""
        self._changed.arrive(address)
        self._is_reached = self._is_reached or (self._place is not None and self._place.address == address)

    def take_changes(self, address: Address) -> dict[str, JSON]:
        """Return what is to be written into the context at a step, by path; once, at the place of a fork."""
        self.arrive(address)
        return self._changed.take(address)

    def read_input(self, address: Address, own: JSON) -> JSON:
        """Return the run's input as it is read at an address; `own` is what the run was started with."""
        return self._changed.read_input(address, own)

    @property
    def next_input(self) -> list[JSON]:
        """The run's input for the next history of this workflow, in a list; [] where it stays."""
        return self._changed.next_input

    def hand_over(self, own: Address) -> Past | None:
        """Return what was not met yet, for the next history of a workflow whose steps have addresses of their own.

        Args:
            own: The address of the workflow. What it calls and asks there is counted anew in each history.
        """
        calls = {id_: call for id_, call in self._calls.items() if call.address != own}
        children = {address: left for address, left in self._children.items() if left}
        replies = [reply for reply in self._replies.values() if reply.address != own]
        if self._fork is not None or not (calls or children or replies):
            return None
        return Past(
            run=self.run,
            by=self.by,
            calls=calls,
            children=children,
            replies=replies,
            done=self._done,
            orders=self._orders,
        )

    def has_calls(self, address: Address) -> bool:
        """Return whether calls at an address, or inside, are still to be met."""
        return any(is_inside(call.address, address) for call in self._calls.values() if not self._is_over(address))

    def has_child(self, address: Address) -> bool:
        """Return whether a child at an address is still to be met."""
        return bool(self._children.get(address)) and not self._is_over(address)

    def _is_over(self, address: str) -> bool:
        """Return whether nothing is met any more at an address."""
        return self._is_reached and self._fork is not None and not self._fork.is_beside(address)

    def take_call(self, id_: str, activity: str, address: str, *, is_local: bool = False) -> PastCall | None:
        """Return the call of this id, once. Raises a failure where there must be one; a local one may be made again."""
        call = None if self._is_over(address) else self._calls.pop(id_, None)
        if call is None and is_local:
            return None
        if call is None:
            self._check_new(address, f"did not call {activity} here")
        elif call.status != "again":
            self.met.append(id_)
        return call

    def list_answers(self, id_: str, address: str) -> Sequence[str]:
        """Return the paths whose answers the call of this id was the first to get; the call may still be taken."""
        call = None if self._is_over(address) else self._calls.get(id_)
        return () if call is None else call.answered

    def take_reply(self, address: Address, round_: int, digest: str) -> PastReply | None:
        """Return the reply to the n-th question at an address, which has this digest.

        Raises a failure where there must be one, and where the earlier run asked something else: what a person has
        agreed to is what was shown.
        """
        reply = None if self._is_over(address) else self._replies.pop((address, round_), None)
        if reply is None:
            self._check_new(address, "did not ask here")
        elif reply.digest and reply.digest != digest:
            raise self._make_difference("asked something else here", address)
        return reply

    def take_child(self, address: Address) -> PastChild | None:
        """Return the next child that the earlier run started at an address. Raises a failure where there must be one.

        With one that has the place inside the run has come to it.
        """
        children = [] if self._is_over(address) else self._children.get(address)
        if not children:
            self._check_new(address, "started no workflow here")
            return None
        child = children.pop(0)
        self.met.append(child.workflow)
        self._changed.leave(child.changed)
        if child.past is not None and child.past.place is not None:
            self._is_reached = True
            self._changed.leave([child.past.place.address])
        return child

    def _check_new(self, address: str, different: str) -> None:
        """Raise a failure if the run may not do yet what the earlier one did not do."""
        if self._place is None or self._is_reached or self._place.is_beside(address):
            return
        if not self._place.is_around(address):  # as what is asked before a step, for people to look at it
            raise self._make_difference(different, address)

    def _make_difference(self, different: str, address: str) -> ApplicationError:
        message = f"the run {self.run} {different}; what it did up to here must be the same"
        return failure("past_differs", message, Address(address), final=True)

    def take_done(self, address: Address) -> bool:
        """Return whether a timer or a deadline passed at an address, or a signal was delivered; once for each time.

        A deadline that passed later than the place of a fork inside its block has not passed yet.
        """
        is_later = self._fork is not None and is_inside(self._fork.address, address)
        if address not in self._done or self._is_over(address) or is_later:
            return False
        self._done.remove(address)
        return True

    async def meet_call(self, met: PastCall, activity: str, request: object, result_type: Any, address: str) -> Any:
        """Return the result of a call, or raise its failure; one that was left waits to be cancelled again.

        Raises a failure if the earlier run asked for something else.
        """
        if met.request and digest_request(activity, _read_json(request)) != met.request:
            raise self._make_difference(f"made another call here ({activity})", address)
        self._met_calls += 1
        if self._met_calls % MOST_AT_ONCE == 0:
            await workflow.sleep(timedelta(milliseconds=1))
        return await _give(met, result_type, make_activity_error)

    async def meet_child(self, met: PastChild, id_: str, result_type: Any) -> Any:
        """Return the result of a child that has ended, or raise its failure, as `meet_call` does."""

        def make_error(cause: ApplicationError) -> ChildWorkflowError:
            return make_child_error("Child Workflow execution failed", id_, cause)

        return await _give(met, result_type, make_error)

    def check_child(self, met: PastChild, definition: object, state: object, address: str) -> None:
        """Raise a failure if the earlier run started a child here that was to do something else."""
        if digest_child(_read_json(definition), _read_json(state)) != met.request:
            raise self._make_difference("started another workflow here", address)


async def _give(met: PastCall | PastChild, result_type: Any, make_error: Any) -> Any:
    if met.status == "left":
        await asyncio.get_running_loop().create_future()
    if met.failure is not None:
        raise make_error(_make_cause(met.failure))
    return _parse(met.result, result_type)


def _read_json(request: object) -> dict[str, JSON]:
    """Return a request as JSON, as it stands in a history."""
    value: dict[str, JSON] = json.loads(workflow.payload_converter().to_payload(request).data)
    return value


def _parse(value: JSON, type_: Any) -> Any:
    if type_ is None:
        return None
    converter = workflow.payload_converter()
    return converter.from_payload(converter.to_payload(value), type_)


def _make_cause(met: PastFailure) -> ApplicationError:
    return ApplicationError(met.message, *met.details, type=met.type, non_retryable=not met.followed)


def make_activity_error(cause: FailureError) -> ActivityError:
    """Return the error of an activity that failed by a cause."""
    error = ActivityError(
        "Activity task failed",
        scheduled_event_id=0,
        started_event_id=0,
        identity="",
        activity_type="",
        activity_id="",
        retry_state=None,
    )
    error.__cause__ = cause
    return error


class ChangedValues:
    """The changes of the fork that a run is, and of those that it goes on from; none in any other run."""

    def __init__(self, past: Past) -> None:
        self._places = [*past.changed, *([past.fork] if past.fork is not None else [])]
        self._reached: list[Fork] = []
        """Those to which this workflow has come, in that order."""
        self._untaken = [place for place in self._places if place.changes]
        self._begun_with = past.input

    def arrive(self, address: str) -> None:
        """Note that the run has come to an address."""
        self._reached += [place for place in self._places if place.address == address and place not in self._reached]

    def leave(self, addresses: Collection[Address]) -> None:
        """Note that the run has come to places in a child, which takes the changes there."""
        for place in [place for place in self._places if place.address in addresses]:
            self.arrive(place.address)
        self._untaken = [place for place in self._untaken if place.address not in addresses]

    def take(self, address: Address) -> dict[str, JSON]:
        """Return what is to be written into the context at a step, by path; once, at the place."""
        here = [place for place in self._untaken if place in self._reached and place.is_around(address)]
        self._untaken = [place for place in self._untaken if place not in here]
        return {path: value for place in here for path, value in place.changes.items()}

    def read_input(self, address: str, own: JSON) -> JSON:
        """Return the run's input as it is read at an address; `own` is what the workflow was started with."""
        inputs = [place.input[0] for place in self._reached if place.input and not place.is_beside(address)]
        return [own, *self._begun_with, *inputs][-1]

    @property
    def next_input(self) -> list[JSON]:
        """The run's input for the next history of this workflow, in a list; [] where it stays."""
        return next((place.input for place in reversed(self._reached) if place.input), self._begun_with)
