"""A value tree against the grammar: what pydantic finds, in plain words and with its place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from blueprint.errors import Problem
from blueprint.expressions.error import did_you_mean
from blueprint.grammar import KINDS, Blueprint, Step
from blueprint.grammar.base import Part
from blueprint.mending import Mend, mend
from blueprint.places import Parts, place_of, shown
from blueprint.source import PlacedDict, plain
from blueprint.spelling import nearest, unknown_key

_ROUNDS = 8
_WORDS = {
    str: "text",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    list: "a list",
    dict: "an object",
}
_TYPE_WORDS = {
    "string_type": "text",
    "bool_type": "true or false",
    "int_type": "a whole number",
    "float_type": "a number",
    "list_type": "a list",
    "dict_type": "an object",
    "model_type": "an object",
    "model_attributes_type": "a step",
    "string_unicode": "text",
}


@dataclass(frozen=True)
class Shaped:
    """A blueprint read as far as it can be: where something was wrong, as if the author had written it right."""

    blueprint: Blueprint | None
    problems: list[Problem]
    mended: frozenset[Parts]
    """The objects that something was wrong in."""


def shaped(tree: PlacedDict, imports: Mapping[str, Blueprint], prefix: Parts = ()) -> Shaped:
    """The tree as a Blueprint, with every problem of its shape; the tree is mended on the way."""
    problems: dict[Problem, None] = {}
    mended: set[Parts] = set()
    for _ in range(_ROUNDS):
        try:
            blueprint = Blueprint.model_validate({**plain(tree), **_read_in(tree, imports)}, strict=True)
            return Shaped(blueprint, list(problems), frozenset(mended))
        except ValidationError as error:
            found = _findings(tree, error.errors(include_url=False))
        told = [one for one in found if one.error != "value_error" or not _within(one.parts, mended)]
        problems.update(dict.fromkeys(one.problem(tree, prefix) for one in told))
        mended |= {one.parts[:-1] for one in found}
        if not mend(tree, [one.mend() for one in found]):
            break
    return Shaped(None, list(problems), frozenset(mended))


def _within(parts: Parts, mended: set[Parts]) -> bool:
    """Whether something inside was mended: then a rule on the whole may be broken only by that."""
    return any(one[: len(parts)] == parts for one in mended)


def _read_in(tree: PlacedDict, imports: Mapping[str, Blueprint]) -> dict[str, Any]:
    return {"imports": dict(imports)} if isinstance(tree.get("imports"), dict) else {}


@dataclass(frozen=True)
class _Finding:
    """One thing that is wrong, by its keys in the tree."""

    parts: Parts
    error: str
    """Its pydantic type."""
    value: Any
    part: type[Part] | None
    """The grammar class of the object that holds it."""
    droppable: Mend
    """The nearest thing around it that the grammar does not need, or a step that can be left out."""
    expected: str = ""

    @property
    def key(self) -> str:
        return str(self.parts[-1]) if self.parts else ""

    def problem(self, tree: PlacedDict, prefix: Parts) -> Problem:
        code, message, hint = self._told()
        parts = (*self.parts, "kind") if self.error == "union_tag_invalid" else self.parts
        place = place_of(tree, parts, key=self.error == "extra_forbidden" or self.expected == "key")
        return place.problem(shown((*prefix, *parts)), code, message, hint)

    def mend(self) -> Mend:
        """What to read instead, so that the rest can be checked."""
        match self.error:
            case "extra_forbidden":
                meant = self.meant()
                return Mend("drop", self.parts) if meant is None else Mend("rename", self.parts, meant)
            case "union_tag_invalid" if (meant := nearest(self._kind(), KINDS)) is not None:
                return Mend("kind", self.parts, meant)
        if self.key == "name" and self.part is not None and issubclass(self.part, Step | Blueprint):
            return Mend("name", self.parts)
        return self.droppable

    def _told(self) -> tuple[str, str, str | None]:
        match self.error:
            case "extra_forbidden":
                assert self.part is not None
                return unknown_key(self.part, self.key)
            case "union_tag_invalid":
                return self._unknown_kind()
            case "missing":
                return "missing_key", f"{self.key!r} is missing", self._description()
            case "string_pattern_mismatch":
                told = f"{_brief(self.value)} is no name" if self.expected != "key" else f"{self.key!r} is no name"
                return "bad_value", told, "a name has letters, digits, _ and -"
            case "too_short":
                return "bad_value", f"{self.key!r} is empty", "at least one step is needed"
            case "string_too_short":
                return "bad_value", f"{self.key!r} is empty", None
            case "value_error":
                return "bad_value", self.expected, None
        expected = self.expected or _TYPE_WORDS.get(self.error, "another value")
        subject = repr(self.key) if self.parts and isinstance(self.parts[-1], str) else "an item here"
        return "bad_value", f"{subject} must be {expected}, not {_brief(self.value)}", self._correction()

    def meant(self) -> str | None:
        """The key that an unknown one stands for."""
        return None if self.part is None else nearest(self.key, self.part.model_fields)

    def _kind(self) -> str:
        return str(self.value.get("kind")) if isinstance(self.value, dict) else ""

    def _unknown_kind(self) -> tuple[str, str, str | None]:
        kind = self._kind()
        hint = did_you_mean(kind, KINDS) or f"known kinds: {', '.join(KINDS)}"
        return "unknown_kind", f"unknown kind {_brief(kind)}", hint

    def _description(self) -> str | None:
        field = None if self.part is None else self.part.model_fields.get(self.key)
        return None if field is None or field.description is None else field.description.rstrip(".")

    def _correction(self) -> str | None:
        if isinstance(self.value, str):
            words = [word.strip("'") for word in self.expected.replace(" or ", ", ").split(", ")]
            if hint := did_you_mean(self.value, words):
                return hint
            if self.error == "bool_type" and self.value.casefold() in ("yes", "no", "on", "off"):
                return f"write {'true' if self.value.casefold() in ('yes', 'on') else 'false'}"
        if self.error == "string_type" and isinstance(self.value, int | float):
            return "put it into quotes"
        return None


def _findings(tree: PlacedDict, errors: list[ErrorDetails]) -> list[_Finding]:
    found: dict[tuple[Parts, str], _Finding] = {}
    for error in errors:
        if finding := _finding(tree, error):
            found.setdefault((finding.parts, finding.error), finding)
    meant = {(*one.parts[:-1], one.meant()) for one in found.values() if one.error == "extra_forbidden"}
    return [one for one in found.values() if one.error != "missing" or one.parts not in meant]


def _finding(tree: PlacedDict, error: ErrorDetails) -> _Finding | None:
    """The finding at its keys in the tree; None for what another form of a union tells better."""
    value: Any = tree
    parts: Parts = ()
    annotation: Any = Blueprint
    holder: type[Part] | None = None
    droppable = Mend("drop", ())
    for part in error["loc"]:
        members = _members(annotation)
        if len(members) > 1:
            annotation = _member(members, str(part))
            if _suits(annotation, value):
                continue
            expected = _either([_words(member) for member in members])
            told = _Finding(parts, "union", value, holder, droppable, expected)
            return None if any(_suits(member, value) for member in members) else told
        if part == "[key]":
            return _Finding(parts, error["type"], value, holder, droppable, "key")
        holder, annotation = _below(members[0], part)
        parts = (*parts, part)
        value = _at(value, part)
        droppable = _droppable(holder, annotation, parts) or droppable
    return _Finding(parts, error["type"], value, holder, droppable, _expected(error))


def _droppable(holder: type[Part] | None, annotation: Any, parts: Parts) -> Mend | None:
    """How to do without what stands there: None if its holder needs it."""
    if KINDS["step"] in _members(annotation):
        return Mend("stub", parts)
    field = holder.model_fields.get(str(parts[-1])) if holder is not None else None
    return None if field is not None and field.is_required() else Mend("drop", parts)


def _expected(error: ErrorDetails) -> str:
    context = error.get("ctx", {})
    match error["type"]:
        case "literal_error":
            return str(context["expected"])
        case "value_error":
            return str(context["error"])
        case "greater_than_equal":
            return f"at least {context['ge']}"
        case "less_than_equal":
            return f"at most {context['le']}"
    return ""


def _members(annotation: Any) -> list[Any]:
    """The forms a value may have, without null."""
    while get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    if get_origin(annotation) in (Union, UnionType):
        return [inner for one in get_args(annotation) if one is not type(None) for inner in _members(one)]
    return [annotation]


def _member(members: list[Any], tag: str) -> Any:
    """The form that pydantic's tag names."""
    if tag in KINDS and KINDS[tag] in members:
        return KINDS[tag]
    for member in members:
        name = "literal" if get_origin(member) is Literal else getattr(get_origin(member) or member, "__name__", "")
        if tag.split("[")[0] == name:
            return member
    return members[0]


