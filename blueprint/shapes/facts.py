"""What the judgement knows of values, for `explain`: what each step gives, and what its conditions look at."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from jinja2 import nodes

from holdfast.blueprint.expressions.error import ExpressionError
from holdfast.blueprint.expressions.functions import FUNCTIONS
from holdfast.blueprint.expressions.parse import parsed_expression
from holdfast.blueprint.kinds import Blueprint, Step
from holdfast.blueprint.kinds.knowledge import ToolShapes
from holdfast.blueprint.shape import Shape
from holdfast.blueprint.shapes.place import Place
from holdfast.blueprint.shapes.reader import ExpressionReader
from holdfast.blueprint.shapes.report import Report, find_chain
from holdfast.blueprint.shapes.walk import NO_TOOLS, DecidingExpression, Walk, walk


@dataclass(frozen=True)
class ReadValue:
    """A value that a condition looks at."""

    root: str
    keys: tuple[str, ...]
    shape: Shape
    may_be_null: bool
    """The step that it comes from may be skipped, or nothing says where it comes from."""

    @property
    def source(self) -> str:
        """The reference as an expression."""
        return self.root + "".join(f"[{key!r}]" for key in self.keys)


@dataclass(frozen=True)
class Facts:
    """What is known of the values of one blueprint."""

    done: Walk

    @property
    def output(self) -> Shape:
        return self.done.output

    def find_output(self, step: Step) -> Shape | None:
        """Return what a step gives where it completes; None if it is no step of the blueprint."""
        return next((shape for other, shape in self.done.outputs if other is step), None)

    def list_readings(self, step: Step) -> list[DecidingExpression]:
        """Return the expressions by which a step decides."""
        return [reading for reading in self.done.readings if reading.step is step]


def find_facts(blueprint: Blueprint, tools: ToolShapes = NO_TOOLS) -> Facts:
    """Return what is known of the values of a blueprint, its imports left out."""
    return Facts(walk(blueprint, Report(None), tools))


def find_value(reading: DecidingExpression) -> Shape:
    """Return what is known of the value of an expression."""
    return _reader(reading.place).evaluate(reading.expression, is_condition=False)


def list_references(reading: DecidingExpression) -> list[ReadValue]:
    """Return the values that an expression looks at.

    >>> from holdfast.blueprint.load import loads
    >>> facts = find_facts(loads("steps: [{name: ask, kind: hitl, options: [a, b]}, {name: do, when: output == 'a'}]"))
    >>> [(one.source, one.shape.values) for reading in facts.done.readings for one in list_references(reading)]
    [('output', ('a', 'b'))]
    """
    try:
        parsed = parsed_expression(reading.expression)
    except ExpressionError:  # reported by the checks
        return []
    found = []
    for node in _find_references([parsed]):
        root, keys = find_chain(node)
        shape = _reader(reading.place).look_at(node)
        step = keys[0] if root == "steps" and keys else shape.step
        certain = step in reading.place.steps and step not in reading.place.null_causes
        found.append(ReadValue(root, tuple(keys), shape, root != "input" and not certain))
    return found


def _find_references(parts: Iterable[nodes.Node]) -> Iterator[nodes.Node]:
    """Yield the references in parts of an expression, each with all its keys."""
    for node in parts:
        root, _ = find_chain(node)
        if not root:
            yield from _find_references(node.iter_child_nodes())
        elif root not in FUNCTIONS:
            yield node


def _reader(place: Place) -> ExpressionReader:
    return ExpressionReader(place, "", Report(None))
