"""The events of a run, one class each: workflows raise them, clients read them.

On the wire an event is `{offset, time, type, address, data}`. The class of `data` follows from `type`, so what is
raised and what is read cannot differ. To add an event, write its class.

A field of type `object` holds a JSON value. Of a value of more than 256 characters the journal keeps the beginning of
its text, whatever the value was: a list of names may be a text, too. Why something failed is kept up to 4,000.
"""

from collections.abc import Collection
from datetime import datetime
from typing import ClassVar, Literal, Unpack

from pydantic import ConfigDict, SerializeAsAny, ValidationError, ValidationInfo, field_validator

from holdfast.protocol.address import Address
from holdfast.protocol.values import Value

Names = list[str] | str
LONGEST_VALUE = 256
"""Characters up to which a value stands whole in an event."""
LONGEST_TEXT = 4_000
"""Characters up to which a text stands whole that nothing else has: why something failed, what an agent was told."""


EVENT_TYPES: dict[str, type["EventData"]] = {}
"""The classes of events by their types."""


class EventData(Value):
    """The base class of the data of all events. A class without a `type` is a base of several."""

    type: ClassVar[str]
    long_texts: ClassVar[Collection[str]] = ("message", "reason", "note", "text", "traceback")
    """Fields that stand whole up to `LONGEST_TEXT`."""

    def __init_subclass__(cls, *, type: str = "", **config: Unpack[ConfigDict]) -> None:
        super().__init_subclass__(**config)
        cls.type = type
        if type:
            EVENT_TYPES[type] = cls

    def to_json(self) -> dict[str, object]:
        """Return the fields that have a value, those of a newer version too."""
        # The dump leaves out fields that the class does not declare.
        return {**self.model_dump(mode="json", exclude_none=True), **(self.model_extra or {})}


def is_beginning(value: object) -> bool:
    """Return whether a value of an event is only the beginning of what it was noted of."""
    return isinstance(value, str) and len(value) == LONGEST_VALUE + 1 and value.endswith("…")


class RunStarted(EventData, type="run.started"):
    blueprint: str
    digest: str
    by: str | None = None
    """Who started it."""
    past: str | None = None
    """The run that it goes on from."""
    past_by: str | None = None
    """Who goes on from it."""


class RunCompleted(EventData, type="run.completed"):
    output: object = None


class RunFailed(EventData, type="run.failed"):
    error: str
    message: str
    at: str
    """Address of the failure."""
    reason: str | None = None


class RunCancelled(EventData, type="run.cancelled"):
    pass


class RunPaused(EventData, type="run.paused"):
    pass


class RunResumed(EventData, type="run.resumed"):
    pass


class StepEvent(EventData):
    """The base class of the events of a step's start and end."""

    name: str
    kind: str
    title: str | None = None
    """What a step or a loop of a plan does, where this may be its first event."""


class StepStarted(StepEvent, type="step.started"):
    pass


class StepCompleted(StepEvent, type="step.completed"):
    output: object = None


class StepSkipped(StepEvent, type="step.skipped"):
    when: str | None = None
    """The condition that did not hold."""
    reason: str | None = None
    """Why, if it was not the condition."""


class StepFailed(StepEvent, type="step.failed"):
    error: str
    message: str
    traceback: str | None = None
    """The end of the traceback in the code that the step called."""
    raised_at: str | None = None
    """File, line and function in that code, of a failure that comes without its traceback."""


class StepRetrying(EventData, type="step.retrying"):
    tool: str | None = None
    instead_of: str | None = None
    """The tool that was missing."""
    error: str | None = None
    message: str | None = None


class ChildStarted(EventData):
    """The base class of the events that announce a child workflow."""

    workflow: str
    """The child's id."""


class LoopStarted(ChildStarted, type="loop.started"):
    pass


class AgentStarted(ChildStarted, type="agent.started"):
    pass


class MapStarted(ChildStarted, type="map.started"):
    pass


class ClarifyStarted(ChildStarted, type="clarify.started"):
    pass


class PlanStarted(ChildStarted, type="plan.started"):
    pass


class OwnChildStarted(ChildStarted, type="child.started"):
    """A child workflow of the author's own."""


class StepUndoing(EventData, type="step.undoing"):
    """What the step did is about to be undone."""

    tool: str
    number: int
    """Of those that are undone together, from 1."""
    total: int