def _suits(member: Any, value: Any) -> bool:
    kind = _bare(member)
    if isinstance(value, bool):
        return kind is bool
    return isinstance(value, kind)


def _bare(member: Any) -> type:
    origin = get_origin(member)
    if origin is Literal:
        return str
    bare = origin or member
    if not isinstance(bare, type):
        return object
    return dict if issubclass(bare, BaseModel) else bare


def _words(member: Any) -> str:
    if get_origin(member) is Literal:
        return _either([repr(value) for value in get_args(member)])
    return _WORDS.get(_bare(member), "another value")


def _either(words: list[str]) -> str:
    return ", ".join(words[:-1]) + " or " + words[-1] if len(words) > 1 else words[0]


def _below(annotation: Any, part: str | int) -> tuple[type[Part] | None, Any]:
    """The class that holds the key, and what stands at it."""
    if isinstance(annotation, type) and issubclass(annotation, Part):
        field = annotation.model_fields.get(str(part))
        return annotation, Any if field is None else field.annotation
    inner = get_args(annotation)
    return None, inner[-1] if inner else Any


def _at(value: Any, part: str | int) -> Any:
    match value, part:
        case dict(), str():
            return value.get(part)
        case list(), int() if part < len(value):
            return value[part]
    return None


def _brief(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case dict():
            return "an object"
        case list():
            return "a list"
        case str():
            return repr(value if len(value) <= 60 else value[:60] + "…")
    return str(value)
