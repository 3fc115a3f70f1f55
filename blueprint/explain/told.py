"""What is said of a step: sentences, what stands below it, and what programs want to know of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from blueprint.explain.people import Ask
from blueprint.explain.words import Names
from blueprint.grammar import Agent, AgentTool, AnyStep


@dataclass(frozen=True)
class Inner:
    """Steps below a step, and what is said before them."""

    title: str
    steps: Sequence[AnyStep]
    names: Names
    label: str = ""
    """A branch in a word."""
    key: str | None = None
    """A branch's own key; None where there is none, as for a default."""


@dataclass(frozen=True)
class Work:
    """An agent's part in a plan."""

    agent: str | Agent | None
    """None: the default model."""
    owner: str
    """Whose agent it is, where it has no name."""
    tools: tuple[str, ...] = ()
    """What it calls; nothing: it works by itself."""
    driven: bool = False
    """Whether the whole plan is in the hands of an agent, which asks what it wants to know."""
    read: bool = False
    """Whether the plan is known only when it runs."""


@dataclass(frozen=True)
class Part:
    """A step or a loop of a plan."""

    id: str
    name: str
    text: str
    parts: tuple[Part, ...] = ()
    """What a loop does for each item."""
    asks: tuple[Ask, ...] = ()
    work: Work | None = None


@dataclass(frozen=True)
class Told:
    """What is said of a step: what it does, in sentences, and the steps below it."""

    text: str
    inner: tuple[Inner, ...] = ()
    asks: tuple[Ask, ...] = ()
    agent: str | Agent | None = None
    registry: tuple[AgentTool, ...] | None = None
    """What a planner may run."""
    runs: str | None = None
    """The alias of the import that it runs."""
    calls: bool = False
    """Whether it calls a tool, which may have questions of its own."""
    parts: tuple[Part, ...] = ()
    """The steps and loops of a plan."""
    work: Work | None = None
    """What an agent does for the whole of a plan."""
