"""Units of a plan as steps: what explain, graph and cost ask of every step, in the words of the plan."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, cast

from pydantic import ConfigDict

from holdfast.blueprint.dependencies import resolve_agent
from holdfast.blueprint.json_values import JSON
from holdfast.blueprint.kinds import Agent, AnyStep, Block, Blueprint, PlanBody, PlanStep, Step
from holdfast.blueprint.kinds.agents import AgentReference
from holdfast.blueprint.kinds.description import RESCUE, AgentUse, Ask, Cost, Drawing, NestedSteps, StepDescription
from holdfast.blueprint.kinds.hitl_words import deadline
from holdfast.blueprint.kinds.people_lists import people_asked
from holdfast.blueprint.kinds.phrases import agent_phrase
from holdfast.blueprint.kinds.references import tool_name
from holdfast.blueprint.plan import (
    Layout,
    LoopUnit,
    Reference,
    StepUnit,
    Unit,
    asks,
    compile_question,
    known_id,
    list_options,
    question_text,
    wants_a_yes,
)
from holdfast.blueprint.plan.answers import ACCEPT, REFUSE, read_meaning
from holdfast.blueprint.plan.references import list_references, replace_references, whole_reference
from holdfast.blueprint.plan.tools import MOST_RETRIES
from holdfast.blueprint.words.amounts import Amount, total
from holdfast.blueprint.words.text import (
    RUN,
    Vocabulary,
    as_sentence,
    condition,
    constant,
    duration,
    enumerate_words,
    json_list,
    one_line,
    quote,
)

_MEANS = {ACCEPT: " (a yes)", REFUSE: " (a no)"}
_FAILED_ITEM = {
    "continue": "if one fails, the next one starts; if all fail, so does the loop",
    "fail": "if one fails, so does the loop",
    "ask": "if one fails, a person decides what to do",
}


@dataclass(frozen=True)
class PlanWords:
    """The words for the units and references of one plan, and its units as steps."""

    plan_name: str
    plan: PlanBody
    layout: Layout
    blueprint: Blueprint
    assignees: Sequence[str] | str = ()
    """Who is asked where a step names nobody."""

    @property
    def is_driven(self) -> bool:
        return self.plan.driver == "agent"

    def steps(self, units: Iterable[Unit]) -> list[UnitStep]:
        """Return units as steps, in the order in which they run if one runs at a time."""
        remaining, finished = list(units), set[str]()
        ids, ordered = {unit.id for unit in remaining}, list[UnitStep]()
        while remaining:
            unit = next((unit for unit in remaining if finished >= ids & set(unit.waits)), remaining[0])
            remaining.remove(unit)
            finished.add(unit.id)
            ordered.append(_make_step(unit, self))
        return ordered

    def nested(self, units: Iterable[Unit]) -> NestedSteps:
        steps = self.steps(units)
        return NestedSteps("", cast(list[AnyStep], steps), RUN, waits={step.name: step.unit.waits for step in steps})

    def name(self, id_: str) -> str:
        """Return what to call a step or a loop: "step 4", "loop guests", "fetch"."""
        if isinstance(self.layout.units_by_id.get(id_), LoopUnit):
            return id_ if id_.startswith("loop") else f"loop {id_}"
        return f"step {id_}" if id_[:1].isdigit() else id_

    def text(self, template: str, unit: Unit) -> str:
        """Return a text of the plan in quotes, with references in words between brackets."""
        whole = whole_reference(template)
        if whole is not None:
            return self.reference(whole, unit)
        return quote(replace_references(template, lambda reference: f"[{self.reference(reference, unit)}]"))

    def unquoted(self, template: str, unit: Unit) -> str:
        """Return the text without the quotes."""
        return self.text(template, unit).removeprefix('"').removesuffix('"')

    def reference(self, reference: Reference, unit: Unit) -> str:
        """Return the words for a reference, as read from this unit."""
        around = self.layout.list_loops(unit.id)
        if reference.kind == "result":
            return self._result(reference.name or "", around)
        loop = around[-1] if around and reference.name is None else known_id(reference.name, around)
        of = f" of {self.name(loop)}" if loop is not None and len(around) > 1 else ""
        return f"the item{of}" if reference.kind == "item" else f"the number of the item{of}, from 0"

    def _result(self, id_: str, around: Sequence[str]) -> str:
        unit = self.layout.find(id_)
        if unit is None:
            return f"the output of {id_}"
        answered = isinstance(unit, StepUnit) and only_asks(unit.step)
        outside = [loop for loop in self.layout.list_loops(unit.id) if loop not in around]
        each = f" for each item of {self.name(outside[0])}" if outside else ""
        return f"the {'answer to' if answered else 'output of'} {self.name(unit.id)}{each}"

    def clause(self, unit: Unit) -> str:
        """Return the condition of a unit as a clause; empty if it has none."""
        if unit.condition is None:
            return ""
        words = Vocabulary({"input": self.reference(unit.condition.left, unit)})
        return condition(unit.condition.write("input"), words)

    def preconditions(self, unit: Unit, skipped: str) -> str:
        """Return the leading clauses: dependencies and condition."""
        gates = self.layout.list_gates(unit)
        waits = sorted(set(unit.waits).difference(gates), key=lambda id_: self.layout.units_by_id[id_].place)
        clause = self.clause(unit)
        after = f"after {enumerate_words([self.name(id_) for id_ in waits])}, " if waits else ""
        yes = f"only after a yes to {enumerate_words([self.name(id_) for id_ in gates])} ({skipped}), " if gates else ""
        return after + yes + (f"if {clause} ({skipped}), " if clause else "")


class UnitStep(Step):
    """A unit of a plan as a step; its name is the id."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    kind: Literal["unit"] = "unit"
    unit: Unit
    words: PlanWords

    @property
    def label(self) -> str:
        return self.words.name(self.name)

    def asked(self) -> Sequence[str] | str:
        """See base class."""
        return self.words.assignees

    def questions(self) -> Amount:
        """Return how many questions the unit asks people."""
        raise NotImplementedError


