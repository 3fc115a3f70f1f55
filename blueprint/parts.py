"""The pieces that every part of a blueprint is made of: strict models, durations, limits, retries."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints

from holdfast.blueprint.durations import read_duration

NAME_PATTERN = r"^[A-Za-z0-9_-]+$"
EVENT_NAME = r"^[A-Za-z0-9_][A-Za-z0-9_.:/-]*$"
"""Pattern of the name of an event that other systems send."""
Name = Annotated[str, StringConstraints(pattern=NAME_PATTERN, max_length=100)]
Template = Any
Schema = dict[str, Any]
Seconds = Annotated[
    float,
    BeforeValidator(read_duration),
    Field(json_schema_extra={"type": ["string", "number"]}, examples=["30s", "1h30m", "2d", "PT15M"]),
]

Risk = Literal["low", "medium", "high", "critical"]
"""How much may go wrong with an action that a person permits; the last is the worst."""

MOST_AT_ONCE = 50
"""Branches, or items of a map, that may run at the same time. All start in one activation, in which 1,000 copies of a
context of 175 kB tripped Temporal's deadlock detector; 100 did not."""

MaxParallel = Annotated[
    int | None,
    Field(
        ge=1,
        le=MOST_AT_ONCE,
        description="Steps at once, where steps say what they `need`; default: all that can run, at most 50.",
        examples=[3],
    ),
]
"""Stands beside a list of steps."""

RequirementKind = Literal[
    "tool", "tool_argument", "tool_input", "model", "group", "agent", "agent_tool", "own_workflow"
]


@dataclass(frozen=True)
class Requirement:
    """A name in a blueprint that only a worker can resolve; `path` leads from the part that says it."""

    kind: RequirementKind
    name: str
    path: tuple[str | int, ...]
    about: str = ""
    """For a tool that may be replaced: its purpose, by which another is found. For an agent object: the keys beside
    it that need turns with a model, and `model`; for its tool: the object. For a workflow: its task queue. For an
    `argument` of a tool: an object of the one that is fixed, as JSON; for an `input`: its value, as JSON."""
    idempotent: bool | None = None
    """Whether a call may be made twice, as the blueprint says; None: it says nothing."""
    among: tuple[str, ...] | None = None
    """The tools of which one may take the place of a missing one; empty: any that the worker has; None: none may."""


class Part(BaseModel):
    """A piece of a blueprint: immutable, and strict about its keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    # The modules of this base, of steps', questions' and events' do without `from __future__ import annotations`: for
    # each class that is derived, pydantic evaluates the texts of inherited class variables again (35 ms of a command).
    short_keys: ClassVar[tuple[str, ...]] = ()
    """Keys of short forms, which the core form does not have."""
    synonyms: ClassVar[Mapping[str, str]] = {}
    """Keys that others use, with the key that means the same here: the hint for a key that stays wrong."""
    text_stands_for_it: ClassVar[bool] = False
    """True if an author may write a text in its place, as a short form."""

    @classmethod
    def hint_for(cls, key: str) -> str | None:
        """Return where an unknown key belongs, if this part knows."""
        return None

    def requires(self) -> Iterator[Requirement]:
        """Return what this part itself, not what is inside it, names of a worker."""
        return iter(())

    @property
    def looks_up_inside(self) -> tuple[str, ...]:
        """The fields in which there is more that names something of a worker."""
        return tuple(type(self).model_fields)


class Option(Part):
    """One of the answers offered."""

    text_stands_for_it: ClassVar[bool] = True

    id: str = Field(min_length=1, description="What the answer is, if it is chosen.", examples=["pay"])
    label: str = Field("", description="What a person reads; default: the id.", examples=["Pay it"])
    description: str | None = Field(None, description="What it means.", examples=["The invoice is paid today."])
    recommended: bool = Field(False, description="Whether this option is recommended.")
    risk: str | None = Field(None, description="What may go wrong, or how much.", examples=["The money is gone"])
    cost: str | None = Field(None, description="What it costs.", examples=["40 EUR"])
    time: str | None = Field(None, description="How long it takes.", examples=["10 minutes"])
    risks: list[str] = Field(
        [], description="What may go wrong, one by one.", examples=[["The money is gone", "It may be a duplicate"]]
    )


class Limits(Part):
    """The limits of what may be spent; at a limit the run fails, or a person is asked for more."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"model_calls": 200, "cost_usd": 5, "seconds": "1h"}]})

    model_calls: int | None = Field(None, ge=1, description="Model requests.", examples=[200])
    tokens: int | None = Field(None, ge=1, description="Tokens, of input and output together.", examples=[500_000])
    cost_usd: float | None = Field(None, gt=0, description="Dollars, as far as prices are known.", examples=[5])
    seconds: Seconds | None = Field(
        None, description="Time of work; waiting for people does not count.", examples=["1h", 86_400]
    )
    steps: int | None = Field(None, ge=1, description="Steps started.", examples=[10_000])
    on_limit: Literal["fail", "ask"] = Field("fail", description="At a limit: fail, or ask a person for as much again.")


