"""The `timer` kind: go on after a while, or at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar, Literal

from pydantic import ConfigDict, Field

from holdfast.blueprint.durations import read_duration, say_duration
from holdfast.blueprint.findings import Findings, is_literal
from holdfast.blueprint.kinds.base import Step
from holdfast.blueprint.kinds.description import Drawing, StepDescription
from holdfast.blueprint.kinds.document import Blueprint
from holdfast.blueprint.kinds.knowledge import Knowledge
from holdfast.blueprint.kinds.template_values import DURATION, MOMENT, TemplateForm
from holdfast.blueprint.moments import read_moment
from holdfast.blueprint.parts import Template
from holdfast.blueprint.shape import Shape
from holdfast.blueprint.words.text import Vocabulary, say_template, say_unquoted


class Timer(Step):
    """Wait for a while, or until a time; the output is the input."""

    # `for` is a word of Python's.
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True, populate_by_name=True)

    other_names: ClassVar[tuple[str, ...]] = ("sleep", "delay", "pause")

    passes_input: ClassVar[bool] = True

    kind: Literal["timer"]
    length: Template | None = Field(
        None,
        alias="for",
        description="How long, from the moment at which the step begins; a duration, or a template of one.",
        examples=["2h", "{{ input.days }}d"],
    )
    until: Template | None = Field(
        None,
        description="Instead of `for`: the time, with its offset, or a template of one; one in the past ends the wait.",
        examples=["2026-12-01T09:00:00Z", "{{ steps.brief.output.due }}"],
    )

    @property
    def stops(self) -> bool:
        return True

    def reads(self) -> Mapping[str, Template]:
        return {**super().reads(), "for": self.length, "until": self.until}

    def template_forms(self) -> Mapping[str, TemplateForm]:
        return {"for": DURATION, "until": MOMENT}

    def output_shape(self, knowledge: Knowledge) -> Shape:
        return knowledge.input

    def check(self, path: str, blueprint: Blueprint, findings: Findings) -> None:
        super().check(path, blueprint, findings)
        if (self.length is None) == (self.until is None):
            missing = self.length is None
            message = "a timer needs 'for' or 'until'" if missing else "'for' and 'until' both say when it is over"
            hint = "write for: 2h, or until: 2026-12-01T09:00:00Z" if missing else "keep one of them"
            findings.add_key(path if missing else f"{path}.until", "conflict", message, hint)
        _check_value(self.length, f"{path}.for", read_duration, findings)
        _check_value(self.until, f"{path}.until", read_moment, findings)

    def describe(self, names: Vocabulary) -> StepDescription:
        return StepDescription(f"waits {self._when(names)}.")

    def draw(self, names: Vocabulary) -> Drawing:
        return Drawing("plain", [f"waits {say_unquoted(self._when(names), names)}"])

    def _when(self, names: Vocabulary) -> str:
        if self.until is not None:
            return f"until {self.until if is_literal(self.until) else say_template(self.until, names)}"
        if self.length is not None and is_literal(self.length):
            return f"for {say_duration(read_duration(self.length))}"
        return f"for {say_template(self.length, names)}"


def _check_value(value: object, path: str, read: Callable[[object], object], findings: Findings) -> None:
    """Report a constant that is no duration or no time; what a template gives is read when the step begins."""
    if value is None or not is_literal(value):
        return
    try:
        read(value)
    except ValueError as error:
        findings.add(path, "bad_value", str(error))
