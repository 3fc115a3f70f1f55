"""Plans in plain words: each step in the order in which it runs, what it waits for, whom it asks, what a loop does."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from blueprint.explain.agents import ANY_TOOL, model, tool_name
from blueprint.explain.amounts import Amount
from blueprint.explain.cost import RETRIES, over_units, turns_of_driver, written_items
from blueprint.explain.people import PREVIOUS, RESCUE, Ask
from blueprint.explain.told import Part, Told, Work
from blueprint.explain.words import Names, constant, counted, ended, filled, lasting, listed, one_line, quoted
from blueprint.grammar import Agent, Plan, PlanBody, PlanStep
from blueprint.plan import (
    Condition,
    Layout,
    LoopUnit,
    Reference,
    StepUnit,
    Unit,
    asks,
    confirms,
    laid_out,
    options_of,
    question_text,
    spelled_id,
)
from blueprint.plan import filled as filled_in
from blueprint.plan.answers import ACCEPT, REFUSE, meaning
from blueprint.plan.conditions import ORDERED
from blueprint.plan.references import whole_reference

_MEANS = {ACCEPT: " (a yes)", REFUSE: " (a no)"}
_COMPARED = {
    "contains": ("contains", "does not contain"),
    "not_contains": ("does not contain", "contains"),
    "equals": ("is", "is not"),
    "not_equals": ("is not", "is"),
    "is empty": ("is empty", "is not empty"),
    "is not empty": ("is not empty", "is empty"),
    ">": ("is more than", "is at most"),
    ">=": ("is at least", "is less than"),
    "<": ("is less than", "is at least"),
    "<=": ("is at most", "is more than"),
}
_FAILED_ITEM = {
    "continue": "if one fails, the next one begins, and if all fail, so does the loop",
    "fail": "if one fails, so does the loop",
    "ask": "if one fails, a person says what to do",
}


@dataclass(frozen=True)
class PlanWords:
    """What the steps and loops of one plan are called, and what they say, in the author's own words."""

    layout: Layout

    def name(self, id_: str) -> str:
        """
        >>> PlanWords(Layout()).name("4"), PlanWords(Layout()).name("step_4"), PlanWords(Layout()).name("fetch")
        ('step 4', 'step_4', 'fetch')
        """
        if isinstance(self.layout.units_by_id.get(id_), LoopUnit):
            return id_ if id_.startswith("loop") else f"loop {id_}"
        return f"step {id_}" if id_[:1].isdigit() else id_

    def headed(self, unit: Unit) -> str:
        """The name, with the title that the author gave it."""
        title = unit.step.title if isinstance(unit, StepUnit) else None
        return f"{self.name(unit.id)} ({one_line(title, 60)})" if title else self.name(unit.id)

    def in_plan_order(self, ids: Iterable[str]) -> list[str]:
        return sorted(ids, key=lambda id_: self.layout.units_by_id[id_].place)

    def text(self, written: str, unit: Unit) -> str:
        """A text of the plan in quotes, with what its references stand for between brackets."""
        whole = whole_reference(written)
        if whole is not None:
            return self.given(whole, unit)
        return quoted(filled_in(written, lambda reference: f"[{self.given(reference, unit)}]"))

    def bare(self, written: str, unit: Unit) -> str:
        """The same without the quotes."""
        return self.text(written, unit).removeprefix('"').removesuffix('"')

    def given(self, reference: Reference, unit: Unit) -> str:
        """What a reference stands for, where this unit reads it."""
        around = self.layout.loops_of(unit.id)
        if reference.kind == "result":
            return self._result(reference.name or "", around)
        loop = around[-1] if around and reference.name is None else spelled_id(reference.name or "", around)
        of = f" of {self.name(loop)}" if loop is not None and len(around) > 1 else ""
        return f"the item{of}" if reference.kind == "item" else f"the number of the item{of}, from 0"

    def _result(self, written: str, around: list[str]) -> str:
        unit = self.layout.find(written)
        if unit is None:
            return f"what {written} gave"
        answered = isinstance(unit, StepUnit) and asks(unit.step) and not unit.step.tools
        outside = [loop for loop in self.layout.loops_of(unit.id) if loop not in around]
        each = f" for each item of {self.name(outside[0])}" if outside else ""
        return f"{'the answer to' if answered else 'what'} {self.name(unit.id)}{'' if answered else ' gave'}{each}"

    def clause(self, unit: Unit) -> str:
        """The condition of a unit; empty if it has none."""
        if unit.condition is None:
            return ""
        condition: Condition = unit.condition
        verb = _COMPARED[condition.operator][condition.negated]
        if condition.operator in ORDERED:
            return f"{self.given(condition.left, unit)}, or its length, {verb} {condition.value}"
        wanted = f" {constant(condition.value)}" if condition.value else ""
        return f"{self.given(condition.left, unit)} {verb}{wanted}"

    def over(self, loop: LoopUnit) -> str:
        """What a loop goes through."""
        items = written_items(loop.over)
        if items is None:
            return self.text(str(loop.over), loop)
        return f"a list of {len(items)}: {listed([self._item(item, loop) for item in items])}"

    def _item(self, item: Any, loop: LoopUnit) -> str:
        refers = isinstance(item, str) and filled_in(item, lambda _: "") != item
        return self.text(item, loop) if refers else constant(item)


