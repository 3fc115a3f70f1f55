"""Error recovery: replace what is wrong in a tree by something valid, so that the rest can still be checked."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from typing import Any, Literal

from holdfast.blueprint.positions import Parts, inside
from holdfast.blueprint.source import PlacedDict, PlacedList, Position

UNNAMED = "unnamed-"
"""Prefix of names that replace ones that cannot be read."""


@dataclass(frozen=True)
class Repair:
    """A change at a place: drop the value, move it to the key `to`, or put the value `to` there."""

    action: Literal["drop", "move", "put"]
    parts: Parts
    to: Any = None


def repair_tree(tree: PlacedDict, repairs: Iterable[Repair]) -> bool:
    """Carry out the repairs; return whether any could be done."""
    distinct = {(repair.parts, repair.action): repair for repair in repairs}
    removed = {parts for parts, action in distinct if action != "move"}
    pending = [
        repair
        for repair in distinct.values()
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
    key: Any = repair.parts[-1]
    match reduce(inside, repair.parts[:-1], tree), repair.action:
        case PlacedDict() as holder, ("drop" | "move") if key in holder:
            value, places = holder.take(key)
            if repair.action == "move" and repair.to not in holder:
                holder.put(repair.to, value, places)
        case PlacedDict() as holder, "put":
            holder.put(key, repair.to, holder.places.get(key, holder.place))
        case PlacedList() as items, "drop":
            del items[key], items.places[key]
        case PlacedList() as items, "put":
            items[key] = repair.to
        case _:
            return False
    return True


def make_stub(step: object, place: Position) -> PlacedDict:
    """Return a step of the same name that passes its input on."""
    holder = step if isinstance(step, PlacedDict) else PlacedDict(place)
    return PlacedDict.at(holder.place, kind="step", name=readable_name(holder))


def make_name(text: str) -> str:
    """Return the valid name that is nearest to a text; "" if nothing of it can be in a name.

    >>> make_name("größte Länge")
    'grosste-Lange'
    """
    plain = unicodedata.normalize("NFKD", text.replace("ß", "ss")).encode("ascii", "ignore").decode()
    return re.sub(r"[^A-Za-z0-9_-]+", "-", plain).strip("-")


def readable_name(holder: PlacedDict) -> str:
    """Return the name as far as it can be read, else one that no other step has."""
    name_value = holder.get("name")
    if isinstance(name_value, str) and (name := make_name(name_value)):
        return name
    return f"{UNNAMED}{holder.place.line}-{holder.place.column}"
