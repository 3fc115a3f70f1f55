"""The question for secret values, which only tools get to see."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.protocol.questions.kind import Asked, Draft, InvalidAnswer
from holdfast.protocol.secrets import PATTERN, reference_in

REFERENCE = {"type": "string", "pattern": PATTERN}
ROTATE = "it has been sent: rotate it, and answer with `holdfast answer` or `holdfast attach`, which send a reference"


class Secret(Asked):
    """A question for secret values. Accepted content is a reference to the secret store, or an object of several.

    No error message repeats the content, which may be the secret itself.
    """

    kind: Literal["secret"] = "secret"
    hidden: ClassVar[bool] = True
    signal_refusal: ClassVar[str] = "a secret takes no signals, as each stands in the history"
    form: JSONObject | None = None
    """JSON Schema of an object of the values by name; None: one value without a name."""

    @classmethod
    def of(cls, draft: Draft) -> Asked:
        return cls(message=draft.message, form=draft.form)

    @classmethod
    def held_by(cls, shown: Mapping[str, JSON]) -> JSONObject:
        schema = shown["requestedSchema"]
        return {**super().held_by(shown), "form": schema if "properties" in schema else None}

    def for_clients(self) -> Asked:
        """Return the same question with a form that asks for references, as `requested_schema` does."""
        return self if self.form is None else self.model_copy(update={"form": self.requested_schema})

    @property
    def requested_schema(self) -> JSONObject:
        if self.form is None:
            return REFERENCE
        return {
            "type": "object",
            "required": self._needed,
            "minProperties": 1,
            "properties": {name: {**field, **REFERENCE} for name, field in self.fields.items()},
            "additionalProperties": False,
        }

    @property
    def fields(self) -> Mapping[str, JSONObject]:
        """The fields with what a person reads; the pattern of a reference is left out, as a person types the value."""
        labels = ("title", "description")
        fields = self.form["properties"] if self.form else {}
        return {name: {"type": "string", **_only(labels, field)} for name, field in fields.items()}

    @property
    def _needed(self) -> list[str]:
        return [] if self.form is None else list(self.form.get("required", []))

    @property
    def example(self) -> JSON:
        return {name: f"secret:env/{name}" for name in self.fields} or "secret:env/NAME"

    def accept(self, content: object) -> JSON:
        """Return the content unchanged. It must hold references only."""
        try:
            values = self.secret_values(content)
        except InvalidAnswer as error:
            raise InvalidAnswer(f"{error.reason}; if a value stood there, {ROTATE}", error.path) from None
        for name, value in values.items():
            if reference_in(value) is None:
                raise InvalidAnswer(f"this is no reference secret:<store>/<id>; if it is the value, {ROTATE}", name)
        return content

    def secret_values(self, content: JSON) -> dict[str, str]:
        if self.form is None:
            values = {"": content}
        elif isinstance(content, dict):
            values = self._checked_names(content)
        else:
            raise InvalidAnswer(f"expected an object with {', '.join(self.fields)}")
        for name, value in values.items():
            if not isinstance(value, str) or not value.strip():
                raise InvalidAnswer("expected text that is not blank", name)
        return values

    def _checked_names(self, content: JSONObject) -> JSONObject:
        if not content or not content.keys() <= self.fields.keys():
            raise InvalidAnswer(f"expected an object of nothing but {', '.join(self.fields)}")
        for name in self._needed:
            if name not in content:
                raise InvalidAnswer("is missing", name)
        return content


def _only(keys: tuple[str, ...], field: Mapping[str, JSON]) -> JSONObject:
    return {key: field[key] for key in keys if key in field}
