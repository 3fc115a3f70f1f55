"""What workflows and activities say about models and tools."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from protocol.questions import Asked
from protocol.values import Value


class ToolCall(Value):
    """A tool that a model wants called."""

    id: str = ""
    """The model's own id of the call; may be empty, and may repeat."""
    name: str
    args: dict[str, Any] = {}
    unreadable: str | None = None
    """Why the arguments could not be read, where they are no JSON object."""


class ToolSpec(Value):
    """A tool as a model is told of it."""

    name: str
    description: str = ""
    parameters: dict[str, Any] = {"type": "object", "properties": {}}
    """JSON Schema of the arguments."""
    reference: str = ""
    """What is called: a registered tool, `pkg.mod:function`, or `mcp:<server>/<tool>`."""


class Message(Value):
    """One message of a conversation with a model."""

    role: Literal["user", "assistant", "tool"]
    content: Any = None
    tool_calls: list[ToolCall] = []
    """Of the assistant: what it wants called, each with the id that its result names."""
    call: str = ""
    """Of a tool's result: the id of the call."""
    tool: str = ""
    """Of a tool's result: the tool's name."""
    raw: Any = None
    """Of the assistant: the provider's reply as opaque JSON, which the next request gives back."""


class ModelRequest(Value):
    """One request to a model. `n` counts the requests of this step in its loop, from 1, whatever was retried."""

    step: str
    agent: str | None = None
    n: int = 1
    model: str
    instructions: str = ""
    messages: list[Message]
    tools: list[ToolSpec] = []
    output_schema: dict[str, Any] | None = None
    settings: dict[str, Any] = {}


class Usage(Value):
    """What was spent: requests, tokens, dollars where the price is known, time, steps."""

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None
    seconds: float = 0
    """Of work: what people took does not count."""
    steps: int = 0

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens

    def __add__(self, other: Usage) -> Usage:
        costs = [cost for cost in (self.cost_usd, other.cost_usd) if cost is not None]
        return Usage(
            requests=self.requests + other.requests,
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cost_usd=sum(costs) if costs else None,
            seconds=self.seconds + other.seconds,
            steps=self.steps + other.steps,
        )


class ModelReply(Value):
    """What the model said: an output (text, or an object that fits the schema), or tool calls to make."""

    output: Any = None
    tool_calls: list[ToolCall] = []
    usage: Usage = Usage(requests=1)
    problem: str | None = None
    """Why the output is none: it does not fit its schema. The model is to be told."""
    raw: Any = None
    """The provider's reply as opaque JSON."""


class Given(Value):
    """What a person said to an interrupt, for the tool that runs again."""

    content: Any = None
    by: str | None = None


class ToolRequest(Value):
    """A tool to call by name or as ``pkg.mod:function``: with a step's `input`, or with positional `args`."""

    tool: str
    input: Any = None
    args: list[Any] | None = None
    """Positional arguments, for conditions and mappers; `input` is then unused."""
    by_name: bool = False
    """Whether `input` holds the arguments by name, as a model gives them."""
    states: dict[str, Any] = {}
    """Of a call that was interrupted: what it kept, by its path within the tool (empty: the tool itself)."""
    given: dict[str, Given] = {}
    """Of a call that was interrupted: what people said, by path."""
    interrupted: list[str] = []
    """The paths that interrupted this call so far."""
    idempotent: bool | None = None
    """Whether it may be run twice, where the blueprint says so; else the tool knows."""
    unsure_is_final: bool = False
    """Whether a call that timed out elsewhere, and may have taken effect there, is not tried again."""


class Completed(Value):
    """The tool ended and gave this."""

    result: Any = None


class Parent(Value):
    """A composite above an interrupt, as a person sees it."""

    path: str
    info: Any = None


class Raised(Value):
    """One root cause of an interrupt: a question, at a path within the tool such as `level:price`."""

    path: str
    asked: Annotated[Asked, Field(discriminator="kind")]
    parents: list[Parent] = []
    ends: Literal["", "denied", "answered"] = ""
    """Which answer ends the call, of a tool that knows nothing of answers: a denial; or any, which is the result."""


class Interrupted(Value):
    """The tool wants people to be asked, and to be run again with what they said and what it kept, by path."""

    questions: list[Raised]
    states: dict[str, Any] = {}


ToolOutcome = Completed | Interrupted


class CacheLookup(Value):
    """What is looked for in the cache."""

    key: str


class CacheHit(Value):
    """What was found there, if anything."""

    found: bool = False
    value: Any = None


class CacheEntry(Value):
    """What is put there, and for how many seconds; None: for ever."""

    key: str
    value: Any = None
    ttl: float | None = None


class ToolsRequest(Value):
    """Tools to describe to a model: names, `pkg.mod:function`, or `mcp:<server>` for all that a server has."""

    tools: list[str]


class FindTool(Value):
    """What a tool is wanted for; `among` are those that may be used, all that the worker has if there are none."""

    service: str | None = None
    instruction: str = ""
    missing: str = ""
    """The tool that is not there."""
    among: list[str] = []


class FoundTool(Value):
    """The tool that fits best; None: none does."""

    name: str | None = None
