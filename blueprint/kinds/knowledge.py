"""What a step kind is told when it says what its output looks like (`Step.output_shape`). Made by `shapes`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from holdfast.blueprint.kinds.document import Blueprint
from holdfast.blueprint.parts import Template
from holdfast.blueprint.shape import TEXT, UNKNOWN, Shape, make_object

ERROR = make_object(
    {"type": TEXT, "message": TEXT, "address": TEXT, "output": UNKNOWN}, is_closed=False, lists_keys=False
)
"""What `error` is where a step or a block has failed."""


@dataclass(frozen=True)
class ToolShapes:
    """What is known of tools, by their names."""

    parameters: Mapping[str, Shape] = field(default_factory=dict)
    """Of the object of a tool's arguments by name."""
    results: Mapping[str, Shape] = field(default_factory=dict)


@dataclass(frozen=True)
class Knowledge:
    """What is known before the run where a step ends."""

    input: Shape
    blueprint: Blueprint
    last: Mapping[str, Shape]
    """The outputs of the lists of steps inside, by the path of the block."""
    render: Callable[[str, Template, Shape], Shape]
    """What a template gives at the end of a block, by the block's path, after a value that is `previous_step` there."""
    imports: Mapping[str, Shape]
    """The outputs of imported blueprints by alias."""
    tools: ToolShapes


@dataclass(frozen=True)
class Branching:
    """The choice of one of several branches by the value of an expression."""

    expression: str
    keys: frozenset[str]
    has_default: bool
    keys_at: str = "branches"
    """The path of the branches in the step."""
    default_at: str = "default_branch"
