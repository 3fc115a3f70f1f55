"""The steps of a run as everybody shows them: terminal, pages, `--json`, the API. `client.trace` makes them of events.

A view says in what state a step is, how long it took and what models took for it, what came before what is shown, and
which questions are open in it. Words, glyphs and lengths of text are the surface's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Literal, NamedTuple

from holdfast.blueprint.json_values import JSONObject
from holdfast.blueprint.step_traits import find_traits
from holdfast.protocol.address import find_opaque
from holdfast.protocol.questions import Question
from holdfast.protocol.tracebacks import find_raise

if TYPE_CHECKING:
    from holdfast.protocol.events import AgentTold, LoopCompleted, PlanRevised, QuestionReplied

Mark = Literal[
    "running", "waiting", "paused", "completed", "failed", "cancelled", "undone", "superseded", "skipped", "denied"
]
STRONGEST: tuple[Mark, ...] = (
    "running",
    "waiting",
    "paused",
    "failed",
    "cancelled",
    "completed",
    "undone",
    "denied",
    "superseded",
    "skipped",
)
"""The mark of several steps is the first of these, the one that a reader looks for."""


class StepError(NamedTuple):
    """The error of a failed step or call."""

    type: str
    message: str
    traceback: str | None = None
    """The end of the traceback in the code that was called."""
    place: str | None = None
    """Where it was raised, of an error without a traceback."""

    @property
    def raised_at(self) -> str | None:
        """Return file, line and function of the innermost call in the author's code; None for none."""
        return self.place or find_raise(self.traceback or "")

    def to_json(self) -> JSONObject:
        """Return the JSON object of `show --json`."""
        place = {} if self.raised_at is None else {"raised_at": self.raised_at}
        return {"type": self.type, "message": self.message, **place}


class StepAnswer(NamedTuple):
    """An answer to a question of a step, or its end without one."""

    at: datetime
    reply: QuestionReplied

    def to_json(self) -> JSONObject:
        """Return who gave it, what proves that, and how the question ended; the content is the step's output."""
        status = self.reply.type.removeprefix("question.")
        proof = self.reply.model_dump(include={"by", "proved_by", "groups", "unseen", "comment"}, exclude_none=True)
        return {"at": self.at.isoformat(), "status": status, **proof}


class Spending(NamedTuple):
    """The cost of model requests."""

    requests: int = 0
    tokens: int = 0
    cost_usd: float | None = 0.0
    """None if the price of a reply is not known."""

    def __add__(self, other: object) -> Spending:
        """Return both together."""
        if not isinstance(other, Spending):
            return NotImplemented
        is_priced = None not in (self.cost_usd, other.cost_usd)
        cost = (self.cost_usd or 0.0) + (other.cost_usd or 0.0) if is_priced else None
        return Spending(self.requests + other.requests, self.tokens + other.tokens, cost)


class ItemCount(NamedTuple):
    """How far a map is with its items."""

    begun: int
    done: int
    total: int | None
    """None where no event has told it yet."""

    @property
    def count_known(self) -> int:
        """Return how many items there are; those that have begun, where no event has told it yet."""
        return self.begun if self.total is None else self.total


@dataclass(frozen=True)
class GroupView:
    """Steps inside a step: its own, those of an earlier plan, of a branch, of an iteration or of an item."""

    kind: Literal["own", "failed_plan", "branch", "iteration", "item"]
    steps: Sequence[StepView]
    mark: Mark
    branch: str = ""
    n: int = 0
    """The number of an earlier plan or an iteration, from 1, or of an item, from 0."""
    item: object = None
    """What a plan's loop works on."""
    label: str | None = None
    """What people read of an item of a map."""
    seconds: float | None = None
    spent: Spending = Spending()
    """What models took for it; nothing where some of it was not read."""
    error: StepError | None = None
    """For an item of a map that failed and did not end the map."""

    @property
    def repeats(self) -> bool:
        """True for an iteration or an item."""
        return self.kind in ("iteration", "item")

    def to_json(self) -> JSONObject:
        """Return an earlier plan, an iteration or an item as `show --json` has it."""
        item = {} if self.item is None else {"item": self.item}
        label = {} if self.label is None else {"label": self.label}
        return {"n": self.n, **item, **label, "steps": [step.to_json() for step in self.steps]}


