"""Every key of the language, and every value that it may have, stands in an example."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from typing import Any

import jsonschema_rs

from holdfast.blueprint.kinds import KINDS
from holdfast.blueprint.questions.custom import KindDefinition
from holdfast.blueprint.schema import language_schema
from holdfast.blueprint.source import plain, read
from tests.repository import EXAMPLES, ROOT

SCHEMA = language_schema()
DEFINITIONS: dict[str, Any] = SCHEMA["$defs"]
STEPS = {model.__name__ for model in KINDS.values()}
ON_DEADLINE = ("", ": fail", ": finish", ": ask")
NO_EXAMPLE = {
    # Codes of languages: each stands for a table of the same shape, and has tests of its own.
    *(f"PlanBody.language: {code}" for code in ("de", "es", "it", "nl", "pt")),
    # What a run before has done: an example would have to fail first.
    "PlanBody.done",
    # Written by the loader, for what a planner adds to its plan.
    *("PlanBody.notes", "PlanLoop.notes", "PlanStep.notes"),
    # Written by the loader, of the class that `ask` names: examples/connect_service asks with two.
    *(f"KindDefinition.{key}" for key in KindDefinition.model_fields),
    # The key of every step in which something else asks (`AskingStep`): examples/refund_order has it, at a graph.
    *(f"{kind}.assignees" for kind in ("AgenticLoop", "Clarify", "Plan", "PlanStep")),
    # The key beside every list of steps: examples/write_release_notes has it beside the outermost one.
    *(f"{owner}.max_parallel" for owner in ("BlockStep", "Conditional", "LoopBlock", "MapBlock", "Parallel")),
    # The default, which a block with undos need not write: examples/book_trip has the other.
    "BlockStep.on_undo_error: ask",
    # The same key in three places: examples/book_trip has two of its values in two of them.
    *(f"{owner}.on_deadline{value}" for owner in ("Blueprint", "BlockStep", "LoopBlock") for value in ON_DEADLINE),
    # The transient trigger, which is an example of docs/patterns.md.
    *("Wait.early", "Wait.early: keep", "Wait.early: drop"),
}
EVERY_STEP = set.intersection(*(set(DEFINITIONS[name]["properties"]) for name in STEPS))


def place(definition: str, key: str) -> str:
    """Where a key counts: one that every kind has at the step; one below `parallel:` as if it stood beside it."""
    if definition in STEPS and key in EVERY_STEP:
        return f"Step.{key}"
    return f"{definition.removesuffix('.parallel')}.{key}"


def told() -> Iterator[str]:
    """Every key as `Loop.loop`, every value of it as `Hitl.ask: review`."""
    for name, definition in DEFINITIONS.items():
        for key, form in definition.get("properties", {}).items():
            yield place(name, key)
            for value in values(form):
                yield f"{place(name, key)}: {value}"


def values(form: dict[str, Any]) -> Iterator[Any]:
    """The values that a key may have by name, alone or as items of a list."""
    yield from form.get("enum", [])
    for one in [*form.get("anyOf", []), *filter(None, [form.get("items")])]:
        yield from values(one)


def shown(value: Any, form: dict[str, Any], at: str) -> Iterator[str]:
    """What of `told` a part of an example shows, read by the part of the schema that it fits."""
    match form:
        case {"$ref": str(name)}:
            definition = name.rpartition("/")[2]
            yield from shown(value, DEFINITIONS[definition], definition)
        case {"if": condition}:
            yield from shown(value, form.get("then" if fits(value, condition) else "else", {}), at)
        case {"enum": _}:
            yield f"{at}: {value}"
    for one in form.get("allOf", []) + [one for one in form.get("anyOf", []) if fits(value, one)]:
        yield from shown(value, one, at)
    match value:
        case list():
            for item in value:
                yield from shown(item, form.get("items", {}), at)
        case dict():
            yield from keys(value, form, at)


def keys(value: dict[str, Any], form: dict[str, Any], at: str) -> Iterator[str]:
    """What an object shows: its keys, and what stands under them; under names of an author's own, that alone."""
    named = form.get("properties", {})
    others = [*form.get("patternProperties", {}).values(), form.get("additionalProperties", {})]
    for key, inner in value.items():
        if key in named:
            yield place(at, key)
            yield from shown(inner, named[key], place(at, key))
        elif isinstance(others[0], dict):
            yield from shown(inner, others[0], at)


def fits(value: Any, form: dict[str, Any]) -> bool:
    return validator(json.dumps(form)).is_valid(value)


@cache
def validator(form: str) -> jsonschema_rs.Draft202012Validator:
    return jsonschema_rs.Draft202012Validator({**json.loads(form), "$defs": DEFINITIONS})


def examples() -> Iterator[str]:
    for path in EXAMPLES:
        yield from shown(plain(read(path.read_text(), path.name)[0]), SCHEMA, "Blueprint")
    for path in (ROOT / "examples").glob("*/*.json"):
        yield from shown(json.loads(path.read_text()), DEFINITIONS["PlanBody"], "PlanBody")


def test_every_key_and_every_value_of_the_language_stands_in_an_example() -> None:
    missing = set(told()) - set(examples()) - NO_EXAMPLE
    assert not missing, f"in no example: {', '.join(sorted(missing))}"