class StepUndone(EventData, type="step.undone"):
    """What the step did was undone; with an error it could not be."""

    tool: str
    error: str | None = None
    message: str | None = None


class DeadlinePassed(EventData, type="deadline.passed"):
    """The deadline of a run, a loop or a block has ended it."""

    until: datetime


class LoopIteration(EventData, type="loop.iteration"):
    """The start of an iteration."""

    iteration: int
    item: object = None
    """For a loop of a plan."""


class StateLeft(EventData, type="state.left"):
    """A transition of a machine."""

    state: str
    next: str
    """The state or the end that follows."""
    value: object = None
    """The value that chose it."""


class LoopCompleted(EventData, type="loop.completed"):
    reason: str
    iterations: int
    output: object = None
    expression: str | None = None
    """The exit condition that was tested last."""
    value: object = None
    """The value of that condition."""


class ItemStarted(EventData, type="item.started"):
    index: int
    total: int | None = None
    """Number of items of the map."""
    label: str | None = None
    """What people read of the item, if the author says it."""


class ItemCompleted(EventData, type="item.completed"):
    index: int
    output: object = None
    error: str | None = None
    message: str | None = None


class BranchStarted(EventData, type="branch.started"):
    branch: str


class BranchCompleted(EventData, type="branch.completed"):
    branch: str
    error: str | None = None
    message: str | None = None


class BranchSuperseded(EventData, type="branch.superseded"):
    """The end of a branch that lost: others came first, and what was under way in it is cancelled."""

    branch: str


class ModelRequested(EventData, type="model.requested"):
    model: str


class ModelReplied(EventData, type="model.replied"):
    tokens: int
    cost_usd: float | None = None
    """None: the price is not known."""
    finish: str
    """How the reply ended; see `agents.Finish`."""


class ModelUsed(EventData, type="model.used"):
    """Requests to models that a tool or a function has made by itself, as it has reported."""

    requests: int
    tokens: int
    cost_usd: float | None = None
    """None: the price is not known."""


class AgentCompleted(EventData, type="agent.completed"):
    turns: int
    output: object = None


class AgentTold(EventData, type="agent.told"):
    """A person's message to an agent."""

    text: str
    by: str | None = None


class AgentShortened(EventData, type="agent.shortened"):
    """Turns that the model of an agent is not sent any more, or that a loop has dropped from its conversation."""

    turns: int
    reason: Literal["rule", "size", "model"]
    """`rule`: the author's; `size`: no request can hold more; `model`: its model takes no more."""
    summarized: bool = False
    """A summary stands in their place."""


class ToolCalled(EventData, type="tool.called"):
    tool: str


class ToolReturned(EventData, type="tool.returned"):
    tool: str
    result: object = None


class ToolDenied(EventData, type="tool.denied"):
    tool: str
    reason: str


class ToolFailed(EventData, type="tool.failed"):
    tool: str
    error: str
    message: str
    traceback: str | None = None
    """The end of the traceback in the code of the tool."""


class QuestionEvent(EventData):
    """The base class of the events of a question."""

    id: str


class QuestionAsked(QuestionEvent, type="question.asked"):
    long_texts: ClassVar[Collection[str]] = ()
    kind: str
    message: str
    assignees: Names | None = None


class QuestionReminded(QuestionEvent, type="question.reminded"):
    n: int
    assignees: Names | None = None


class QuestionEscalated(QuestionEvent, type="question.escalated"):
    assignees: Names


class QuestionMoved(QuestionEvent):
    """The base class of the events that change whom an open question waits for, by a person's command."""

    by: str | None = None
    comment: str | None = None


class QuestionClaimed(QuestionMoved, type="question.claimed"):
    """Until then nobody else may answer. No event tells that the time has passed."""

    until: datetime


class QuestionReleased(QuestionMoved, type="question.released"):
    pass


class QuestionDelegated(QuestionMoved, type="question.delegated"):
    to: str
    assignees: Names
    """All who may answer now."""


class QuestionReassigned(QuestionMoved, type="question.reassigned"):
    assignees: Names


class QuestionReplied(QuestionEvent):
    """The base class of the events of an answer, or of an end without one."""

    by: str | None = None
    content: object = None
    comment: str | None = None
    key: str | None = None
    digest: str | None = None
    """Of the answer under the key."""
    proved_by: str | None = None
    """What proves `by`, of the token that came with it: see `guard.Proof`; `nothing` without one."""
    groups: Names | None = None
    """The groups that the sign-in proved."""
    unseen: bool | None = None
    """True for a consent that does not say by a digest what was shown."""

    @property
    def people(self) -> list[str]:
        """Who replied; of an answer that needed several all who gave one, in their order."""
        return [self.by] if self.by else []