@dataclass(frozen=True)
class StepView:
    """A step or a tool call, or the whole run, which is the root of its steps."""

    name: str
    kind: str
    address: str
    mark: Mark
    output: object = None
    error: StepError | None = None
    title: str | None = None
    """For a step of a plan."""
    reason: str | None = None
    """Why it was skipped or denied."""
    outcome: str | None = None
    """How a plan completed."""
    branch: str | None = None
    """The branch that a conditional took."""
    turn: int | None = None
    """Of a tool call: the turn of the agent that made it, from 1."""
    started: datetime | None = None
    seconds: float | None = None
    """How long it took, or has taken so far."""
    is_verified: bool | None = None
    """Whether an agent that checked the answer was content; None where none did."""
    until: datetime | None = None
    """For a timer: when it is over."""
    exit: LoopCompleted | None = None
    """How a loop ended."""
    requests: int = 0
    """Requests to models of the step itself."""
    spent: Spending = Spending()
    """What models took for it and everything in it; for the step itself where some of it was not read."""
    replies: Mapping[str, int] = field(default_factory=dict)
    """Number of model replies that were not finished, by the way they ended."""
    turns_left_out: int = 0
    """Turns of its conversation that its model is not sent any more."""
    revisions: Sequence[PlanRevised] = ()
    answers: Sequence[StepAnswer] = ()
    messages: Sequence[AgentTold] = ()
    """What people told the agent."""
    questions: Sequence[Question] = ()
    """The open ones that it asks itself."""
    groups: Sequence[GroupView] = ()
    workflow: str | None = None
    """Of a loop or a plan: its workflow."""
    earlier: int = 0
    """How many iterations or items stand before those in the groups."""
    items: ItemCount | None = None
    iterations_left_out: int = 0
    items_left_out: int = 0
    """How many of those that were read are left out."""
    is_lost: bool = False
    """Whether it stands in a branch that has lost a race."""

    @property
    def last_people(self) -> Sequence[str]:
        """Who gave the last answer: all who gave the same, where several had to agree."""
        if not self.answers:
            return ()
        last = self.answers[-1].reply
        alike = [one.reply.by for one in self.answers if (one.reply.id, one.reply.content) == (last.id, last.content)]
        return list(dict.fromkeys(by for by in alike if by))

    @property
    def is_place(self) -> bool:
        """Whether another run may begin here, as `fork` lets it."""
        return self.kind != "tool" and not self.is_lost and find_opaque(self.address) is None

    @property
    def status(self) -> str:
        """Its state, whether or not somebody is asked: of a run as it is, of a step that waits `running`."""
        return "running" if self.mark == "waiting" and self.kind != "pipeline" else self.mark

    @property
    def shown_kind(self) -> str | None:
        """Its kind; None where the name says enough."""
        return self.kind if find_traits(self.kind).shows_kind else None

    @property
    def is_cached(self) -> bool:
        """True if its result came from the cache."""
        return find_traits(self.kind).skips_known_results and self.mark == "completed" and not self.steps

    @property
    def waits_until(self) -> datetime | None:
        """When the timer is over that it waits for; None if it waits for none."""
        return self.until if self.status == "running" else None

    @property
    def steps(self) -> Sequence[StepView]:
        """Its own steps, which are in no branch, iteration or item."""
        return next((group.steps for group in self.groups if group.kind == "own"), ())

    @property
    def earlier_plans(self) -> list[GroupView]:
        """Those that failed, where the plan was made again, with their steps."""
        return [group for group in self.groups if group.kind == "failed_plan"]

    @property
    def repetitions(self) -> list[GroupView]:
        """Its iterations or items."""
        return [group for group in self.groups if group.repeats]

    @property
    def iterations(self) -> list[GroupView]:
        """Its iterations."""
        return [group for group in self.groups if group.kind == "iteration"]

    @property
    def map_items(self) -> list[GroupView]:
        """The items of a map."""
        return [group for group in self.groups if group.kind == "item"]

    @property
    def branches(self) -> list[GroupView]:
        """The branches that run at once."""
        return [group for group in self.groups if group.kind == "branch"]

    @property
    def children(self) -> list[StepView]:
        """The steps inside: those of earlier plans, its own, and those of branches, iterations and items."""
        return [step for group in self.groups for step in group.steps]

    def below(self) -> Iterator[StepView]:
        """Yield every step below this one, outer ones first."""
        for child in self.children:
            yield child
            yield from child.below()

    @property
    def open_questions(self) -> list[Question]:
        """The open questions of it and of everything below."""
        return [question for step in (self, *self.below()) for question in step.questions]

    def find(self, address: str) -> StepView | None:
        """Return the step at an address below this one; None if there is none, or it was left behind.

        Of several plans, one after the other, it is that of the last one.
        """
        return next((step for step in reversed(list(self.below())) if step.address == address), None)

    def cut_repetitions(self, back: int, size: int) -> StepView:
        """Return it with a page of its iterations or items: at most `size` before the last `back`."""
        last = max(len(self.repetitions) - back, 0)
        first = max(last - size, 0)
        return replace(self, groups=self.repetitions[first:last], earlier=self.earlier + first)

    def to_json(self) -> JSONObject:
        """Return the JSON object of `show --json`: of the fields that only some kinds have, those with a value."""
        whole = {"name": self.name, "kind": self.kind, "address": self.address, "status": self.status}
        result = (
            {} if self.kind == "pipeline" else {"output": self.output, "error": self.error and self.error.to_json()}
        )
        texts = {"title": self.title, "reason": self.reason, "outcome": self.outcome, "branch": self.branch}
        return {
            **whole,
            **result,
            **{key: text for key, text in texts.items() if text is not None},
            **self._details_json(),
            **self._inner_json(),
        }

    def _details_json(self) -> JSONObject:
        details: JSONObject = {}
        if self.exit is not None:
            details["exit"] = self.exit.model_dump(mode="json", include={"reason", "iterations", "expression", "value"})
        if self.is_verified is not None:
            details["verified"] = self.is_verified
        if self.until is not None:
            details["until"] = self.until.isoformat()
        if self.items is not None and self.items.total is not None:
            details["total"] = self.items.total
        if self.replies:
            details["replies"] = dict(self.replies)
        if self.turns_left_out:
            details["turns_left_out"] = self.turns_left_out
        if self.revisions:
            details["revisions"] = [revision.to_json() for revision in self.revisions]
        if self.answers:
            details["answers"] = [answer.to_json() for answer in self.answers]
        return details

    def _inner_json(self) -> JSONObject:
        inner: JSONObject = {}
        if self.earlier_plans:
            inner["earlier_plans"] = [plan.to_json() for plan in self.earlier_plans]
        if self.steps or self.branch is not None or self.kind in ("pipeline", "tool"):
            inner["steps"] = [step.to_json() for step in self.steps]
        if find_traits(self.kind).iterates:
            inner["iterations"] = [iteration.to_json() for iteration in self.iterations]
        if self.map_items:
            inner["items"] = [item.to_json() for item in self.map_items]
        if self.branches:
            inner["branches"] = {group.branch: [step.to_json() for step in group.steps] for group in self.branches}
        left_out = {"iterations_left_out": self.iterations_left_out, "items_left_out": self.items_left_out}
        return {**inner, **{key: count for key, count in left_out.items() if count}}
