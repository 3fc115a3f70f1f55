"""Pauses of a run: breakpoints, and holds that an author wrote."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.blueprint.questions.kind import Asked, Draft, InvalidAnswer, brief, question_kind


@question_kind
class Checkpoint(Asked):
    """A stop before or after a step. A person continues, with the context as it is or an edited one."""

    kind = "checkpoint"
    consents = True
    is_pause = True
    needs_data = False
    is_breakpoint = True
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
        return self.model_copy(update={"context_schema": self.schema()})

    @property
    def stopped_at(self) -> tuple[str, str] | None:
        return (self.step, self.position) if self.step else None

    def schema(self) -> JSONObject:
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


@question_kind
class Hold(Asked):
    """A pause that an author wrote; its content is null."""

    kind = "hold"
    in_steps = "a pause without a question"
    request = "waits until {who} continues the run."
    declined_as = "abort"
    declining = "Declining ends the run."
    is_pause = True
    needs_data = False

    @classmethod
    def of(cls, draft: Draft) -> Asked:
        return cls(message=draft.message)

    def schema(self) -> JSONObject:
        return {"type": "null"}

    @property
    def example(self) -> JSON:
        return None
