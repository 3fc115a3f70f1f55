"""Reading on behind a mistake: what is wrong in a tree is replaced by something right, so that the rest is checked."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from blueprint.places import Parts
from blueprint.source import Place, PlacedDict, PlacedList

UNNAMED = "unnamed-"
"""How names begin that stand for ones that cannot be read."""


@dataclass(frozen=True)
class Mend:
    """What to do at a place: drop it, read it as another key or kind, give it a name, pass its input on."""

    deed: Literal["drop", "rename", "kind", "name", "stub"]
    parts: Parts
    to: str = ""


def mend(tree: PlacedDict, mends: Iterable[Mend]) -> bool:
    """Carry them out, the last first, as a list's later items move up; whether anything could be done."""
    gone = {one.parts for one in mends if one.deed in ("drop", "stub")}
    wanted = [one for one in set(mends) if not any(one.parts[:size] in gone for size in range(len(one.parts)))]
    done = [_carry_out(tree, one) for one in sorted(wanted, key=_order, reverse=True)]
    return any(done)


def _order(one: Mend) -> list[tuple[int, str]]:
    return [(part, "") if isinstance(part, int) else (0, part) for part in one.parts]


def _carry_out(tree: PlacedDict, one: Mend) -> bool:
    if not one.parts:
        return False
    holder = _at(tree, one.parts[:-1])
    match holder, one.parts[-1], one.deed:
        case PlacedDict(), str(key), "drop" if key in holder:
            holder.take(key)
        case PlacedDict(), str(key), "rename" if key in holder and one.to not in holder:
            holder.put(one.to, *holder.take(key))
        case PlacedDict(), str(key), "rename" if key in holder:
            holder.take(key)
        case PlacedDict(), str(key), "name":
            holder.put(key, _name(holder), holder.places.get(key, holder.place))
        case PlacedList(), int(index), "drop":
            del holder[index], holder.places[index]
        case ((PlacedDict() | PlacedList()), key, "kind"):
            step = _at(holder, (key,))
            step.put("kind", one.to, step.places["kind"])
        case PlacedList(), int(index), "stub":
            holder[index] = _stub(holder[index], holder.places[index])
        case PlacedDict(), str(key), "stub":
            places = holder.places.get(key, (holder.place, holder.place))
            holder.put(key, _stub(holder.get(key), places[1]), places)
        case _:
            return False
    return True


def _stub(old: Any, place: Place) -> PlacedDict:
    """A step that passes its input on, of the same name."""
    step = PlacedDict(old.place if isinstance(old, PlacedDict) else place)
    step.put("kind", "step", step.place)
    step.put("name", _name(old if isinstance(old, PlacedDict) else step), step.place)
    return step


def _name(holder: PlacedDict) -> str:
    """The name as far as it can be read, else one that no other has."""
    written = holder.get("name")
    if isinstance(written, str) and (name := re.sub(r"[^A-Za-z0-9_-]+", "-", written).strip("-")):
        return name
    return f"{UNNAMED}{holder.place.line}-{holder.place.column}"


def _at(value: Any, parts: Parts) -> Any:
    for part in parts:
        match value, part:
            case PlacedDict(), str() if part in value:
                value = value[part]
            case PlacedList(), int() if part < len(value):
                value = value[part]
            case _:
                return None
    return value
