"""What is known of a value before the run: its JSON Schema, and the question whose answer it is. For the checks."""

from __future__ import annotations

from dataclasses import dataclass, field

from holdfast.blueprint.json_values import JSONObject
from holdfast.blueprint.questions import Asked


@dataclass(frozen=True)
class KnownValue:
    """A value of which something may be known. What is not known is allowed, and checked where it happens."""

    schema: JSONObject = field(default_factory=dict)
    """JSON Schema of the value; {}: any value. It may be null all the same."""
    step: str = ""
    """The name of the step that asked for it, if its output is what a person said."""
    question: Asked | None = None
    """The question there, as it is written."""

    @property
    def is_permission(self) -> bool:
        return self.question is not None and self.question.permits

    @property
    def is_review(self) -> bool:
        return self.question is not None and self.question.yes_or_no and not self.question.permits

    @property
    def is_choice(self) -> bool:
        """True if it is one of the options of a question, or several."""
        return self.question is not None and bool(self.question.choices) and not self.question.takes_own_words

    def is_like(self, other: KnownValue) -> bool:
        """Return whether both are answers, and the same is known of both."""
        alike = (self.is_choice, type(self.question)) == (other.is_choice, type(other.question))
        return self.question is not None and alike

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


UNKNOWN = KnownValue()
TEXT_VALUE = KnownValue({"type": "string"})
