"""A step of a plan where it stands: what both drivers begin, work on, and end."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from holdfast.blueprint.kinds import PlanStep
from holdfast.blueprint.parts import ToolErrors
from holdfast.blueprint.plan.answers import asks
from holdfast.blueprint.plan.layout import StepUnit
from holdfast.blueprint.plan.work import PlanWork, compile_work
from holdfast.protocol.plans import UnitResult
from holdfast.workflows.bounded_tools import BoundedTools
from holdfast.workflows.frame import Frame
from holdfast.workflows.plan.scope import PlanScope, choose_people


@dataclass(frozen=True)
class StepRun:
    """A step, and the scope that it stands in: what both drivers work on."""

    unit: StepUnit
    scope: PlanScope

    @property
    def step(self) -> PlanStep:
        return self.unit.step

    @property
    def id(self) -> str:
        return self.unit.id

    @property
    def frame(self) -> Frame:
        return self.scope.at(self.unit)

    def beside(self, type_: str, name: str) -> Frame:
        """Return a frame for work on the step at an address of its own."""
        frame = self.scope.frame.at(type_, name)
        return replace(frame, people=choose_people(self.step, frame))

    @property
    def result(self) -> UnitResult:
        return self.scope.result(self.id)

    @property
    def key(self) -> str:
        """Return a text that means this step, and in a loop this iteration."""
        return f"{self.scope.frame.address};{self.id}"

    @property
    def work(self) -> PlanWork:
        """The ordinary step that does what the step says."""
        return compile_work(self.unit, self.scope.context.plan, self.scope.layout)

    @property
    def inside(self) -> Frame:
        """The frame in which the ordinary steps of the step are rendered."""
        return self.scope.inside(self.unit)

    @property
    def feeds_loop(self) -> bool:
        """Return whether a list is wanted of the step, as a loop goes through what an agent gives."""
        by_agent = not self.step.tools and not asks(self.step)
        return by_agent and self.scope.layout.feeds_loop(self.id)

    def mark(self, **changes: Any) -> None:
        """Change the record of the step, which is under way."""
        self.scope.mark(self.unit, **changes)

    def bind_tools(self, rules: ToolErrors | None, *, by_model: bool = False) -> BoundedTools:
        """Return the tools of the step, within the bounds of the plan.

        The record counts the calls and the errors, and goes on from those so far.

        Args:
            rules: What follows errors.
            by_model: True if a model calls again after an error.
        """
        context, frame, before = self.scope.context, self.beside("step", self.id), self.result
        return BoundedTools(
            context.bounds(self.step),
            rules,
            frame,
            context.catalogue.specs,
            partial(context.find_lack, self.step, address=frame.address),
            by_model=by_model,
            tries=before.tries,
            made=before.made,
            keep=self.mark,
        )

    def record(self, result: UnitResult) -> None:
        """End the step with a result, whose event the interpreter has noted."""
        self.scope.record(self.unit, result)

    def finish(self, result: UnitResult) -> None:
        self.scope.finish(self.unit, result)
