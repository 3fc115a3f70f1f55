"""Plans in plain words, for pages and graphs: steps in running order, dependencies, questions and loops."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.blueprint.explain.agents import ANY_TOOL
from holdfast.blueprint.explain.cost import RETRIES, literal_items, over_units, turns_of_driver
from holdfast.blueprint.kinds import Agent, PlanBody, PlanStep, Step
from holdfast.blueprint.kinds.description import PREVIOUS, RESCUE, AgentUse, Ask, PlanUnitDescription, StepDescription
from holdfast.blueprint.kinds.references import model, tool_name
from holdfast.blueprint.plan import (
    Layout,
    LoopUnit,
    Reference,
    StepUnit,
    Unit,
    asks,
    compile_plan,
    confirms,
    known_id,
    options_of,
    question_text,
    wants_a_yes,
)
from holdfast.blueprint.plan import filled as filled_in
from holdfast.blueprint.plan.answers import ACCEPT, REFUSE, meaning
from holdfast.blueprint.plan.conditions import VALUE
from holdfast.blueprint.plan.references import whole_reference
from holdfast.blueprint.words.amounts import Amount
from holdfast.blueprint.words.text import (
    Vocabulary,
    as_sentence,
    condition,
    constant,
    counted,
    duration,
    filled,
    listed,
    one_line,
    quoted,
)

_MEANS = {ACCEPT: " (a yes)", REFUSE: " (a no)"}
_FAILED_ITEM = {
    "continue": "if one fails, the next one begins, and if all fail, so does the loop",
    "fail": "if one fails, so does the loop",
    "ask": "if one fails, a person says what to do",
}


@dataclass(frozen=True)
class PlanWords:
    """Words for the steps, loops and references of one plan."""

    layout: Layout

    def name(self, id_: str) -> str:
        """Return what to call a step or a loop.

        >>> PlanWords(Layout()).name("4"), PlanWords(Layout()).name("step_4"), PlanWords(Layout()).name("fetch")
        ('step 4', 'step_4', 'fetch')
        """
        if isinstance(self.layout.units_by_id.get(id_), LoopUnit):
            return id_ if id_.startswith("loop") else f"loop {id_}"
        return f"step {id_}" if id_[:1].isdigit() else id_

    def headed(self, unit: Unit) -> str:
        """Return the name with the title the author gave it."""
        title = unit.step.title if isinstance(unit, StepUnit) else None
        return f"{self.name(unit.id)} ({one_line(title, 60)})" if title else self.name(unit.id)

    def in_plan_order(self, ids: Iterable[str]) -> list[str]:
        return sorted(ids, key=lambda id_: self.layout.units_by_id[id_].place)

    def text(self, template: str, unit: Unit) -> str:
        """Return a text of the plan in quotes, with references in words between brackets."""
        whole = whole_reference(template)
        if whole is not None:
            return self.reference_text(whole, unit)
        return quoted(filled_in(template, lambda reference: f"[{self.reference_text(reference, unit)}]"))

    def unquoted(self, template: str, unit: Unit) -> str:
        """Return the text without the quotes."""
        return self.text(template, unit).removeprefix('"').removesuffix('"')

    def reference_text(self, reference: Reference, unit: Unit) -> str:
        """Return the words for a reference, as read from this unit."""
        around = self.layout.loops_of(unit.id)
        if reference.kind == "result":
            return self._result(reference.name or "", around)
        loop = around[-1] if around and reference.name is None else known_id(reference.name or "", around)
        of = f" of {self.name(loop)}" if loop is not None and len(around) > 1 else ""
        return f"the item{of}" if reference.kind == "item" else f"the number of the item{of}, from 0"

    def _result(self, id_: str, around: list[str]) -> str:
        unit = self.layout.find(id_)
        if unit is None:
            return f"what {id_} gave"
        answered = isinstance(unit, StepUnit) and asks(unit.step) and not unit.step.tools
        outside = [loop for loop in self.layout.loops_of(unit.id) if loop not in around]
        each = f" for each item of {self.name(outside[0])}" if outside else ""
        return f"{'the answer to' if answered else 'what'} {self.name(unit.id)}{'' if answered else ' gave'}{each}"

    def clause(self, unit: Unit) -> str:
        """Return the condition of a unit as a clause; empty if it has none."""
        if unit.condition is None:
            return ""
        left = self.reference_text(unit.condition.left, unit)
        return condition(unit.condition.expression, Vocabulary({VALUE: left}))

    def over(self, loop: LoopUnit) -> str:
        """Return the words for the list of a loop."""
        items = literal_items(loop.over)
        if items is None:
            return self.text(str(loop.over), loop)
        return f"a list of {len(items)}: {listed([self._item(item, loop) for item in items])}"

    def _item(self, item: Any, loop: LoopUnit) -> str:
        refers = isinstance(item, str) and filled_in(item, lambda _: "") != item
        return self.text(item, loop) if refers else constant(item)


def instruction(step: PlanStep) -> str:
    """Return the task or question of a step; empty if its tools say it alone."""
    return question_text(step.instruction) if asks(step) else step.instruction.strip()


def in_order(units: Iterable[Unit]) -> list[Unit]:
    """Return the units in the order in which they run if one runs at a time."""
    remaining, finished = list(units), set[str]()
    ids, ordered = {unit.id for unit in remaining}, list[Unit]()
    while remaining:
        unit = next((candidate for candidate in remaining if finished >= ids & set(candidate.waits)), remaining[0])
        remaining.remove(unit)
        finished.add(unit.id)
        ordered.append(unit)
    return ordered


def worker_name(agent: str | Agent | None) -> str:
    match agent:
        case None:
            return "the default model"
        case str():
            return f"the agent {agent}"
    return f"an agent ({model(agent.model)})"


def at_once(most: int, noun: str) -> str:
    return f"one {noun} at a time" if most == 1 else f"up to {counted(most, noun)} at once"


def source_of(step: Step, plan: PlanBody, names: Vocabulary) -> str:
    """Return the words for the source of a plan that is read when it runs."""
    return filled(plan.source, names.after(filled(step.input, names)))


# The plan


def describe_plan(step: Step, plan: PlanBody, names: Vocabulary) -> StepDescription:
    """Return the description of a `plan` step and of each of its units."""
    layout = compile_plan(plan)[0]
    sentences = [
        _opening(step, plan, names),
        _driver_sentence(plan),
        *_worker_sentences(step, plan, layout, names),
        *_failure_sentences(plan, layout),
    ]
    people = over_units(layout.units, lambda unit_step: Amount(1 if asks(unit_step) else 0))
    if people != Amount():
        sentences.append(f"Questions of its steps to people: {people}.")
    sentences.append("It gives how each step ended, and with what.")
    driven, read = plan.driver == "agent", plan.source is not None
    return StepDescription(
        " ".join(sentences),
        asks=_asks_of_whole(plan),
        calls=read,
        parts=_Parts(step.name, plan, PlanWords(layout)).of(layout.units),
        work=AgentUse(plan.agent, step.name, driven=driven, read=read) if driven or read else None,
    )


def _asks_of_whole(plan: PlanBody) -> tuple[Ask, ...]:
    asked = [Ask("review", "May this plan be run?", on_decline="rejected")] if plan.confirm else []
    asked += [Ask("clarification", on_decline="told")] if plan.driver == "agent" else []
    asked += [Ask("input", on_decline="denied"), _reconnect([ANY_TOOL])] if plan.source is not None else []
    return tuple(asked)


def _opening(step: Step, plan: PlanBody, names: Vocabulary) -> str:
    if plan.source is None:
        sentence = as_sentence(f"works off a plan: {quoted(plan.goal)}")
    else:
        source = source_of(step, plan, names)
        sentence = f"works off the plan in {source}, which is known only when it runs, as are its questions."
    if not plan.confirm:
        return sentence
    return f"{sentence} A person sees it first, and may change or reject it; a rejected plan fails the step."


def _driver_sentence(plan: PlanBody) -> str:
    if plan.driver == "engine":
        more = ", but one question at a time" if plan.max_parallel > 1 else ""
        return f"The engine picks the steps, {at_once(plan.max_parallel, 'step')}{more}."
    turns = f" in at most {counted(turns_of_driver(None), 'turn')}" if plan.agent is None else ""
    return (
        f"{_capital(worker_name(plan.agent))} drives it{turns}: it picks the next step, words the questions, may ask"
        " more, leave out steps and change what is left of the plan; the engine keeps order, conditions and loops."
    )


def _worker_sentences(step: Step, plan: PlanBody, layout: Layout, names: Vocabulary) -> list[str]:
    input_text = names.previous if step.input == PREVIOUS else filled(step.input, names)
    if plan.driver == "agent":
        return [f"It is told the goal and {input_text}."]
    if plan.source is None and all(unit.step.agent or _only_asks(unit.step) for unit in layout.steps()):
        return []
    unless = ", unless the plan names another agent of the blueprint" if plan.source is not None else ""
    return [f"{_capital(worker_name(plan.agent))} works on the steps, told the goal and {input_text}{unless}."]


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _only_asks(step: PlanStep) -> bool:
    return asks(step) and not step.tools


def _failure_sentences(plan: PlanBody, layout: Layout) -> list[str]:
    """Return the rules about failures, leaving out those that no step of the plan can meet."""
    is_written = plan.source is None
    sentences = []
    if not is_written or any(unit.needs for unit in layout.units_by_id.values()):
        sentences.append(
            "What depends on a step that failed is skipped, and so is what depends on skipped steps alone."
        )
    if not is_written or any(unit.step.tools for unit in layout.steps()):
        sentences.append(
            f"Where a tool errs, it may be tried again, at most {counted(RETRIES, 'time')} a step; where it is not"
            " authorised, a person is asked to reconnect it."
        )
    optional = not is_written or any(unit.step.optional for unit in layout.steps())
    failure = f"a step{' that is not optional' if optional else ''} fails"
    if layout.loops():
        failure = f"a loop fails, or a step outside of loops{' that is not optional' if optional else ''}"
    then = "nothing more begins, and the plan fails" if plan.fail_fast else "the rest goes on, and then the plan fails"
    return [*sentences, f"If {failure}, {then}."]


# Its steps and loops


@dataclass(frozen=True)
class _Parts:
    """The descriptions of the steps and loops of one plan."""

    plan_name: str
    plan: PlanBody
    words: PlanWords

    @property
    def driven(self) -> bool:
        return self.plan.driver == "agent"

    def of(self, units: Iterable[Unit]) -> tuple[PlanUnitDescription, ...]:
        return tuple(self._step(unit) if isinstance(unit, StepUnit) else self._loop(unit) for unit in in_order(units))

    def _preconditions(self, unit: Unit) -> str:
        """Return the leading clauses: dependencies and condition."""
        waits = [self.words.name(id_) for id_ in self.words.in_plan_order(unit.waits)]
        clause = self.words.clause(unit)
        skipped = "else it is skipped" if isinstance(unit, StepUnit) else "else it is skipped, with all that is in it"
        return (f"after {listed(waits)}, " if waits else "") + (f"if {clause} ({skipped}), " if clause else "")

    def _step(self, unit: Unit) -> PlanUnitDescription:
        assert isinstance(unit, StepUnit)
        step = unit.step
        sentences = [f"{self._preconditions(unit)}{self._action(unit)}"]
        if step.expected_result:
            sentences.append(as_sentence(f"It should give {self.words.text(step.expected_result, unit)}"))
        if step.optional:
            sentences.append("If it fails, the plan does not.")
        asked = [self._question_for_programs(unit)] if asks(step) else []
        asked += [_reconnect(step.tools)] if step.tools else []
        return PlanUnitDescription(
            unit.id, self.words.headed(unit), " ".join(sentences), asks=tuple(asked), work=self._work(step)
        )

    def _work(self, step: PlanStep) -> AgentUse | None:
        if _only_asks(step) or (self.driven and not step.tools):
            return None
        own = step.agent is not None
        owner = f"{self.plan_name}'s {self.words.name(step.id)}" if own else self.plan_name
        return AgentUse(step.agent if own else self.plan.agent, owner, tuple(step.tools), self.driven)

    def _action(self, unit: StepUnit) -> str:
        step = unit.step
        text = self.words.text(instruction(step), unit) if instruction(step) else ""
        worker = f"{worker_name(step.agent)} " if step.agent is not None and not self.driven else ""
        service = f" ({one_line(step.service, 40)})" if step.service else ""
        calls = f"calls {listed([tool_name(tool) for tool in step.tools])}{service}"
        if asks(step):
            when = "After a yes" if wants_a_yes(step) else "Unless the answer is a no,"
            then = f" {when} {worker or 'it '}{calls}." if step.tools else ""
            return f"{self._question(unit)}{then}"
        if step.tools:
            return as_sentence(f"{worker}{calls} for {text}" if text else f"{worker}{calls}")
        return as_sentence(f"{worker}works on {text}")

    def _question(self, unit: StepUnit) -> str:
        step, offered = unit.step, self._choices(unit)
        message = as_sentence(self.words.text(instruction(step), unit))
        sentences = [f"asks a person to choose: {message}" if offered else f"asks a person for text: {message}"]
        if offered:
            sentences.append(f"Choices: {listed([f'{constant(text)}{means}' for text, means in offered], 'or')}.")
        if step.timeout is not None:
            then = {"skip": "it is skipped", "default": f"the answer is {constant(step.default)}"}
            ends = then.get(step.on_timeout or "", "the step fails")
            sentences.append(f"If nobody answers within {duration(step.timeout)}, {ends}.")
        return " ".join([*sentences, "Declining is a no."])

    def _choices(self, unit: StepUnit) -> list[tuple[str, str]]:
        """Return the choices of a question, each with its meaning."""
        options = options_of(unit.step, self.plan.language)
        return [(self.words.unquoted(option.text, unit), _MEANS.get(meaning(option), "")) for option in options]

    def _question_for_programs(self, unit: StepUnit) -> Ask:
        step = unit.step
        offered = tuple(text for text, _ in self._choices(unit))
        message = self.words.unquoted(instruction(step), unit)
        kind = "decision" if confirms(step) else "choice"
        ends = None if step.timeout is None else step.on_timeout or "fail"
        return Ask(
            kind if offered else "input", message, offered, by=step.timeout, on_timeout=ends, on_decline="denied"
        )

    def _loop(self, unit: Unit) -> PlanUnitDescription:
        assert isinstance(unit, LoopUnit)
        these = "this step" if len(unit.body) == 1 else "these steps"
        most = "" if literal_items(unit.over) is not None else f" (at most {unit.max_items:,})"
        how = "one after the other" if self.driven or unit.max_parallel == 1 else f"up to {unit.max_parallel} at once"
        sentences = [
            f"{self._preconditions(unit)}does {these} for each item of {self.words.over(unit)}{most}, {how};"
            f" {_FAILED_ITEM[unit.on_item_error]}."
        ]
        asked = [Ask("input", "An item has failed. What now?", RESCUE)] if unit.on_item_error == "ask" else []
        return PlanUnitDescription(
            unit.id, self.words.headed(unit), " ".join(sentences), self.of(unit.body), tuple(asked)
        )


def _reconnect(tools: Sequence[str]) -> Ask:
    """Return the question that asks a person to reconnect a tool that is not authorised."""
    named = listed([tool_name(tool) for tool in tools], "or")
    return Ask("decision", f"{named} is not authorised. Reconnect it, then say so.", ("reconnected", "fail"))
