"""What an earlier run did, for the run that goes on from it: calls, replies and children that are met, not made again.

A client makes a `Past` of Temporal's histories and of the query `past`; the workflows of the new run read it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Literal

from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.protocol.address import Address, is_inside, parts, segment
from holdfast.protocol.values import Value, make_digest

PAST = "past"
"""The query for what was replied to a workflow, and what it has done without a call."""
POLICY = ("timeout", "retry", "limits")
"""Fields of a request or a step that do not say what is asked: they may change between two runs."""
ASKED_OF_CHILD = ("blueprint", "address", "agent", "input", "steps", "names", "items", "goal", "known", "messages")
"""Fields of a child's definition that say what it is to do."""
BEGUN_WITH = ("context", "input", "resume_input")
"""Fields of the state that a child begins with that matter to what it does."""


class PastFailure(Value):
    """The failure of a call or a child."""

    type: str
    message: str
    details: list[JSON] = []
    followed: bool = False
    """True of a local call after which an ordinary one was made."""


class PastCall(Value):
    """A call of an activity.

    A completed one gives its result, one that failed for good its failure. `begun` was handed out, and it is not known
    how it ended. `again` has failed, and is made again: a graph goes on from its last checkpoint. `left` was cancelled
    before the run went on: what waits for it is cancelled again.
    """

    status: Literal["completed", "failed", "begun", "again", "left"]
    request: str
    """See `digest_request`; empty for a local call, of which the history has the result alone."""
    address: str = ""
    """Of the step that made it, where its request says so."""
    made_in: str = ""
    """Of one that is made again: Temporal's id of the history that has it."""
    answered: list[str] = []
    """Of a tool that was interrupted: the paths whose answers this call was the first to get."""
    result: JSON = None
    failure: PastFailure | None = None


class PastReply(Value):
    """The end of a question, as a workflow had it; see `replies.Reply` for the fields."""

    address: Address
    round: int = 1
    status: Literal["answered", "declined", "cancelled", "expired", "superseded"]
    content: JSON = None
    by: str | None = None
    comment: str | None = None
    proved_by: str | None = None
    groups: list[str] | None = None
    unseen: bool | None = None
    question: str = ""
    digest: str = ""
    """Of the question as it was asked; empty where it does not matter."""
    at: datetime
    answers: list[JSONObject] = []
    left: bool = False
    """True if nobody ended it: what asked it was cancelled."""


class PastWaits(Value):
    """The answer of a workflow to the query `past`: a page of what it waited for in this history."""

    replies: list[PastReply] = []
    done: list[Address] = []
    """Where a timer passed or a signal was delivered, once for each time; on the first page only."""
    broken_blocks: list[Address] = []
    """Blocks that had failed or were cancelled when their last steps began; on the first page only."""
    met: list[str] = []
    """The ids of the calls and children of an earlier run that it met; on the first page only."""
    more: int = 0
    """Number of replies behind this page."""


class PastChild(Value):
    """A child workflow; an `open` one is gone through again, and meets its own past."""

    workflow: str
    """Its id in the earlier run."""
    status: Literal["completed", "failed", "left", "open"]
    request: str = ""
    """See `digest_child`; empty for a workflow of the author's own."""
    result: JSON = None
    failure: PastFailure | None = None
    past: Past | None = None
    changed: list[Address] = []
    """Places inside it at which values were changed in the earlier run: it takes them there, and met them."""


class ResumePoint(Value):
    """Where a run goes on from another one: what stands before it, in the same line, must be what that one did."""

    address: Address
    """Of a step, of an iteration of a loop, of an item of a map, or of a branch."""
    lines: list[Address] = []
    """The maps around it whose items run one after the other; those of others are independent of each other."""
    independent: list[Address] = []
    """The steps of lists around it that neither need it nor are needed by it, in lists that say what steps need."""

    def is_beside(self, address: str) -> bool:
        """Return whether what stands at an address is independent of the place: another branch, item or such a step.

        >>> place = ResumePoint(address=Address("pipeline:p;parallel:x;branch:a;step:s"))
        >>> place.is_beside("pipeline:p;parallel:x;branch:b;step:t"), place.is_beside("pipeline:p;step:end")
        (True, False)
        """
        if any(is_inside(address, step) for step in self.independent):
            return True
        there, here = address.split(";"), self.address.split(";")
        for depth, (one, other) in enumerate(zip(there, here, strict=False)):
            if one == other:
                continue
            (kind, name, _), (own_kind, own_name, _) = parts(one)[0], parts(other)[0]
            if kind == own_kind == "branch":
                return True
            whole = ";".join([*here[:depth], segment(own_kind, own_name)])
            return kind == own_kind == "map" and name == own_name and whole not in self.lines
        return False

    def is_around(self, address: str) -> bool:
        """Return whether an address is the place, or inside it."""
        return is_inside(address, self.address)


