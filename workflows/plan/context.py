"""What every step of a plan is given: who works on it, what it is told of the plan, and the one ear for questions."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from holdfast.blueprint.expressions import text_of
from holdfast.blueprint.kinds import Agent, PlanBody, PlanStep, Rule
from holdfast.blueprint.plan import LoopUnit, StepUnit, Unit, asks
from holdfast.blueprint.plan.references import references_of
from holdfast.blueprint.plan.tools import authored, ruling_agent
from holdfast.protocol.agents import ToolSpec
from holdfast.workflows.agents import AgentCall
from holdfast.workflows.frame import Frame
from holdfast.workflows.plan.scope import PlanScope
from holdfast.workflows.steps.plan import DEFAULT_MODEL

RESULT_SHOWN = 20_000
"""Characters of a result that a model is shown without being referred to."""


@dataclass(frozen=True)
class PlanContext:
    """A place where steps of a plan are worked on; the frame stands at the plan, or at an iteration of a loop."""

    plan: PlanBody
    frame: Frame
    scope: PlanScope
    input: Any
    one_question: asyncio.Lock
    """A plan asks one question at a time."""
    author: PlanBody
    """The plan as its author wrote it; of steps that a model or a person has written since, no rule is loosened."""
    specs: dict[str, ToolSpec] = field(default_factory=dict)
    """What is known of tools, by the names that the plan has for them."""

    def at(self, frame: Frame, scope: PlanScope) -> PlanContext:
        return replace(self, frame=frame, scope=scope)

    def asking(self, step: PlanStep) -> AgentCall:
        """Who works on a step: its agent, the plan's, or the default model."""
        written = self.plan.agent if step.agent is None else step.agent
        if written is None:
            return AgentCall(Agent(model=DEFAULT_MODEL), None, step.id)
        return AgentCall.of(written, step.id, self.frame.blueprint)

    def trusts(self, step: PlanStep) -> bool:
        """Whether the step stands as an author wrote it."""
        return self.gave(step) == step

    def gave(self, step: PlanStep) -> PlanStep | None:
        """The step of this name as an author wrote it; of a plan that is read, nobody did."""
        return authored(step, self.author)

    def ruling(self, step: PlanStep) -> Agent:
        """Whose tools, approvals and permissions count: a model cannot choose others by naming an agent."""
        found = ruling_agent(step, self.plan, self.author, self.frame.blueprint.agents)
        return Agent(model=DEFAULT_MODEL) if found is None else found

    def also_ruling(self, step: PlanStep) -> list[Agent]:
        """Who else has a say in the tools of a step that no author wrote: every agent that an author gave them to."""
        if self.trusts(step):
            return []
        inline = [one.agent for one in self.author.steps if isinstance(one.agent, Agent)]
        return [*self.frame.blueprint.agents.values(), *inline]

    def worker(self, step: PlanStep) -> AgentCall:
        """Who works on a step without tools: of one that no author wrote, with its own tools under every rule."""
        asking = self.asking(step)
        return asking if self.trusts(step) else replace(asking, agent=_kept_back(asking.agent, self._rulers(step)))

    def _rulers(self, step: PlanStep) -> list[Agent]:
        return [self.ruling(step), *self.also_ruling(step)]

    def may_ask(self, unit: Unit) -> bool:
        """Whether it may ask a person something: a plan has one question open at a time."""
        if isinstance(unit, StepUnit):
            return asks(unit.step) or "ask" in self.asking(unit.step).agent.human
        return isinstance(unit, LoopUnit) and any(self.may_ask(inner) for inner in unit.body)

    def told(self, unit: StepUnit) -> str:
        """What the model knows of the plan around the step, beside the instruction itself."""
        step, scope = unit.step, self.scope
        lines = [f"You work on one step of a plan, and on nothing else. The plan's goal: {self.plan.goal}"]
        lines.append(f"The step: {step.id}{f', {step.title}' if step.title else ''}")
        if step.expected_result:
            lines.append(f"Expected of it: {step.expected_result}")
        if not step.tools and not asks(step) and scope.layout.feeds_loop(step.id):
            lines.append("Give a list: the plan goes on with each of its items.")
        if self.input is not None:
            lines.append(f"What the plan was given: {_shown(self.input)}")
        referred = {str(one) for one in references_of(step.instruction)}
        if scope.around and "CURRENT_ITEM" not in referred:
            at = scope.around[-1]
            lines.append(f"It runs once an item; this is item {at.index}: {_shown(at.item)}")
        for id_ in unit.needs:
            known = scope.known_of(id_)
            if f"RESULT_FROM_{id_}" not in referred and known.status == "completed":
                lines.append(f"Result of {id_}: {_shown(known.value)}")
        return "\n".join(lines)


def _kept_back(agent: Agent, others: Iterable[Agent]) -> Agent:
    """The agent, with a person's leave for whatever one of the others has it for, and nothing that one is denied."""
    asked = [
        Rule(tool=tool.name, action="ask")
        for other in others
        for tool in other.tools
        if tool.review or tool.approve not in (None, "never") or (tool.approve is None and "approve" in other.human)
    ]
    asked += [Rule(action="ask") for other in others if "approve" in other.human and not other.tools]
    rules = [rule for other in others for rule in other.permissions]
    asked += [rule for rule in rules if rule.action == "ask"]
    denied = [rule for rule in [*agent.permissions, *rules] if rule.action == "deny"]
    return agent.model_copy(update={"permissions": [*agent.permissions, *asked, *denied]}) if asked or denied else agent


def _shown(value: Any) -> str:
    text = text_of(value)
    return text if len(text) <= RESULT_SHOWN else f"{text[:RESULT_SHOWN]}…"
