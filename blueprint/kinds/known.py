"""What is known of a value before the run: its JSON Schema, and the question whose answer it is. For the checks."""

from __future__ import annotations

from dataclasses import dataclass, field

from holdfast.blueprint.json_values import JSONObject
from holdfast.blueprint.question_kinds import ASK_KINDS, AskKind


@dataclass(frozen=True)
class KnownValue:
    """A value of which something may be known. What is not known is allowed, and checked where it happens."""

    schema: JSONObject = field(default_factory=dict)
    """JSON Schema of the value; {}: any value. It may be null all the same."""
    step: str = ""
    """The name of the step that asked for it, if its output is what a person said."""
    ask: str = ""
    """The value of `ask` there; `options` for a choice among options of any kind."""

    @property
    def kind(self) -> AskKind | None:
        return ASK_KINDS.get(self.ask)

    @property
    def is_permission(self) -> bool:
        return self.kind is not None and self.kind.refusal is not None and self.schema.get("type") == "boolean"

    @property
    def is_review(self) -> bool:
        return self.kind is not None and self.kind.refusal is not None and not self.is_permission

    @property
    def is_choice(self) -> bool:
        return self.ask == CHOICE

    @property
    def is_text(self) -> bool:
        return self.schema.get("type") == "string"

    @property
    def is_object(self) -> bool:
        """False if the value is certainly no object."""
        types = self.schema.get("type", "object")
        return "object" in (types if isinstance(types, list) else [types])

    def may_have(self, key: str) -> bool:
        """Return whether the value may be an object with a key."""
        if not self.is_object:
            return False
        listed = key in self.schema.get("properties", {})
        return listed or self.schema.get("additionalProperties") is not False


@dataclass(frozen=True)
class Branching:
    """The choice of one of several branches by the value of an expression."""

    expression: str
    keys: frozenset[str]
    has_default: bool


CHOICE = "options"
UNKNOWN = KnownValue()
TEXT_VALUE = KnownValue({"type": "string"})
