"""The problems of a test file, collected while it is read: each has its position and says what is right."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.blueprint.errors import Problem
from holdfast.blueprint.expressions.error import did_you_mean
from holdfast.blueprint.json_values import JSON
from holdfast.blueprint.source import PlacedDict, Position
from holdfast.testkit.names import DeclaredNames


class ProblemCollector:
    """The problems that are `found`; what reads a value adds those that the value has."""

    def __init__(self) -> None:
        self.found: list[Problem] = []
        self.names = DeclaredNames(open=True)
        """The names that the blueprint declares, once it is read."""

    def read_value(
        self, holder: PlacedDict, key: str, kind: type, description: str, path: str, *, needed: bool = False
    ) -> JSON:
        """Return the value at a key if it has this type, else None, with a problem."""
        key_path = f"{path}.{key}" if path else key
        if key not in holder:
            if needed:
                self.add(holder.place, key_path, "missing_key", f"{key!r} is missing", f"it is {description}")
            return None
        if isinstance(holder[key], kind):
            return holder[key]
        self.add(holder.value_place(key), key_path, "bad_value", f"{key!r} must be {description}")
        return None

    def reject_unknown_keys(self, holder: PlacedDict, allowed: Iterable[str], path: str) -> None:
        allowed = tuple(allowed)
        for key in holder:
            if key not in allowed:
                hint = did_you_mean(key, allowed) or f"known here: {', '.join(allowed)}"
                key_path = f"{path}.{key}" if path else key
                self.add(holder.key_place(key), key_path, "unknown_key", f"unknown key {key!r}", hint)

    def require_declared(self, name: str, declared: Iterable[str], noun: str, place: Position, path: str) -> None:
        names = sorted(declared)
        if not self.names.open and name not in names:
            hint = did_you_mean(name, names) or f"the blueprint has: {', '.join(names) or 'none'}"
            self.add(place, f"{path}.{name}", "unknown_name", f"the blueprint has no {noun} {name!r}", hint)

    def require_declared_tool(self, name: str, holder: PlacedDict, path: str) -> None:
        if not name.startswith("mcp:"):
            self.require_declared(name, self.names.tools, "tool", holder.key_place(name), path)

    def add(self, place: Position, path: str, code: str, message: str, hint: str | None = None) -> None:
        self.found.append(place.problem(path, code, message, hint))
