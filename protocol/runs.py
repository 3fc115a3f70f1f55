"""How a run is started, watched and steered: names, workflow arguments, events, views."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from blueprint.grammar import Agent, AgentTool, Blueprint, Limits, Retry
from protocol.address import Address
from protocol.agents import Message, ToolSpec, Usage
from protocol.answers import Closed
from protocol.questions import Question
from protocol.values import Value

TASK_QUEUE = "holdfast"
PIPELINE_WORKFLOW = "Pipeline"
LOOP_WORKFLOW = "Loop"
AGENT_WORKFLOW = "Agent"
MAP_WORKFLOW = "Map"
CLARIFY_WORKFLOW = "Clarify"

ANSWER = "answer"
PAUSE = "pause"
RESUME = "resume"
TELL = "tell"
VIEW = "view"
EVENTS = "events"
CONTEXT = "context"

BORN = ("loop.started", "agent.started", "map.started", "clarify.started", "plan.started")
"""Events that tell of a child workflow, whose id is in their data."""

BLUEPRINT_ATTRIBUTE = "HoldfastBlueprint"
WAITING_ATTRIBUTE = "HoldfastWaitingFor"

PAGE_BYTES = 12 * 1024
LONGEST_RUN_ID = 100

Status = Literal["running", "waiting", "paused", "completed", "failed", "cancelled"]


def summary_of(text: str) -> str:
    """A summary for Temporal's UI, cut to what the server takes.

    >>> len(summary_of("é" * 300).encode())
    200
    """
    return text.encode()[:200].decode(errors="ignore")


class Budget(Value):
    """Limits of somebody, and what was spent of them."""

    limits: Limits
    of: str
    """Whose they are, for people: `the run`, `agent boss`."""
    whole_run: bool = False
    """Whether they are the run's own: then nothing handles it when they are used up."""
    share: dict[str, float] | None = None
    """Of a branch: how much of each limit is its own."""
    spent: Usage = Usage()


class Definition(Value):
    """What a run or a loop executes; it never changes while it runs."""

    blueprint: Blueprint
    run: str
    guarded: bool = False
    """Whether answers need a token, so that signals are refused."""
    started_by: str | None = None
    """Of what runs inside a run: who started the run, whose own state says it."""


class PipelineState(Value):
    """What a run starts with."""

    input: Any = None
    started_by: str | None = None


class ChildDefinition(Definition):
    """A blueprint of one step, with the agents and imports that it uses and the names that it reads."""

    address: Address
    input: Any = None
    steps: dict[str, Any] = {}
    names: dict[str, Any] = {}


class Carried(Value):
    """What every workflow inside a run begins with: from the one above it, or from its own earlier history."""

    paused: bool = False
    permits: list[str] = []
    """Tools that a person allowed for the rest of the run."""
    budgets: list[Budget] = []
    usage: Usage = Usage()
    closed: list[Closed] = []
    next_offset: int = 0
    previous_run: str | None = None


class LoopDefinition(ChildDefinition):
    """A loop."""


class MapDefinition(ChildDefinition):
    """Some of a map's items: all of them, or a page."""

    items: list[Any]
    first: int = 0
    """The first item's index in the map."""
    n: int = 1
    iteration: int | None = None
    pages: Address | None = None
    """Of a page: where it stands below the map."""


class MapState(Carried):
    """What a map or a page of it starts with."""

    context: dict[str, Any] = {}
    resume_input: Any = None


class Change(Value):
    """A path of the context that an item has changed."""

    path: list[str]
    value: Any = None
    gone: bool = False


class MapResult(Value):
    """What the items gave, in their order."""

    outputs: list[Any]
    context: dict[str, Any] = {}
    changes: list[Change] = []
    """Of items that ran at once: what they changed, in the place of a context."""
    usage: Usage = Usage()
    permits: list[str] = []
    budgets: list[Budget] = []


class ClarifyDefinition(ChildDefinition):
    """What is to be made clear: the step is the blueprint's only one; goal and known facts are rendered."""

    goal: str
    known: dict[str, Any] = {}
    instructions: str = ""
    place: str = ""
    n: int = 1
    iteration: int | None = None


class ClarifyState(Carried):
    """Where a clarification starts."""


class ClarifyResult(Value):
    """What became clear."""

    output: dict[str, Any]
    usage: Usage = Usage()
    permits: list[str] = []
    budgets: list[Budget] = []


