"""Validate a value tree against the step kinds: pydantic's errors, in plain words and with their positions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from holdfast.blueprint.errors import Problem
from holdfast.blueprint.expressions.error import did_you_mean, nearest
from holdfast.blueprint.kinds import KINDS, Blueprint, Step
from holdfast.blueprint.kinds.keys import meant_kind, unknown_key
from holdfast.blueprint.parts import NAME_PATTERN, Part
from holdfast.blueprint.positions import Parts, find_place, inside, path_text
from holdfast.blueprint.recover import Repair, make_name, make_stub, readable_name, repair_tree
from holdfast.blueprint.source import PlacedDict, plain

_ROUNDS = 8  # a repair can bring out further faults, which pydantic did not reach before
_ALIKE = 0.75
"""How like a known key is an unknown one that is read as it; `result` is none, and has no faults of a `default`."""
_WORDS = {
    str: "text",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    list: "a list",
    dict: "an object",
}
_BOUNDS = {
    "finite_number": "a finite number",
    "greater_than": "more than {gt}",
    "greater_than_equal": "at least {ge}",
    "less_than": "less than {lt}",
    "less_than_equal": "at most {le}",
    "multiple_of": "a multiple of {multiple_of}",
}
_SIZES = {
    "string_too_long": "at most {max_length} characters",
    "string_too_short": "at least {min_length} characters",
    "too_long": "at most {max_length}",
    "too_short": "at least {min_length}",
}
"""Bounds of how long a text, a list or a mapping is; the value itself is not told."""


@dataclass(frozen=True)
class Validated:
    """A blueprint as far as it can be read: its faults are repaired, so that the rest can be checked."""

    blueprint: Blueprint | None
    problems: list[Problem]
    repaired: frozenset[Parts]
    """The objects in which something was repaired."""
    unread: frozenset[Parts] = frozenset()
    """The values that do not fit, and are left out."""


def validate(tree: PlacedDict, imports: Mapping[str, Blueprint], prefix: Parts = ()) -> Validated:
    """Validate the tree; return the blueprint and every problem of its form. Repairs the tree on the way."""
    problems: dict[Problem, None] = {}
    repaired: set[Parts] = set()
    unread: set[Parts] = set()
    guessed: set[Parts] = set()
    for _ in range(_ROUNDS):
        try:
            # Strict: else pydantic would take the text "3" for a number, and 1 for true.
            blueprint = Blueprint.model_validate({**plain(tree), **_parsed_imports(tree, imports)}, strict=True)
            return Validated(blueprint, list(problems), frozenset(repaired), frozenset(unread))
        except ValidationError as error:
            misfits = _read_misfits(tree, error.errors(include_url=False))
        guessed |= {misfit.parts for misfit in misfits if misfit.error == "union_tag_invalid"}
        reportable = [misfit for misfit in misfits if not _follows(misfit, repaired, guessed)]
        problems.update(dict.fromkeys(misfit.problem(tree, prefix) for misfit in reportable))
        repaired |= {misfit.parts[:-1] for misfit in misfits}
        unread |= {misfit.parts for misfit in misfits}
        if not repair_tree(tree, [misfit.repair for misfit in misfits]):
            break
    return Validated(None, list(problems), frozenset(repaired))


def _follows(misfit: _Misfit, repaired: set[Parts], guessed: set[Parts]) -> bool:
    """Return whether it may be wrong only because something else was: inside, or the kind, which was guessed."""
    if misfit.error == "missing":
        return misfit.parts[:-1] in guessed
    return misfit.error == "value_error" and _within(misfit.parts, repaired)


def _within(parts: Parts, repaired: set[Parts]) -> bool:
    """Return whether something inside was repaired: then a rule of the whole may fail only because of that."""
    return any(repaired_parts[: len(parts)] == parts for repaired_parts in repaired)


def _parsed_imports(tree: PlacedDict, imports: Mapping[str, Blueprint]) -> dict[str, Any]:
    return {"imports": dict(imports)} if isinstance(tree.get("imports"), dict) else {}


@dataclass(frozen=True)
class _Misfit:
    """What does not fit, by its keys in the tree."""

    parts: Parts
    error: str
    """The type of pydantic's error; `bad_key` for a key that no name may be."""
    value: Any
    part: type[Part] | None
    """The class of the object that holds it."""
    repair: Repair
    """The repair after which the rest can be checked."""
    expected: str = ""

    @property
    def key(self) -> str:
        return str(self.parts[-1]) if self.parts else ""

    def problem(self, tree: PlacedDict, prefix: Parts) -> Problem:
        code, message, hint = self._describe()
        parts = (*self.parts, "kind") if self.error == "union_tag_invalid" else self.parts
        place = find_place(tree, parts, key=self.error in ("extra_forbidden", "bad_key"))
        return place.problem(path_text((*prefix, *parts)), code, message, hint)

    def _describe(self) -> tuple[str, str, str | None]:
        match self.error:
            case "extra_forbidden" if self.part is not None:
                return unknown_key(self.part, self.key, KINDS)
            case "union_tag_invalid":
                kind = _read_kind(self.value)
                intended = meant_kind(kind, KINDS)
                hint = f"did you mean {intended!r}?" if intended else f"known kinds: {', '.join(KINDS)}"
                return "unknown_kind", f"unknown kind {_brief(kind)}", hint
            case "missing":
                return "missing_key", f"{self.key!r} is missing", self._description()
            case "bad_key":
                return "bad_value", f"{self.key!r} is not a valid name", _allowed_name(self.key)
            case "string_pattern_mismatch" if self.expected == NAME_PATTERN:
                return "bad_value", f"{_brief(self.value)} is not a valid name", _allowed_name(self.value)
            case "string_pattern_mismatch":
                message = f"{_brief(self.value)} does not fit the pattern {self.expected}"
                return "bad_value", message, self._description()
            case "too_short" if not self.value:
                return "bad_value", f"{self.key!r} is empty", "at least one is needed"
            case "string_too_short" if not self.value:
                return "bad_value", f"{self.key!r} is empty", None
            case "too_long" | "too_short" if isinstance(self.key, str) and not self.key.isdigit():
                return "bad_value", f"{self.expected} {self.key}, not {len(self.value)}", None
            case error if error in _SIZES:
                return "bad_value", f"{self._subject()}: {self.expected}, not {len(self.value)}", None
            case "value_error":
                return "bad_value", self.expected, None
        return "bad_value", f"{self._subject()} must be {self.expected}, not {_brief(self.value)}", self._correction()

    def _subject(self) -> str:
        return repr(self.key) if self.parts and isinstance(self.parts[-1], str) else "an item here"

    def _description(self) -> str | None:
        field = None if self.part is None else _field(self.part, self.key)
        return None if field is None or field.description is None else field.description.rstrip(".")

    def _correction(self) -> str | None:
        if isinstance(self.value, str):
            if hint := did_you_mean(self.value, re.findall("'(.+?)'", self.expected)):
                return hint
            if self.error == "bool_type" and self.value.casefold() in ("yes", "no", "on", "off"):
                return f"write {'true' if self.value.casefold() in ('yes', 'on') else 'false'}"
        if self.error == "string_type" and isinstance(self.value, int | float):
            return "put it into quotes"
        return None


