"""The `conditional` kind: one of several branches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from holdfast.blueprint.kinds.base import Block, Step
from holdfast.blueprint.kinds.parts import Requirement
from holdfast.blueprint.kinds.step import BUILTINS

if TYPE_CHECKING:
    from holdfast.blueprint.kinds import AnyStep


class Conditional(Step):
    """Run the branch whose key is the condition's value; the output is the branch's output."""

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

    def sees_context(self) -> bool:
        return super().sees_context() or self.condition is not None