def instruction(step: PlanStep) -> str:
    """What is to be done, or asked; empty where the tools alone say it."""
    return question_text(step.instruction) if asks(step) else step.instruction.strip()


def in_order(units: Iterable[Unit]) -> list[Unit]:
    """As they run one after the other: the first of the plan's order whose waiting is over."""
    left, over = list(units), set[str]()
    ids, found = {unit.id for unit in left}, list[Unit]()
    while left:
        unit = next((one for one in left if over >= ids & set(one.waits)), left[0])
        left.remove(unit)
        over.add(unit.id)
        found.append(unit)
    return found


def who_works(agent: str | Agent | None) -> str:
    match agent:
        case None:
            return "the default model"
        case str():
            return f"the agent {agent}"
    return f"an agent ({model(agent.model)})"


def at_once(most: int, noun: str) -> str:
    return f"one {noun} at a time" if most == 1 else f"up to {counted(most, noun)} at once"


def source_of(step: Plan, names: Names) -> str:
    """What a plan that is not written in the blueprint is read from."""
    return filled(step.plan.source, names.after(filled(step.input, names)))


# The whole


def told_of_plan(step: Plan, names: Names) -> Told:
    """What a `plan` step does: the whole, then step by step."""
    plan, layout = step.plan, laid_out(step.plan)[0]
    said = [_begin(step, names), _driver(plan), *_workers(step, layout, names), *_rules(plan, layout)]
    people = over_units(layout.units, lambda one: Amount(1 if asks(one) else 0))
    if people != Amount():
        said.append(f"Questions of its steps to people: {people}.")
    said.append("It gives how each step ended, and with what.")
    driven, read = plan.driver == "agent", plan.source is not None
    return Told(
        " ".join(said),
        asks=_asks_of_whole(plan),
        calls=read,
        parts=_Parts(step.name, plan, PlanWords(layout)).of(layout.units),
        work=Work(plan.agent, step.name, driven=driven, read=read) if driven or read else None,
    )


def _asks_of_whole(plan: PlanBody) -> tuple[Ask, ...]:
    asked = [Ask("review", "May this plan be run?", on_decline="rejected")] if plan.confirm else []
    asked += [Ask("clarification", on_decline="told")] if plan.driver == "agent" else []
    asked += [Ask("input", on_decline="denied"), _reconnect([ANY_TOOL])] if plan.source is not None else []
    return tuple(asked)


def _begin(step: Plan, names: Names) -> str:
    plan = step.plan
    if plan.source is None:
        told = ended(f"works off a plan: {quoted(plan.goal)}")
    else:
        told = (
            f"works off the plan in {source_of(step, names)}, which is known only when it runs, as are its questions."
        )
    if not plan.confirm:
        return told
    return f"{told} A person sees it first, and may change or reject it; a rejected plan fails the step."


def _driver(plan: PlanBody) -> str:
    if plan.driver == "engine":
        more = ", but one question at a time" if plan.max_parallel > 1 else ""
        return f"The engine picks the steps, {at_once(plan.max_parallel, 'step')}{more}."
    turns = f" in at most {counted(turns_of_driver(None), 'turn')}" if plan.agent is None else ""
    return (
        f"{_capital(who_works(plan.agent))} drives it{turns}: it picks the next step, words the questions, may ask"
        " more, leave out steps and change what is left of the plan; the engine keeps order, conditions and loops."
    )


def _workers(step: Plan, layout: Layout, names: Names) -> list[str]:
    plan = step.plan
    given = names.previous if step.input == PREVIOUS else filled(step.input, names)
    if plan.driver == "agent":
        return [f"It is told the goal and {given}."]
    if plan.source is None and all(one.step.agent or _only_asks(one.step) for one in layout.steps()):
        return []
    unless = ", unless the plan names another agent of the blueprint" if plan.source is not None else ""
    return [f"{_capital(who_works(plan.agent))} works on the steps, told the goal and {given}{unless}."]


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _only_asks(step: PlanStep) -> bool:
    return asks(step) and not step.tools


def _rules(plan: PlanBody, layout: Layout) -> list[str]:
    """What holds for every step, as far as the plan has such steps."""
    known = plan.source is None
    said = []
    if not known or any(unit.needs for unit in layout.units_by_id.values()):
        said.append("What depends on a step that failed is skipped, and so is what depends on skipped steps alone.")
    if not known or any(one.step.tools for one in layout.steps()):
        said.append(
            f"Where a tool errs, it may be tried again, at most {counted(RETRIES, 'time')} a step; where it is not"
            " authorised, a person is asked to reconnect it."
        )
    optional = not known or any(one.step.optional for one in layout.steps())
    what = f"a step{' that is not optional' if optional else ''} fails"
    if layout.loops():
        what = f"a loop fails, or a step outside of loops{' that is not optional' if optional else ''}"
    then = "nothing more begins, and the plan fails" if plan.fail_fast else "the rest goes on, and then the plan fails"
    return [*said, f"If {what}, {then}."]


