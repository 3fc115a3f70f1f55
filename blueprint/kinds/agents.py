"""Agents: the model that an `agent` step runs, its tools, and the approvals they need."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

from pydantic import Field

from holdfast.blueprint.json_values import JSONObject
from holdfast.blueprint.kinds.parts import Limits, Name, Part, Requirement, Retry, Schema, Seconds

DRIVER_TURNS = 10_000
"""The turns of an agent that drives a plan, unless its author sets `max_turns`."""


class AgentTool(Part):
    """A tool that an agent may call, and what a person has to say before."""

    name: str = Field(
        min_length=1,
        description="A tool, `pkg.mod:function`, `agent:<name>`, `imports.<alias>` or `mcp:<server>[/<tool>]`.",
        examples=["search", "agent:researcher", "imports.review", "mcp:files"],
    )
    approve: str | None = Field(
        None,
        description="Must a person agree to a call? `always`, `never`, or an expression on `args`.",
        examples=["always", "args.amount > 100"],
    )
    review: bool = Field(False, description="A person looks at the arguments of each call, and may change them.")
    idempotent: bool | None = Field(None, description="May a call be run again if it was lost?")
    timeout: Seconds | None = Field(None, description="How long one attempt of a call may take.")
    retry: Retry | None = Field(None, description="How often a call is tried.")

    def requires(self) -> Iterator[Requirement]:
        yield Requirement("tool", self.name, ("name",))


class Rule(Part):
    """A permission rule; of the rules that match a call, the last one counts."""

    tool: str = Field("*", description="A glob over the tool's name.", examples=["pay", "files_*"])
    target: str = Field("*", description="A glob over the texts among the arguments.", examples=["/srv/docs/*"])
    action: Literal["allow", "deny", "ask"] = Field(description="Allow the call, deny it, or ask a person.")


class AgentHistory(Part):
    """The rule that keeps an agent's conversation short; it is cut only before a reply of the model."""

    strategy: Literal["truncate_turns", "truncate_results", "summarize"] = Field(
        description="Drop the oldest turns, shorten their tools' results, or let a model summarise them."
    )
    max_turns: int | None = Field(None, ge=1, description="Turns above which it is done.", examples=[40])
    max_tokens: int | None = Field(
        None, ge=100, description="Tokens (four characters each) above which it is done.", examples=[60_000]
    )
    keep_turns: int = Field(4, ge=1, description="The last turns, which stay as they are.", examples=[6])
    agent: Name | None = Field(
        None, description="The agent that summarises; default: the agent's own model.", examples=["editor"]
    )


class Agent(Part):
    """A model with its instructions, and in turns with its tools."""

    short_keys: ClassVar[tuple[str, ...]] = ("system_prompt",)

    model: str = Field(
        description="`provider:name`, `openai-compatible:NAME@URL`, `scripted:FILE`, `echo`, or a name of `[models]`.",
        examples=["openai:gpt-5.2", "scripted:replies.yaml", "echo", "fast"],
    )
    description: str = Field(
        "", description="What it is for: other agents are told so when it is their tool.", examples=["Finds flights."]
    )
    instructions: str = Field(
        "",
        description="What the model is told before the input (also `system_prompt`).",
        examples=["Name one flight that fits.", {"from_file": "editor.md"}],
    )
    output_schema: Schema | None = Field(
        None,
        description="JSON Schema of the output, or `plan`: that of a JSON plan; without it the output is text.",
        examples=[{"type": "object", "required": ["score"], "properties": {"score": {"type": "number"}}}, "plan"],
    )
    settings: JSONObject = Field(
        {}, description="Model settings, such as `temperature`.", examples=[{"temperature": 0.2}]
    )
    timeout: Seconds | None = Field(None, description="How long one request may take.")
    retry: Retry | None = Field(None, description="How often a failed request is tried.")
    tools: list[AgentTool] = Field(
        [],
        description="What the agent may call, in turns with the model.",
        examples=[["search", {"name": "pay", "approve": "args.amount > 100"}]],
    )
    human: list[Literal["ask", "approve"]] = Field(
        [],
        description="`ask`: it may ask a person; `approve`: a person agrees to every call that no rule allows.",
        examples=[["ask"], ["ask", "approve"]],
    )
    limits: Limits | None = Field(None, description="How much one use of the agent may spend.")
    max_turns: int = Field(20, ge=1, le=10_000, description="Requests to the model at most.", examples=[40])
    max_tool_calls_per_turn: int = Field(
        10, ge=1, le=100, description="Further calls of a turn get an error.", examples=[3]
    )
    max_tool_calls: int | None = Field(None, ge=1, description="Further calls in all get an error.", examples=[50])
    permissions: list[Rule] = Field(
        [],
        description="Rules of what may be called; the last that fits counts.",
        examples=[[{"tool": "*", "action": "ask"}, {"tool": "files_*", "target": "/srv/docs/*", "action": "allow"}]],
    )
    history_management: AgentHistory | None = Field(
        None,
        description="How the conversation is kept short.",
        examples=[{"strategy": "truncate_turns", "max_turns": 40}],
    )

    def requires(self) -> Iterator[Requirement]:
        yield Requirement("model", self.model, ("model",))

    @property
    def works_in_turns(self) -> bool:
        """Return whether the agent runs as a workflow of its own, and not as a single request."""
        return bool(self.tools or self.human)

    @property
    def driver_turns(self) -> int:
        """The most turns of the agent where it drives a plan."""
        return self.max_turns if "max_turns" in self.model_fields_set else DRIVER_TURNS

    @property
    def requests_a_turn(self) -> int:
        """Return 2 if the conversation may be summarised in each turn, else 1."""
        return 2 if self.history_management is not None and self.history_management.strategy == "summarize" else 1


@dataclass(frozen=True)
class AgentReference:
    """An agent that a step names, or that is written in it."""

    agent: str | Agent
    path: str
    """The path of its key in the step."""
    role: Literal["worker", "planner", "summarizer"] = "worker"
    """A planner's turns are commands; a summarizer only keeps a conversation short, and calls no tools."""
