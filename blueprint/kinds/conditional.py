"""The `conditional` kind: one of several branches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from holdfast.blueprint.findings import Findings, check_function
from holdfast.blueprint.kinds import flujo
from holdfast.blueprint.kinds.base import Block, Step
from holdfast.blueprint.kinds.description import Cost, Drawing, NestedSteps, StepDescription
from holdfast.blueprint.kinds.document import Blueprint
from holdfast.blueprint.kinds.expansion import Expansion, expand_branches, expand_condition
from holdfast.blueprint.kinds.knowledge import Branching, Knowledge
from holdfast.blueprint.kinds.needs import check_most
from holdfast.blueprint.kinds.phrases import colon_or_nothing
from holdfast.blueprint.kinds.references import BUILTINS
from holdfast.blueprint.kinds.schema_forms import (
    CONDITION,
    Schema,
    set_form,
)
from holdfast.blueprint.parts import MaxParallel, Requirement
from holdfast.blueprint.shape import Shape, join_shapes
from holdfast.blueprint.source import PlacedDict
from holdfast.blueprint.words.text import Vocabulary, choice, constant, say_template, value

if TYPE_CHECKING:
    from holdfast.blueprint.kinds import AnyStep


class Conditional(Step):
    """Run the branch whose key is the condition's value; the output is the branch's output."""

    synonyms: ClassVar[Mapping[str, str]] = {
        **Step.synonyms,
        **dict.fromkeys(("if", "switch", "on", "expression"), "condition_expression"),
        **dict.fromkeys(("default", "else"), "default_branch"),
        "cases": "branches",
    }
    other_names: ClassVar[tuple[str, ...]] = ("if", "switch", "case", "branch", "condition", "choice", "router")

    kind: Literal["conditional"]
    condition_expression: str | None = Field(
        None,
        description="Its value, as text, is the branch key.",
        examples=["steps.review.output", "context.score >= 8"],
    )
    condition: str | None = Field(
        None, description="`pkg.mod:function` that returns the branch key.", examples=["my_tools:route"]
    )
    branches: dict[str, list[AnyStep]] = Field(
        description="Branch key -> steps; `true` and `false` for booleans.",
        examples=[{"pay": [{"name": "paid", "uses": "pay"}], "refuse": [{"name": "refused"}]}],
    )
    default_branch: list[AnyStep] | None = Field(
        None, description="The steps for every other key.", examples=[[{"name": "neither"}]]
    )

    max_parallel: MaxParallel = None

    def requires(self) -> Iterator[Requirement]:
        if self.condition is not None and self.condition not in BUILTINS:
            yield Requirement("tool", self.condition, ("condition",))

    def conditions(self) -> Mapping[str, str]:
        own = {} if self.condition_expression is None else {"condition_expression": self.condition_expression}
        return {**super().conditions(), **own}

    def blocks(self) -> Mapping[str, Block]:
        named = {f"branches.{key}": Block(tuple(steps)) for key, steps in self.branches.items()}
        default = {} if self.default_branch is None else {"default_branch": Block(tuple(self.default_branch))}
        return {**named, **default}

    @property
    def branching(self) -> Branching | None:
        if self.condition_expression is None:
            return None
        return Branching(self.condition_expression, frozenset(self.branches), self.default_branch is not None)

    def inner_shapes(self, key: str, input: Shape, read: Callable[[str], Shape]) -> Mapping[str, Shape]:
        return {"previous_step": input}

    def output_shape(self, knowledge: Knowledge) -> Shape:
        return join_shapes(list(knowledge.last.values()))

    def sees_context(self) -> bool:
        return super().sees_context() or self.condition is not None

    @classmethod
    def expand(cls, step: PlacedDict, path: str, expansion: Expansion) -> None:
        expand_condition(step, "condition_expression")
        expand_branches(step, path, expansion)
        condition = step.get("condition")
        if isinstance(condition, str) and condition.startswith(flujo.PREFIX):
            step["condition"] = flujo.builtin(condition, step.value_place("condition"), f"{path}.condition", expansion)
        if "default_branch" in step:
            place = step.value_place("default_branch")
            step["default_branch"] = expansion.steps(step["default_branch"], place, f"{path}.default_branch")

    @classmethod
    def allow_short_forms(cls, definitions: Schema) -> None:
        set_form(definitions[cls.__name__], "condition_expression", CONDITION)

    def check(self, path: str, blueprint: Blueprint, findings: Findings) -> None:
        super().check(path, blueprint, findings)
        check_most(self.max_parallel, [block.steps for block in self.blocks().values()], f"{path}.", findings)
        if self.condition_expression is None and self.condition is None:
            message = "'condition_expression' is missing: it chooses the branch"
            findings.add(
                f"{path}.condition_expression", "missing_key", message, "its value, as text, is the branch key"
            )
        if self.condition_expression is not None and self.condition is not None:
            message = "'condition' and 'condition_expression' both choose the branch"
            findings.add_key(f"{path}.condition", "conflict", message, "keep one of them")
        if self.condition is not None and self.condition not in BUILTINS:
            check_function(self.condition, f"{path}.condition", findings)
        if not self.branches:
            message = "'branches' is empty: at least one is needed"
            findings.add(f"{path}.branches", "bad_value", message, "branches: {true: […], false: […]}")

    def describe(self, names: Vocabulary) -> StepDescription:
        inside = names.after(say_template(self.input, names))
        if (clause := self._yes_or_no(names)) is not None:
            return self._either(clause, inside)
        blocks = [
            NestedSteps(f"If it is {_key(key)}{colon_or_nothing(then)}", then, inside, key, key)
            for key, then in self.branches.items()
        ]
        inner = (*blocks, *self._otherwise(inside))
        unknown = "Any other value fails the step." if self.default_branch is None else ""
        return StepDescription(f"branches on {self._subject(names)}.", inner, unless_covered=unknown)

    def draw(self, names: Vocabulary) -> Drawing:
        clause = self._yes_or_no(names)
        return Drawing("condition", [f"{clause}?" if clause is not None else self._subject(names)])

    def cost(self) -> Cost:
        return Cost(alternatives=True)

    def _yes_or_no(self, names: Vocabulary) -> str | None:
        """Return the condition as a clause if it is true or false, else None."""
        if self.condition_expression is None or not set(self.branches) <= {"true", "false"}:
            return None
        return choice(self.condition_expression, names.after(say_template(self.input, names)))

    def _subject(self, names: Vocabulary) -> str:
        """Return the words for the value that selects a branch."""
        input_text = say_template(self.input, names)
        if self.condition_expression is None:
            return f"the result of the function {self.condition} for {input_text}"
        return value(self.condition_expression, names.after(input_text))

    def _either(self, clause: str, names: Vocabulary) -> StepDescription:
        """Return the description of a condition that is true or false."""
        titles = {"true": f"If {clause}", "false": f"Unless {clause}" if "true" not in self.branches else "Otherwise"}
        keys = {"true": "yes", "false": "no"}
        blocks = [
            NestedSteps(
                f"{titles[key]}{colon_or_nothing(self.branches[key])}", self.branches[key], names, keys[key], key
            )
            for key in ("true", "false")
            if key in self.branches
        ]
        other = [] if len(blocks) == 2 else self._otherwise(names)
        ways = "takes one of two branches." if len(blocks) == 2 or other else "goes one way, or fails."
        return StepDescription(ways, (*blocks, *other))

    def _otherwise(self, names: Vocabulary) -> list[NestedSteps]:
        branch = self.default_branch
        return (
            [] if branch is None else [NestedSteps(f"Otherwise{colon_or_nothing(branch)}", branch, names, "otherwise")]
        )


def _key(key: str) -> str:
    return key if key in ("true", "false", "null") else constant(key)
