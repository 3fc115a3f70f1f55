"""Arguments, states and results of the workflows inside a run, and the failure of each; they load the language.

Workflows use them, and the client where it reads a failure. What a run is started with is in `runs`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import Field, ValidationError

from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.blueprint.kinds import Agent, AgentTool, HistoryManagement, Undo
from holdfast.blueprint.parts import Limits, Retry
from holdfast.protocol.address import Address
from holdfast.protocol.agent_objects import ObjectUse
from holdfast.protocol.agents import MadeCall, Message, ReturnedCall, ToolSpec
from holdfast.protocol.answers import Closed
from holdfast.protocol.context import Change
from holdfast.protocol.incoming import KeptHint
from holdfast.protocol.ledger import LedgerEntry
from holdfast.protocol.people import CanonicalName
from holdfast.protocol.runs import Definition
from holdfast.protocol.usage import Usage
from holdfast.protocol.values import Value
from holdfast.protocol.views import RefusedSignal


class Budget(Value):
    """Limits and the consumption that is charged to them."""

    limits: Limits
    of: str
    """The owner of the limits, for people: `the run`, `agent boss`."""
    whole_run: bool = False
    """True for the limits of the run itself: no `on_error` handles a failure by these."""
    share: dict[str, float] | None = None
    """For a branch: its share of each limit, by name of the limit."""
    granted: dict[str, float] = {}
    """By name, how much of a limit people have granted beyond what its author wrote."""
    spent: Usage = Usage()


class ChildDefinition(Definition):
    """The definition of a child workflow: a blueprint of one step, with the agents, imports and names that it uses."""

    address: Address
    input: JSON = None
    """Value of `input` for the step."""
    steps: JSONObject = {}
    """Outputs of earlier steps that the step reads, by name."""
    names: JSONObject = {}
    """Values of the other names that the step reads."""


class PendingUndo(Value):
    """The undo of one step, with what its tool gets."""

    step: str
    address: Address
    """Of the step."""
    undo: Undo
    input: JSON = None
    problem: str | None = None
    """Why a person must decide whether and with what the tool is called."""


class HandedBack(Value):
    """The spending, counts and grants that a workflow hands to its parent or its next history, however it ends."""

    usage: Usage = Usage()
    permits: list[str] = []
    """Tools that a person allowed for the rest of the run."""
    budgets: list[Budget] = []
    """Including what a person granted."""
    request_counts: dict[str, int] = {}
    """Model requests so far, by step; a path precedes the step for requests of a branch, a map or an import."""
    speakers: dict[str, bool] = {}
    """For entries of the conversation whose text begins like one of the assistant's: by digest, True if it is one."""
    undos: list[PendingUndo] = []
    """How to undo what its steps have done, in the order in which they completed; for a block around it."""
    ledgers: dict[str, list[LedgerEntry]] | None = None
    """What plans did that have not completed, by their place; None: nothing is known."""


class Carried(HandedBack):
    """The state that every workflow inside a run begins with: from its parent, or by continue-as-new from itself."""

    paused: bool = False
    kept: list[KeptHint] = []
    """Events that the run keeps for steps that will wait for them."""
    closed: list[Closed] = []
    next_offset: int = 0
    """Offset of the next event; see `events.Event`."""
    previous_run: str | None = None
    """Temporal's run id of the history before continue-as-new."""
    refused: list[RefusedSignal] = []
    """For the record, which reads them from the view: signals have no other trace."""


class OwnState(Carried):
    """The state that an author's own workflow carries over continue-as-new, in its memo."""

    starts: dict[str, int] = {}
    """How often each id of a child was asked for."""


class ChildResult(HandedBack):
    """The result that every workflow inside a run returns beside its output."""

    cancelled: bool = False
    """True if it was cancelled, and only hands over what it did: Temporal keeps no result of a cancelled workflow."""


class LoopDefinition(ChildDefinition):
    """The definition of a loop."""


class MapDefinition(ChildDefinition):
    """The definition of a map, or of a page of its items."""

    items: list[JSON]
    first: int = 0
    """Index of the first item in the map."""
    total: int | None = None
    """Number of items of the map."""
    iteration: int | None = None
    pages: Address | None = None
    """For a page: its address below the map."""
    conversing: bool = False
    history_management: HistoryManagement | None = None
    left_out: int = 0
    """Turns that the conversation around it had before, as `LoopState.left_out`."""


class MapState(Carried):
    """The state that a map, or a page of it, starts with."""

    context: JSONObject = {}
    resume_input: JSON = None
    slots: int | None = Field(None, ge=1)
    """How many of a page's items may be under way at its start; None: as many as of the map."""