def _read_misfits(tree: PlacedDict, errors: list[ErrorDetails]) -> list[_Misfit]:
    misfits: dict[tuple[Parts, str], _Misfit] = {}
    for error in errors:
        if misfit := _read_misfit(tree, error):
            misfits.setdefault((misfit.parts, misfit.error), misfit)
    # A key that is missing because it is misspelt is reported once, where it is misspelt.
    moved = {(*misfit.parts[:-1], misfit.repair.to) for misfit in misfits.values() if misfit.repair.action == "move"}
    return [misfit for misfit in misfits.values() if misfit.error != "missing" or misfit.parts not in moved]


def _read_misfit(tree: PlacedDict, error: ErrorDetails) -> _Misfit | None:
    """Return what does not fit at its keys in the tree; None if another form of the union explains it better."""
    value: Any = tree
    parts: Parts = ()
    annotation: Any = Blueprint
    holder: type[Part] | None = None
    # Drops the nearest value around it that is not required, or replaces a step.
    repair = Repair("drop", ())
    for part in error["loc"]:
        members = _members(annotation)
        if len(members) > 1:
            annotation = _member(members, str(part))
            if _suits(annotation, value):
                continue
            mismatch = _Misfit(parts, "union", value, holder, repair, _describe_forms(members))
            return None if any(_suits(member, value) for member in members) else mismatch
        if part == "[key]":
            return _Misfit(parts, "bad_key", value, holder, repair)
        holder, annotation = _below(members[0], part)
        parts, value = (*parts, part), inside(value, part)
        if _are_steps(_members(annotation)):
            repair = Repair("put", parts, make_stub(value, find_place(tree, parts)))
        elif holder is None or (field := _field(holder, str(part))) is None or not field.is_required():
            repair = Repair("drop", parts)
    if parts and parts[-1] == "on_error":
        repair = Repair("put", parts, "continue")  # what a failure does is not known: it may be handled
    if error["type"] == "extra_forbidden":
        repair = _without_unknown_key(holder, parts)
    elif error["type"] == "union_tag_invalid" and (intended := meant_kind(_read_kind(value), KINDS)) is not None:
        repair = Repair("put", (*parts, "kind"), intended)
    elif parts and parts[-1] == "name" and holder is not None and issubclass(holder, Step | Blueprint):
        repair = Repair("put", parts, readable_name(reduce(inside, parts[:-1], tree)))
    return _Misfit(parts, error["type"], value, holder, repair, _describe_expected(error, annotation))