def _make_step(unit: Unit, words: PlanWords) -> UnitStep:
    kind: type[UnitStep] = _LoopPart if isinstance(unit, LoopUnit) else _StepPart
    return kind.model_construct(name=unit.id, unit=unit, words=words)


class _StepPart(UnitStep):
    """A step of a plan."""

    unit: StepUnit

    @property
    def label(self) -> str:
        title = self.unit.step.title
        return f"{super().label} ({one_line(title, 60)})" if title else super().label

    def asked(self) -> Sequence[str] | str:
        """See base class."""
        return self.unit.step.assignees or super().asked()

    def questions(self) -> Amount:
        return Amount(1 if asks(self.unit.step) else 0)

    def agents(self) -> Sequence[AgentReference]:
        work = self._work()
        return [] if work is None or work.agent is None else [AgentReference(work.agent, "agent")]

    def cost(self) -> Cost:
        step = self.unit.step
        if step.arguments is not None:
            return Cost(Amount(0), includes_agents=True)
        if not step.tools:
            return Cost(Amount(0 if asks(step) or self.agents() else 1), includes_agents=asks(step))
        for agent in (resolve_agent(used.agent, self.words.blueprint) for used in self.agents()):
            if agent is not None and "ask" in agent.human:
                why = f"the agent of step {step.id} may ask a person as often as it wants"
                return Cost(Amount(None, (why,)), includes_agents=True)
        return Cost(Amount(len(step.tools) + MOST_RETRIES), includes_agents=True)

    def describe(self, names: Vocabulary) -> StepDescription:
        step, words = self.unit.step, self.words
        sentences = [f"{words.preconditions(self.unit, 'else it is skipped')}{self._action(names)}"]
        if step.expected_result:
            sentences.append(as_sentence(f"It should give {words.text(step.expected_result, self.unit)}"))
        if step.assignees and not only_asks(step):
            sentences.append(f"What it asks goes to {self.people(names)}.")
        if step.optional:
            sentences.append("Its failure does not fail the plan.")
        asked = [self._ask(names)] if asks(step) else []
        asked += [access_ask(step.tools)] if step.tools else []
        return StepDescription(" ".join(sentences), asks=tuple(asked), work=self._work())

    def draw(self, names: Vocabulary) -> Drawing:
        step, clause = self.unit.step, self.words.clause(self.unit)
        calls = enumerate_words([tool_name(tool) for tool in step.tools]) if step.tools else ""
        lines = [
            f"if {clause}" if clause else "",
            self.words.unquoted(self._instruction, self.unit),
            f"unless no: {calls}" if calls and asks(step) else calls,
            self._own_worker,
            *(self.people_line(names) if step.assignees or asks(step) else []),
        ]
        return Drawing("question" if asks(step) else "tool" if step.tools else "agent", lines, alone=True)

    @property
    def _instruction(self) -> str:
        """The task or question; empty if the tools say it alone."""
        step = self.unit.step
        return question_text(step.instruction) if asks(step) else step.instruction.strip()

    @property
    def _own_worker(self) -> str:
        """The agent that only this step names; an agent that drives the plan works on all."""
        agent = self.unit.step.agent
        return "" if agent is None or self.words.is_driven else worker_name(agent)

    def _action(self, names: Vocabulary) -> str:
        step = self.unit.step
        text = self.words.text(self._instruction, self.unit) if self._instruction else ""
        worker = f"{self._own_worker} " if self._own_worker else ""
        service = f" ({one_line(step.service, 40)})" if step.service else ""
        calls = f"calls {enumerate_words([tool_name(tool) for tool in step.tools])}{service}{self._arguments}"
        if asks(step):
            when = "After a yes" if wants_a_yes(step) else "Unless the answer is a no,"
            then = f" {when} {worker or 'it '}{calls}." if step.tools else ""
            return f"{self._question(text, names)}{then}"
        if step.tools:
            return as_sentence(f"{worker}{calls} for {text}" if text else f"{worker}{calls}")
        return as_sentence(f"{worker}works on {text}")

    @property
    def _arguments(self) -> str:
        """The arguments that the plan itself gives."""
        given = self.unit.step.arguments
        return (
            f" with {enumerate_words([f'{name}: {self._value(value)}' for name, value in given.items()])}"
            if given
            else ""
        )

    def _value(self, value: JSON) -> str:
        return self.words.text(value, self.unit) if isinstance(value, str) else constant(value)

    def _question(self, text: str, names: Vocabulary) -> str:
        step, offered = self.unit.step, self._choices()
        person = self.people(names) or "a person"
        sentences = [f"asks {person} {'to choose' if offered else 'for text'}: {as_sentence(text)}"]
        if offered:
            sentences.append(
                f"Choices: {enumerate_words([f'{constant(text)}{means}' for text, means in offered], 'or')}."
            )
        if step.timeout is not None:
            then = {"skip": "it is skipped", "default": f"the answer is {constant(step.default)}"}
            ends = then.get(step.on_timeout or "", "the step fails")
            sentences.append(f"If nobody answers within {duration(step.timeout)}, {ends}.")
        return " ".join([*sentences, "Declining is a no."])

    def _choices(self) -> list[tuple[str, str]]:
        """Return the choices of a question, each with its meaning."""
        options = list_options(self.unit.step, self.words.plan.spoken_language)
        return [
            (self.words.unquoted(option.text, self.unit), _MEANS.get(read_meaning(option), "")) for option in options
        ]

    def _ask(self, names: Vocabulary) -> Ask:
        """Return the question as the step asks it that the plan's question is compiled to."""
        asking = compile_question(self.unit, self.words.plan, self.words.layout)
        by, on_timeout = deadline(asking)
        return Ask(
            asking.question.shown_kind,
            self.words.unquoted(self._instruction, self.unit),
            tuple(text for text, _ in self._choices()),
            people_asked(self.asked(), names),
            by=by,
            on_timeout=on_timeout,
            on_decline="denied",
        )

    def _work(self) -> AgentUse | None:
        step, words = self.unit.step, self.words
        if only_asks(step) or (words.is_driven and not step.tools):
            return None
        if step.agent is None:
            return AgentUse(words.plan.agent, words.plan_name, tuple(step.tools), words.is_driven)
        owner = f"{words.plan_name}'s {words.name(step.id)}"
        return AgentUse(step.agent, owner, tuple(step.tools), words.is_driven)


