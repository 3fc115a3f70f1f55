"""A plan as steps that explain, graph and cost walk like all others: its units, in words, in running order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import cast

from holdfast.blueprint.amounts import say_count
from holdfast.blueprint.dependencies import resolve_agent
from holdfast.blueprint.explain.units import PlanSteps, access_ask, only_asks, worker_name
from holdfast.blueprint.kinds import AnyStep, Block, Blueprint, Plan, PlanBody, PlanStep
from holdfast.blueprint.kinds.agents import DRIVER_TURNS, AgentReference
from holdfast.blueprint.kinds.description import PREVIOUS, AgentUse, Ask, Cost, Drawing, StepDescription
from holdfast.blueprint.kinds.phrases import capitalize
from holdfast.blueprint.kinds.references import ANY_TOOL
from holdfast.blueprint.plan.compile import compile_plan
from holdfast.blueprint.plan.layout import Layout
from holdfast.blueprint.plan.tools import MOST_RETRIES
from holdfast.blueprint.words.amounts import Amount, total
from holdfast.blueprint.words.text import Vocabulary, as_sentence, quote, say_template


def compile_step(step: AnyStep, blueprint: Blueprint) -> AnyStep:
    """Return a step that runs a plan as one that holds the plan's units as steps; any other step as it is."""
    if step.plan_body is None:
        return step
    return cast(AnyStep, CompiledPlan.model_construct(None, **{**step.__dict__, "blueprint": blueprint}))


class CompiledPlan(Plan):
    """A step that runs a plan, with the plan's units as steps."""

    blueprint: Blueprint

    @cached_property
    def units(self) -> PlanSteps:
        return PlanSteps(self.name, self.plan, compile_plan(self.plan)[0], self.blueprint, self.assignees)

    def describe(self, names: Vocabulary) -> StepDescription:
        plan, units = self.plan, self.units
        sentences = [
            self._write_opening(names),
            _driver_sentence(plan),
            *self._worker_sentences(units.layout, names),
            *_failure_sentences(plan, units.layout),
            *(
                []
                if plan.done is None
                else [f"What {say_template(plan.done, names)} says was done is not done again unasked."]
            ),
        ]
        people = total(unit.count_questions() for unit in units.make(units.layout.units))
        if people != Amount():
            sentences.append(f"Questions of its steps to people: {people}.")
        if self.people(names):
            sentences.append(self.asked_sentence(names).strip())
        sentences.append("It returns the status and the result of each step.")
        driven, read = plan.driver == "agent", plan.source is not None
        return StepDescription(
            " ".join(sentences),
            (units.make_nested(units.layout.units),),
            _asks_of_whole(plan),
            calls=read,
            work=AgentUse(plan.agent, self.name, driven=driven, read=read) if driven or read else None,
        )

    def agents(self) -> Sequence[AgentReference]:
        """Return none: each unit says who works on it."""
        return ()

    def draw(self, names: Vocabulary) -> Drawing:
        plan, driven = self.plan, self.plan.driver == "agent"
        subject = plan.goal if plan.source is None else f"the plan in {self._source(names)}"
        how = f"driven by {worker_name(plan.agent)}" if driven else _at_once(plan.max_parallel, "step")
        confirms = "May this plan be run?" if plan.confirm else ""
        lines = [subject, how, *self.people_line(names)]
        return Drawing("fork", lines, framed=True, confirms=confirms, asks="request_user_info" * driven)

    def blocks(self) -> Mapping[str, Block]:
        """Return the units; none if the plan may change before it runs, or while an agent drives it."""
        plan, units = self.plan, self.units
        is_fixed = plan.driver == "engine" and plan.source is None and not plan.confirm
        return {"plan": Block(tuple(units.make_nested(units.layout.units).steps))} if is_fixed else {}

    def cost(self) -> Cost:
        plan = self.plan
        if plan.driver == "agent":
            agent = None if plan.agent is None else resolve_agent(plan.agent, self.blueprint)
            turns = DRIVER_TURNS if agent is None else agent.driver_turns * agent.requests_a_turn
            return Cost(Amount(turns), includes_agents=True)
        if plan.source is not None:
            return Cost(Amount(None, (f"{self.name} is known only when it runs",)), includes_agents=True)
        if plan.confirm:
            return Cost(Amount(None, (f"a person may change {self.name} before it runs",)), includes_agents=True)
        return Cost(includes_agents=True)

    def _source(self, names: Vocabulary) -> str:
        """Return the words for the source of a plan that is read when it runs."""
        return say_template(self.plan.source, names.after(say_template(self.input, names)))

    def _write_opening(self, names: Vocabulary) -> str:
        sentence = as_sentence(f"runs a plan: {quote(self.plan.goal)}")
        if self.plan.source is not None:
            unknown = "which is known only when it runs, as are its questions."
            sentence = f"runs the plan in {self._source(names)}, {unknown}"
        if not self.plan.confirm:
            return sentence
        return f"{sentence} A person sees it first, and may change or reject it; a rejected plan fails the step."

    def _worker_sentences(self, layout: Layout, names: Vocabulary) -> list[str]:
        plan = self.plan
        input_text = names.previous if self.input == PREVIOUS else say_template(self.input, names)
        if plan.driver == "agent":
            return [f"It is given the goal and {input_text}."]
        if plan.source is None and all(_needs_no_agent(unit.step) for unit in layout.steps()):
            return []
        unless = ", unless the plan names another agent of the blueprint" if plan.source is not None else ""
        return [f"{capitalize(worker_name(plan.agent))} works on the steps, given the goal and {input_text}{unless}."]


