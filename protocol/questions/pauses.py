"""Pauses of a run: breakpoints, and holds that an author wrote."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from holdfast.protocol.questions.kind import Asked, Draft, InvalidAnswer, brief


class Checkpoint(Asked):
    """A stop before or after a step. A person continues, with the context as it is or an edited one."""

    kind: Literal["checkpoint"] = "checkpoint"
    is_pause: ClassVar[bool] = True
    is_breakpoint: ClassVar[bool] = True
    context_schema: dict[str, Any] | None = None
    """JSON Schema of an edited context."""

    @classmethod
    def held_by(cls, shown: Mapping[str, Any]) -> dict[str, Any]:
        return {**super().held_by(shown), "context_schema": shown["requestedSchema"]}

    def for_clients(self) -> Asked:
        """Return the same question with its schema, whether or not the author wrote one."""
        return self.model_copy(update={"context_schema": self.requested_schema})

    @property
    def requested_schema(self) -> dict[str, Any]:
        return self.context_schema or {"type": "object"}

    @property
    def fields(self) -> Mapping[str, dict[str, Any]]:
        """None: a person continues, or edits the context as a whole."""
        return {}

    @property
    def example(self) -> Any:
        return None

    def accept(self, content: Any) -> Any:
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
    def requested_schema(self) -> dict[str, Any]:
        return {"type": "null"}

    @property
    def example(self) -> Any:
        return None