class _LoopPart(UnitStep):
    """A loop of a plan."""

    unit: LoopUnit

    def questions(self) -> Amount:
        return self.cost().over(total(step.questions() for step in self.words.steps(self.unit.body)))

    def blocks(self) -> Mapping[str, Block]:
        return {"body": Block(tuple(self.words.nested(self.unit.body).steps))}

    def cost(self) -> Cost:
        if self.unit.block.on_item_error == "ask":
            return Cost(times=None, why=f"an item of {self.name} may run again as often as a person wants")
        items = self._literal_items
        return Cost(each=(self.name, self.unit.block.max_items)) if items is None else Cost(times=len(items))

    def describe(self, names: Vocabulary) -> StepDescription:
        unit = self.unit
        these = "this step" if len(unit.body) == 1 else "these steps"
        most = "" if self._literal_items is not None else f" (at most {unit.block.max_items:,})"
        before = self.words.preconditions(unit, "else it is skipped, with all that is in it")
        ends = _FAILED_ITEM[unit.block.on_item_error]
        text = f"{before}runs {these} for each item of {self._over}{most}, {self._pace}; {ends}."
        asked = (Ask("input", "An item has failed. What now?", RESCUE),) if unit.block.on_item_error == "ask" else ()
        return StepDescription(text, (self.words.nested(unit.body),), asked)

    def draw(self, names: Vocabulary) -> Drawing:
        clause = self.words.clause(self.unit)
        return Drawing(
            "fork",
            [f"for each item of {self._over}", self._pace],
            framed=True,
            title=f"if {clause}" if clause else "",
            counts="item",
            enters="item",
            skips="done",
            repeats="node",
        )

    @property
    def _pace(self) -> str:
        most = self.unit.block.max_parallel
        return "one after the other" if self.words.is_driven or most == 1 else f"up to {most} at once"

    @property
    def _literal_items(self) -> list[JSON] | None:
        """The items that are written in the plan."""
        over = self.unit.block.over
        return over if isinstance(over, list) else json_list(over) if isinstance(over, str) else None

    @property
    def _over(self) -> str:
        """The words for the list."""
        items = self._literal_items
        if items is None:
            return self.words.text(str(self.unit.block.over), self.unit)
        return f"a list of {len(items)}: {enumerate_words([self._item(item) for item in items])}"

    def _item(self, item: JSON) -> str:
        refers = isinstance(item, str) and list_references(item)
        return self.words.text(item, self.unit) if refers else constant(item)


def worker_name(agent: str | Agent | None) -> str:
    return "the default model" if agent is None else agent_phrase(agent)


def only_asks(step: PlanStep) -> bool:
    return asks(step) and not step.tools


def access_ask(tools: Sequence[str]) -> Ask:
    """Return the question that asks a person to give a tool its access."""
    named = enumerate_words([tool_name(tool) for tool in tools], "or")
    return Ask("decision", f"{named} is not authorized. Give it access, then say so.", ("reconnected", "fail"))
