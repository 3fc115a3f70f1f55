"""Arguments and results of the activities that call models, tools and the cache."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.blueprint.parts import Retry
from holdfast.blueprint.questions import AnyAsked
from holdfast.protocol.activity_request import ActivityRequest, DescriptionRequest
from holdfast.protocol.agent_objects import ObjectUse
from holdfast.protocol.tool_rules import Consent, OwnerRule
from holdfast.protocol.usage import Usage
from holdfast.protocol.values import Value

MOST_CALLS = 200
"""Largest number of calls that a step or an agent keeps one by one: a payload has its limits."""
_OUTCOMES = ("failed", "returned", "begun")
"""Of calls that are left out together the last of these counts."""
LONGEST_KEPT = 500
"""Characters of the arguments, and of the result, that are kept of each of them."""

CALL_MODEL = "call_model"
"""The activity that asks a model."""
CALL_TOOL = "call_tool"
DESCRIBE_TOOLS = "describe_tools"
FIND_TOOL = "find_tool"
CACHE_GET = "cache_get"
CACHE_PUT = "cache_put"
MAY_BE_LOCAL = (CACHE_GET, CACHE_PUT, CALL_MODEL, CALL_TOOL, DESCRIBE_TOOLS, FIND_TOOL)
"""The activities that workflows may call locally: a worker on hold refuses each of them, see `activities.held`."""


class ToolCall(Value):
    """A call of a tool that a model requests."""

    id: str = ""
    """The id that the model gave the call; may be empty, and may repeat."""
    name: str
    args: JSONObject = {}
    unreadable: str | None = None
    """Reason why the arguments could not be parsed as a JSON object; `args` is then empty."""


class MadeCall(Value):
    """A call of a tool that was begun, whoever requested it."""

    tool: str
    args: str = ""
    """Digest of the arguments; empty for calls that were left out, as there were too many."""
    arguments: JSON = None
    """Of long arguments the beginning of their text."""
    outcome: Literal["begun", "returned", "failed"] = "begun"
    """`begun`: how it ended is not known, or not yet."""
    output: JSON = None
    """What it returned, of a long result the beginning of its text; of a failed call the message."""


def add_calls(made: Iterable[MadeCall], more: Iterable[MadeCall]) -> list[MadeCall]:
    """Return the calls with further ones; of equal calls the last counts, but no failed one hides one that returned.

    Of more than `MOST_CALLS` the oldest are left out, and one call without arguments stands for those of each tool.

    >>> sent = MadeCall(tool="send", args="1f")
    >>> returned, failed = (sent.model_copy(update={"outcome": outcome}) for outcome in ("returned", "failed"))
    >>> [add_calls([sent], later)[0].outcome for later in ([returned], [failed], [returned, failed], [returned, sent])]
    ['returned', 'failed', 'returned', 'begun']
    """
    found: dict[tuple[str, str], MadeCall] = {}
    for call in (*made, *more):
        before = found.get((call.tool, call.args))
        if before is None or (before.outcome, call.outcome) != ("returned", "failed"):
            found[call.tool, call.args] = call
    for key in [key for key in found if key[1]][:-MOST_CALLS]:
        oldest = found.pop(key)
        left_out = found.get((oldest.tool, ""))
        if left_out is None or _OUTCOMES.index(left_out.outcome) < _OUTCOMES.index(oldest.outcome):
            found[oldest.tool, ""] = MadeCall(tool=oldest.tool, outcome=oldest.outcome)
    return list(found.values())


def name_tools(calls: Iterable[MadeCall]) -> list[str]:
    """Return the tools of calls, each once, in the order of the first call."""
    return list(dict.fromkeys(call.tool for call in calls))


class ReturnedCall(Value):
    """A call of a tool that succeeded."""

    tool: str
    parameters: JSONObject
    data: JSON = None
    """What it returned; of `{success: true, data: …}` the data."""


class ToolSpec(Value):
    """The description of a tool that is sent to a model."""

    name: str
    description: str = ""
    parameters: JSONObject = {"type": "object", "properties": {}}
    """JSON Schema of the arguments."""
    reference: str = ""
    """The function to call: a registered tool, `pkg.mod:function`, or `mcp:<server>/<tool>`."""
    rule: OwnerRule | None = None
    """What its owner demands before a call."""
    idempotent: bool = False
    """True if it may run twice, as its owner says."""
    reads_only: bool = False
    """True if it changes nothing, as its owner says."""
    problem: str = ""
    """Reason why it cannot be called; only filled in for a lenient `ToolsRequest`."""


class MessageFile(Value):
    """A file that a model sees beside the text of a message; exactly one of its contents is set."""

    name: str
    type: str
    """Media type."""
    text: str | None = None
    data: str | None = None
    """In base64."""
    file: str | None = None
    """A file of the worker, which reads it for each request: so its content is in no payload."""
    url: str | None = None


class Message(Value):
    """One message of a conversation with a model."""

    role: Literal["user", "assistant", "tool"]
    content: JSON = None
    files: list[MessageFile] = []
    """For the role `user`: what the model sees beside the content."""
    tool_calls: list[ToolCall] = []
    """For the role `assistant`: the calls that it requests. Each result names its call's id."""
    call: str = ""
    """For the role `tool`: the id of the call."""
    tool: str = ""
    """For the role `tool`: the name of the tool."""
    raw: JSON = None
    """For the role `assistant`: the provider's reply as opaque JSON, which the next request sends back. Beside results
    and texts of an agent object: a list of the parts that its library makes of them."""


