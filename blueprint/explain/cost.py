"""The most model requests a blueprint can make, for `explain`: the product of its loops, turns and calls."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from holdfast.blueprint.dependencies import resolve_agent
from holdfast.blueprint.durations import say_duration
from holdfast.blueprint.explain.plans import compile_step
from holdfast.blueprint.kinds import Agent, AgentTool, AnyStep, Blueprint, Fallback
from holdfast.blueprint.kinds.description import Ask, Cost
from holdfast.blueprint.kinds.references import AGENT, IMPORT
from holdfast.blueprint.parts import Limits
from holdfast.blueprint.words.amounts import LARGEST, Amount, largest, total
from holdfast.blueprint.words.text import enumerate_words

MISFITS = 3
"""The most requests for one output that must fit a schema: a misfit is sent back for correction."""


def count_requests(blueprint: Blueprint) -> Amount:
    """Return the most model requests of a run. Retries of failed requests are not counted."""
    requests = _within(_Counting(blueprint).steps(blueprint.steps), blueprint.limits)
    if requests.most is not None and requests.most > LARGEST:
        return Amount(None, (f"its loops, turns and calls allow for more than {LARGEST:,}",))
    return requests


def _within(amount: Amount, limits: Limits | None) -> Amount:
    """Return the amount, capped by limits that stop the run without asking a person for more."""
    if limits is None or limits.model_calls is None or limits.on_limit == "ask":
        return amount
    bound = amount.bound
    return amount if bound is not None and bound <= limits.model_calls else Amount(limits.model_calls)


@dataclass
class _Counting:
    """The count for one blueprint; agents and imports are counted once and cached."""

    blueprint: Blueprint
    agents: dict[str, Amount] = field(default_factory=dict)
    imports: dict[str, Amount] = field(default_factory=dict)
    open: set[str] = field(default_factory=set)
    """Agents being counted; one met again calls itself."""

    def steps(self, steps: Iterable[AnyStep]) -> Amount:
        return total(self._step(step) for step in steps)

    def _step(self, step: AnyStep) -> Amount:
        own = self._own(step)
        match step.on_error:
            case Fallback(fallback=other):
                return total([own, self._step(other)])
            case "ask":
                return own.times(None, f"{step.name} may run again as often as a person wants")
        return own

    def _own(self, step: AnyStep) -> Amount:
        """Return the requests of the step itself and of what it holds."""
        step = compile_step(step, self.blueprint)
        cost = step.cost()
        blocks = [self.steps(block.steps) for block in step.blocks().values()]
        inside = largest(blocks) if cost.alternatives else total(blocks)
        return cost.over(total([cost.own, inside, *self._work(step, cost)]))

    def _work(self, step: AnyStep, cost: Cost) -> Iterator[Amount]:
        """Yield the requests of the agents and of the import that the step runs."""
        for used in step.agents():
            if used.role == "planner":
                yield self._planner(used.agent, step, cost.turns or 1)
            elif used.role == "verifier":
                yield self._verifier(used.agent)
            elif used.role == "worker" and not cost.includes_agents:
                yield self._use(used.agent)
        if step.import_alias is not None:
            yield self._count_import(step.import_alias)

    def _planner(self, agent_or_name: str | Agent, step: AnyStep, turns: int) -> Amount:
        agent = resolve_agent(agent_or_name, self.blueprint)
        if agent is None:
            return Amount(turns)
        return _within(self._in_turns(agent.model_copy(update={"max_turns": turns}), step.tools()), agent.limits)

    def _verifier(self, agent_or_name: str | Agent) -> Amount:
        agent = resolve_agent(agent_or_name, self.blueprint)
        # Its verdict is an output that must fit a schema, also where the agent has none of its own.
        return Amount(MISFITS) if agent is None else self._own_use(agent.model_copy(update={"output_schema": {}}))

    def _use(self, agent_or_name: str | Agent) -> Amount:
        """Return the requests of one use of an agent."""
        if isinstance(agent_or_name, Agent):
            return self._own_use(agent_or_name)
        if agent_or_name in self.open:
            return Amount(None, (f"the agent {agent_or_name} may call itself",))
        if agent_or_name not in self.agents and agent_or_name in self.blueprint.agents:
            self.open.add(agent_or_name)
            self.agents[agent_or_name] = self._own_use(self.blueprint.agents[agent_or_name])
            self.open.remove(agent_or_name)
        return self.agents.get(agent_or_name, Amount(1))

    def _own_use(self, agent: Agent) -> Amount:
        if not agent.works_in_turns:
            single = Amount(1 if agent.output_schema is None else MISFITS)
            return _within(single, agent.limits)
        return _within(self._in_turns(agent, agent.tools), agent.limits)

    def _in_turns(self, agent: Agent, tools: Sequence[AgentTool]) -> Amount:
        """Return the requests of an agent that works in turns, with those of the agents and blueprints it calls."""
        own = Amount(agent.max_turns * agent.requests_a_turn)
        calls = agent.max_turns * agent.max_tool_calls_per_turn
        most = calls if agent.max_tool_calls is None else min(calls, agent.max_tool_calls)
        return total([own, largest(self._tool(tool) for tool in tools).times(most, "")])

    def _tool(self, tool: AgentTool) -> Amount:
        if tool.name.startswith(AGENT):
            return self._use(tool.name.removeprefix(AGENT))
        if tool.name.startswith(IMPORT):
            return self._count_import(tool.name.removeprefix(IMPORT))
        return Amount()

    def _count_import(self, alias: str) -> Amount:
        if alias not in self.imports and alias in self.blueprint.imports:
            child = self.blueprint.imports[alias]
            self.imports[alias] = _Counting(child).steps(child.steps)
        return self.imports.get(alias, Amount())


def limit_sentences(opening: str, limits: Limits | None) -> list[str]:
    """Return the sentence about limits; none if there are no limits.

    >>> limit_sentences("One use may take", Limits(model_calls=2000, cost_usd=2.5, seconds=90))
    ['One use may take at most 2,000 model requests, 2.5 dollars and 1 minute 30 seconds of work; then it fails.']
    """
    if limits is None or not (phrases := _limit_phrases(limits)):
        return []
    then = "a person is asked for more" if limits.on_limit == "ask" else "it fails"
    return [f"{opening} at most {enumerate_words(phrases)}; then {then}."]


def limit_asks(limits: Limits | None) -> list[Ask]:
    """Return the question whether limits may be exceeded, if they ask it."""
    asks = limits is not None and limits.on_limit == "ask" and _limit_phrases(limits)
    return [Ask("decision", "The limit is reached. Go on?", ("more", "fail"), on_decline="abort")] if asks else []


def _limit_phrases(limits: Limits) -> list[str]:
    amounts = {
        "model requests": limits.model_calls,
        "tokens": limits.tokens,
        "dollars": limits.cost_usd,
        "steps": limits.steps,
    }
    phrases = [f"{_amount(amount)} {unit}" for unit, amount in amounts.items() if amount is not None]
    return [*phrases, *([f"{say_duration(limits.seconds)} of work"] if limits.seconds is not None else [])]


def _amount(amount: float) -> str:
    return f"{int(amount) if float(amount).is_integer() else amount:,}"
