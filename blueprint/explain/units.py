"""Units of a plan as the ordinary steps that they are compiled to: what explain, graph and cost ask of every step."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, cast

from pydantic import ConfigDict

from holdfast.blueprint.dependencies import resolve_agent
from holdfast.blueprint.json_values import JSON
from holdfast.blueprint.kinds import Agent, AnyStep, Blueprint, Map, PlanBody, PlanStep, Step
from holdfast.blueprint.kinds.agents import AgentReference
from holdfast.blueprint.kinds.description import AgentUse, Ask, Cost, Drawing, NestedSteps, StepDescription
from holdfast.blueprint.kinds.hitl_words import describe_ask, describe_question
from holdfast.blueprint.kinds.map import MapBlock
from holdfast.blueprint.kinds.phrases import agent_phrase
from holdfast.blueprint.kinds.references import tool_name
from holdfast.blueprint.parts import Option
from holdfast.blueprint.plan.answers import ACCEPT, REFUSE, asks, list_options, read_meaning, wants_a_yes
from holdfast.blueprint.plan.layout import Layout, LoopUnit, StepUnit, Unit, in_running_order
from holdfast.blueprint.plan.questions import PlanQuestion, compile_question
from holdfast.blueprint.plan.references import whole_reference
from holdfast.blueprint.plan.tools import MOST_RETRIES
from holdfast.blueprint.words.amounts import Amount, total
from holdfast.blueprint.words.text import (
    RUN,
    Vocabulary,
    as_sentence,
    enumerate_words,
    json_list,
    one_line,
    say_template,
    say_unquoted,
)

_MEANS = {ACCEPT: "a yes", REFUSE: "a no"}


@dataclass(frozen=True)
class PlanSteps:
    """The units of one plan as steps, and the words for what they read."""

    plan_name: str
    plan: PlanBody
    layout: Layout
    blueprint: Blueprint
    assignees: Sequence[str] | str = ()
    """Who is asked where a step names nobody."""

    @property
    def is_driven(self) -> bool:
        return self.plan.driver == "agent"

    def make(self, units: Iterable[Unit]) -> list[UnitStep | UnitLoop]:
        """Return units as steps, in the order in which they run if one runs at a time."""
        return [self._make_step(unit) for unit in in_running_order(units)]

    def make_nested(self, units: Sequence[Unit]) -> NestedSteps:
        """Return the steps of a list, with the words for what they read."""
        steps, around = self.make(units), units[0].around if units else ()
        waits = {step.name: step.unit.waits for step in steps}
        return NestedSteps("", cast(list[AnyStep], steps), self._find_names(around), waits=waits)

    def label(self, id_: str) -> str:
        """Return what to call a step or a loop: "step 4", "loop guests", "fetch"."""
        if isinstance(self.layout.units_by_id.get(id_), LoopUnit):
            return id_ if id_.startswith("loop") else f"loop {id_}"
        return f"step {id_}" if id_[:1].isdigit() else id_

    def _make_step(self, unit: Unit) -> UnitStep | UnitLoop:
        gates, units = self.layout.list_gates(unit), self.layout.units_by_id
        fields: dict[str, Any] = {
            "name": unit.id,
            "needs": sorted(set(unit.waits).difference(gates), key=lambda id_: units[id_].place),
            "when": None if unit.condition is None else self.layout.write_condition(unit.condition, unit),
            "gates": gates,
            "unit": unit,
            "whole": self,
        }
        if not isinstance(unit, LoopUnit):
            return UnitStep.model_construct(None, **fields)
        block = MapBlock.model_construct(
            iterable_input=self._write_list(unit),
            body=list(self.make_nested(unit.body).steps),
            max_items=unit.block.max_items,
            max_concurrency=1 if self.is_driven else unit.block.max_parallel,
            on_item_error=unit.block.on_item_error,
        )
        return UnitLoop.model_construct(None, **fields, map=block)

    def _write_list(self, unit: LoopUnit) -> str:
        """Return the expression of a loop's list."""
        over = unit.block.over
        items = over if isinstance(over, list) else json_list(over)
        if items is None:
            return self._write_item(over, unit)
        return f"[{', '.join(self._write_item(item, unit) for item in items)}]"

    def _write_item(self, item: JSON, unit: LoopUnit) -> str:
        """Return the expression of an item, or of a list that is a reference."""
        if isinstance(item, str) and whole_reference(item) is not None:
            return str(self.layout.write_template(item, unit)).removeprefix("{{ ").removesuffix(" }}")
        return json.dumps(item, ensure_ascii=False)

    def _find_names(self, around: Sequence[str]) -> Vocabulary:
        """Return the vocabulary of a list inside these loops, the outermost first."""
        units = self.layout.units_by_id
        only_asking = [unit for unit in units.values() if isinstance(unit, StepUnit) and only_asks(unit.step)]
        names = replace(
            RUN,
            labels={id_: self.label(id_) for id_ in units},
            answers={unit.id: compile_question(unit, self.plan, self.layout).question for unit in only_asking},
        )
        keys: dict[tuple[str, ...], str]
        keys = {("loops", loop, root): words for loop in around for root, words in self._name_item(loop).items()}
        for unit in units.values():
            outside = [loop for loop in unit.around if loop not in around]
            if outside:
                words = f"{names.name_of_result(unit.id)} for each item of {self.label(outside[0])}"
                keys |= {("steps", unit.id, "output"): words, ("steps", unit.id, "answer"): words}
        return replace(names, keys=keys).with_roots(**self._name_item(around[-1]) if len(around) > 1 else {})

    def _name_item(self, loop: str) -> dict[str, str]:
        """Return the words for the item of one of several loops."""
        item = f"the item of {self.label(loop)}"
        return {"item": item, "index": f"the number of {item}, from 0"}


