"""Agents: the model that an `agent` step runs, its tools, and the approvals they need."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal

from pydantic import ConfigDict, Field, StringConstraints

from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.blueprint.parts import Limits, Name, Part, Requirement, Retry, Risk, Schema, Seconds, ToolErrors
from holdfast.blueprint.positions import Parts

_RETENTIONS = {"12h": 43_200, "1h": 3_600, "30m": 1_800}
"""How long providers keep a prompt, the longest first, in seconds; anything shorter is five minutes."""
_OF_TURNS = (
    *("deps", "fallback_models", "instructions", "settings", "prompt_cache", "tools", "human", "max_turns"),
    *("max_tool_calls_per_turn", "max_tool_calls", "permissions", "history_management"),
)
"""Keys of an agent that takes turns. `model` is none of them: `--model` and tests set it for every agent."""
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
    risk: Risk | None = Field(None, description="The risk of a call, shown to whoever approves or reviews it.")
    idempotent: bool | None = Field(None, description="May a lost call be repeated?")
    timeout: Seconds | None = Field(None, description="How long one attempt of a call may take.")
    retry: Retry | None = Field(None, description="How often a call is tried.")

    def requires(self) -> Iterator[Requirement]:
        yield Requirement("tool", self.name, ("name",), idempotent=self.idempotent)


_SETTINGS = ("temperature", "max_tokens", "top_p", "seed", "stop_sequences", "presence_penalty", "frequency_penalty")
"""Settings of models that authors look for at the agent itself."""


class Rule(Part):
    """A permission rule; of the rules that match a call, the last one counts."""

    tool: str = Field("*", description="A glob over the tool's name.", examples=["pay", "files_*"])
    target: str = Field("*", description="A glob over the texts among the arguments.", examples=["/srv/docs/*"])
    action: Literal["allow", "deny", "ask"] = Field(description="Allow the call, deny it, or ask a person.")

    @property
    def names_one_tool(self) -> bool:
        """Return whether the rule is about one tool, whose name can be looked up, and not about a pattern of names."""
        return not any(mark in self.tool for mark in "*?[")


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
    """A model with its instructions, and in turns with its tools; or an agent of the team's own code, by `from`."""

    # A field named `from` cannot be: authors write `from`, the code says `source`.
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True, populate_by_name=True)
    short_keys: ClassVar[tuple[str, ...]] = ("system_prompt",)
    synonyms: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(("prompt", "system", "system_message", "instruction"), "instructions"),
        "llm": "model",
    }

    @classmethod
    def hint_for(cls, key: str) -> str | None:
        if key == "id":
            return "remove it: an agent has the name of its step, or its key in `agents:` (alone, `id` names a tool)"
        return f"it belongs under `settings:`, as settings.{key}" if key in _SETTINGS else None

    model: str = Field(
        "",
        description="`provider:name`, `openai-compatible:NAME@URL`, `scripted:FILE`, `echo`, or a name of `[models]`.",
        examples=["openai:gpt-5.2", "scripted:replies.yaml", "echo", "fast"],
    )
    source: str | None = Field(
        None,
        alias="from",
        min_length=1,
        description="An agent of your own code: a pydantic-ai `Agent` as `pkg.mod:agent`, or a function with `@agent`.",
        examples=["helpdesk.agents:clerk"],
    )
    deps: str | None = Field(
        None,
        min_length=1,
        description="Beside `from`: the function `pkg.mod:factory` that gives the agent's dependencies on the worker.",
        examples=["helpdesk.agents:dependencies"],
    )
    fallback_models: list[Annotated[str, StringConstraints(min_length=1)]] = Field(
        [],
        max_length=5,
        description="The next models to use, in this order, if one fails (also the rest of a list in `model`).",
        examples=[["anthropic:claude-sonnet-4-6"]],
    )
    description: str = Field(
        "", description="Its purpose: what other agents see when it is their tool.", examples=["Finds flights."]
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
    prompt_cache: bool | Literal["prefix"] | Seconds = Field(
        False,
        description="Have the provider cache the prompt (`prefix`: only tools and instructions), or for how long.",
        examples=[True, "prefix", "1h"],
    )
    output_mode: Literal["tool", "native"] = Field(
        "tool",
        description="How the model gives an output with a schema: by a tool's call, or by the provider's own format.",
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
    tool_errors: ToolErrors | None = Field(
        None, description="What follows an error of one of its tools; default: the model is told of it."
    )
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
        if self.source is not None:
            yield from self._object_requires(self.source)
        if self.model or self.source is None:
            yield Requirement("model", self.model, ("model",))
        for index, name in enumerate(self.fallback_models):
            yield Requirement("model", name, ("fallback_models", index))
        if self.finds_tools:
            for index, tool in enumerate(self.tools):
                others = tuple(other.name for other in self.tools if other.name != tool.name)
                [need] = tool.requires()
                among = others or None
                yield replace(need, path=("tools", index, *need.path), about=tool.name, among=among)

    @property
    def finds_tools(self) -> bool:
        """Return whether another of its tools is looked for in place of a missing one."""
        return self.source is None and self.tool_errors is not None and self.tool_errors.missing == "find"

    def _object_requires(self, source: str) -> Iterator[Requirement]:
        keys = [*(["model"] if self.model else []), *self.keys_of_turns]
        yield Requirement("agent", source, ("from",), about=" ".join(keys))
        for path, name in self.named_tools:
            yield Requirement("agent_tool", name, path, about=source)
        if self.deps is not None:
            yield Requirement("tool", self.deps, ("deps",))

    @property
    def named_tools(self) -> list[tuple[Parts, str]]:
        """The tools of an agent object that the blueprint names, each with the path of the name.

        A rule may name one with its agent: `pkg.mod:agent/tool`.
        """
        settings: list[tuple[Parts, str]] = [
            (("tools", index, "name"), tool.name) for index, tool in enumerate(self.tools)
        ]
        rules: list[tuple[Parts, str]] = [
            (("permissions", index, "tool"), rule.tool.removeprefix(f"{self.source}/"))
            for index, rule in enumerate(self.permissions)
            if rule.names_one_tool
        ]
        return settings + rules

    @property
    def keys_of_turns(self) -> list[str]:
        """The keys that are set and that need turns with a model: beside a function they would have no effect."""
        fields = type(self).model_fields
        return [key for key in _OF_TURNS if getattr(self, key) != fields[key].get_default(call_default_factory=True)]

    @property
    def title(self) -> str:
        """The name of its model, or of the object that it is."""
        return self.source or self.model

    @property
    def looks_up_inside(self) -> tuple[str, ...]:
        """See base class. The tools of an agent object are its own: no worker has them by their names."""
        keys = super().looks_up_inside
        apart = self.source is not None or self.finds_tools
        return tuple(key for key in keys if key != "tools") if apart else keys

    @property
    def model_settings(self) -> JSONObject:
        """The settings of each request, with the one for the provider's cache."""
        match self.prompt_cache:
            case False:
                return self.settings
            case "prefix":
                cache: JSON = {"messages": False}
            case True:
                cache = True
            case seconds:
                cache = next((name for name, most in _RETENTIONS.items() if seconds >= most), "5m")
        return {"cache": cache, **self.settings}

    @property
    def works_in_turns(self) -> bool:
        """Return whether the agent runs as a workflow of its own, and not as a single request."""
        return bool(self.tools or self.human or self.source)

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
    role: Literal["worker", "planner", "summarizer", "verifier"] = "worker"
    """A planner's turns are commands; a summarizer only keeps a conversation short, and calls no tools; the output of
    a verifier is a verdict, whatever its `output_schema`."""
    may_be_object: bool = False
    """True if an agent object can do the work: the step gives it an input and takes its output."""
