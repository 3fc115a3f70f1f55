"""What workflows and activities say about models and tools."""

from __future__ import annotations

from typing import Any, Literal

from protocol.values import Value


class ToolCall(Value):
    """A tool that a model wants called."""

    id: str = ""
    name: str
    args: dict[str, Any] = {}


class Message(Value):
    """One message of a conversation with a model."""

    role: Literal["user", "assistant", "tool"]
    content: Any = None


class ModelRequest(Value):
    """One request to a model. `n` counts the requests of this step in its loop, from 1, whatever was retried."""

    step: str
    agent: str | None = None
    n: int = 1
    model: str
    instructions: str = ""
    messages: list[Message]
    output_schema: dict[str, Any] | None = None
    settings: dict[str, Any] = {}


class Usage(Value):
    """What was spent: requests, tokens, and dollars where the price is known."""

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None

    def __add__(self, other: Usage) -> Usage:
        costs = [cost for cost in (self.cost_usd, other.cost_usd) if cost is not None]
        return Usage(
            requests=self.requests + other.requests,
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cost_usd=sum(costs) if costs else None,
        )


class ModelReply(Value):
    """What the model said: an output (text, or an object that fits the schema), or tool calls to make."""

    output: Any = None
    tool_calls: list[ToolCall] = []
    usage: Usage = Usage(requests=1)


class ToolRequest(Value):
    """A tool to call by name or as ``pkg.mod:function``: with a step's `input`, or with positional `args`."""

    tool: str
    input: Any = None
    args: list[Any] | None = None
    """Positional arguments, for conditions and mappers; `input` is then unused."""


class Completed(Value):
    """The tool ended and gave this."""

    result: Any = None


ToolOutcome = Completed
