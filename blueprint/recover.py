"""Error recovery: replace what is wrong in a tree by something valid, so that the rest can still be checked."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from typing import Literal

from holdfast.blueprint.positions import Parts, inside
from holdfast.blueprint.source import PlacedDict, PlacedList, Position

UNNAMED = "unnamed-"
"""Prefix of names that replace ones that cannot be read."""


@dataclass(frozen=True)
class Repair:
    """A repair at a place: drop it, read it as another key or kind, name it, or replace it by a step without effect."""

    action: Literal["drop", "rename", "kind", "name", "stub"]
    parts: Parts
    to: str = ""


def repair_tree(tree: PlacedDict, repairs: Iterable[Repair]) -> bool:
    """Carry out the repairs; return whether any could be done."""
    removed = {repair.parts for repair in repairs if repair.action in ("drop", "stub")}
    pending = [
        repair
        for repair in dict.fromkeys(repairs)
        if not any(repair.parts[:size] in removed for size in range(len(repair.parts)))
    ]
    # The last first: dropping an item of a list moves the later ones up.
    done = [_carry_out(tree, repair) for repair in sorted(pending, key=_order, reverse=True)]
    return any(done)


def _order(repair: Repair) -> list[tuple[int, str]]:
    return [(part, "") if isinstance(part, int) else (0, part) for part in repair.parts]


def _carry_out(tree: PlacedDict, repair: Repair) -> bool:
    if not repair.parts:
        return False
    holder = reduce(inside, repair.parts[:-1], tree)
    match holder, repair.parts[-1], repair.action:
        case PlacedDict(), str(key), "drop" if key in holder:
            holder.take(key)
        case PlacedDict(), str(key), "rename" if key in holder and repair.to not in holder:
            holder.put(repair.to, *holder.take(key))
        case PlacedDict(), str(key), "rename" if key in holder:
            holder.take(key)
        case PlacedDict(), str(key), "name":
            holder.put(key, _name(holder), holder.places.get(key, holder.place))
        case PlacedList(), int(index), "drop":
            del holder[index], holder.places[index]
        case ((PlacedDict() | PlacedList()), key, "kind"):
            step = inside(holder, key)
            step.put("kind", repair.to, step.places["kind"])
        case PlacedList(), int(index), "stub":
            holder[index] = _stub(holder[index], holder.places[index])
        case PlacedDict(), str(key), "stub":
            places = holder.places.get(key, (holder.place, holder.place))
            holder.put(key, _stub(holder.get(key), places[1]), places)
        case _:
            return False
    return True


def _stub(old: object, place: Position) -> PlacedDict:
    """Return a step of the same name that passes its input on."""
    step = PlacedDict(old.place if isinstance(old, PlacedDict) else place)
    step.put("kind", "step", step.place)
    step.put("name", _name(old if isinstance(old, PlacedDict) else step), step.place)
    return step


def _name(holder: PlacedDict) -> str:
    """Return the name as far as it can be read, else one that no other step has."""
    name_value = holder.get("name")
    if isinstance(name_value, str) and (name := re.sub(r"[^A-Za-z0-9_-]+", "-", name_value).strip("-")):
        return name
    return f"{UNNAMED}{holder.place.line}-{holder.place.column}"