def _needs_no_agent(step: PlanStep) -> bool:
    """Return whether the agent of the plan does not work on a step."""
    return step.agent is not None or only_asks(step) or step.arguments is not None


def _at_once(most: int, noun: str) -> str:
    return f"one {noun} at a time" if most == 1 else f"up to {say_count(most, noun)} at once"


def _driver_sentence(plan: PlanBody) -> str:
    if plan.driver == "engine":
        return f"The engine picks the steps, {_at_once(plan.max_parallel, 'step')}."
    turns = f" in at most {say_count(DRIVER_TURNS, 'turn')}" if plan.agent is None else ""
    return (
        f"{capitalize(worker_name(plan.agent))} drives it{turns}: it picks the next step, words the questions, may ask"
        " more, leave out steps and change what is left of the plan; the engine keeps order, conditions and loops."
    )


def _failure_sentences(plan: PlanBody, layout: Layout) -> list[str]:
    """Return the rules about failures, leaving out those that no step of the plan can meet."""
    is_written = plan.source is None
    sentences = []
    if not is_written or any(unit.needs for unit in layout.units_by_id.values()):
        sentences.append("Steps that depend on a failed step, or only on skipped ones, are skipped.")
    if not is_written or any(unit.step.tools for unit in layout.steps()):
        sentences.append(
            f"If a tool fails, it may be called again, at most {say_count(MOST_RETRIES, 'time')} a step; if it is not"
            " authorized, a person is asked to give it access."
        )
    optional = not is_written or any(unit.step.optional for unit in layout.steps())
    failure = f"a step{' that is not optional' if optional else ''} fails"
    if layout.loops():
        failure = f"a loop fails, or a step outside of loops{' that is not optional' if optional else ''}"
    then = "no further step starts" if plan.fail_fast else "the other steps still run"
    again = ""
    if plan.max_replans and not is_written:
        again = f" Its planner then plans what is left, at most {say_count(plan.max_replans, 'time')}."
    return [*sentences, f"If {failure}, {then}, and the plan fails.{again}"]


def _asks_of_whole(plan: PlanBody) -> tuple[Ask, ...]:
    asked = [Ask("review", "May this plan be run?", on_decline="rejected")] if plan.confirm else []
    asked += [Ask("clarification", on_decline="told")] if plan.driver == "agent" else []
    asked += [Ask("input", on_decline="denied"), access_ask([ANY_TOOL])] if plan.source is not None else []
    return tuple(asked)