AccessNames = Annotated[list[str], Field(min_length=1, max_length=100)]


class Access(Part):
    """The people who may do something with the runs of a blueprint; `[access]` of the deployment limits them, too."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"see": ["group:hr"], "steer": ["group:ops"]}]})

    see: AccessNames | None = Field(
        None,
        description="Users and groups that may see its runs, beside who started one.",
        examples=[["group:hr"]],
    )
    comment: AccessNames | None = Field(
        None,
        description="Users and groups that may comment on questions; default: who may see.",
        examples=[["group:hr"]],
    )
    answer: AccessNames | None = Field(
        None,
        description="Users and groups that may answer questions without assignees; default: who may see.",
        examples=[["group:hr"]],
    )
    start: AccessNames | None = Field(
        None, description="Users and groups that may start a run.", examples=[["group:hr"]]
    )
    steer: AccessNames | None = Field(
        None,
        description="Users and groups that may pause, resume and cancel a run, talk to its agents, change its plans, "
        "and reassign questions; default: who started it.",
        examples=[["group:ops", "user:ana"]],
    )
    administer: AccessNames | None = Field(
        None, description="Users and groups that may do all of it.", examples=[["group:admins"]]
    )


class CallAgain(Part):
    """How often an agent or a step calls again after an error of a kind; then the error is a failure."""

    retry: int = Field(ge=1, le=100, description="Further calls.", examples=[2])


class AskForAccess(Part):
    """How often a person is asked to give a tool its access; then the error is a failure."""

    ask: int = Field(ge=1, le=100, description="Questions.", examples=[1])


class ToolErrors(Part):
    """What follows an error of a tool, by its kind; of kinds that are left out, what follows any other failure."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"authorization": "ask", "bad_arguments": {"retry": 2}, "timeout": "fail"}]}
    )

    authorization: Literal["ask", "fail"] | AskForAccess | CallAgain | None = Field(
        None,
        description="Status 401 or 403: a person is asked to give access, and the same call is made again.",
    )
    missing: Literal["find", "fail"] | CallAgain | None = Field(
        None,
        description="Status 404, or no such tool: another one that does it is looked for, of the agent or the worker.",
    )
    bad_arguments: Literal["fail"] | CallAgain | None = Field(
        None, description="Status 400 or 422, or arguments that do not fit.", examples=[{"retry": 2}]
    )
    timeout: Literal["fail"] | CallAgain | None = Field(
        None,
        description="Status 504, or no result in time; nobody is asked whether the call took effect.",
        examples=["fail"],
    )
    business: Literal["fail"] | CallAgain | None = Field(
        None, description="A result with `success: false`.", examples=[{"retry": 1}]
    )
    other: Literal["fail"] | CallAgain | None = Field(None, description="Any other failure.", examples=["fail"])
    total: int | None = Field(
        None, ge=1, le=100, description="Further calls after errors of all kinds together.", examples=[2]
    )


class Retry(Part):
    """The retry policy of one activity."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"attempts": 5, "backoff": "2s"}]})

    attempts: int = Field(
        3, ge=1, le=1000, description="Attempts in all; only failures of the call count.", examples=[5]
    )
    backoff: Seconds = Field(1.0, description="Wait before the second attempt.", examples=["2s"])
    factor: float = Field(2.0, ge=1, le=100, description="What each further wait is multiplied by.", examples=[1.5])
    max: Seconds = Field(60.0, description="The longest wait.", examples=["5m"])
