"""The base of every step kind, and the methods by which a kind declares what it reads and holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints

from holdfast.blueprint.durations import seconds_of

if TYPE_CHECKING:
    from holdfast.blueprint.kinds import AnyStep

Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]+$", max_length=100)]
Template = Any
Schema = dict[str, Any]
Seconds = Annotated[
    float,
    BeforeValidator(seconds_of),
    Field(json_schema_extra={"type": ["string", "number"]}, examples=["30s", "1h30m", "2d", "PT15M"]),
]

MOST_AT_ONCE = 50
"""Branches, or items of a map, that may run at the same time."""

RequirementKind = Literal["tool", "plan_tool", "model", "group"]


@dataclass(frozen=True)
class Requirement:
    """A name in a blueprint that only a worker can resolve; `path` leads from the part that says it."""

    kind: RequirementKind
    name: str
    path: tuple[str | int, ...]
    about: str = ""
    """For a plan's tool: its purpose, by which a substitute is found."""


class Part(BaseModel):
    """A piece of a blueprint: immutable, and strict about its keys."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    def requires(self) -> Iterator[Requirement]:
        """Return what this part itself, not what is inside it, names of a worker."""
        return iter(())


@dataclass(frozen=True)
class Block:
    """Steps inside a step, with the names only they see."""

    steps: tuple[AnyStep, ...]
    names: frozenset[str] = frozenset()
    """Names defined inside the block, beside those that every step sees."""
    loops: bool = False
    """The block runs repeatedly: a step may read the output of a later one, from the iteration before."""
    reads: Mapping[str, Template] = field(default_factory=dict)
    """Templates rendered inside the block's scope, by their path in the step."""
    conditions: Mapping[str, str] = field(default_factory=dict)
    """Expressions evaluated inside the block's scope, by their path in the step."""


class Fallback(Part):
    """Run another step when this one fails."""

    fallback: AnyStep = Field(
        description="The step that runs instead; its output is the failed step's output.",
        examples=[{"name": "plain", "uses": "stringify"}],
    )


class Limits(Part):
    """The limits of what may be spent; at a limit the run fails, or a person is asked for more."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"model_calls": 200, "cost_usd": 5, "seconds": "1h"}]})

    model_calls: int | None = Field(None, ge=1, description="Requests to models.", examples=[200])
    tokens: int | None = Field(None, ge=1, description="Tokens, of input and output together.", examples=[500_000])
    cost_usd: float | None = Field(None, gt=0, description="Dollars, as far as prices are known.", examples=[5])
    seconds: Seconds | None = Field(
        None, description="Time of work; waiting for people does not count.", examples=["1h", 86_400]
    )
    steps: int | None = Field(None, ge=1, description="Steps started.", examples=[10_000])
    on_limit: Literal["fail", "ask"] = Field("fail", description="At a limit: fail, or ask a person for as much again.")


class Access(Part):
    """The people who may do more with a run than answer it."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"steer": ["group:ops"]}]})

    steer: list[str] = Field(
        min_length=1,
        description="Users and groups that may pause and resume a run, talk to its agents, and change its plans.",
        examples=[["group:ops", "user:ana"]],
    )


class Retry(Part):
    """The retry policy of one activity."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"attempts": 5, "backoff": "2s"}]})

    attempts: int = Field(3, ge=1, le=1000, description="Attempts in all.", examples=[5])
    backoff: Seconds = Field(1.0, description="Wait before the second attempt.", examples=["2s"])
    factor: float = Field(2.0, ge=1, le=100, description="What each further wait is multiplied by.", examples=[1.5])
    max: Seconds = Field(60.0, description="The longest wait.", examples=["5m"])


class Step(Part):
    """The keys that every step may have."""

    name: Name = Field(
        description="Unique in its list and the lists around it: letters, digits, _ and -.", examples=["draft"]
    )
    input: Template = Field(
        "{{ previous_step }}",
        description="What the step gets; default: the previous output.",
        examples=["{{ steps.draft.output }}", {"title": "{{ input }}", "facts": "{{ steps.brief.output }}"}],
    )
    when: str | None = Field(
        None,
        description="A condition; if false the step is skipped and its output is null.",
        examples=["context.tries < 3", "steps.review.output.ok"],
    )
    sink_to: str | None = Field(
        None,
        description="The context path that receives the output, e.g. `stats.total`.",
        examples=["draft", "stats.total"],
    )
    updates_context: bool = Field(
        False,
        description="Write an output that is an object, or a text that is a JSON object, key by key into the context.",
    )
    input_schema: Schema | None = Field(
        None, description="JSON Schema that the input must fit.", examples=[{"type": "object", "required": ["topic"]}]
    )
    output_schema: Schema | None = Field(
        None, description="JSON Schema that the output must fit.", examples=[{"type": "string", "minLength": 1}]
    )
    interrupt_before: bool = Field(False, description="Stop before the step: a person sees the context, may change it.")
    interrupt_after: bool = Field(False, description="Stop after the step: a person sees the context, may change it.")
    on_error: Literal["fail", "continue", "ask"] | Fallback = Field(
        "fail",
        description="What a failure does: fail the list, continue with null, ask a person, run a fallback step.",
        examples=["continue", "ask", {"fallback": {"name": "plain", "uses": "stringify"}}],
    )

    def reads(self) -> Mapping[str, Template]:
        """Return the templates rendered in the scope of this step, by their path in the step."""
        return {"input": self.input}

    def conditions(self) -> Mapping[str, str]:
        """Return the expressions evaluated in the scope of this step, by their path in the step."""
        return {"when": self.when} if self.when is not None else {}

    def blocks(self) -> Mapping[str, Block]:
        """Return the lists of steps inside this step, by their path in the step."""
        return {}
