"""Pauses of a run: breakpoints, and holds that an author wrote."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.blueprint.questions.kind import Asked, Draft, InvalidAnswer, brief


class Checkpoint(Asked):
    """A stop before or after a step. A person continues, with the context as it is or an edited one."""

    kind: Literal["checkpoint"] = "checkpoint"
    consents: ClassVar[bool] = True
    is_pause: ClassVar[bool] = True
    is_breakpoint: ClassVar[bool] = True
    context_schema: JSONObject | None = None
    """JSON Schema of an edited context."""
    step: str = ""
    """The address of the step."""
    position: Literal["before", "after"] = "before"

    @classmethod
    def held_by(cls, fields: Mapping[str, JSON]) -> JSONObject:
        return {**super().held_by(fields), "context_schema": fields["requestedSchema"]}

    def for_clients(self) -> Asked:
        """Return the same question with its schema, whether or not the author wrote one."""
        return self.model_copy(update={"context_schema": self.requested_schema})

    @property
    def stopped_at(self) -> tuple[str, str] | None:
        return (self.step, self.position) if self.step else None

    @property
    def requested_schema(self) -> JSONObject:
        return self.context_schema or {"type": "object"}

    @property
    def fields(self) -> Mapping[str, JSONObject]:
        """None: a person continues, or edits the context as a whole."""
        return {}

    @property
    def example(self) -> JSON:
        return None

    def accept(self, content: object) -> JSON:
        """Return null, or the edited context, which must fit."""
        if content is None:
            return None
        if not isinstance(content, dict):
            raise InvalidAnswer(f"expected the changed context, an object, or null; got {brief(content)}")
        return super().accept(content)


class Hold(Asked):
    """A pause that an author wrote; its content is null."""

    kind: Literal["hold"] = "hold"
    is_pause: ClassVar[bool] = True

    @classmethod
    def of(cls, draft: Draft) -> Asked:
        return cls(message=draft.message)

    @property
    def requested_schema(self) -> JSONObject:
        return {"type": "null"}

    @property
    def example(self) -> JSON:
        return None