class FreedSlots(Value):
    """What a page of a map tells once all of its items have begun: fewer of them are under way than may be."""

    page: Address
    slots: int = Field(ge=1)
    """How many more items may be under way elsewhere."""
    usage: Usage
    """What it has spent so far."""


class GrantedSlots(Value):
    """What a page of a map is told while it has items that have not begun."""

    slots: int = Field(ge=1)
    """How many more of its items may be under way."""


class ItemFailure(Value):
    """An item of a map that has failed, and for all that did not end the map."""

    status: Literal["failed", "skipped"]
    """`skipped`: a person gave a value in its place."""
    error: JSONObject
    """`type`, `message` and `address`."""


class MapResult(ChildResult):
    """The result of a map or of a page."""

    outputs: list[JSON]
    """In the order of the items."""
    failures: dict[int, ItemFailure] = {}
    """By index."""
    context: JSONObject = {}
    changes: list[Change] = []
    """Instead of a context, for items that ran concurrently."""
    items: list[JSONObject] = []
    """Of a page that was cancelled: `index` and `output` of the completed items, as in `Failure.items`."""


class ClarifyDefinition(ChildDefinition):
    """The definition of a clarification; its step is the only one of the blueprint."""

    goal: str
    """Rendered."""
    known: JSONObject = {}
    """Facts that need no question, by name; rendered."""
    instructions: str = ""
    place: str = ""
    """Place for a person, such as `clarify 2 · review`."""
    iteration: int | None = None


class ClarifyState(Carried):
    """The state that a clarification starts with."""


class ClarifyResult(ChildResult):
    """The result of a clarification."""

    output: JSONObject
    """Facts by name."""
    reply: JSONObject | None = None
    """Who answered last, and how; None if nothing was asked."""


class LoopState(Carried):
    """The state of a loop between two iterations; continue-as-new passes it on."""

    iteration: int = 0
    """Number of completed iterations."""
    context: JSONObject = {}
    input: JSON = None
    """Input of the next iteration."""
    output: JSON = None
    """Output of the last iteration."""
    resume_input: JSON = None
    """The last human answer in the loop, or before it."""
    heard: bool = False
    """True if that answer was given in the loop."""
    granted: int = 0
    """Iterations beyond `max_loops` that a person granted."""
    idle: int = 0
    """Number of consecutive iterations that waited for nobody and nothing."""
    questions: int = 0
    """Number of questions asked and timers waited for up to the last iteration, by the loop and its children."""
    at: str = ""
    """Of a machine: the state or the end that follows; empty before the first visit."""
    visits: dict[str, int] = {}
    """Of a machine: how often each state was visited."""
    left_out: int = 0
    """Of a conversation: number of turns that its rule has dropped, and of which no summary was made."""


class LoopResult(ChildResult):
    """The result of a loop."""

    output: JSON = None
    context: JSONObject = {}
    reason: str
    """Why the loop ended."""
    iterations: int
    resume_input: JSON = None
    heard: bool = False
    """True if a person answered in the loop; `resume_input` is then the last answer."""


class ToolBounds(Value):
    """Which tools a step of a plan may call, or one whose tool is missing, and under whose rules."""

    step: str
    """Id or name of the step."""
    instruction: str = ""
    """What the step is to do: by it, another tool is found for one that is missing."""
    service: str | None = None
    agents: list[Agent]
    """The agents whose rules count, wherever they have some for a tool; the first is the one that has the tools."""
    approved: list[str] = []
    """Tools and MCP servers that need no further approval."""
    replaces: bool = True
    """Whether a tool that is missing may be replaced by one that the first agent does not list, where it lists none."""
    instead_of: str | None = None
    """For a step that is none of a plan: its own tool."""

    def is_approved(self, tool: str) -> bool:
        """Return whether a tool may be called without a person who agrees to it first."""
        return tool in self.approved or tool.partition("/")[0] in self.approved

    def explain_lack(self, tool: str) -> str:
        """Return why a person is asked about a tool that was not approved."""
        if self.instead_of is not None:
            return f"It takes the place of {self.instead_of}, which is missing."
        return f"{tool} is not in the plan that was approved for step {self.step}."


class AgentDefinition(Definition):
    """The definition of an agent's workflow; its blueprint holds the agents and imports that the agent may use."""

    address: Address
    agent: Agent
    name: str | None = None
    """Name of the agent in the blueprint, if it has one."""
    step: str
    """Step that the requests count for, for scripted models."""
    instructions: str = ""
    messages: list[Message] = []
    """The first messages: the input; in a conversation, the earlier turns before it."""
    place: str = ""
    """Place for a person, such as `clarify 2 · review`."""
    iteration: int | None = None
    names: JSONObject = {}
    """Values of the names that the instructions of its agents read."""
    registry: list[AgentTool] | None = None
    """For the planner of an agentic loop, whose turns are commands: the tools and agents that these may run."""
    ends_with_tool: bool = False
    """True if it ends when its tool has returned, or each of several; the first result is the output."""
    specs: list[ToolSpec] | None = None
    """The descriptions of its tools, where they are known; None: workers are asked."""
    bounds: ToolBounds | None = None
    """For an agent that works on a step of a plan."""
    timeout: float | None = None
    """Seconds, for one request."""
    retry: Retry | None = None


