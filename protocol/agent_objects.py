"""Agents that are objects of a team's own library, and where a run of one stands: for the activities that work for it.

A blueprint names such an agent with `from`. Its functions see a run that goes on, though each request and each call of
a tool is an activity of its own, perhaps in another process: what they see travels in `ObjectUse`.
"""

from __future__ import annotations

from typing import Literal

from holdfast.blueprint.json_values import JSON
from holdfast.protocol.activity_request import DescriptionRequest
from holdfast.protocol.values import Value

DESCRIBE_AGENT = "describe_agent"
"""Name of the activity that finds an agent object."""
FINAL_OUTPUT = "final_output"
"""Name under which the check of an output is called, where functions of the team take part in it."""


class ObjectReference(DescriptionRequest):
    """An agent object to find, with what the blueprint says beside `from`."""

    reference: str
    """`pkg.mod:agent`, or the name of a function that is registered as an agent."""
    deps: str | None = None
    """`pkg.mod:factory` of the dependencies."""
    model: str = ""
    """The model that is asked instead of its own."""
    tools: dict[str, str] = {}
    """The names of its tools that the blueprint has settings or rules for, by their places in the blueprint."""
    keys: list[str] = []
    """The keys beside `from` that need turns with a model; a function takes none of them."""


class AgentDescription(Value):
    """The description of an agent object."""

    kind: Literal["turns", "function"] = "turns"
    """A `function` is called once, with the input; it takes no turns with a model."""
    name: str = ""
    """The name of a function's tool."""
    idempotent: bool = False
    """True for a function that may run twice, as its owner says."""
    model: str = ""
    """The model's name, for people."""


class RunUsage(Value):
    """The usage of a run of an agent object so far, as its functions see it."""

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    tool_calls: int = 0


class ObjectUse(Value):
    """A run of an agent object."""

    reference: str
    deps: str | None = None
    run: str
    """The id of the run, which its functions see as `run_id`."""
    prompt: JSON = None
    """The input that the run began with."""
    opening: JSON = None
    """The parts of its system prompts, as the first request evaluated them; None before it."""
    tools: dict[str, str] = {}
    """The names of its tools to look up before the first request, by their places in the blueprint."""
    step: int = 0
    """Number of replies so far."""
    output_retries: int = 0
    """Outputs so far that had to be given again."""
    tool_retries: dict[str, int] = {}
    """Consecutive calls of a tool that asked for another, by the tool's name."""
    usage: RunUsage = RunUsage()
