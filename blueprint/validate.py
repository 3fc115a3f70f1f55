"""Validate a value tree against the step kinds: pydantic's errors, in plain words and with their positions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from holdfast.blueprint.errors import Problem
from holdfast.blueprint.expressions.error import did_you_mean
from holdfast.blueprint.kinds import KINDS, Blueprint, Step
from holdfast.blueprint.kinds.keys import meant_key, nearest, unknown_key
from holdfast.blueprint.kinds.parts import Part
from holdfast.blueprint.positions import Parts, inside, place_of, shown
from holdfast.blueprint.recover import Repair, repair_tree
from holdfast.blueprint.source import PlacedDict, plain

_ROUNDS = 8  # a repair can bring out further faults, which pydantic did not reach before
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
class Validated:
    """A blueprint as far as it can be read: its faults are repaired, so that the rest can be checked."""

    blueprint: Blueprint | None
    problems: list[Problem]
    repaired: frozenset[Parts]
    """The objects in which something was repaired."""


def validate(tree: PlacedDict, imports: Mapping[str, Blueprint], prefix: Parts = ()) -> Validated:
    """Validate the tree; return the blueprint and every problem of its form. Repairs the tree on the way."""
    problems: dict[Problem, None] = {}
    repaired: set[Parts] = set()
    guessed: set[Parts] = set()
    for _ in range(_ROUNDS):
        try:
            blueprint = Blueprint.model_validate({**plain(tree), **_parsed_imports(tree, imports)}, strict=True)
            return Validated(blueprint, list(problems), frozenset(repaired))
        except ValidationError as error:
            findings = _findings(tree, error.errors(include_url=False))
        guessed |= {finding.parts for finding in findings if finding.error == "union_tag_invalid"}
        reportable = [finding for finding in findings if not _follows(finding, repaired, guessed)]
        problems.update(dict.fromkeys(finding.problem(tree, prefix) for finding in reportable))
        repaired |= {finding.parts[:-1] for finding in findings}
        if not repair_tree(tree, [finding.repair() for finding in findings]):
            break
    return Validated(None, list(problems), frozenset(repaired))


def _follows(finding: _Finding, repaired: set[Parts], guessed: set[Parts]) -> bool:
    """Return whether it may be wrong only because something else was: inside, or the kind, which was guessed."""
    if finding.error == "missing":
        return finding.parts[:-1] in guessed
    return finding.error == "value_error" and _within(finding.parts, repaired)


def _within(parts: Parts, repaired: set[Parts]) -> bool:
    """Return whether something inside was repaired: then a rule of the whole may fail only because of that."""
    return any(repaired_parts[: len(parts)] == parts for repaired_parts in repaired)


def _parsed_imports(tree: PlacedDict, imports: Mapping[str, Blueprint]) -> dict[str, Any]:
    return {"imports": dict(imports)} if isinstance(tree.get("imports"), dict) else {}


@dataclass(frozen=True)
class _Finding:
    """A fault, by its keys in the tree."""

    parts: Parts
    error: str
    """The type of pydantic's error."""
    value: Any
    part: type[Part] | None
    """The class of the object that holds it."""
    droppable: Repair
    """The repair that drops the nearest value around it that is not required, or replaces a step."""
    expected: str = ""

    @property
    def key(self) -> str:
        return str(self.parts[-1]) if self.parts else ""

    def problem(self, tree: PlacedDict, prefix: Parts) -> Problem:
        code, message, hint = self._describe()
        parts = (*self.parts, "kind") if self.error == "union_tag_invalid" else self.parts
        place = place_of(tree, parts, key=self.error == "extra_forbidden" or self.expected == "key")
        return place.problem(shown((*prefix, *parts)), code, message, hint)

    def repair(self) -> Repair:
        """Return the repair after which the rest can be checked."""
        match self.error:
            case "extra_forbidden":
                intended = self.intended_key()
                return Repair("drop", self.parts) if intended is None else Repair("rename", self.parts, intended)
            case "union_tag_invalid" if (intended := nearest(self._kind(), KINDS)) is not None:
                return Repair("kind", self.parts, intended)
        if self.key == "name" and self.part is not None and issubclass(self.part, Step | Blueprint):
            return Repair("name", self.parts)
        return self.droppable

    def _describe(self) -> tuple[str, str, str | None]:
        match self.error:
            case "extra_forbidden":
                assert self.part is not None
                return unknown_key(self.part, self.key, KINDS)
            case "union_tag_invalid":
                return self._unknown_kind()
            case "missing":
                return "missing_key", f"{self.key!r} is missing", self._description()
            case "string_pattern_mismatch":
                name = _brief(self.value) if self.expected != "key" else repr(self.key)
                return (
                    "bad_value",
                    f"{name} is not a valid name",
                    _allowed_name(self.key if self.expected == "key" else self.value),
                )
            case "too_short":
                return "bad_value", f"{self.key!r} is empty", "at least one step is needed"
            case "string_too_short":
                return "bad_value", f"{self.key!r} is empty", None
            case "value_error":
                return "bad_value", self.expected, None
        expected = self.expected or _TYPE_WORDS.get(self.error, "another value")
        subject = repr(self.key) if self.parts and isinstance(self.parts[-1], str) else "an item here"
        return "bad_value", f"{subject} must be {expected}, not {_brief(self.value)}", self._correction()

    def intended_key(self) -> str | None:
        """Return the known key that an unknown one stands for."""
        return None if self.part is None else meant_key(self.part, self.key, self.part.model_fields)

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
    findings: dict[tuple[Parts, str], _Finding] = {}
    for error in errors:
        if finding := _finding(tree, error):
            findings.setdefault((finding.parts, finding.error), finding)
    intended = {
        (*finding.parts[:-1], finding.intended_key())
        for finding in findings.values()
        if finding.error == "extra_forbidden"
    }
    return [finding for finding in findings.values() if finding.error != "missing" or finding.parts not in intended]


