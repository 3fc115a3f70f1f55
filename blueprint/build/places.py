"""Places in Python code: where a part of a blueprint is written, for its problems."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from types import FrameType

from holdfast.blueprint.source import PlacedDict, PlacedList, Position, Source

_OWN = __name__.rpartition(".")[0]


def find_place() -> Position:
    """Return the place in the author's code that calls this package."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").startswith(_OWN):
        frame = frame.f_back
    if frame is None:
        raise RuntimeError("nobody calls")
    return Position(Source(frame.f_code.co_filename, ""), frame.f_lineno, 1, 0, 0)


def find_folder(place: Position) -> Path | None:
    """Return the folder of the code, which paths in a blueprint are relative to; None at a prompt."""
    return None if place.source.file.startswith("<") else Path(place.source.file).parent


def to_placed(value: object, place: Position) -> object:
    """Return a value with its objects and lists at a place; those that have one keep it. The result shares nothing."""
    match value:
        case PlacedDict():
            same = PlacedDict(value.place)
            for key, inner in value.items():
                same.put(key, to_placed(inner, value.places[key][1]), value.places[key])
            return same
        case PlacedList():
            return value.each(lambda inner, inner_place, _: to_placed(inner, inner_place))
        case Mapping():
            placed = PlacedDict(place)
            for key, inner in value.items():
                placed.put(key, to_placed(inner, place), place)
            return placed
        case list() | tuple():
            return PlacedList.at(place, *(to_placed(inner, place) for inner in value))
    return value
