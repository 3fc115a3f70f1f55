"""The page of an explanation about one blueprint: its input, steps, result and agents."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from holdfast.blueprint.dependencies import reach_of_tools, resolve_agent
from holdfast.blueprint.explain.agents import UsedAgent, asks_of_calls, describe_agent, list_asks
from holdfast.blueprint.explain.outline import Line
from holdfast.blueprint.explain.plans import compile_step
from holdfast.blueprint.explain.values import ValueSentences, say_shape
from holdfast.blueprint.kinds import Agent, AgentTool, AnyStep, Blueprint, Fallback, Step
from holdfast.blueprint.kinds.description import RESCUE, AgentUse, Ask, NestedSteps, StepDescription
from holdfast.blueprint.kinds.knowledge import ToolShapes
from holdfast.blueprint.kinds.needs import describe_order, find_vocabularies
from holdfast.blueprint.kinds.people_lists import people_asked
from holdfast.blueprint.kinds.references import AGENT, ANY_TOOL, IMPORT
from holdfast.blueprint.kinds.walk import answers_in
from holdfast.blueprint.shapes import NO_TOOLS, find_facts
from holdfast.blueprint.words.schemas import shape
from holdfast.blueprint.words.text import (
    RUN,
    Vocabulary,
    as_sentence,
    constant,
    enumerate_words,
    one_line,
    say_template,
)


@dataclass
class Book:
    """Everything collected over all pages, and the imports still to be explained, each once."""

    asks: list[Ask] = field(default_factory=list)
    imports: list[tuple[str, Blueprint]] = field(default_factory=list)
    imported: list[Blueprint] = field(default_factory=list)
    tools: bool = False
    """True if any tool is called."""
    shapes: ToolShapes = NO_TOOLS
    """What is known of tools."""

    def add_import(self, alias: str, child: Blueprint) -> None:
        if child not in self.imported:
            self.imported.append(child)
            self.imports.append((alias, child))


@dataclass
class Page:
    """The explanation of one blueprint; `prefix` distinguishes its steps from those of others."""

    blueprint: Blueprint
    book: Book
    depth: int = 0
    prefix: str = ""
    agents: dict[str, UsedAgent] = field(default_factory=dict)

    @cached_property
    def values(self) -> ValueSentences:
        """What is known of the values of this blueprint."""
        return ValueSentences(find_facts(self.blueprint, self.book.shapes))

    def sections(self) -> list[list[Line]]:
        """Return the sections: input and context, steps, result, agents."""
        names = replace(RUN, answers=answers_in(self.blueprint.steps))
        steps, last = self._steps(self.blueprint.steps, names)
        output = self.blueprint.output
        result = last.previous if output is None else say_template(output, last)
        sentence = as_sentence(f"{'It' if self.depth else 'The run'} returns {result}")
        form = "" if isinstance(output, dict) else say_shape(self.values.facts.output)
        end = Line(f"{sentence} That is {form}." if form else sentence, depth=self.depth)
        return [self._inputs(), steps, [end], self._agents(names.after("the previous output"))]

    def _inputs(self) -> list[Line]:
        sentences = []
        if self.blueprint.inputs is not None:
            sentences.append(as_sentence(f"The input is {shape(self.blueprint.inputs)}"))
        if self.blueprint.context:
            entries = [f"{one_line(key, 40)} ({constant(value)})" for key, value in self.blueprint.context.items()]
            sentences.append(f"The context begins with {enumerate_words(entries)}.")
        return [Line(text, depth=self.depth) for text in sentences]

    def _agents(self, names: Vocabulary) -> list[Line]:
        """Return a line for each agent. Each is described once, so its input is left general."""
        lines = [Line(describe_agent(used, names), "-", self.depth) for used in self.agents.values()]
        return [Line("Agents:", depth=self.depth), *lines] if lines else []

    def _steps(self, steps: Sequence[AnyStep], names: Vocabulary) -> tuple[list[Line], Vocabulary]:
        """Return the lines of the outermost steps, and the vocabulary after the last one."""
        *places, last = find_vocabularies(steps, names)
        order = describe_order(steps, self.blueprint.max_parallel)
        lines = [Line(order, depth=self.depth)] if order else []
        for number, (step, place) in enumerate(zip(steps, places, strict=True), 1):
            lines += self._step(step, place, f"{number}.", self.depth)
        return lines, last

    def _step(self, step: AnyStep, names: Vocabulary, label: str, depth: int) -> list[Line]:
        """Return the lines of a step and of those nested in it, numbered consecutively."""
        written, step = step, compile_step(step, self.blueprint)
        description = step.describe(names)
        values = self.values.list_for(written, description, names)
        lines = [Line(f"{step.label}: {_step_text(step, description, names, values)}", label, depth)]
        self._record(step, description, self.prefix + label.rstrip("."), people_asked(step.get_assignees(), names))
        number = 0
        for inner in [*description.inner, *_fallback(step, names)]:
            order = "" if inner.waits is not None else describe_order(inner.steps, step.most_at_once)
            texts = (inner.title, order)
            lines += [Line(text, depth=depth + 1) for text in texts if text]
            for nested, place in zip(inner.steps, find_vocabularies(inner.steps, inner.names), strict=False):
                number += 1
                lines += self._step(nested, place, f"{label.rstrip('.')}.{number}", depth + 1)
        return lines

    def _asks_of_agents(self, step: AnyStep) -> list[Ask]:
        """Record the agents of a step, and return the questions that may be asked while they work."""
        asks: list[Ask] = []
        for use in step.agents():
            used = self._used_agent(use.agent, step.name, step.tools() if use.role == "planner" else None)
            if used is not None:
                asks += list_asks(used, self.blueprint)
                self._add_agent(used)
        return asks

    def _asks_of_work(self, work: AgentUse) -> list[Ask]:
        """Record the agent of a plan, and return the questions that may be asked while it works."""
        self.book.tools |= bool(work.tools)
        used = None if work.agent is None else self._used_agent(work.agent, work.owner)
        if used is None:
            return []
        if not (work.tools or work.driven or work.read):  # a step of a plan has the tools that it names, and no others
            used = replace(used, agent=used.agent.model_copy(update={"tools": []}))
        tools = work.tools or ([tool.name for tool in used.agent.tools] or [ANY_TOOL] if work.read else [])
        turns = not (work.tools or work.driven)
        self._add_agent(replace(used, turns=turns, drives=work.driven and not work.tools, plan_tools=bool(tools)))
        if tools:
            return asks_of_calls(used, tools, self.blueprint, may_ask=not work.driven)
        return [] if work.driven else list_asks(used, self.blueprint)

    def _record(self, step: AnyStep, description: StepDescription, at: str, who: tuple[str, ...]) -> None:
        """Record the step's questions and who is asked, its agent, and the blueprint it runs."""
        asks = list(description.asks)
        self.book.tools |= description.calls
        alias, work = step.import_alias, description.work
        if alias is not None and alias in self.blueprint.imports:
            self.book.add_import(alias, self.blueprint.imports[alias])
        asks += self._asks_of_agents(step) if work is None else self._asks_of_work(work)
        asks = [
            *_checkpoint(step.interrupt_before),
            *(replace(ask, who=who) for ask in asks),
            *_checkpoint(step.interrupt_after),
            *_failure_question(step),
        ]
        self.book.asks += [ask.at_step(step.name, at) for ask in asks]

    def _used_agent(
        self, named: str | Agent, owner: str, registry: Sequence[AgentTool] | None = None
    ) -> UsedAgent | None:
        """Return an agent as it is used; one without a name has that of its owner. None if it is unknown."""
        agent = resolve_agent(named, self.blueprint)
        label = named if isinstance(named, str) else f"{owner}'s agent"
        return None if agent is None else UsedAgent(label, agent, registry)

    def _add_agent(self, used: UsedAgent) -> None:
        """Record an agent, the agents it may call or be summarised by, and the blueprints it may run."""
        present = self.agents.get(used.label)
        self.agents[used.label] = used if present is None else present.merged_with(used)
        reach = reach_of_tools(used.tools, self.blueprint)
        inner = [UsedAgent(name, agent) for name, agent in reach.agents.items()]
        for callee in inner:
            self.agents.setdefault(callee.label, callee)
        rule = used.agent.history_management
        if rule is not None and rule.agent in self.blueprint.agents:
            self.agents.setdefault(rule.agent, UsedAgent(rule.agent, self.blueprint.agents[rule.agent], turns=False))
        for alias, child in reach.imports.items():
            self.book.add_import(alias, child)
        called = [tool.name for user in (used, *inner) for tool in user.tools]
        self.book.tools |= any(not name.startswith((AGENT, IMPORT)) for name in called)


