"""Descriptions of steps, as each kind gives them and as pages and graphs read them: text, nested steps, questions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.blueprint.explain.people import Ask
from holdfast.blueprint.explain.words import Vocabulary
from holdfast.blueprint.kinds import Agent, AgentTool, AnyStep


@dataclass(frozen=True)
class NestedSteps:
    """Steps nested in a step, with the title above them."""

    title: str
    steps: Sequence[AnyStep]
    names: Vocabulary
    label: str = ""
    """The name of a branch, for a drawing."""
    key: str | None = None
    """The key of a branch; None if it has none, such as a default."""


@dataclass(frozen=True)
class AgentUse:
    """The use of an agent by a plan."""

    agent: str | Agent | None
    """None for the default model."""
    owner: str
    """The name to use if the agent has none of its own."""
    tools: tuple[str, ...] = ()
    """The tools it calls; if empty, it works in turns."""
    driven: bool = False
    """True if an agent drives the plan and so asks on behalf of its steps."""
    read: bool = False
    """True if the plan is known only when it runs."""


@dataclass(frozen=True)
class PlanUnitDescription:
    """The description of a step or a loop of a plan."""

    id: str
    name: str
    text: str
    parts: tuple[PlanUnitDescription, ...] = ()
    """The body of a loop."""
    asks: tuple[Ask, ...] = ()
    work: AgentUse | None = None


@dataclass(frozen=True)
class StepDescription:
    """The description of a step: its sentences, and all that a page collects from it."""

    text: str
    inner: tuple[NestedSteps, ...] = ()
    asks: tuple[Ask, ...] = ()
    agent: str | Agent | None = None
    registry: tuple[AgentTool, ...] | None = None
    """The tools of a planner."""
    runs: str | None = None
    """The alias of the import it runs."""
    calls: bool = False
    """True if it calls a tool, which may ask questions of its own."""
    parts: tuple[PlanUnitDescription, ...] = ()
    """The steps and loops of a plan."""
    work: AgentUse | None = None
    """The agent that drives a plan, or works on one that is known only when it runs."""