class ModelRequest(ActivityRequest):
    """One request to a model.

    What stays the same stands first, then the conversation, then number and place: so that a store of payloads, which
    keeps equal parts once, keeps of each further request what is new.
    """

    retry: Retry = Retry(attempts=5)
    step: str
    agent: str | None = None
    model: str
    instructions: str = ""
    tools: list[ToolSpec] = []
    output_schema: JSONObject | None = None
    native_output: bool = False
    """True: the provider's own format for an output with a schema is used, and no tool's call."""
    settings: JSONObject = {}
    use: ObjectUse | None = None
    """For an agent object: its run. The object has the tools and the output's type, and `instructions` come on top."""
    messages: list[Message]
    n: int = 1
    """Number of the request in its step, from 1: counts over iterations and turns, but not retries."""
    address: str = ""
    """Where the run asks: replies of a script may be of one place. It is new in each iteration."""


Finish = Literal["finished", "cut_off", "empty", "refused", "filtered"]
"""How a reply ended; only a `finished` one is used."""


class ObjectTool(Value):
    """A tool of an agent object, as far as a call of it needs it."""

    parameters: JSONObject = {"type": "object", "properties": {}}
    """JSON Schema of the arguments."""
    demand: Literal["", "approval", "external", "output"] = ""
    """What comes before the call: a person's yes, or the result from elsewhere. An `output` is no call at all."""
    barrier: bool = False
    """True if the call is made alone: after the calls before it, and before those behind it."""


class ModelReply(Value):
    """A model's reply: an output (text, or a value that fits the schema), or tool calls to make."""

    output: JSON = None
    """For a `refused` reply: the model's reason, if it gave one."""
    tool_calls: list[ToolCall] = []
    usage: Usage = Usage(requests=1)
    finish: Finish = "finished"
    problem: str | None = None
    """Why the output does not fit its schema; the workflow sends this text back to the model."""
    raw: JSON = None
    """The provider's reply as opaque JSON."""
    corrections: list[Message] = []
    """For an agent object, with a `problem`: the messages that tell the model of it, as its library words them."""
    opening: JSON = None
    """For an agent object: see `ObjectUse`."""
    unchecked: bool = False
    """True if there is an output that a further activity is to check, by functions of the agent object's authors."""
    output_function: bool = False
    """True if one of these makes something of the output, and must not do so twice."""
    end_strategy: Literal["early", "graceful", "exhaustive"] = "graceful"
    """For an agent object, where an output and calls come in one reply: with `early` the output comes first."""
    object_tools: list[ObjectTool] = []
    """For an agent object: the tool of each call."""


class InterruptAnswer(Value):
    """A person's answer to an interrupt, for the tool that runs again."""

    content: JSON = None
    by: str | None = None
    action: Literal["accept", "decline", "cancel"] = "accept"
    """Other than `accept` only for a question that tells refusals."""


class ObjectCall(Value):
    """A call of a tool of an agent object, or the check of an output."""

    use: ObjectUse
    model: str = ""
    """The model that is asked instead of the agent's own."""
    instructions: str = ""
    messages: list[Message]
    """The conversation up to the reply that calls the tool, or that gives the output."""
    call: ToolCall | None = None
    """None: check the output that the last message gives."""


