"""Descriptions that a step kind gives of itself: words for `explain`, a drawing for `graph`, and its cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from holdfast.blueprint.json_values import JSONObject
from holdfast.blueprint.kinds.agents import Agent
from holdfast.blueprint.words.amounts import Amount
from holdfast.blueprint.words.text import Vocabulary

if TYPE_CHECKING:
    from holdfast.blueprint.kinds import AnyStep

PREVIOUS = "{{ previous_step }}"
"""The input of a step whose author gives none."""
RESCUE = ("retry", "edit", "skip", "abort")
"""The choices of a person about a failure."""
MORE = ("more", "finish", "fail")
"""The choices of a person at a limit."""


@dataclass(frozen=True)
class Ask:
    """A question that a run may ask; `step` and `at` are its step's name and number in the explanation."""

    kind: str
    message: str | None = None
    """The message in words; None if only the run knows it."""
    choices: tuple[str, ...] = ()
    who: tuple[str, ...] = ("anyone",)
    quorum: int | str = 1
    """Of a template, as of the other times here: what it says, in words."""
    by: float | str | None = None
    """Seconds after the question is asked."""
    on_timeout: str | None = None
    on_decline: str | None = "fail"
    remind_every: float | str | None = None
    step: str = ""
    at: str = ""

    def at_step(self, step: str, at: str) -> Ask:
        return replace(self, step=step, at=at)

    def to_json(self) -> JSONObject:
        fields = asdict(self)
        return {"step": fields.pop("step"), "at": fields.pop("at"), **fields}


@dataclass(frozen=True)
class NestedSteps:
    """Steps nested in a step, with the title above them."""

    title: str
    steps: Sequence[AnyStep]
    names: Vocabulary
    label: str | None = None
    """The name of a branch, for a drawing; None if the steps are drawn without a frame of their own."""
    key: str | None = None
    """The key of a branch; None if it has none, such as a default."""
    waits: Mapping[str, Sequence[str]] | None = None
    """The steps that each one follows, by their names; None if each follows the one before it."""


@dataclass(frozen=True)
class AgentUse:
    """The use of an agent by a plan."""

    agent: str | Agent | None
    """None for the default model."""
    owner: str
    """The name to use if the agent has none of its own."""
    tools: tuple[str, ...] = ()
    """The tools it calls; if empty, it works in turns."""
    driven: bool = False
    """True if an agent drives the plan and so asks on behalf of its steps."""
    read: bool = False
    """True if the plan is known only when it runs."""


@dataclass(frozen=True)
class StepDescription:
    """The description of a step: its sentences, and all that a page collects from it."""

    text: str
    inner: tuple[NestedSteps, ...] = ()
    asks: tuple[Ask, ...] = ()
    calls: bool = False
    """True if it calls a tool, which may ask questions of its own."""
    work: AgentUse | None = None
    """The agent that drives a plan, works on a step of it, or on one that is known only when it runs; of other steps
    `agents()` says which work."""
    unless_covered: str = ""
    """A sentence that is left out where each value by which the step decides has a branch."""


Shape = Literal["end", "question", "condition", "agent", "tool", "plain", "fork", "store"]


@dataclass(frozen=True)
class Drawing:
    """A step in a flowchart: its node, and the way through the steps inside it."""

    shape: Shape = "plain"
    lines: Sequence[str] = ()
    """The lines of the node's label; the name and the condition are above them unless it is framed."""
    framed: bool = False
    """The node and the steps inside stand in a frame, which has the step's name."""
    title: str = ""
    """A line below the name of the frame."""
    counts: str = ""
    """The word for a repetition, whose last number in a run is shown in the title of the frame."""
    confirms: str = ""
    """A question to a person before the node of a frame."""
    enters: str = ""
    """The label of the edge from the node to the steps inside."""
    skips: str | None = None
    """The label of an edge that goes on from the node itself; None if all ways lead through the steps inside."""
    repeats: Literal["", "node", "body"] = ""
    """Where the steps inside lead: on, back to the node before them, or to a node after them that may start again."""
    helper: str = ""
    """The label of the edge to the step's agent, drawn beside it; "" where the node is the agent, or there is none."""
    alone: bool = False
    """Nothing is drawn beside the node."""
    begins: str = ""
    """Of a machine: its first state; the states are the labelled lists of steps inside."""
    transitions: Mapping[str, Sequence[tuple[str, str]]] = field(default_factory=dict)
    """Of a machine: the ways out of each state, each with its label and where it leads."""
    ends: Sequence[str] = ()
    """Of a machine: the names at which it ends."""
    last: str | None = None
    """The label of the steps inside that come after the others."""
    asks: str = ""
    """The name of the questions that a person beside the node of a frame is asked."""


@dataclass(frozen=True)
class Cost:
    """The model requests of a step: its own, and those of the steps inside it, times their number of repetitions."""

    own: Amount = Amount()
    times: int | None = 1
    """None if nothing bounds the number; `why` says why."""
    why: str = ""
    alternatives: bool = False
    """Only one of the blocks runs."""
    includes_agents: bool = False
    """The requests of the step's agents are among its own."""
    turns: int | None = None
    """The turns of a planner."""
    each: tuple[str, int] | None = None
    """In place of `times`: once for each item of a list, with the name to call it by and the most items."""

    def over(self, amount: Amount) -> Amount:
        """Return an amount so many times."""
        return amount.times(self.times, self.why) if self.each is None else amount.for_each(*self.each)
