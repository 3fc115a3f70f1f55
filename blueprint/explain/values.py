"""What is known of values before the run, as JSON Schema and in plain words: the sentences of a page about them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from holdfast.blueprint.expressions.values import write_text
from holdfast.blueprint.json_values import JSON, JSONObject, same
from holdfast.blueprint.kinds import AnyStep
from holdfast.blueprint.kinds.description import StepDescription
from holdfast.blueprint.kinds.phrases import capitalize
from holdfast.blueprint.shape import Shape, Variant, find_type
from holdfast.blueprint.shapes import DecidingExpression, Facts, ReadValue, find_value, list_references
from holdfast.blueprint.words.schemas import shape as say_schema
from holdfast.blueprint.words.text import Vocabulary, as_sentence, say_template, value

_NAMES = {"list": "array", "text": "string"}
_DEEPEST = 4
_MOST_VALUES = 8
_MOST_TYPES = 2
_PLAIN = ("text", "anything", "an object", "a list", "nothing")


def write_schema(shape: Shape, level: int = 0) -> JSONObject:
    """Return a schema that every value of a shape fits, null aside; below `_DEEPEST` levels anything does.

    >>> from holdfast.blueprint.shape import NUMBER, make_object, make_shape
    >>> write_schema(make_object({"n": NUMBER, "kind": make_shape("text", values=("a", "b"))}))["properties"]
    {'n': {'type': 'number'}, 'kind': {'enum': ['a', 'b']}}
    """
    if isinstance(shape.schema, dict) and shape.schema and "$ref" not in json.dumps(shape.schema):
        return shape.schema
    if level > _DEEPEST or not shape.is_known:
        return {}
    parts = [_write_variant(variant, level) for variant in _join_values(shape.variants)]
    unique = [part for number, part in enumerate(parts) if part not in parts[:number]]
    if {} in unique or len(unique) > _MOST_TYPES:
        return {}
    return unique[0] if len(unique) == 1 else {"anyOf": list(unique)}


def _join_values(variants: Sequence[Variant]) -> list[Variant]:
    """Return variants of which one has all the single values that no other one allows; it comes first."""
    whole = [variant for variant in variants if variant.values is None]
    values = [value for variant in variants for value in variant.values or ()]
    single = [value for value in values if not any(find_type(value) in variant.types for variant in whole)]
    unique = tuple(value for number, value in enumerate(single) if not any(same(value, one) for one in single[:number]))
    return [*([Variant(values=unique)] if unique else []), *whole]


def _write_variant(variant: Variant, level: int) -> JSONObject:
    if variant.values is not None:
        return {"enum": list(variant.values)}
    if len(variant.types) > _MOST_TYPES:
        return {}
    names: list[JSON] = [_NAMES.get(one, one) for one in sorted(variant.types)]
    schema: JSONObject = {"type": names[0] if len(names) == 1 else names}
    if variant.types == {"object"} and variant.properties:
        schema["properties"] = {key: write_schema(part, level + 1) for key, part in variant.properties.items()}
        schema["required"] = [key for key in variant.properties if key in variant.required]
    if variant.types == {"list"} and variant.element is not None and (items := write_schema(variant.element, level)):
        schema["items"] = items
    bounds = {"minimum": variant.least, "maximum": variant.most}
    return {**schema, **{key: bound for key, bound in bounds.items() if bound is not None}}


def say_shape(shape: Shape) -> str:
    """Return the words for the values of a shape; empty if they say no more than that it is text, or anything.

    >>> from holdfast.blueprint.shape import TEXT, make_number, make_shape
    >>> say_shape(TEXT), say_shape(make_number(0, 10)), say_shape(make_shape("list", element=TEXT))
    ('', 'a number, at least 0, at most 10', 'a list, each item text')
    """
    if not shape.is_told:
        return ""
    words = say_schema({**write_schema(shape), "description": None})
    return "" if words in _PLAIN else words


def is_narrow(shape: Shape) -> bool:
    """Return whether a value is one of a few, yes and no aside, or a number between bounds."""
    if shape.values is not None:
        return 0 < len(shape.values) <= _MOST_VALUES and not all(isinstance(one, bool) for one in shape.values)
    bounds = [bound for variant in shape.variants for bound in (variant.least, variant.most)]
    return shape.types <= {"number", "null"} and None not in bounds


@dataclass
class ValueSentences:
    """The sentences about the values of one blueprint; each fact is told once."""

    facts: Facts
    told: set[str] = field(default_factory=set)

    def list_for(self, step: AnyStep, description: StepDescription, names: Vocabulary) -> Iterator[str]:
        """Yield what is known of what a step decides by, and of what a tool gives.

        Args:
            step: The step.
            description: What its kind says of it.
            names: The words where the step begins.
        """
        readings = self.facts.list_readings(step)
        covered = any(_is_covered(reading) for reading in readings)
        if description.unless_covered and not covered:
            yield description.unless_covered
        for reading in readings:
            there = _find_words(reading, names)
            looked_at = (one for one in list_references(reading) if one.root != "iteration")  # the loop has said it
            for sentence in (_say_items(reading), *(_say_reference(one, there, listed=covered) for one in looked_at)):
                if sentence and sentence not in self.told:
                    self.told.add(sentence)
                    yield sentence
        output = self.facts.find_output(step)
        if description.calls and step.output_schema is None and output is not None and (words := say_shape(output)):
            yield f"It gives {words}."


def _find_words(reading: DecidingExpression, names: Vocabulary) -> Vocabulary:
    """Return the words where an expression of a step is read."""
    if reading.key == "when":
        return names
    if reading.block is not None:
        return names.after(reading.block.steps[-1].result(names)) if reading.block.steps else names
    return names.after(say_template(reading.step.input_template, names))


def _say_items(reading: DecidingExpression) -> str:
    """Return what is known of the items of the list that a step goes through."""
    if not reading.key.endswith("iterable_input"):
        return ""
    words = say_shape(find_value(reading).element)
    return as_sentence(f"Each item is {words}") if words else ""


def _say_reference(reference: ReadValue, names: Vocabulary, *, listed: bool) -> str:
    """Return what is known of a value that a condition looks at; empty if nothing is, or it is said elsewhere.

    Args:
        reference: The value.
        names: The words where the condition is read.
        listed: The branches of the step list the values.
    """
    shape, words = reference.shape, value(reference.source, names)
    if not is_narrow(shape) or reference.root in ("input", "item"):
        return ""
    is_answer = shape.step or (reference.root == "steps" and reference.keys[0] in names.answers)
    values = "" if listed else say_shape(shape)
    if reference.root == "context":
        said = "" if not is_answer else f"the answer to {shape.step}{': ' * bool(values)}"
        return f"In the context, {'.'.join(reference.keys)} is {said}{values}." if said or values else ""
    # Of the answer itself it is said at the question.
    return "" if is_answer or not values else f"{capitalize(words)} is {values}."


def _is_covered(reading: DecidingExpression) -> bool:
    """Return whether an expression chooses among branches, and each of its values has one."""
    branching = reading.step.branching
    if branching is None or branching.expression != reading.expression:
        return False
    values = find_value(reading).values
    certain = not any(reference.may_be_null for reference in list_references(reading))
    return certain and bool(values) and {write_text(one) for one in values or ()} <= branching.keys