class ToolRequest(ActivityRequest):
    """A tool to call by name or as ``pkg.mod:function``: with a step's `input`, or with positional `args`."""

    tool: str
    input: JSON = None
    args: list[JSON] | None = None
    """Positional arguments, for conditions and mappers; `input` is then unused."""
    by_name: bool = False
    """True if `input` is an object of the arguments by name, as models send them."""
    states: JSONObject = {}
    """For a call that was interrupted: the states it kept, by path within the tool ("" is the tool itself)."""
    given: dict[str, InterruptAnswer] = {}
    """For a call that was interrupted: the answers, by path."""
    fresh: list[str] = []
    """The paths whose answers this run of the tool is the first to get."""
    interrupted: list[str] = []
    """The paths that have interrupted this call so far."""
    idempotent: bool | None = None
    """True if the blueprint allows a second run, False if it forbids it; None: the tool's own setting counts."""
    consent: Consent = ""
    """What a person has said of these arguments in the workflow."""
    run: str = ""
    """The run, for a call in whose middle people may be asked."""
    address: str = ""
    """Where the run makes the call: what it keeps between attempts, and what is asked during it, is found by it."""
    unsure_is_final: bool = False
    """True if a remote timeout is not retried, since the call may have taken effect there."""
    of_agent: ObjectCall | None = None
    """For a tool of an agent object."""
    begun: bool = False
    """True if an earlier run began this call and nobody knows how it ended, as with a worker that was lost."""
    made_in: str = ""
    """For a call that an earlier run made, too, without a result: Temporal's run id of the history that has it."""


class Completed(Value):
    """The outcome of a tool that finished."""

    result: JSON = None
    messages: list[Message] = []
    """For a tool of an agent object: the results as its library makes them."""
    again: bool = False
    """For a tool of an agent object: true if the model is asked for another call, or another output."""
    refused: Literal["", "failed", "denied"] = ""
    """For a tool of an agent object: what its library told the model in place of a result."""
    problem: str = ""
    """Why it did not return, for people."""
    usage: Usage = Usage()
    """Of the models that it asked by itself, as it has reported."""


class Parent(Value):
    """A composite interrupt around a question, as a person sees it."""

    path: str
    info: JSON = None


class RaisedInterrupt(Value):
    """One question of an interrupt."""

    path: str
    """Path within the tool, such as `level:price`."""
    asked: AnyAsked
    parents: list[Parent] = []
    ends: Literal["", "denied", "answered"] = ""
    """Which answer ends the call of a tool that cannot read answers: a denial, or any (which is then the result)."""
    permit: str = ""
    """What is permitted for the rest of the run where the person says so."""


class Interrupted(Value):
    """The outcome of a tool that asks people: it is to run again with their answers and its states."""

    questions: list[RaisedInterrupt]
    states: JSONObject = {}
    """By path within the tool."""
    returned: dict[str, str] = {}
    """By path: why the answer there is given back. Its question is asked again, unless `questions` has one there."""
    together: bool = False
    """True if the tool runs again only once all questions are answered."""
    usage: Usage = Usage()
    """See `Completed`."""


ToolOutcome = Completed | Interrupted


class CacheLookup(ActivityRequest):
    """A key to look up in the cache."""

    timeout: float = 30.0
    key: str


class CacheHit(Value):
    """The result of a look-up in the cache."""

    found: bool = False
    """Tells a stored null from a miss."""
    value: JSON = None


class CacheEntry(ActivityRequest):
    """A value to keep in the cache."""

    timeout: float = 30.0
    key: str
    value: JSON = None
    ttl: float | None = None
    """Seconds; None: for ever."""


class ToolsRequest(DescriptionRequest):
    """Tools to describe to a model."""

    tools: list[str]
    """Names, `pkg.mod:function`, or `mcp:<server>` for all tools of a server."""
    lenient: bool = False
    """True if a tool that cannot be called is returned with its `problem`, instead of failing the whole request."""


class FindTool(DescriptionRequest):
    """A request for a tool that can replace a missing one."""

    service: str | None = None
    instruction: str = ""
    """The task of the step that needs the tool."""
    missing: str = ""
    """Name of the missing tool."""
    among: list[str] = []
    """Tools that may be used; empty: all tools of the worker."""


class FoundTool(Value):
    """The replacement for a missing tool."""

    name: str | None = None
    """None: no tool fits."""
