"""How many requests to models a blueprint can make at most: the product of its loops, turns and calls."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from jinja2 import nodes

from blueprint.explain.words import lasting
from blueprint.expressions import ExpressionError
from blueprint.expressions.parse import parsed_expression
from blueprint.grammar import (
    Agent,
    AgenticLoop,
    AgentTool,
    AnyStep,
    Blueprint,
    Cache,
    Clarify,
    Conditional,
    Fallback,
    Hitl,
    Limits,
    Loop,
    Map,
    Parallel,
    PlainStep,
)
from blueprint.reach import AGENT, IMPORT

MISFITS = 3
"""Requests for one output at most, where it must fit a schema: it is asked for again, corrected."""
LARGEST = 1_000_000_000
"""A bound above it is as good as none."""
READINGS = 3
"""Requests for one answer in a `clarify`, at most."""


@dataclass(frozen=True)
class Requests:
    """A number of requests at most; None where nothing bounds it, with the reasons."""

    most: int | None = 0
    why: tuple[str, ...] = ()

    def times(self, number: int | None, why: str) -> Requests:
        if self.most is None or self.most == 0:
            return self
        return Requests(self.most * number) if number is not None else Requests(None, (why,))

    def within(self, limits: Limits | None) -> Requests:
        """No more than limits allow, where nobody is asked for more."""
        if limits is None or limits.model_calls is None or limits.on_limit == "ask":
            return self
        return Requests(limits.model_calls if self.most is None else min(self.most, limits.model_calls))


def total(several: Iterable[Requests]) -> Requests:
    every = list(several)
    return _joined(every, sum(one.most or 0 for one in every))


def largest(several: Iterable[Requests]) -> Requests:
    every = list(several)
    return _joined(every, max((one.most or 0 for one in every), default=0))


def _joined(every: Sequence[Requests], most: int) -> Requests:
    why = tuple(dict.fromkeys(reason for one in every for reason in one.why))
    return Requests(None, why) if any(one.most is None for one in every) else Requests(most)


def requests_of(blueprint: Blueprint) -> Requests:
    """What a run can ask of models at most; failed requests that are made again are not counted."""
    requests = _Counting(blueprint).steps(blueprint.steps).within(blueprint.limits)
    if requests.most is not None and requests.most > LARGEST:
        return Requests(None, (f"its loops, turns and calls allow for more than {LARGEST:,}",))
    return requests


@dataclass
class _Counting:
    """One blueprint; what is used in several places is counted once and remembered."""

    blueprint: Blueprint
    agents: dict[str, Requests] = field(default_factory=dict)
    imports: dict[str, Requests] = field(default_factory=dict)
    open: set[str] = field(default_factory=set)
    """Agents that are being counted: one that is found again would call itself."""

    def steps(self, steps: Iterable[AnyStep]) -> Requests:
        return total(self._step(step) for step in steps)

    def _step(self, step: AnyStep) -> Requests:
        own = self._own(step)
        match step.on_error:
            case Fallback(fallback=other):
                return total([own, self._step(other)])
            case "ask":
                return own.times(None, f"{step.name} is tried again as often as a person wants")
        return own

    def _own(self, step: AnyStep) -> Requests:
        match step:
            case Hitl():
                return Requests()
            case PlainStep():
                return self._plain(step)
            case Conditional():
                branches = [*step.branches.values(), step.default_branch or []]
                return largest(self.steps(branch) for branch in branches)
            case Parallel():
                return total(self.steps(branch) for branch in step.branches.values())
            case Loop():
                return self._loop(step)
            case Map():
                return self._map(step)
            case Cache():
                return self._step(step.wrapped_step)
            case Clarify():
                return self._clarify(step)
            case AgenticLoop():
                return self._planner(step)

    def _plain(self, step: PlainStep) -> Requests:
        if step.agent is not None:
            return self._asked(step.agent)
        if step.uses is not None and step.uses.startswith(IMPORT):
            return self._imported(step.uses.removeprefix(IMPORT))
        return Requests()

    def _loop(self, step: Loop) -> Requests:
        block = step.loop
        shortened = block.history_management is not None and block.history_management.strategy == "summarize"
        body = total([self.steps(block.body), Requests(1 if shortened else 0)])
        if block.max_loops is None:
            return body.times(None, f"{step.name} goes on until its exit is met")
        if block.at_the_limit == "ask":
            return body.times(None, f"{step.name} goes on for as long as a person wants")
        return body.times(block.max_loops, "")

    def _map(self, step: Map) -> Requests:
        body = self.steps(step.map.body)
        if step.map.on_item_error == "ask":
            return body.times(None, f"an item of {step.name} is tried again as often as a person wants")
        return body.times(items_of(step), f"{step.name} has as many items as its list")

    def _clarify(self, step: Clarify) -> Requests:
        if step.agent is None:
            return Requests()
        if step.on_max_questions == "ask":
            return Requests(None, (f"{step.name} asks for as long as a person wants",))
        if step.confirm:
            return Requests(None, (f"{step.name} begins again as often as a person rejects what was understood",))
        return Requests((step.max_questions + 1) * READINGS)

    def _planner(self, step: AgenticLoop) -> Requests:
        agent = self._agent(step.planner)
        if agent is None:
            return Requests(step.max_loops)
        turns = agent.model_copy(update={"max_turns": step.max_loops})
        return self._in_turns(turns, step.registry).within(agent.limits)

    def _agent(self, written: str | Agent) -> Agent | None:
        return written if isinstance(written, Agent) else self.blueprint.agents.get(written)

    def _asked(self, written: str | Agent) -> Requests:
        """One use of an agent."""
        if isinstance(written, Agent):
            return self._used(written)
        if written in self.open:
            return Requests(None, (f"the agent {written} may call itself",))
        if written not in self.agents and written in self.blueprint.agents:
            self.open.add(written)
            self.agents[written] = self._used(self.blueprint.agents[written])
            self.open.remove(written)
        return self.agents.get(written, Requests(1))

    def _used(self, agent: Agent) -> Requests:
        if not agent.works_in_turns:
            single = Requests(1 if agent.output_schema is None else MISFITS)
            return single.within(agent.limits)
        return self._in_turns(agent, agent.tools).within(agent.limits)

    def _in_turns(self, agent: Agent, tools: Sequence[AgentTool]) -> Requests:
        """A request a turn, one more where the conversation is summarised, and what is asked by what it calls."""
        summarised = agent.history_management is not None and agent.history_management.strategy == "summarize"
        own = Requests(agent.max_turns * (2 if summarised else 1))
        calls = agent.max_turns * agent.max_tool_calls_per_turn
        most = calls if agent.max_tool_calls is None else min(calls, agent.max_tool_calls)
        return total([own, largest(self._tool(tool) for tool in tools).times(most, "")])

    def _tool(self, tool: AgentTool) -> Requests:
        if tool.name.startswith(AGENT):
            return self._asked(tool.name.removeprefix(AGENT))
        if tool.name.startswith(IMPORT):
            return self._imported(tool.name.removeprefix(IMPORT))
        return Requests()

    def _imported(self, alias: str) -> Requests:
        if alias not in self.imports and alias in self.blueprint.imports:
            child = self.blueprint.imports[alias]
            self.imports[alias] = _Counting(child).steps(child.steps)
        return self.imports.get(alias, Requests())


def items_of(step: Map) -> int | None:
    """How many items a map has, where its list stands in the blueprint."""
    try:
        node = parsed_expression(step.map.iterable_input)
    except ExpressionError:
        return None
    match node:
        case nodes.List() | nodes.Tuple():
            return len(node.items)
        case nodes.Const(value=str(text)):
            return _length(text)
        case nodes.Call(node=nodes.Name(name="range"), args=[nodes.Const(value=int(count))]):
            return max(count, 0)
    return None


def _length(text: str) -> int | None:
    try:
        listed = json.loads(text)
    except ValueError:
        return None
    return len(listed) if isinstance(listed, list) else None


def spent(limits: Limits) -> list[str]:
    """Limits in words.

    >>> spent(Limits(model_calls=2000, cost_usd=2.5, seconds=90))
    ['2,000 requests to models', '2.5 dollars', '1 minute 30 seconds of work']
    """
    amounts = {
        "requests to models": limits.model_calls,
        "tokens": limits.tokens,
        "dollars": limits.cost_usd,
        "steps": limits.steps,
    }
    said = [f"{_amount(amount)} {unit}" for unit, amount in amounts.items() if amount is not None]
    return [*said, *([f"{lasting(limits.seconds)} of work"] if limits.seconds is not None else [])]


def _amount(amount: float) -> str:
    return f"{int(amount) if float(amount).is_integer() else amount:,}"