# Its parts


@dataclass(frozen=True)
class _Parts:
    """The steps and loops of one plan, in words."""

    plan_name: str
    plan: PlanBody
    words: PlanWords

    @property
    def driven(self) -> bool:
        return self.plan.driver == "agent"

    def of(self, units: Iterable[Unit]) -> tuple[Part, ...]:
        return tuple(self._step(one) if isinstance(one, StepUnit) else self._loop(one) for one in in_order(units))

    def _lead(self, unit: Unit) -> str:
        """What it waits for, and when it runs at all."""
        waits = [self.words.name(one) for one in self.words.in_plan_order(unit.waits)]
        clause = self.words.clause(unit)
        skipped = "else it is skipped" if isinstance(unit, StepUnit) else "else it is skipped, with all that is in it"
        return (f"after {listed(waits)}, " if waits else "") + (f"if {clause} ({skipped}), " if clause else "")

    def _step(self, unit: Unit) -> Part:
        assert isinstance(unit, StepUnit)
        step = unit.step
        said = [f"{self._lead(unit)}{self._deed(unit)}"]
        if step.expected_result:
            said.append(ended(f"It should give {self.words.text(step.expected_result, unit)}"))
        if step.optional:
            said.append("If it fails, the plan does not.")
        asked = [self._ask(unit)] if asks(step) else []
        asked += [_reconnect(step.tools)] if step.tools else []
        return Part(unit.id, self.words.headed(unit), " ".join(said), asks=tuple(asked), work=self._work(step))

    def _work(self, step: PlanStep) -> Work | None:
        if _only_asks(step) or (self.driven and not step.tools):
            return None
        own = step.agent is not None
        owner = f"{self.plan_name}'s {self.words.name(step.id)}" if own else self.plan_name
        return Work(step.agent if own else self.plan.agent, owner, tuple(step.tools), self.driven)

    def _deed(self, unit: StepUnit) -> str:
        step = unit.step
        told = self.words.text(instruction(step), unit) if instruction(step) else ""
        who = f"{who_works(step.agent)} " if step.agent is not None and not self.driven else ""
        service = f" ({one_line(step.service, 40)})" if step.service else ""
        calls = f"calls {listed([tool_name(tool) for tool in step.tools])}{service}"
        if asks(step):
            then = f" Unless the answer is a no, {who or 'it then '}{calls}." if step.tools else ""
            return f"{self._question(unit)}{then}"
        if step.tools:
            return ended(f"{who}{calls} for {told}" if told else f"{who}{calls}")
        return ended(f"{who}works on {told}")

    def _question(self, unit: StepUnit) -> str:
        step, offered = unit.step, self._offered(unit)
        message = ended(self.words.text(instruction(step), unit))
        said = [f"asks a person to choose: {message}" if offered else f"asks a person for text: {message}"]
        if offered:
            said.append(f"Choices: {listed([f'{constant(text)}{means}' for text, means in offered], 'or')}.")
        if step.timeout is not None:
            then = {"skip": "it is skipped", "default": f"the answer is {constant(step.default)}"}
            ends = then.get(step.on_timeout or "", "the step fails")
            said.append(f"If nobody answers within {lasting(step.timeout)}, {ends}.")
        return " ".join([*said, "Declining is a no."])

    def _offered(self, unit: StepUnit) -> list[tuple[str, str]]:
        """What may be chosen, each with what it means."""
        options = options_of(unit.step)
        return [(self.words.bare(option.text, unit), _MEANS.get(meaning(option), "")) for option in options]

    def _ask(self, unit: StepUnit) -> Ask:
        step = unit.step
        offered = tuple(text for text, _ in self._offered(unit))
        message = self.words.bare(instruction(step), unit)
        kind = "decision" if confirms(step) else "choice"
        ends = None if step.timeout is None else step.on_timeout or "fail"
        return Ask(
            kind if offered else "input", message, offered, by=step.timeout, on_timeout=ends, on_decline="denied"
        )

    def _loop(self, unit: Unit) -> Part:
        assert isinstance(unit, LoopUnit)
        these = "this step" if len(unit.body) == 1 else "these steps"
        most = "" if written_items(unit.over) is not None else f" (at most {unit.max_items:,})"
        how = "one after the other" if self.driven or unit.max_parallel == 1 else f"up to {unit.max_parallel} at once"
        said = [
            f"{self._lead(unit)}does {these} for each item of {self.words.over(unit)}{most}, {how};"
            f" {_FAILED_ITEM[unit.on_item_error]}."
        ]
        asked = [Ask("input", "An item has failed. What now?", RESCUE)] if unit.on_item_error == "ask" else []
        return Part(unit.id, self.words.headed(unit), " ".join(said), self.of(unit.body), tuple(asked))


def _reconnect(tools: Sequence[str]) -> Ask:
    """The question where a tool is not authorised."""
    named = listed([tool_name(tool) for tool in tools], "or")
    return Ask("decision", f"{named} is not authorised. Reconnect it, then say so.", ("reconnected", "fail"))