def _finding(tree: PlacedDict, error: ErrorDetails) -> _Finding | None:
    """Return the fault at its keys in the tree; None if another form of the union explains it better."""
    value: Any = tree
    parts: Parts = ()
    annotation: Any = Blueprint
    holder: type[Part] | None = None
    droppable = Repair("drop", ())
    for part in error["loc"]:
        members = _members(annotation)
        if len(members) > 1:
            annotation = _member(members, str(part))
            if _suits(annotation, value):
                continue
            expected = _either([_words(member) for member in members])
            mismatch = _Finding(parts, "union", value, holder, droppable, expected)
            return None if any(_suits(member, value) for member in members) else mismatch
        if part == "[key]":
            return _Finding(parts, error["type"], value, holder, droppable, "key")
        holder, annotation = _below(members[0], part)
        parts = (*parts, part)
        value = inside(value, part)
        droppable = _droppable(holder, annotation, parts) or droppable
    return _Finding(parts, error["type"], value, holder, droppable, _expected(error))


def _droppable(holder: type[Part] | None, annotation: Any, parts: Parts) -> Repair | None:
    """Return the repair that does without the value; None if its holder requires it."""
    if not set(KINDS.values()).isdisjoint(_members(annotation)):
        return Repair("stub", parts)
    field = holder.model_fields.get(str(parts[-1])) if holder is not None else None
    return None if field is not None and field.is_required() else Repair("drop", parts)


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
    """Return the forms a value may have, without null."""
    while get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    if get_origin(annotation) in (Union, UnionType):
        return [inner for member in get_args(annotation) if member is not type(None) for inner in _members(member)]
    return [annotation]


def _member(members: list[Any], tag: str) -> Any:
    """Return the form that pydantic's tag names."""
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


def _allowed_name(value: Any) -> str:
    allowed = re.sub(r"[^A-Za-z0-9_-]+", "-", str(value)).strip("-")
    return "a name has letters, digits, _ and -" + (f", such as {allowed[:100]!r}" if allowed else "")


def _either(words: list[str]) -> str:
    return ", ".join(words[:-1]) + " or " + words[-1] if len(words) > 1 else words[0]


def _below(annotation: Any, part: str | int) -> tuple[type[Part] | None, Any]:
    """Return the class that holds the key, and the annotation of the key's value."""
    if isinstance(annotation, type) and issubclass(annotation, Part):
        field = annotation.model_fields.get(str(part))
        return annotation, Any if field is None else field.annotation
    inner = get_args(annotation)
    return None, inner[-1] if inner else Any


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