def _step_text(step: AnyStep, description: StepDescription, names: Vocabulary, values: Iterable[str]) -> str:
    """Return the kind's description, with what every step may add: condition, stops, schemas, error handling."""
    before = "A person looks at the context first, and may change it." if step.interrupt_before else ""
    after = "Then a person looks at the context, and may change it." if step.interrupt_after else ""
    sentences = [
        f"{step.preconditions(names)}{description.text}",
        *values,
        *_schema_sentences(step),
        *_context_sentences(step),
        _FAILED.get(str(step.on_error), ""),
        before,
        after,
    ]
    return " ".join(sentence for sentence in sentences if sentence)


def _schema_sentences(step: AnyStep) -> list[str]:
    """Return the sentences about schemas; the input schema of a question is left out, as its form says it already."""
    shows_input = step.input_schema is not None and not step.input_schema_describes_answer
    return [
        *([f"Its input must be {shape(step.input_schema)}."] if shows_input else []),
        *([f"Its result must be {shape(step.output_schema)}."] if step.output_schema is not None else []),
    ]


def _context_sentences(step: Step) -> list[str]:
    path = None if step.sink_to is None else one_line(step.sink_to.removeprefix("context."), 60)
    return [
        *([f"Saved as {path} in the context."] if path is not None else []),
        *(["Its keys are written to the context."] if step.updates_context else []),
    ]


_FAILED = {
    "continue": "If it fails, the run goes on without its result.",
    "ask": "If it fails, a person decides what to do.",
}


def _fallback(step: AnyStep, names: Vocabulary) -> list[NestedSteps]:
    match step.on_error:
        case Fallback(fallback=other):
            return [NestedSteps("If it fails, instead:", [other], names)]
    return []


def _checkpoint(wanted: bool) -> list[Ask]:
    return [Ask("checkpoint", "the context", on_decline="abort")] if wanted else []


def _failure_question(step: AnyStep) -> list[Ask]:
    return [Ask("input", f"{step.name} has failed. What now?", RESCUE)] if step.on_error == "ask" else []
