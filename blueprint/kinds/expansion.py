"""What a kind's short forms are expanded with: nested steps, agents, corrected keys, and the problems found."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field

from holdfast.blueprint.errors import Problem
from holdfast.blueprint.json_values import JSON
from holdfast.blueprint.kinds.keys import known_keys, nearest, unknown_key
from holdfast.blueprint.kinds.parts import Part
from holdfast.blueprint.source import PlacedDict, PlacedList, Position


@dataclass
class Expansion(ABC):
    """The expansion of one document. The loader implements it, as it knows every kind, and reads files."""

    kinds: Mapping[str, type[Part]]
    problems: list[Problem] = field(default_factory=list, kw_only=True)

    @abstractmethod
    def steps(self, definition: object, place: Position, path: str) -> JSON:
        """Return a list of steps in core form, from a list, from one step, or from `{steps: …}`."""

    @abstractmethod
    def step(self, definition: object, path: str) -> JSON:
        """Return a step in core form."""

    @abstractmethod
    def expand_agent(self, holder: PlacedDict, key: str, path: str) -> None:
        """Expand the agent under a key: a name, also `agents.<name>`, or a definition in place."""

    @abstractmethod
    def tools(self, definitions: PlacedList) -> PlacedList:
        """Return an agent's tools in core form: `search` is `{name: search}`."""

    def add(self, place: Position, path: str, code: str, message: str, hint: str | None = None) -> None:
        self.problems.append(place.problem(path, code, message, hint))

    def add_unknown_key(self, place: Position, part: type[Part], key: str, path: str) -> str:
        """Report a key that the part does not have; return the code of the problem."""
        code, message, hint = unknown_key(part, key, self.kinds)
        self.add(place, path, code, message, hint)
        return code

    def correct_keys(self, mapping: PlacedDict, part: type[Part], path: str) -> PlacedDict:
        """Return a copy with misspelt keys corrected and unknown keys left out; each is reported."""
        allowed = known_keys(part)
        corrected = mapping.copy()
        for key in [key for key in mapping if key not in allowed]:
            value, places = corrected.take(key)
            code = self.add_unknown_key(places[0], part, key, f"{path}.{key}" if path else key)
            intended = nearest(key, allowed) if code == "unknown_key" else None
            if intended is not None and intended not in corrected:
                corrected.put(intended, value, places)
        return corrected

    def refuse_other_keys(self, mapping: PlacedDict, allowed: tuple[str, ...], path: str) -> None:
        """Report the keys that a short form does not have."""
        for key in [key for key in mapping if key not in allowed]:
            close = nearest(key, allowed)
            hint = f"did you mean {close!r}?" if close else f"known here: {', '.join(allowed)}"
            self.add(mapping.key_place(key), f"{path}.{key}", "unknown_key", f"unknown key {key!r}", hint)


def expand_condition(holder: PlacedDict, key: str) -> None:
    """Turn a bare `true` or `3` into an expression."""
    if isinstance(holder.get(key), bool | int | float):
        holder[key] = json.dumps(holder[key])


def expand_branches(step: PlacedDict, path: str, expansion: Expansion) -> None:
    """Expand the steps of each branch."""
    branches = step.get("branches")
    if isinstance(branches, PlacedDict):
        step["branches"] = branches.copy()
        for key, steps in branches.items():
            place = branches.value_place(key)
            step["branches"][key] = expansion.steps(steps, place, f"{path}.branches.{key}")
