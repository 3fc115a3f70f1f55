"""The plan itself, its author's rules and its known tools: the same for every step of it in one workflow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from holdfast.blueprint.kinds import Agent, AgentTool, Blueprint, PlanBody, PlanStep
from holdfast.blueprint.kinds.plan_body import DEFAULT_MODEL
from holdfast.blueprint.plan.compile import compile_plan
from holdfast.blueprint.plan.layout import Layout, LoopUnit
from holdfast.blueprint.plan.tools import find_authored, find_tool_lack, ruling_agent
from holdfast.blueprint.plan.work import PlanWork
from holdfast.protocol.address import Address
from holdfast.protocol.agents import ToolSpec
from holdfast.protocol.children import Failure, ToolBounds
from holdfast.workflows.agents import AgentCall
from holdfast.workflows.failures import failure
from holdfast.workflows.plan.catalogue import Catalogue


class PlanContext:
    """A plan in one workflow. The plan may be revised while it runs; every scope of it looks here.

    Args:
        plan: The plan, found valid before.
        author: The plan as its author wrote it. Steps written since, by a model or a person, loosen none of its rules.
        blueprint: The blueprint, with the agents that the plan may name.
        task: The input of the plan's step.
        catalogue: What is known of its tools.
        approved: The tools of each step of the plan that was approved, by the step's id.
    """

    def __init__(
        self,
        plan: PlanBody,
        author: PlanBody,
        blueprint: Blueprint,
        task: object = None,
        catalogue: Catalogue | None = None,
        approved: Mapping[str, list[str]] | None = None,
    ) -> None:
        self.author, self.blueprint, self.task = author, blueprint, task
        self.approved = {} if approved is None else dict(approved)
        self.catalogue = Catalogue() if catalogue is None else catalogue
        self.changes = 0
        """Number of changes of the state so far: by it, calls that change nothing are noticed."""
        self.plan, self.layout = plan, find_layout(plan)

    def revise(self, plan: PlanBody, *, approved: bool) -> None:
        """Replace the plan; what has begun is the same in both. `approved`: a person has agreed to its tools."""
        self.plan, self.layout = plan, find_layout(plan)
        if approved:
            self.approved = approved_tools(plan)
        self.changes += 1

    def loop(self, id_: str) -> LoopUnit:
        unit = self.layout.units_by_id[id_]
        assert isinstance(unit, LoopUnit)
        return unit

    # Agents

    def call_agent(self, agent: str | Agent, step: str) -> AgentCall:
        """Return the call of an agent that works on a step."""
        call = AgentCall.of(agent, step, self.blueprint)
        if call.agent.source is not None:
            text = f"step {step}: the agent {call.name!r} comes with 'from', and cannot work on a plan"
            raise failure("agent_unsupported", f"{text}; name an agent with a model", Address(""))
        return call

    def call_without_tools(self, work: PlanWork) -> AgentCall:
        """Return the call of the agent that works on a step without tools: those of the agent are not the step's."""
        call = self.call_agent(work.agent or "", work.name)
        return replace(call, agent=call.agent.model_copy(update={"tools": []}))

    def call_with_tools(
        self, work: PlanWork, step: PlanStep, specs: Sequence[ToolSpec], tries: Mapping[str, int]
    ) -> AgentCall:
        """Return the call of the agent that calls a step's tools, and ends when each of them has returned."""
        call, bounds = self.call_agent(work.agent or "", work.name), self.bounds(step)
        listed = bounds.agents[0].tools
        names = {tool.name for tool in listed}
        others = [AgentTool(name=spec.reference) for spec in specs if spec.reference not in names]
        own = {"tools": [*listed, *others], "permissions": [], "output_schema": None, "tool_errors": work.tool_errors}
        agent = call.agent.model_copy(update=own)
        return replace(
            call, agent=agent, ends_with_tool=work.ends_with_tool, specs=tuple(specs), bounds=bounds, tries=tries
        )

    def bounds(self, step: PlanStep) -> ToolBounds:
        """Return which tools the step may call, and under whose rules.

        Where a person approved the plan, what was approved for this step needs no further approval; else what the plan
        named when it began, and what its agent lists.
        """
        agent = self.policy_agent(step)
        named = [tool for tools in self.approved.values() for tool in tools]
        approved = self.approved.get(step.id, []) if self.author.confirm else [*named, *(t.name for t in agent.tools)]
        return ToolBounds(
            step=step.id,
            instruction=step.instruction,
            service=step.service,
            agents=[_keep_rules(part) for part in (agent, *self.further_policy_agents(step))],
            approved=list(dict.fromkeys(approved)),
            replaces=self.author.source is None or self.author.confirm,
        )

    def find_lack(self, step: PlanStep, tool: str, address: Address) -> Failure | None:
        """Return why the step may not use a tool, whatever workers have; None if it may."""
        lack = find_tool_lack(tool, step, self.author, self.policy_agent(step))
        if lack is None:
            return None
        text = f"{lack.message}; {lack.hint}" if lack.hint else lack.message
        return Failure(type=lack.type, message=text, address=address)

    def is_authored(self, step: PlanStep) -> bool:
        """Return whether the step is as an author wrote it; of a plan that is read, none is."""
        return find_authored(step, self.author) == step

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


def _keep_rules(agent: Agent) -> Agent:
    """Return the agent with its rules for tools, and without what makes it large."""
    return agent.model_copy(update={"instructions": "", "output_schema": None})


def find_layout(plan: PlanBody) -> Layout:
    """Return the layout of a plan that was found valid before."""
    layout, faults = compile_plan(plan)
    assert not faults, faults
    return layout


def approved_tools(plan: PlanBody) -> dict[str, list[str]]:
    """Return the tools of every step that has some."""
    return {step.id: list(step.tools) for step in plan.steps if step.tools}
