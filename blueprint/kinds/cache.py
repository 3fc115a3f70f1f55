"""The `cache` kind: a step that is not run again for the same key."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from holdfast.blueprint.durations import say_duration
from holdfast.blueprint.findings import Findings
from holdfast.blueprint.kinds.base import Block, Step
from holdfast.blueprint.kinds.description import PREVIOUS, Drawing, NestedSteps, StepDescription
from holdfast.blueprint.kinds.document import Blueprint
from holdfast.blueprint.kinds.expansion import Expansion
from holdfast.blueprint.kinds.knowledge import Knowledge
from holdfast.blueprint.kinds.walk import answers_in
from holdfast.blueprint.parts import Seconds, Template
from holdfast.blueprint.shape import Shape
from holdfast.blueprint.source import PlacedDict
from holdfast.blueprint.words.text import Vocabulary, say_template

if TYPE_CHECKING:
    from holdfast.blueprint.kinds import AnyStep


class Cache(Step):
    """Run the wrapped step, or return its earlier output for the same key; a hit writes to the context like a run."""

    undos_inside: ClassVar[Literal["kept", "handed_on", "none"]] = "none"

    kind: Literal["cache"]
    wrapped_step: AnyStep = Field(
        description="The step that runs if nothing is stored.",
        examples=[{"name": "rate", "uses": "exchange_rate"}],
    )
    ttl: Seconds | None = Field(None, description="How long a value is kept; default: for ever.", examples=["1d"])
    key: Template | None = Field(
        None,
        description="Distinguishes the stored values; default: all that the step reads.",
        examples=["{{ item.currency }}"],
    )

    def reads(self) -> Mapping[str, Template]:
        return {**super().reads(), "key": self.key}

    def blocks(self) -> Mapping[str, Block]:
        return {"wrapped_step": Block((self.wrapped_step,))}

    def inner_shapes(self, key: str, input: Shape, read: Callable[[str], Shape]) -> Mapping[str, Shape]:
        return {"previous_step": input}

    def output_shape(self, knowledge: Knowledge) -> Shape:
        return knowledge.last["wrapped_step"]

    def advise(self, path: str, blueprint: Blueprint, findings: Findings) -> None:
        for name, question in answers_in([self.wrapped_step]).items():
            if question.consents:
                message = f"what a person says to {name} is kept, and stands for later runs, in which nobody is asked"
                findings.add(f"{path}.wrapped_step", "kept_consent", message, "ask before the cache, or behind it")

    @classmethod
    def expand(cls, step: PlacedDict, path: str, expansion: Expansion) -> None:
        if "wrapped_step" in step:
            step["wrapped_step"] = expansion.step(step["wrapped_step"], f"{path}.wrapped_step")

    def describe(self, names: Vocabulary) -> StepDescription:
        key = "each set of values that it reads" if self.key is None else f"each key ({say_template(self.key, names)})"
        kept = "for ever" if self.ttl is None else f"for {say_duration(self.ttl)}"
        inside = names if self.input == PREVIOUS else names.after(say_template(self.input, names))
        return StepDescription(
            f"runs this step once for {key}, and caches its result {kept}.",
            (NestedSteps("", [self.wrapped_step], inside),),
        )

    def draw(self, names: Vocabulary) -> Drawing:
        kept = "for ever" if self.ttl is None else f"for {say_duration(self.ttl)}"
        return Drawing("store", [f"results are kept {kept}"], framed=True, enters="new", skips="known")
