"""One blueprint in plain words: what it is given, its steps, what it gives, its agents."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from blueprint.explain.agents import ANY_TOOL, Used, asks_of, asks_of_calls, described
from blueprint.explain.outline import Line
from blueprint.explain.people import RESCUE, Ask
from blueprint.explain.schemas import shape
from blueprint.explain.steps import answers_in, result_of, told_of
from blueprint.explain.told import Inner, Part, Told, Work
from blueprint.explain.words import RUN, Names, condition, constant, ended, filled, listed, one_line
from blueprint.grammar import Agent, AgentTool, AnyStep, Blueprint, Fallback, Hitl, Step
from blueprint.reach import AGENT, IMPORT, reach_of_tools


@dataclass
class Book:
    """What is found on all pages; and the imports that are still to be explained, each once."""

    asks: list[Ask] = field(default_factory=list)
    imports: list[tuple[str, Blueprint]] = field(default_factory=list)
    known: list[Blueprint] = field(default_factory=list)
    tools: bool = False
    """Whether any tool is called."""

    def refer(self, alias: str, child: Blueprint) -> None:
        if not any(child is one or child == one for one in self.known):
            self.known.append(child)
            self.imports.append((alias, child))


@dataclass
class Page:
    """The explanation of one blueprint; `prefix` tells its steps from those of others."""

    blueprint: Blueprint
    book: Book
    depth: int = 0
    prefix: str = ""
    agents: dict[str, Used] = field(default_factory=dict)

    def sections(self) -> list[list[Line]]:
        """What it is given, what it does, what it gives, who works."""
        names = Names(RUN.roots, answers_in(self.blueprint.steps), RUN.keys)
        steps, last = self._steps(self.blueprint.steps, names)
        output = self.blueprint.output
        given = last.previous if output is None else filled(output, last)
        end = Line(ended(f"{'It' if self.depth else 'The run'} gives {given}"), depth=self.depth)
        return [self._begin(), steps, [end], self._agents(names.after("what came before"))]

    def _begin(self) -> list[Line]:
        told = []
        if self.blueprint.inputs is not None:
            told.append(ended(f"The input is {shape(self.blueprint.inputs)}"))
        if self.blueprint.context:
            given = [f"{one_line(key, 40)} ({constant(value)})" for key, value in self.blueprint.context.items()]
            told.append(f"The context begins with {listed(given)}.")
        return [Line(text, depth=self.depth) for text in told]

    def _agents(self, names: Names) -> list[Line]:
        """Each agent once, whatever came before it where it is used."""
        told = [Line(described(used, names), "-", self.depth) for used in self.agents.values()]
        return [Line("Agents:", depth=self.depth), *told] if told else []

    def _steps(self, steps: Iterable[AnyStep], names: Names) -> tuple[list[Line], Names]:
        """The outermost list; and what names stand for behind it."""
        lines: list[Line] = []
        for number, step in enumerate(steps, 1):
            lines += self._step(step, names, f"{number}.", self.depth)
            names = names.after(result_of(step, names))
        return lines, names

    def _step(self, step: AnyStep, names: Names, label: str, depth: int) -> list[Line]:
        """A step with those below it, which are numbered through."""
        told = told_of(step, names)
        lines = [Line(f"{step.name}: {_whole(step, told, names)}", label, depth)]
        self._collect(step, told, self.prefix + label.rstrip("."))
        lines += self._parts(told.parts, label.rstrip("."), depth + 1)
        number = len(told.parts)
        for inner in [*told.inner, *_fallback(step, names)]:
            lines += [Line(inner.title, depth=depth + 1)] if inner.title else []
            seen = inner.names
            for one in inner.steps:
                number += 1
                lines += self._step(one, seen, f"{label.rstrip('.')}.{number}", depth + 1)
                seen = seen.after(result_of(one, seen))
        return lines

    def _parts(self, parts: Iterable[Part], label: str, depth: int) -> list[Line]:
        """The steps of a plan, those of its loops below them."""
        lines: list[Line] = []
        for number, part in enumerate(parts, 1):
            own = f"{label}.{number}"
            lines.append(Line(f"{part.name}: {part.text}", own, depth))
            asks = [*part.asks, *self._asks_of_work(part.work)]
            self.book.asks += [ask.standing(part.id, self.prefix + own) for ask in asks]
            lines += self._parts(part.parts, own, depth + 1)
        return lines

    def _asks_of_work(self, work: Work | None) -> list[Ask]:
        """What a person may be asked where an agent works on a plan; the agent is kept."""
        if work is None:
            return []
        self.book.tools |= bool(work.tools)
        used = self._used(work.owner, work.agent, None)
        if used is None:
            return []
        tools = work.tools or ([tool.name for tool in used.agent.tools] or [ANY_TOOL] if work.read else [])
        turns = not (work.tools or work.driven)
        self._keep(replace(used, turns=turns, drives=work.driven and not work.tools, plan_tools=bool(tools)))
        if tools:
            return asks_of_calls(used, tools, self.blueprint, may_ask=not work.driven)
        return [] if work.driven else asks_of(used, self.blueprint)

    def _collect(self, step: AnyStep, told: Told, at: str) -> None:
        """Keep what is asked, the agent, and what is imported."""
        asks = list(told.asks)
        self.book.tools |= told.calls
        if told.runs is not None and told.runs in self.blueprint.imports:
            self.book.refer(told.runs, self.blueprint.imports[told.runs])
        used = self._used(step.name, told.agent, told.registry)
        if used is not None:
            asks += asks_of(used, self.blueprint)
            self._keep(used)
        asks += self._asks_of_work(told.work)
        asks = [*_stop(step.interrupt_before), *asks, *_stop(step.interrupt_after), *_rescue(step)]
        self.book.asks += [ask.standing(step.name, at) for ask in asks]

    def _used(self, step: str, written: str | Agent | None, registry: tuple[AgentTool, ...] | None) -> Used | None:
        match written:
            case Agent():
                return Used(f"{step}'s agent", written, registry)
            case str() if written in self.blueprint.agents:
                return Used(written, self.blueprint.agents[written], registry)
        return None

    def _keep(self, used: Used) -> None:
        """The agent, those that it may call, and the blueprints that it may run."""
        known = self.agents.get(used.label)
        self.agents[used.label] = used if known is None else known.also(used)
        reach = reach_of_tools(used.tools, self.blueprint)
        inner = [Used(name, agent) for name, agent in reach.agents.items()]
        for one in inner:
            self.agents.setdefault(one.label, one)
        rules = [one.agent.history_management for one in (used, *inner)]
        for name in [rule.agent for rule in rules if rule is not None and rule.agent in self.blueprint.agents]:
            self.agents.setdefault(str(name), Used(str(name), self.blueprint.agents[str(name)], turns=False))
        for alias, child in reach.imports.items():
            self.book.refer(alias, child)
        called = [tool.name for one in (used, *inner) for tool in one.tools]
        self.book.tools |= any(not name.startswith((AGENT, IMPORT)) for name in called)


def _whole(step: AnyStep, told: Told, names: Names) -> str:
    """What the kind says, and what every step may say of itself."""
    only = f"if {condition(step.when, names)}, " if step.when is not None else ""
    before = "A person looks at the context first, and may change it." if step.interrupt_before else ""
    after = "Then a person looks at the context, and may change it." if step.interrupt_after else ""
    said = [f"{only}{told.text}", *_shapes(step), *_kept(step), _FAILED.get(str(step.on_error), ""), before, after]
    return " ".join(sentence for sentence in said if sentence)


def _shapes(step: AnyStep) -> list[str]:
    """What must go in and come out; of a question its form is told already."""
    given = step.input_schema is not None and not isinstance(step, Hitl)
    return [
        *([f"Its input must be {shape(step.input_schema)}."] if given else []),
        *([f"Its result must be {shape(step.output_schema)}."] if step.output_schema is not None else []),
    ]


def _kept(step: Step) -> list[str]:
    path = None if step.sink_to is None else one_line(step.sink_to.removeprefix("context."), 60)
    return [
        *([f"Kept as {path} in the context."] if path is not None else []),
        *(["Its keys are written to the context."] if step.updates_context else []),
    ]


_FAILED = {
    "continue": "If it fails, the run goes on without its result.",
    "ask": "If it fails, a person says what to do.",
}


def _fallback(step: AnyStep, names: Names) -> list[Inner]:
    match step.on_error:
        case Fallback(fallback=other):
            return [Inner("If it fails, instead:", [other], names)]
    return []


def _stop(wanted: bool) -> list[Ask]:
    return [Ask("checkpoint", "the context", on_decline="abort")] if wanted else []


def _rescue(step: AnyStep) -> list[Ask]:
    return [Ask("input", f"{step.name} has failed. What now?", RESCUE)] if step.on_error == "ask" else []