class PlanPart(Step):
    """A unit of a plan as a step; its name is the id."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    unit: Unit
    whole: PlanSteps
    gates: list[str]
    """The questions that must have come out as a yes."""

    @property
    def label(self) -> str:
        return self.whole.label(self.name)

    def get_assignees(self) -> Sequence[str] | str:
        """See base class."""
        return self.whole.assignees

    def list_waits(self, names: Vocabulary) -> list[str]:
        """See base class."""
        return [*super().list_waits(names), *(f"a yes to {names.label(step)}" for step in self.gates)]


class UnitStep(PlanPart):
    """A step of a plan: the question that it is compiled to, and the work that follows."""

    kind: Literal["unit"] = "unit"
    unit: StepUnit

    @property
    def label(self) -> str:
        title = self.unit.step.title
        return f"{super().label} ({one_line(title, 60)})" if title else super().label

    def get_assignees(self) -> Sequence[str] | str:
        """See base class."""
        return self.unit.step.assignees or super().get_assignees()

    def _ask_in(self, names: Vocabulary) -> PlanQuestion | None:
        """Return the step that asks, with its options in words; None if nothing is asked."""
        if not asks(self.unit.step):
            return None
        asking = compile_question(self.unit, self.whole.plan, self.whole.layout)
        options = []
        for option in list_options(self.unit.step, self.whole.plan.spoken_language):
            text = say_unquoted(self._write(option.text), names)
            options.append(Option(id=text, label=text, description=_MEANS.get(read_meaning(option))))
        return asking.model_copy(update={"options": options, "assignees": self.get_assignees(), "on_decline": None})

    def count_questions(self) -> Amount:
        """Return how many questions it asks people."""
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
        for agent in (resolve_agent(used.agent, self.whole.blueprint) for used in self.agents()):
            if agent is not None and "ask" in agent.human:
                why = f"the agent of step {step.id} may ask a person as often as it wants"
                return Cost(Amount(None, (why,)), includes_agents=True)
        return Cost(Amount(len(step.tools) + MOST_RETRIES), includes_agents=True)

    def describe(self, names: Vocabulary) -> StepDescription:
        step, question = self.unit.step, self._ask_in(names)
        sentences, asked = [self._describe_work(names)], []
        if question is not None:
            sentences, asked = [describe_question(question, names)], [describe_ask(question, names)]
            when = "After a yes" if wants_a_yes(step) else "Unless the answer is a no,"
            sentences += [f"{when} {self._own_worker or 'it'} {self._calls(names)}."] if step.tools else []
        if step.expected_result:
            sentences.append(as_sentence(f"It should give {self._say(step.expected_result, names)}"))
        if step.assignees and not only_asks(step):
            sentences.append(f"What it asks goes to {self.people(names)}.")
        if step.optional:
            sentences.append("Its failure does not fail the plan.")
        asked += [access_ask(step.tools)] if step.tools else []
        return StepDescription(" ".join(sentences), asks=tuple(asked), work=self._work())

    def draw(self, names: Vocabulary) -> Drawing:
        step, question = self.unit.step, self._ask_in(names)
        tools = enumerate_words([tool_name(tool) for tool in step.tools]) if step.tools else ""
        if question is not None:
            drawing = question.draw(names)
            lines = [*drawing.lines[:1], f"unless no: {tools}" * bool(tools), self._own_worker, *drawing.lines[1:]]
            return replace(drawing, lines=lines, alone=True)
        task, people = say_unquoted(self._write(step.instruction.strip()), names), self.people_line(names)
        lines = [task, tools, self._own_worker, *(people if step.assignees else [])]
        return Drawing("tool" if step.tools else "agent", lines, alone=True)

    def _write(self, text: JSON) -> JSON:
        return self.whole.layout.write_template(text, self.unit)

    def _say(self, text: JSON, names: Vocabulary) -> str:
        return say_template(self._write(text), names)

    @property
    def _own_worker(self) -> str:
        """The agent that only this step names; an agent that drives the plan works on all."""
        agent = self.unit.step.agent
        return "" if agent is None or self.whole.is_driven else worker_name(agent)

    def _calls(self, names: Vocabulary) -> str:
        step = self.unit.step
        service = f" ({one_line(step.service, 40)})" if step.service else ""
        given = f" with {self._say(step.arguments, names)}" if step.arguments else ""
        return f"calls {enumerate_words([tool_name(tool) for tool in step.tools])}{service}{given}"

    def _describe_work(self, names: Vocabulary) -> str:
        step = self.unit.step
        task, worker = step.instruction.strip(), f"{self._own_worker} ".lstrip()
        if not step.tools:
            return as_sentence(f"{worker}works on {self._say(task, names)}")
        about = f" for {self._say(task, names)}" if task else ""
        return as_sentence(f"{worker}{self._calls(names)}{about}")

    def _work(self) -> AgentUse | None:
        step, plan = self.unit.step, self.whole
        if only_asks(step) or (plan.is_driven and not step.tools):
            return None
        if step.agent is None:
            return AgentUse(plan.plan.agent, plan.plan_name, tuple(step.tools), plan.is_driven)
        owner = f"{plan.plan_name}'s {plan.label(step.id)}"
        return AgentUse(step.agent, owner, tuple(step.tools), plan.is_driven)


class UnitLoop(PlanPart, Map):
    """A loop of a plan: a map."""

    kind: Literal["map"] = "map"
    unit: LoopUnit
    failed_item: ClassVar[Mapping[str, str]] = {
        **Map.failed_item,
        "continue": "if one fails, the next one starts; if all fail, so does the loop",
        "fail": "if one fails, so does the loop",
    }

    def count_questions(self) -> Amount:
        """Return how many questions it asks people."""
        return self.cost().over(total(step.count_questions() for step in self.whole.make(self.unit.body)))

    def describe(self, names: Vocabulary) -> StepDescription:
        return replace(super().describe(names), inner=(self.whole.make_nested(self.unit.body),))

    def draw(self, names: Vocabulary) -> Drawing:
        return replace(super().draw(names), counts="item")


def worker_name(agent: str | Agent | None) -> str:
    return "the default model" if agent is None else agent_phrase(agent)


def only_asks(step: PlanStep) -> bool:
    return asks(step) and not step.tools


def access_ask(tools: Sequence[str]) -> Ask:
    """Return the question that asks a person to give a tool its access."""
    named = enumerate_words([tool_name(tool) for tool in tools], "or")
    return Ask("decision", f"{named} is not authorized. Give it access, then say so.", ("reconnected", "fail"))
