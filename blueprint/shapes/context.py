"""What is known of the context of a run: from its schema, its first value, and everything that writes to it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from holdfast.blueprint.findings import is_literal
from holdfast.blueprint.json_values import JSON
from holdfast.blueprint.kinds import Blueprint, Operation, Step
from holdfast.blueprint.kinds.walk import placed_steps
from holdfast.blueprint.parts import Part
from holdfast.blueprint.reducers import split_keys
from holdfast.blueprint.shape import LIST, UNKNOWN, Shape, find_type, join_shapes, make_object, make_shape

SCRATCHPAD = "scratchpad"
"""The part of the context that conversations and agents write, too."""
_DEEPEST = 4
_WRITING = ("context_set", "context_merge")


@dataclass
class Writes:
    """Everything that writes to the context, as far as it is known."""

    by_path: dict[tuple[str, ...], list[Shape]] = field(default_factory=dict)
    replacing: dict[tuple[str, ...], list[Shape]] = field(default_factory=dict)
    """Of them those that replace what stood there."""
    is_open: bool = False
    """True if something may write any key."""

    def add(self, target: str, shape: Shape, *, replaces: bool = True) -> None:
        for writes in (self.by_path, self.replacing) if replaces else (self.by_path,):
            writes.setdefault(split_keys(target), []).append(shape)

    def list_whole(self) -> dict[str, list[Shape]]:
        """Return what is written to each key below which nothing is written by itself."""
        in_parts = {path[0] for path in self.by_path if len(path) > 1}
        return {path[0]: shapes for path, shapes in self.by_path.items() if path[0] not in in_parts}

    def add_object(self, shape: Shape) -> None:
        """Add an object that is written key by key."""
        if not all(variant.is_closed for variant in shape.variants):
            self.is_open = True
        for key in shape.keys:
            self.add(key, shape.find_key(key) or UNKNOWN)


@dataclass(frozen=True)
class Context:
    """What is known of the context while a blueprint is walked."""

    blueprint: Blueprint
    shape: Shape
    writes: Writes = field(default_factory=Writes)
    begun: Sequence[tuple[tuple[str, ...], JSON]] = ()
    """What loops and maps around set before their first iteration, by path; None for what is not known."""

    @cached_property
    def declared_shape(self) -> Shape:
        """What the author says of the context: a write that breaks it fails."""
        schema = self.blueprint.context_schema
        return UNKNOWN if schema is None else Shape(schema)

    def begin_in(self, step: Step, count: int | None = None) -> Context:
        """Return what is known inside a step, after so many of its operations before the first iteration, or all."""
        sets = [(split_keys(one.write.target), one) for one in step.first_writes[:count] if one.verb == "set"]
        values = [(path, one.write.value if is_literal(one.write.value) else None) for path, one in sets]
        return replace(self, begun=(*self.begun, *values)) if values else self

    def find_holder(self, target: str, verb: str = "set") -> tuple[str, JSON] | None:
        """Return the path of the first value that cannot take a write, and that value, where nothing replaces it.

        A value above the target has to hold keys; the target itself a list for `append`, an object for `merge`.
        """
        keys = split_keys(target)
        needed = {"append": "list", "merge": "object"}.get(verb)
        for count in range(1, len(keys) + (needed is not None)):
            value, holds = self._read_first(keys[:count]), needed if count == len(keys) and needed else "object"
            if value is not None and find_type(value) != holds:
                return None if self._may_hold(keys[:count], holds) else (".".join(keys[:count]), value)
        return None

    def _read_first(self, path: tuple[str, ...]) -> JSON:
        """Return what a path begins with; None where that is not known."""
        for other, value in reversed(self.begun):
            if path[: len(other)] == other:
                return _read_value(path[len(other) :], value)
            if other[: len(path)] == path:
                return None
        return _read_value(path, self.blueprint.context)

    def _may_hold(self, path: tuple[str, ...], type_: str) -> bool:
        """Return whether something may write a value of this type to a path, or any to one above it."""
        above = [(other, shapes) for other, shapes in self.writes.replacing.items() if other == path[: len(other)]]
        is_written = any(
            shape.may_be(type_ if other == path else "object") for other, shapes in above for shape in shapes
        )
        return is_written or self.writes.is_open or is_edited(self.blueprint)


def find_operations(step: Step) -> Iterator[Operation]:
    """Yield the writes that a step itself makes, before, between and after its iterations."""
    waiting: list[object] = [value for key, value in step.__dict__.items() if key not in ("body", "branches")]
    while waiting:
        match waiting.pop():
            case Operation() as operation:
                yield operation
            case Step():
                pass
            case Part() as part:
                waiting += part.__dict__.values()
            case list() as parts:
                waiting += parts


def is_edited(blueprint: Blueprint) -> bool:
    """Return whether something may write to the context that is not read from the steps: a person, a built-in."""
    return any(is_changed(step) for _, step in placed_steps(blueprint.steps, ""))


def is_changed(step: Step) -> bool:
    """Return whether a person or a built-in may write to the context at a step."""
    return step.interrupt_before or step.interrupt_after or step.__dict__.get("uses") in _WRITING


def make_context(blueprint: Blueprint, writes: Writes) -> Shape:
    """Return the shape of the context, which holds at any time of a run."""
    answers = {} if writes.is_open else dict(_find_answers(writes, blueprint.context))
    is_open = writes.is_open or is_edited(blueprint)
    keys = sorted({*blueprint.context, *(path[0] for path in writes.by_path), SCRATCHPAD})
    if blueprint.context_schema is not None:
        other = {} if is_open else dict.fromkeys(keys, UNKNOWN)
        return _add_keys(Shape(blueprint.context_schema), _nest(answers), other, lists_keys=not is_open)
    if is_open:
        return make_object(_nest(answers), is_closed=False, lists_keys=False)
    properties = {key: _find_value(key, blueprint.context, writes) for key in keys}
    return make_object(properties | _nest(answers), is_closed=False, lists_keys=True)


def is_same(one: Shape, other: Shape) -> bool:
    """Return whether the same is known of the types, values and keys of two values."""
    return bool(_sum_up(one, 0) == _sum_up(other, 0))


def _sum_up(shape: Shape, level: int) -> JSON:
    keys: dict[str, JSON] = {}
    if level < _DEEPEST:
        keys = {key: _sum_up(shape.find_key(key) or UNKNOWN, level + 1) for key in shape.keys}
    values: list[JSON] = sorted(json.dumps(value, sort_keys=True) for value in shape.values or ())
    return [sorted(shape.types), values if shape.values is not None else None, keys]


def _find_answers(writes: Writes, first: JSON) -> Iterator[tuple[tuple[str, ...], Shape]]:
    """Yield the paths that one kind of answer alone is written to, so that what is read there is known.

    Where the first value of the context is of another type, it is not: it may be read before there is an answer.
    """
    for path, shapes in writes.by_path.items():
        before = _read_value(path, first)
        is_other = before is not None and not shapes[0].may_be(find_type(before))
        if not is_other and all(shape.is_like(shapes[0]) for shape in shapes):
            yield path, shapes[0]


def _read_value(path: tuple[str, ...], value: JSON) -> JSON:
    """Return what stands at a path in a value; None if nothing does."""
    for key in path:
        if not isinstance(value, dict):
            return None
        value = value.get(key)
    return value


def _add_keys(context: Shape, answers: dict[str, Shape], other: dict[str, Shape], *, lists_keys: bool) -> Shape:
    """Return the context of a schema, in which what people have answered is known, and other keys are written.

    Args:
        context: As the schema says.
        answers: By the key that they are written to.
        other: Keys that are in it, too.
        lists_keys: Nothing writes any other key.
    """
    variants = [
        replace(
            one,
            properties={**({} if one.is_closed else other), **one.properties, **answers},
            lists_keys=lists_keys and (one.lists_keys or not one.properties),
        )
        for one in context.variants
    ]
    return Shape(own=tuple(variants))


def _nest(answers: dict[tuple[str, ...], Shape]) -> dict[str, Shape]:
    """Return shapes by path as objects in one another."""
    inner: dict[str, dict[tuple[str, ...], Shape]] = {}
    leaves = {path[0]: shape for path, shape in answers.items() if len(path) == 1}
    for path, shape in answers.items():
        if len(path) > 1:
            inner.setdefault(path[0], {})[path[1:]] = shape
    objects = {
        key: make_object(_nest(below), is_closed=False, lists_keys=False)
        for key, below in inner.items()
        if key not in leaves
    }
    return {**leaves, **objects}


def _find_value(key: str, first: dict[str, JSON], writes: Writes) -> Shape:
    """Return what is known of a key: its first value, or what is written there; a write below it is not followed."""
    written = [shape for path, shapes in writes.by_path.items() if path[0] == key for shape in shapes]
    if key == SCRATCHPAD or any(path[0] == key and len(path) > 1 for path in writes.by_path):
        return UNKNOWN
    begun = [widen(first[key])] if key in first and first[key] is not None else []
    return join_shapes([*begun, *written])


def widen(value: JSON) -> Shape:
    """Return the shape of values of one kind: of a first value, which may be replaced by another of its kind.

    >>> sorted(widen({"n": 1}).find_key("n").types)
    ['number']
    """
    match value:
        case None:
            return UNKNOWN
        case dict():
            parts = {key: widen(part) for key, part in value.items()}
            return make_object(parts, is_closed=False, lists_keys=False)
        case list():
            return LIST
    return make_shape(find_type(value))


def find_targets(step: Step) -> Iterator[str]:
    """Yield the paths that a step itself writes, beside its output."""
    yield from (operation.write.target for operation in find_operations(step))
    yield from _find_imported(step)


def gather_writes(steps: Iterable[tuple[Step, Shape]]) -> Writes:
    """Return what steps write, each given with its output."""
    writes = Writes()
    for step, output in steps:
        if step.sink_to is not None:
            writes.add(step.sink_to, output)
        if step.updates_context:
            writes.add_object(output)
        for operation in find_operations(step):
            writes.add(operation.write.target, _find_written(operation), replaces=operation.verb == "set")
        for target in _find_imported(step):
            writes.add(target, UNKNOWN)
    return writes


def _find_written(operation: Operation) -> Shape:
    match operation.verb:
        case "append":
            return LIST
        case "merge":
            value = operation.write.value
            keys = list(value) if isinstance(value, dict) else []
            return Shape({"type": "object", "properties": dict.fromkeys(keys, {}), "required": keys})
    return widen(operation.write.value) if is_literal(operation.write.value) else UNKNOWN


def _find_imported(step: Step) -> Sequence[str]:
    """Return the paths that an import's outputs are written to."""
    config = step.__dict__.get("config")
    return () if config is None else list(config.outputs.values())
