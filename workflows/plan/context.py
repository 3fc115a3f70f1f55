"""The plan itself, its author's rules and its known tools: the same for every step of it in one workflow."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace

from holdfast.blueprint.kinds import Agent, Blueprint, PlanBody, PlanStep, Rule
from holdfast.blueprint.plan import Layout, LoopUnit, StepUnit, Unit, asks, compile_plan
from holdfast.blueprint.plan.layout import with_bodies
from holdfast.blueprint.plan.tools import authored, ruling_agent
from holdfast.protocol.address import Address
from holdfast.workflows.agents import AgentCall
from holdfast.workflows.failures import failure
from holdfast.workflows.plan.catalogue import Catalogue
from holdfast.workflows.steps.plan import DEFAULT_MODEL


class PlanContext:
    """A plan in one workflow. The plan may be revised while it runs; every scope of it looks here.

    Args:
        plan: The plan, found valid before.
        author: The plan as its author wrote it. Steps written since, by a model or a person, loosen none of its rules.
        blueprint: The blueprint, with the agents that the plan may name.
        task: The input of the plan's step.
        catalogue: What is known of its tools.
    """

    def __init__(
        self,
        plan: PlanBody,
        author: PlanBody,
        blueprint: Blueprint,
        task: object = None,
        catalogue: Catalogue | None = None,
    ) -> None:
        self.author, self.blueprint, self.task = author, blueprint, task
        self.one_question = asyncio.Lock()
        """Held while a question is open: a plan asks one at a time."""
        self.catalogue = Catalogue() if catalogue is None else catalogue
        self.changes = 0
        """Number of changes of the state so far: by it, calls that change nothing are noticed."""
        self.plan, self.layout = plan, layout_of(plan)

    def revise(self, plan: PlanBody) -> None:
        """Replace the plan; what has begun is the same in both."""
        self.plan, self.layout = plan, layout_of(plan)
        self.changes += 1

    def loop(self, id_: str) -> LoopUnit:
        unit = self.layout.units_by_id[id_]
        assert isinstance(unit, LoopUnit)
        return unit

    # Agents

    def agent_call(self, step: PlanStep) -> AgentCall:
        """Return the call of the agent that works on a step: the step's own, the plan's, or the default model."""
        agent = self.plan.agent if step.agent is None else step.agent
        if agent is None:
            return AgentCall(Agent(model=DEFAULT_MODEL), None, step.id)
        call = AgentCall.of(agent, step.id, self.blueprint)
        if call.agent.source is not None:
            text = f"step {step.id}: the agent {call.name!r} comes with 'from', and cannot work on a plan"
            raise failure("agent_unsupported", f"{text}; name an agent with a model", Address(""))
        return call

    def restricted_call(self, step: PlanStep) -> AgentCall:
        """Return the same call; for a step that no author wrote, under the rules of every agent with a say in it."""
        call = self.agent_call(step)
        if self.is_authored(step):
            return call
        policies = [self.policy_agent(step), *self.further_policy_agents(step)]
        return replace(call, agent=_restricted(call.agent, policies))

    def is_authored(self, step: PlanStep) -> bool:
        """Return whether the step is as an author wrote it; of a plan that is read, none is."""
        return authored(step, self.author) == step

    def policy_agent(self, step: PlanStep) -> Agent:
        """Return the agent whose tools, approvals and permissions count: a model cannot choose by naming another."""
        agent = ruling_agent(step, self.plan, self.author, self.blueprint.agents)
        return Agent(model=DEFAULT_MODEL) if agent is None else agent

    def further_policy_agents(self, step: PlanStep) -> list[Agent]:
        """Return the agents whose rules count as well, for a step that no author wrote: all that an author wrote."""
        if self.is_authored(step):
            return []
        inline = [other.agent for other in self.author.steps if isinstance(other.agent, Agent)]
        return [*self.blueprint.agents.values(), *inline]

    def may_ask(self, unit: Unit) -> bool:
        """Return whether a unit may ask a person something, or one in it."""
        steps = [part.step for part in with_bodies([unit]) if isinstance(part, StepUnit)]
        return any(asks(step) or "ask" in self.agent_call(step).agent.human for step in steps)


def layout_of(plan: PlanBody) -> Layout:
    """Return the layout of a plan that was found valid before."""
    layout, faults = compile_plan(plan)
    assert not faults, faults
    return layout


def _restricted(agent: Agent, others: Iterable[Agent]) -> Agent:
    """Return the agent, with an approval for every tool that one of the others needs it for, and their denials."""
    others = list(others)
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
    # The last rule that fits counts: an approval stands over what the agent itself is allowed, a denial over both.
    return agent.model_copy(update={"permissions": [*agent.permissions, *asked, *denied]}) if asked or denied else agent