class Command(Value):
    """One entry of an agentic loop's log, written when the command has ended."""

    turn: int
    command: str
    args: JSON = None
    result: JSON = None
    """Of a value of more than 2,000 characters, the beginning of its text."""


class ToldText(Value):
    """A person's message to an agent, for its next turn."""

    text: str
    by: CanonicalName | None = None


class AgentState(Carried):
    """The state of an agent between two turns; continue-as-new passes it on."""

    turn: int = 0
    """Number of model requests so far."""
    messages: list[Message] = []
    earlier: int = 0
    """Number of leading messages that are turns of the conversation around the agent; they are dropped first."""
    left_out: int = 0
    """Number of turns that were dropped from the messages, and of which no summary was made."""
    tools: list[ToolSpec] | None = None
    """The tools as the model sees them; None before they were described."""
    call_ids: list[str] = []
    """Ids of earlier tool calls: no address is used twice."""
    calls: int = 0
    """Number of tool calls so far."""
    surplus: int = 0
    """Number of those that exceeded the limit of a turn: they were not made, and count towards no limit."""
    bad_calls: int = 0
    """Number of consecutive calls that could not be made: an unknown tool, arguments that do not fit."""
    misfits: int = 0
    """Number of consecutive outputs that did not fit the schema."""
    recent: list[str] = []
    """Digests of the last calls, for the loop guard."""
    log: list[Command] = []
    made: list[MadeCall] = []
    tool_errors: dict[str, int] = {}
    """How often it was to call again after errors of tools, by kind; and the tools that another was found for."""
    open_tools: list[str] = []
    """For an agent that ends with its tools: those that are still to be called, as `ToolSpec.reference`."""
    returned: list[ReturnedCall] = []
    """For such an agent: the calls that succeeded."""
    told: list[ToldText] = []
    """Messages of people that no turn has read yet."""
    use: ObjectUse | None = None
    """For an agent object: its run; None before it was described."""


class AgentResult(ChildResult):
    """The result of an agent."""

    output: JSON = None
    turns: int = 0
    log: list[Command] = []
    made: list[MadeCall] = []
    """The calls of its tools, also those by the agents that it called."""
    declined: bool = False
    """True if it was to end with a call that a person did not allow."""
    returned: list[ReturnedCall] = []
    """For an agent that ends with its tools: the calls that succeeded, the last one last."""
    text: str = ""
    """For such an agent: what its model said beside its last calls."""


class Failure(HandedBack):
    """The details of every typed failure: why and where a run, a loop or a step failed."""

    type: str
    message: str
    address: str = ""
    reason: str | None = None
    raised_at: str | None = None
    """For an error of an author's code: its file, line and function."""
    final: bool = False
    """True if no `on_error` may handle it."""
    context: JSONObject | None = None
    """For a loop: the context of its completed iterations. For a run: the context at the failure."""
    reached: JSONObject | None = None
    """For a loop or a map: the context at the failure, with all writes of the failed iteration."""
    output: JSON = None
    """What had been done: for a plan the results of its steps, for a loop the output of the last iteration that
    completed, for a map the items that did, for an agent the tools that it called."""
    items: list[JSONObject] | None = None
    """For the workflow of a map: `index` and `output` of its items that completed."""

    reply: JSONObject | None = None
    """For a plan that a person was asked about: the reply, as expressions read it."""
    made: list[MadeCall] = []
    """For an agent: the calls of its tools, also those by the agents that it called."""

    @staticmethod
    def read(details: Sequence[object], type_: str | None) -> Failure | None:
        """Return the failure in the details of an error of this type; None for an author's own error.

        A newer worker may tell more of a failure than this code knows, which is left out.

        >>> Failure.read([{"type": "late", "message": "Too late.", "new": 1}], "late").message
        'Too late.'
        >>> Failure.read([{"type": "own", "message": "Whatever."}], "MyError") is None
        True
        """
        match details:
            case [Failure() as failure, *_]:
                return failure
            case [dict() as values, *_] if values.get("type", "") == type_:
                fields = {key: value for key, value in values.items() if key in Failure.model_fields}
            case _:
                return None
        try:
            return Failure.model_validate(fields)
        except ValidationError:
            return None