class Fork(ResumePoint):
    """The place from which on a run does not meet what the earlier run did: it calls, asks and waits."""

    changes: dict[str, JSON] = {}
    """What is written into the context there, by path."""
    input: list[JSON] = []
    """The run's input from there on, in a list; [] where it stays."""


class Past(Value):
    """What one workflow of the earlier run did."""

    run: str
    """The earlier run."""
    by: str | None = None
    """Who goes on from it; of the run's own workflow only."""
    state: JSONObject | None = None
    """The state that its last history began with, where it had continued as new: the new workflow begins with it."""
    calls: dict[str, PastCall] = {}
    """By the ids of the activities, which follow from address and occurrence."""
    children: dict[str, list[PastChild]] = {}
    """By address, in the order of their starts: a step that ran again had another one."""
    replies: list[PastReply] = []
    done: list[Address] = []
    orders: dict[Address, list[str]] = {}
    """By the address of a step the branches in the order in which they ended, where that is not the declared one."""
    fork: Fork | None = None
    """Where it is met no more, if that is in this workflow or below it."""
    request: str = ""
    """See `digest_child`; of a child."""
    changed: list[Fork] = []
    """Where the earlier run was begun with changed values, as those that it goes on from: they are changed again."""
    input: list[JSON] = []
    """The changed input of the run that its last history began with, in a list; [] where it was not changed."""
    until: ResumePoint | None = None
    """For a retry with another blueprint: up to where that must do the same, if that is here or below."""

    @property
    def place(self) -> ResumePoint | None:
        """Where the run goes on, if that is in this workflow or below it."""
        return self.fork or self.until


def digest_request(activity: str, request: Mapping[str, JSON]) -> str:
    """Return the digest of a request to an activity: whether two runs ask for the same.

    Args:
        activity: The activity's name.
        request: The request as JSON, as it stands in a history.
    """
    asked: JSONObject = {key: value for key, value in request.items() if key not in (*POLICY, "begun", "made_in")}
    return make_digest(activity, _drop_run(asked))


def write_local_id(id_: str, address: str, answered: Sequence[str]) -> str:
    """Return the id that a local call has in a history, which keeps no request of it.

    >>> write_local_id("1f", "pipeline:p;step:a", ["level:seat"])
    '1f pipeline:p;step:a\\n["level:seat"]'
    """
    place = f"{id_} {address}"
    return f"{place}\n{json.dumps(list(answered))}" if answered else place


def read_local_id(text: str) -> tuple[str, str, list[str]]:
    """Return id, address and the paths of the answers that `write_local_id` was given.

    >>> read_local_id(write_local_id("1f", "pipeline:p;step:a", ["level:seat"]))
    ('1f', 'pipeline:p;step:a', ['level:seat'])
    """
    place, _, answered = text.partition("\n")
    id_, _, address = place.partition(" ")
    return id_, address, json.loads(answered or "[]")


def digest_child(definition: JSONObject, state: JSONObject) -> str:
    """Return the digest of what a child is to do: whether two runs start the same one.

    Args:
        definition: Its first argument, as it stands in a history.
        state: Its second one.
    """
    asked = {key: _drop_policy(definition[key]) for key in ASKED_OF_CHILD if key in definition}
    return make_digest(asked, {key: state[key] for key in BEGUN_WITH if key in state})


def _drop_policy(value: JSON) -> JSON:
    match value:
        case dict():
            return {key: _drop_policy(inner) for key, inner in value.items() if key not in POLICY}
        case list():
            return [_drop_policy(inner) for inner in value]
    return value


def _drop_run(request: JSONObject) -> JSONObject:
    """Return a request without the workflow's id, which an agent object has beside its reference."""
    return {
        key: {name: part for name, part in value.items() if name != "run"}
        if key == "use" and isinstance(value, dict)
        else _drop_run(value)
        if key == "of_agent" and isinstance(value, dict)
        else value
        for key, value in request.items()
    }
