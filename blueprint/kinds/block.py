"""The `block` kind: several steps as one, with a deadline, undos, and what is done in any case."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import ConfigDict, Field

from holdfast.blueprint.findings import Findings
from holdfast.blueprint.kinds.base import Block, Step
from holdfast.blueprint.kinds.deadlines import (
    DEADLINE,
    Deadline,
    OnDeadline,
    check_deadline,
    deadline_asks,
    deadline_null_cause,
    deadline_sentence,
)
from holdfast.blueprint.kinds.description import PREVIOUS, Drawing, NestedSteps, StepDescription
from holdfast.blueprint.kinds.document import Blueprint
from holdfast.blueprint.kinds.expansion import Expansion
from holdfast.blueprint.kinds.knowledge import ERROR, Knowledge
from holdfast.blueprint.kinds.needs import check_most
from holdfast.blueprint.kinds.schema_forms import Schema
from holdfast.blueprint.kinds.template_values import TemplateForm
from holdfast.blueprint.kinds.walk import steps_within
from holdfast.blueprint.parts import MaxParallel, Template
from holdfast.blueprint.shape import NULL, UNKNOWN, Shape, join_shapes
from holdfast.blueprint.source import PlacedDict
from holdfast.blueprint.words.text import Vocabulary, say_template

if TYPE_CHECKING:
    from holdfast.blueprint.kinds import AnyStep

_LISTS = ("steps", "finally")


class BlockStep(Step):
    """Run several steps as one; the output is that of the last one."""

    # `finally` is a word of Python's.
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True, populate_by_name=True)

    synonyms: ClassVar[Mapping[str, str]] = {
        **Step.synonyms,
        **dict.fromkeys(("body", "do", "try"), "steps"),
        **dict.fromkeys(("ensure", "always", "cleanup"), "finally"),
    }
    other_names: ClassVar[tuple[str, ...]] = ("group", "sequence", "scope", "transaction", "saga", "try")
    undos_inside: ClassVar[Literal["kept", "handed_on", "none"]] = "kept"

    kind: Literal["block"]
    steps: list[AnyStep] = Field(
        min_length=1,
        description="What happens, in order. A step that calls a tool may say how it is undone (`undo`).",
        examples=[[{"name": "book", "uses": "book", "undo": {"uses": "cancel", "input": "{{ output.id }}"}}]],
    )
    max_parallel: MaxParallel = None
    finally_steps: list[AnyStep] = Field(
        [],
        alias="finally",
        description="Steps that run once at the end, after the undos, also if the block has failed, or the run is "
        "cancelled; `error` is then what has happened, else null.",
        examples=[[{"name": "release", "uses": "release"}]],
    )
    deadline: Deadline = None
    on_deadline: OnDeadline = "fail"
    on_undo_error: Literal["ask", "continue"] = Field(
        "ask", description="If an undo fails: ask a person, or go on with the next."
    )

    def reads(self) -> Mapping[str, Template]:
        return {**super().reads(), "deadline": self.deadline}

    def template_forms(self) -> Mapping[str, TemplateForm]:
        return {"deadline": DEADLINE}

    def blocks(self) -> Mapping[str, Block]:
        last = Block(tuple(self.finally_steps), frozenset({"error"}), undoes=False)
        return {"steps": Block(tuple(self.steps)), **({"finally": last} if self.finally_steps else {})}

    def inner_shapes(self, key: str, input: Shape, read: Callable[[str], Shape]) -> Mapping[str, Shape]:
        return {"previous_step": input, "error": join_shapes([ERROR, NULL])}

    @property
    def null_cause(self) -> str | None:
        return deadline_null_cause(self.name, self.on_deadline) or super().null_cause

    def output_shape(self, knowledge: Knowledge) -> Shape:
        return UNKNOWN if self.on_deadline != "fail" else knowledge.last["steps"]

    @classmethod
    def expand(cls, step: PlacedDict, path: str, expansion: Expansion) -> None:
        for key in _LISTS:
            if key in step:
                step[key] = expansion.steps(step[key], step.value_place(key), f"{path}.{key}")

    def check(self, path: str, blueprint: Blueprint, findings: Findings) -> None:
        super().check(path, blueprint, findings)
        lists = [block.steps for block in self.blocks().values()]
        check_most(self.max_parallel, lists, f"{path}.", findings)
        check_deadline(self.deadline, self.on_deadline, f"{path}.", findings)
        if self.on_undo_error != "ask" and not self._has_undos:
            message = "'on_undo_error' is never used: no step of the block says how it is undone"
            findings.add_key(f"{path}.on_undo_error", "conflict", message, "add undo to a step, or remove it")

    @property
    def _has_undos(self) -> bool:
        return any(step.undo_tool is not None for step in steps_within(self.steps))

    def describe(self, names: Vocabulary) -> StepDescription:
        inside = names.after(names.previous if self.input == PREVIOUS else say_template(self.input, names))
        text = f"runs these steps as one.{deadline_sentence(self.deadline, self.on_deadline, names)}"
        if self._has_undos:
            failed = "a person is asked" if self.on_undo_error == "ask" else "it goes on with the next"
            text += (
                " If it fails, or the run is cancelled, what its steps did is undone, the last first; "
                f"if an undo fails, {failed}."
            )
        last = NestedSteps("at last, in any case:", self.finally_steps, names, "at last", "finally")
        blocks = [NestedSteps("", self.steps, inside), *([last] if self.finally_steps else [])]
        return StepDescription(text, tuple(blocks), deadline_asks(self.name, self.deadline, self.on_deadline))

    def draw(self, names: Vocabulary) -> Drawing:
        return Drawing("plain", ["these steps as one"], framed=True, last="at last")

    @classmethod
    def allow_short_forms(cls, definitions: Schema) -> None:
        """Nothing shorter than the core form, but that a list may be one step."""
