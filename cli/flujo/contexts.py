"""What a document for Flujo reads of its context and does not write: Flujo is given it at the start of a run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from holdfast.blueprint.source import PlacedDict, PlacedList, Position
from holdfast.cli.flujo.notes import Notes

BEGIN = "given_context"
_READ = re.compile(r"\bcontext\.([A-Za-z_]\w*)")
_BARE = re.compile(r"([A-Za-z_]\w*)")
_TARGET = re.compile(r"(?:context\.)?([A-Za-z_]\w*)")
_WRITING = ("sink_to", "target", "path", "set", "append", "merge", "parent")
_OF_ENGINE: dict[str, Any] = {"import_artifacts": {}}
"""Keys that Flujo's context always has, and how they begin."""
_KNOWN = ("scratchpad", "initial_prompt", "next_state", *_OF_ENGINE)


def give_context(document: PlacedDict, steps: PlacedList, notes: Notes) -> None:
    """Let the run's input be written to the context, where a document reads keys that nothing in it writes."""
    texts = list(_list_texts(document, ""))
    read = {match[1]: place for key, text, place in texts if key not in _WRITING for match in _READ.finditer(text)}
    # A map may name a key of the context alone.
    bare = [(_BARE.fullmatch(text), place) for key, text, place in texts if key == "iterable_input"]
    read |= {match[1]: place for match, place in bare if match is not None}
    context = document.get("context")
    begun = set(context) if isinstance(context, PlacedDict) else set()
    for key, value in _OF_ENGINE.items():
        if key in read and key not in begun:
            _begin_with(document, key, value)
            notes.change(read[key], f"context.{key} begins as {value}, as in Flujo")
    if any("context_" in text for _, text, _ in texts):
        return  # what else is written is known when it runs
    written = list_written(document)
    given = sorted(read.keys() - written - begun - set(_KNOWN))
    if given and not any(isinstance(step, PlacedDict) and step.get("name") == BEGIN for step in steps):
        step = PlacedDict.at(
            steps.place, name=BEGIN, when="input is mapping", input="{{ input }}", updates_context=True
        )
        steps.insert(0, step)
        steps.places.insert(0, steps.place)
        listed = ", ".join(f'"{key}": …' for key in given)
        notes.change(read[given[0]], f"the context is given at the start, as the input: {{{listed}}}")


def list_written(document: PlacedDict) -> set[str]:
    """Return the keys of the context that a document writes, as far as it says them."""
    texts = list(_list_texts(document, ""))
    written = {match[1] for key, text, _ in texts if key in _WRITING and (match := _TARGET.match(text))}
    if any(key == "updates_context" for key, _, _ in texts):
        written |= _list_properties(document)
    return written


def _list_properties(value: Any) -> set[str]:
    """Return the keys of all objects that schemas in a document describe, and of all objects that steps give."""
    found: set[str] = set()
    for key, part in value.items() if isinstance(value, PlacedDict) else enumerate(value):
        if key in ("properties", "input") and isinstance(part, PlacedDict):
            found |= set(part)
        if isinstance(part, PlacedDict | PlacedList):
            found |= _list_properties(part)
    return found


def _begin_with(document: PlacedDict, key: str, value: Any) -> None:
    context = document.get("context")
    if not isinstance(context, PlacedDict):
        context = PlacedDict.at(document.place)
        document.put("context", context, document.place)
    context.put(key, value, context.place)


def _list_texts(value: Any, key: str, place: Position | None = None) -> Iterator[tuple[str, str, Position]]:
    """Yield each text of a document with its key and its place, and what says that a step writes its output."""
    match value:
        case PlacedDict():
            if value.get("updates_context") is True:
                yield "updates_context", "", value.place
            for inner, part in value.items():
                yield from _list_texts(part, inner, value.value_place(inner))
        case PlacedList():
            for part, inner_place in zip(value, value.places, strict=True):
                yield from _list_texts(part, key, inner_place)
        case str() if place is not None:
            yield key, value, place