class LoopState(Carried):
    """Where a loop stands between two iterations; continue-as-new passes it on."""

    iteration: int = 0
    """Iterations completed."""
    context: dict[str, Any] = {}
    input: Any = None
    """What the next iteration gets."""
    output: Any = None
    """What the last iteration gave."""
    resume_input: Any = None
    """The last human answer in the loop."""
    granted: int = 0
    """Iterations beyond `max_loops` that a person granted."""


class LoopResult(Value):
    """How a loop ended."""

    output: Any = None
    context: dict[str, Any] = {}
    reason: str
    iterations: int
    usage: Usage = Usage()
    permits: list[str] = []
    budgets: list[Budget] = []
    """With what a person granted."""


class AgentDefinition(Definition):
    """A blueprint that holds the agents and imports which one agent may use, and what this one is told."""

    address: Address
    agent: Agent
    name: str | None = None
    """Its name in the blueprint, if it has one."""
    step: str
    """Whose request it is, for scripted models."""
    instructions: str = ""
    input: Any = None
    """The first message."""
    place: str = ""
    n: int = 1
    """Which of the enclosing iterations."""
    iteration: int | None = None
    names: dict[str, Any] = {}
    """What its agents' instructions read."""
    registry: list[AgentTool] | None = None
    """Of an agentic loop's planner, whose turns are commands: what these may run."""
    timeout: float | None = None
    retry: Retry | None = None


class Command(Value):
    """One entry of an agentic loop's log, written when the command is done."""

    turn: int
    command: str
    args: Any = None
    result: Any = None
    """Values of more than 2,000 characters are kept as the beginning of their text."""


class Told(Value):
    """What a person tells an agent for its next turn."""

    text: str
    by: str | None = None


class AgentState(Carried):
    """Where an agent stands between two turns; continue-as-new passes it on."""

    turn: int = 0
    """Model requests so far."""
    messages: list[Message] = []
    tools: list[ToolSpec] | None = None
    """What the model is told of; None before the tools were described."""
    call_ids: list[str] = []
    """Ids that tool calls had; an address is never used twice."""
    calls: int = 0
    surplus: int = 0
    """Of the calls, those above what one turn may make: they were not made, and use nothing up."""
    bad_calls: int = 0
    """Calls in a row that could not be made: an unknown tool, arguments that do not fit."""
    misfits: int = 0
    """Outputs in a row that did not fit the schema."""
    recent: list[str] = []
    """Digests of the last calls, for the repeated-call guard."""
    log: list[Command] = []
    told: list[Told] = []


class AgentResult(Value):
    """What an agent gave."""

    output: Any = None
    turns: int = 0
    log: list[Command] = []
    usage: Usage = Usage()
    permits: list[str] = []
    budgets: list[Budget] = []


class RunResult(Value):
    """What a run gives."""

    output: Any = None
    context: dict[str, Any] = {}


class Failure(Value):
    """Why a run, a loop or a step failed, and where: the details of every typed failure."""

    type: str
    message: str
    address: str = ""
    reason: str | None = None
    final: bool = False
    """Whether `on_error` may not handle it."""
    context: dict[str, Any] | None = None
    """Of a loop: the context of its completed iterations."""
    output: Any = None
    """Of a plan: what its steps gave all the same."""
    usage: Usage = Usage()


class Event(Value):
    """Something that happened in a workflow of a run; offsets are contiguous over continue-as-new."""

    offset: int
    time: datetime
    type: str
    address: Address
    data: dict[str, Any] = {}


class RefusedSignal(Value):
    """A signal that was not taken."""

    at: datetime
    question: str | None = None
    by: str | None = None
    code: str
    message: str


class WorkflowView(Value):
    """What one workflow of a run knows of itself; the client walks the children."""

    run: str
    workflow: str
    address: Address
    blueprint: str
    blueprint_digest: str = ""
    status: Status = "running"
    iteration: int | None = None
    questions: list[Question] = []
    more_questions: int = 0
    """Open questions that did not fit on this page; ask again with an offset."""
    children: list[str] = []
    moving: bool = False
    """Whether an activity is under way."""
    hears: bool = False
    """Whether an agent takes its turns here, and hears what people tell it."""
    refused: list[RefusedSignal] = []
    usage: Usage = Usage()
    first_offset: int = 0
    next_offset: int = 0
    temporal_run: str = ""
    """Temporal's id of this run of the chain, and of the one before it."""
    previous_run: str | None = None