def _without_unknown_key(holder: type[Part] | None, parts: Parts) -> Repair:
    """Return the repair that reads an unknown key as the one it stands for, if that is as good as certain."""
    key = str(parts[-1])
    intended = None if holder is None else holder.synonyms.get(key) or nearest(key, holder.model_fields, _ALIKE)
    return Repair("drop", parts) if intended is None else Repair("move", parts, intended)


def _read_kind(step: Any) -> str:
    return str(step.get("kind")) if isinstance(step, dict) else ""


def _describe_expected(error: ErrorDetails, annotation: Any) -> str:
    """Return what is expected in place of the value, or what a rule of our own says."""
    context, type_ = error.get("ctx", {}), error["type"]
    if type_ == "value_error":
        return str(context["error"])
    if type_ in _BOUNDS:
        return _BOUNDS[type_].format(**context)
    if type_ in _SIZES:
        return _SIZES[type_].format(**context)
    if type_ == "string_pattern_mismatch":
        return str(context["pattern"])
    if type_.endswith("_type") or type_ in ("literal_error", "string_unicode"):
        return _describe_forms(_members(annotation))
    return "another value"


def _are_steps(members: list[Any]) -> bool:
    return not set(KINDS.values()).isdisjoint(members)


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
    # A form with a rule of its own: `function-after[check(), Operation]`, the rules around it outermost first.
    tag = re.sub(r"function-\w+\[[^,]*\(\), ", "", tag).rstrip("]")
    for member in members:
        # What pydantic tags a form of a union with: a class, or a generic type such as list[str], by its origin.
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


def _describe_forms(members: list[Any]) -> str:
    """Return what these forms are in plain words."""
    if _are_steps(members):
        return "a step"
    return _either([words for member in members for words in _words(member)])


def _words(member: Any) -> list[str]:
    if get_origin(member) is Literal:
        return [repr(value) for value in get_args(member)]
    words = [_WORDS.get(_bare(member), "another value")]
    return ["text", *words] if isinstance(member, type) and _is_text_short(member) else words


def _is_text_short(member: type) -> bool:
    return issubclass(member, Part) and member.text_stands_for_it


def _allowed_name(value: Any) -> str:
    allowed = make_name(str(value))
    return "a name has letters, digits, _ and -" + (f", such as {allowed[:100]!r}" if allowed else "")


def _either(words: list[str]) -> str:
    return ", ".join(words[:-1]) + " or " + words[-1] if len(words) > 1 else words[0]


def _below(annotation: Any, part: str | int) -> tuple[type[Part] | None, Any]:
    """Return the class that holds the key, and the annotation of the key's value."""
    if isinstance(annotation, type) and issubclass(annotation, Part):
        field = _field(annotation, str(part))
        return annotation, Any if field is None else field.annotation
    inner = get_args(annotation)
    return None, inner[-1] if inner else Any


def _field(part: type[Part], key: str) -> FieldInfo | None:
    """Return the field that an author writes as this key; None if there is none."""
    if not part.__pydantic_fields_complete__:  # models are built when they are first used, those inside them are not
        part.model_rebuild()
    fields = part.model_fields
    return fields.get(key) or next((field for field in fields.values() if field.alias == key), None)


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
