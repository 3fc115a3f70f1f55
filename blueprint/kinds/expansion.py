"""Tools for expanding the short forms of a kind: nested steps, agents, corrected keys, and the problems found."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.blueprint.errors import Problem
from holdfast.blueprint.json_values import JSON
from holdfast.blueprint.kinds.keys import Form, block_key, known_keys, meant_key, unknown_key
from holdfast.blueprint.parts import Part
from holdfast.blueprint.source import PlacedDict, PlacedList, Position


@dataclass
class Expansion(ABC):
    """The expansion of one document. The loader implements it, as it knows every kind, and reads files."""

    kinds: Mapping[str, type[Part]]
    folder: Path | None
    """The folder of the document; None: it was not read from a file."""
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

    def without_block(self, definition: PlacedDict, block: str, path: str) -> PlacedDict:
        """Return a step with the keys that stand under `block` beside its name."""
        if not isinstance(definition.get(block), PlacedDict):
            return definition
        step = definition.copy()
        nested, _ = step.take(block)
        for key, value in nested.items():
            if key in step:
                self.add(nested.key_place(key), f"{path}.{block}.{key}", "conflict", f"{key!r} appears twice")
            else:
                step.put(key, value, nested.places[key])
        return step

    def add(self, place: Position, path: str, code: str, message: str, hint: str | None = None) -> None:
        self.problems.append(place.problem(path, code, message, hint))

    def correct_keys(self, mapping: PlacedDict, form: Form, path: str) -> PlacedDict:
        """Return a copy with misspelt keys corrected and unknown keys left out; each is reported."""
        allowed = known_keys(form)
        corrected = mapping.copy()
        for key in [key for key in mapping if key not in allowed]:
            value, places = corrected.take(key)
            self.add(places[0], f"{path}.{key}" if path else key, *unknown_key(form, key, self.kinds))
            intended = meant_key(form, key, allowed)
            if intended is not None and intended not in corrected:
                corrected.put(intended, value, places)
        return corrected

    def gather(self, step: PlacedDict, kind: type[Part], name: str, block: type[Part], path: str) -> PlacedDict:
        """Return the step with the keys of its block that stand beside it under the block's name; each is reported."""
        inner = {key: block_key(block, key) for key in step if key not in known_keys(kind)}
        misplaced = {key: moved for key, moved in inner.items() if moved is not None}
        existing = step.get(name, PlacedDict(step.place))
        if not isinstance(existing, PlacedDict) or not misplaced:
            return step
        step, holder = step.copy(), existing.copy()
        for key, moved in misplaced.items():
            self.add(step.key_place(key), f"{path}.{key}", *unknown_key(kind, key, self.kinds))
            value, places = step.take(key)
            if moved not in holder:
                holder.put(moved, value, places)
        if name in step:
            step[name] = holder
        else:
            step.put(name, holder, step.place)
        return step


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