class QuestionMet(QuestionReplied, type="question.met"):
    """A question that is not asked, as it was closed in the run that this one goes on from; `id` is the one there."""

    status: str
    at: datetime
    secret: bool | None = None
    """True for a secret; `content` is then a reference."""


class QuestionAccepted(QuestionReplied, type="question.accepted"):
    """An answer below the quorum: the question stays open."""

    so_far: int
    quorum: int


class QuestionClosed(QuestionReplied):
    """The base class of the events that close a question."""

    default: object = None
    """The value taken for an answer that did not come in time."""
    secret: bool | None = None
    """True for a secret; `content` is then a reference."""
    accepted_by: Names | None = None


class QuestionAnswered(QuestionClosed, type="question.answered"):
    @property
    def people(self) -> list[str]:
        """See base class."""
        before = self.accepted_by if isinstance(self.accepted_by, list) else []
        return list(dict.fromkeys([*before, *super().people]))


class QuestionDeclined(QuestionClosed, type="question.declined"):
    pass


class QuestionExpired(QuestionClosed, type="question.expired"):
    pass


class QuestionCancelled(QuestionClosed, type="question.cancelled"):
    pass


class QuestionSuperseded(QuestionClosed, type="question.superseded"):
    """Its branch has lost, so that nobody needs to answer any more."""


class QuestionVerified(QuestionEvent, type="question.verified"):
    """The verdict of an agent on an answer: it stands, or the question is asked again."""

    verified: bool
    """False also for an answer that stands because it may not be given back any more, or the agent has failed."""
    given_back: bool
    reason: str | None = None
    agent: str | None = None
    """Name of the agent, if it has one."""


class QuestionReturned(QuestionEvent, type="question.returned"):
    """The answer could not be used by what asked: it was given back, and the question is asked again."""

    reason: str


class TimerStarted(EventData, type="timer.started"):
    """The begin of a wait for a moment; the end of its step ends it."""

    until: datetime


class WorkflowStarted(EventData, type="workflow.started"):
    """The start of a workflow that is no part of the run: it is not asked for events."""

    workflow: str
    """Its id."""
    name: str


class WorkflowSignalled(EventData, type="workflow.signalled"):
    workflow: str
    signal: str


class SystemEventData(EventData):
    """The base class of what happens to an event of another system that came before any step waited for it."""

    id: str
    name: str
    key: str


class EventKept(SystemEventData, type="event.kept"):
    pass


class EventDropped(SystemEventData, type="event.dropped"):
    """It was kept for a day, or the step that waits for it does not take its payload."""


class PlanCompleted(EventData, type="plan.completed"):
    status: str
    note: str | None = None


class PlanRevised(EventData, type="plan.revised"):
    revision: int
    by: str | None = None
    reason: str | None = None


class CacheWasHit(EventData, type="cache.hit"):
    key: str


class CacheFailed(EventData, type="cache.failed"):
    message: str


class LimitReached(EventData, type="limit.reached"):
    limit: str
    message: str


class UnknownEvent(EventData):
    """The data of an event that only a newer version knows, as it came."""

    model_config = ConfigDict(extra="allow")


CLOSING_TYPES = tuple(class_.type for class_ in EVENT_TYPES.values() if issubclass(class_, QuestionClosed))
"""The types of the events that close a question."""


class Event(Value):
    """An entry of the journal of one workflow."""

    offset: int
    """Contiguous over continue-as-new."""
    time: datetime
    type: str
    address: Address
    data: SerializeAsAny[EventData]

    @field_validator("data", mode="plain")
    @classmethod
    def _read(cls, data: object, info: ValidationInfo) -> EventData:
        """Return the data as the class of its type; as an unknown event where they do not fit each other.

        A newer worker may know more types, and more fields of a type: both are kept.
        """
        if isinstance(data, EventData):
            return data
        try:
            return EVENT_TYPES[info.data["type"]].model_validate(data, extra="allow")
        except (KeyError, ValidationError):
            return UnknownEvent.model_validate(data)

    def to_json(self) -> dict[str, object]:
        """Return the event without the fields that have no value; those of a newer version stay."""
        return {**self.model_dump(mode="json", exclude={"data"}), "data": self.data.to_json()}
