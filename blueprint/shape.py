"""What is known of a value before the run: its types, keys, elements and only values, read from JSON Schemas.

Each step kind says so of its output; `shapes` judges expressions by it. A shape is an upper bound: what is not known is
allowed, and every value may also be null, as a step may be skipped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from holdfast.blueprint.expressions.error import nearest
from holdfast.blueprint.json_values import JSON, JSONObject, same
from holdfast.blueprint.questions import Asked
from holdfast.blueprint.schema_references import find_reference

TYPES = frozenset({"null", "boolean", "number", "text", "list", "object"})
_NAMES = {
    "null": "null",
    "boolean": "boolean",
    "number": "number",
    "integer": "number",
    "string": "text",
    "array": "list",
    "object": "object",
}
_MOST_VARIANTS = 24
_MOST_REFERENCES = 20
_CONDITIONAL = ("if", "then", "else", "dependentSchemas", "dependencies", "patternProperties", "not")
"""Keywords that may allow more keys than `properties` lists."""


@dataclass(frozen=True)
class Variant:
    """One of the forms that a value may have."""

    types: frozenset[str] = TYPES
    values: tuple[JSON, ...] | None = None
    """The only values; None: any of the types."""
    properties: Mapping[str, Shape] = field(default_factory=dict)
    is_closed: bool = False
    """An object has no other keys."""
    lists_keys: bool = False
    """An author has listed the keys, so that another one is hardly meant."""
    required: frozenset[str] = frozenset()
    element: Shape | None = None
    least: float | None = None
    most: float | None = None
    members: tuple[Shape, ...] = ()
    """Elements that a list surely has, each for itself, as they are written in it."""


@dataclass(frozen=True)
class Shape:
    """A value of which something may be known."""

    schema: JSON = field(default_factory=dict)
    """JSON Schema of the value; {}: any value."""
    root: JSON = None
    """The schema that references in it lead into."""
    own: tuple[Variant, ...] = ()
    """The variants, where they do not come from a schema."""
    step: str = ""
    """The name of the step that asked for it, if it is what a person said."""
    question: Asked | None = None
    """The question there, as it is written."""

    is_told: bool = True
    """False: the step says in words what it gives."""

    @cached_property
    def variants(self) -> tuple[Variant, ...]:
        return self.own or _read_variants(self.schema, self.schema if self.root is None else self.root, 0)

    @cached_property
    def types(self) -> frozenset[str]:
        return frozenset[str]().union(*(variant.types for variant in self.variants))

    @cached_property
    def values(self) -> tuple[JSON, ...] | None:
        """The only values that it may have, null aside; None if there is no such list."""
        found: list[JSON] = []
        for variant in self.variants:
            if variant.values is None and not variant.types <= {"boolean", "null"}:
                return None
            for value in (True, False) if variant.values is None else variant.values:
                if value is not None and not any(same(value, other) for other in found):
                    found.append(value)
        return tuple(found)

    def may_be(self, *types: str) -> bool:
        return not self.types.isdisjoint(types)

    @property
    def is_known(self) -> bool:
        return self.types != TYPES

    @property
    def is_text(self) -> bool:
        return self.types <= {"text", "null"} and self.types != {"null"}

    @property
    def is_permission(self) -> bool:
        return self.question is not None and self.question.permits

    @property
    def is_review(self) -> bool:
        return self.question is not None and self.question.yes_or_no and not self.question.permits

    @property
    def is_choice(self) -> bool:
        """True if it is one of the options of a question, or several."""
        return self.question is not None and bool(self.question.choices) and not self.question.takes_own_words

    def is_like(self, other: Shape) -> bool:
        """Return whether both are answers, and the same is known of both."""
        alike = (self.is_choice, type(self.question)) == (other.is_choice, type(other.question))
        return self.question is not None and alike

    def find_near_option(self, text: str) -> str | None:
        """Return the option that is meant by a text that is nearly one, where own words are an answer, too."""
        if self.question is None or not self.question.takes_own_words:
            return None
        options = [option.id for option in self.question.choices]
        return None if text in options else nearest(text, options)

    def find_key(self, key: str) -> Shape | None:
        """Return what is known under a key; None if no object of this shape has it."""
        found = []
        for variant in self._objects:
            if key in variant.properties:
                found.append(variant.properties[key])
            elif not variant.is_closed:
                return UNKNOWN
        return join_shapes(found) if found else None

    def lists(self, key: str) -> bool:
        """Return whether an author may have meant the key: it is listed, or not all keys are."""
        return any(key in variant.properties or not variant.lists_keys for variant in self._objects)

    @property
    def keys(self) -> list[str]:
        return list(dict.fromkeys(key for variant in self._objects for key in variant.properties))

    @property
    def required(self) -> frozenset[str]:
        """The keys that every object of this shape has."""
        return (
            frozenset.intersection(*(variant.required for variant in self._objects)) if self._objects else frozenset()
        )

    def find_optional(self, keys: Sequence[str]) -> int | None:
        """Return how many of these keys, one below the other, lead to the first that an object may leave out.

        None if none of them is listed and optional, without a default.

        >>> Shape({"type": "object", "properties": {"a": {"properties": {"b": {}}}}, "required": ["a"]}).find_optional(
        ...     ["a", "b"]
        ... )
        2
        """
        here = self
        for count, key in enumerate(keys, 1):
            if key not in here.keys or (found := here.find_key(key)) is None:
                return None
            has_default = isinstance(found.schema, dict) and "default" in found.schema
            if key not in here.required and not has_default:
                return count
            here = found
        return None

    @property
    def element(self) -> Shape:
        """What is known of the elements of a list; of those of an object or a text that they are texts."""
        found = []
        for variant in self.variants:
            if "list" in variant.types:
                found.append(variant.element or UNKNOWN)
            if variant.types & {"object", "text"}:
                found.append(TEXT)
        return join_shapes(found) if found else UNKNOWN

    @property
    def members(self) -> tuple[Shape, ...]:
        """Elements that a list surely has; nothing where it may be one of several."""
        return self.variants[0].members if len(self.variants) == 1 else ()

    @property
    def _objects(self) -> list[Variant]:
        return [variant for variant in self.variants if "object" in variant.types]


def make_shape(*types: str, values: Iterable[JSON] | None = None, element: Shape | None = None) -> Shape:
    """Return the shape of these types."""
    only = None if values is None else tuple(values)
    return Shape(own=(Variant(frozenset(types), only, element=element),))


def make_list(members: Iterable[Shape]) -> Shape:
    """Return the shape of a list of these elements."""
    every = tuple(members)
    return Shape(own=(Variant(frozenset({"list"}), element=join_shapes(every), members=every),))


def make_object(properties: Mapping[str, Shape], *, is_closed: bool = True, lists_keys: bool = True) -> Shape:
    """Return the shape of an object that has these keys and, if it is closed, no others."""
    every = frozenset(properties) if is_closed else frozenset[str]()
    variant = Variant(frozenset({"object"}), None, properties, is_closed, lists_keys, every)
    return Shape(own=(variant,))


def make_number(least: float | None = None, most: float | None = None) -> Shape:
    return Shape(own=(Variant(frozenset({"number"}), least=least, most=most),))


UNKNOWN = Shape()
TEXT = make_shape("text")
NUMBER = make_number()
BOOLEAN = make_shape("boolean")
LIST = make_shape("list")
NULL = make_shape("null")


def make_constant(value: object) -> Shape:
    """Return the shape of one value."""
    match value:
        case dict():
            return make_object({key: make_constant(part) for key, part in value.items()})
        case list():
            return make_list(map(make_constant, value)) if value else LIST
    return make_shape(find_type(value), values=(value,))


def join_shapes(shapes: Sequence[Shape]) -> Shape:
    """Return the shape of a value that has one of these."""
    if not shapes:
        return UNKNOWN
    first, *others = shapes
    if not others:
        return first
    variants = {id(variant): variant for shape in shapes for variant in shape.variants}
    if len(variants) > _MOST_VARIANTS or any(shape.types == TYPES and not shape.keys for shape in shapes):
        return UNKNOWN
    joined = Shape(own=tuple(variants.values()))
    if all(first.is_like(other) for other in others):
        return replace(joined, step=first.step, question=first.question)
    return joined


def keep_values(shape: Shape, *, truth: bool) -> list[Shape]:
    """Return the shape of those values that are true, or of those that are not; nothing if there are none.

    >>> [kept.values for kept in keep_values(make_shape("boolean"), truth=False)]
    [(False,)]
    >>> keep_values(make_shape("text", values=("yes", "no")), truth=False)
    []
    """
    if not shape.is_known:
        return [shape]
    kept: list[Variant] = []
    for variant in shape.variants:
        if variant.values is not None:
            values = tuple(value for value in variant.values if bool(value) is truth)
            kept += [replace(variant, values=values, types=frozenset(map(find_type, values)))] if values else []
            continue
        for one in sorted(variant.types):
            if one == "null" and truth:
                continue
            only = (True,) if one == "boolean" and truth else None if truth else _FALSE.get(one)
            kept.append(replace(variant, types=frozenset({one}), values=only))
    return [replace(shape, schema={}, root=None, own=tuple(kept))] if kept else []


_FALSE: Mapping[str, tuple[JSON, ...]] = {"null": (None,), "boolean": (False,), "number": (0,), "text": ("",)}


def find_type(value: JSON) -> str:
    """Return the type of a value.

    >>> find_type(1.5), find_type(True), find_type("a")
    ('number', 'boolean', 'text')
    """
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case str():
            return "text"
        case list():
            return "list"
    return "object"


# Reading a schema


def _read_variants(schema: JSON, root: JSON, level: int) -> tuple[Variant, ...]:
    if not isinstance(schema, dict) or level > _MOST_REFERENCES:
        return (Variant(),)
    variants = [_read_own(schema, root)]
    for part in _parts_that_hold(schema, root):
        variants = _meet_all(variants, _read_variants(part, root, level + 1))
    for key in ("anyOf", "oneOf"):
        if isinstance(parts := schema.get(key), list):
            either = [variant for part in parts for variant in _read_variants(part, root, level + 1)]
            variants = _meet_all(variants, either)
    if schema.get("unevaluatedProperties") is False and not any(key in schema for key in _CONDITIONAL):
        variants = [replace(variant, is_closed=True) for variant in variants]
    return tuple(variants) if 0 < len(variants) <= _MOST_VARIANTS else (Variant(),)


def _parts_that_hold(schema: JSONObject, root: JSON) -> Iterator[JSON]:
    """Yield the schemas that must hold beside the keywords of this one."""
    if isinstance(reference := schema.get("$ref"), str):
        yield find_reference(reference, root) or {}
    if isinstance(parts := schema.get("allOf"), list):
        yield from parts


def _read_own(schema: JSONObject, root: JSON) -> Variant:
    """Return what the keywords of a schema itself say."""
    properties = schema.get("properties")
    listed = properties if isinstance(properties, dict) else {}
    values = (schema["const"],) if "const" in schema else schema.get("enum")
    items = schema.get("items")
    return Variant(
        _read_types(schema, values),
        tuple(values) if isinstance(values, list | tuple) else None,
        {key: Shape(part, root) for key, part in listed.items()},
        schema.get("additionalProperties") is False and "patternProperties" not in schema,
        bool(listed) and not schema.get("additionalProperties") and "patternProperties" not in schema,
        frozenset(filter(_is_text, schema["required"])) if isinstance(schema.get("required"), list) else frozenset(),
        Shape(items, root) if isinstance(items, dict) and "prefixItems" not in schema else None,
        _read_number(schema.get("minimum")),
        _read_number(schema.get("maximum")),
    )


def _read_types(schema: JSONObject, values: object) -> frozenset[str]:
    declared = schema.get("type")
    names = declared if isinstance(declared, list) else [declared]
    types = frozenset(_NAMES[name] for name in names if isinstance(name, str) and name in _NAMES) or TYPES
    if isinstance(values, list | tuple) and values:
        types &= {find_type(value) for value in values}
    return types or TYPES


def _read_number(value: JSON) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _meet_all(variants: Sequence[Variant], others: Sequence[Variant]) -> list[Variant]:
    met = [_meet(one, other) for one in variants for other in others]
    return [variant for variant in met if variant is not None] or [Variant()]


def _meet(one: Variant, other: Variant) -> Variant | None:
    """Return the variant of a value that has both forms; None if none can."""
    types = one.types & other.types
    if not types:
        return None
    values = one.values if other.values is None else other.values
    if one.values is not None and other.values is not None:
        values = tuple(value for value in one.values if any(same(value, allowed) for allowed in other.values))
    return Variant(
        types,
        values,
        {**other.properties, **one.properties},
        one.is_closed or other.is_closed,
        one.lists_keys or other.lists_keys,
        one.required | other.required,
        one.element or other.element,
        one.least if one.least is not None else other.least,
        one.most if one.most is not None else other.most,
    )
