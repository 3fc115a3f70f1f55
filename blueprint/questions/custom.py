"""The question of a kind that is no class here, but data: of an author's package, or written in a blueprint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, Self

from pydantic import field_serializer

from holdfast.blueprint.expressions import ExpressionError
from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.blueprint.questions.authors import KindDefinition, read_typed
from holdfast.blueprint.questions.forms import Input
from holdfast.blueprint.questions.kind import Asked, InvalidAnswer
from holdfast.blueprint.questions.secret import Secret


class CustomQuestion(Asked):
    """A question of an author's kind: an input or a secret, with the schema and the traits that its data says."""

    kind: Literal["custom"] = "custom"
    form: JSONObject
    """JSON Schema of the answer."""
    definition: KindDefinition
    """The rest of the kind's data, without the schema."""

    @classmethod
    def define(cls, definition: KindDefinition, message: str, default: JSON = None, info: JSON = None) -> Self:
        """Return the question of a kind."""
        form, rest = definition.answer, definition.model_copy(update={"answer": {}})
        return cls(form=form, definition=rest, message=message, default=default, info=info)

    @classmethod
    def held_by(cls, fields: Mapping[str, JSON]) -> JSONObject:
        return {**super().held_by(fields), "form": fields["requestedSchema"]}

    @field_serializer("definition")
    def _without_defaults(self, definition: KindDefinition) -> JSONObject:
        return definition.model_dump(mode="json", exclude_defaults=True)

    @property
    def _plain(self) -> Asked:
        """The question of ours that takes the same content."""
        return (Secret if self.definition.hidden else Input)(message=self.message, form=self.form)

    # Traits of the kind, which is data here.

    @property
    def listed_as(self) -> str:  # type: ignore[override]
        return self.definition.name

    @property
    def consents(self) -> bool:  # type: ignore[override]
        return self.definition.consents

    @property
    def hidden(self) -> bool:  # type: ignore[override]
        return self.definition.hidden

    @property
    def signal_refusal(self) -> str:  # type: ignore[override]
        if self.definition.hidden:
            return Secret.signal_refusal
        return "" if self.definition.takes_signal else f"an answer of kind {self.listed_as} cannot be sent by signal"

    @property
    def needs_no_data(self) -> bool:
        return not self.definition.needs_data

    # What is asked.

    def for_clients(self) -> Asked:
        """Return the same question with the form that `requested_schema` shows."""
        return self.model_copy(update={"form": self.requested_schema})

    @property
    def requested_schema(self) -> JSONObject:
        return self._plain.requested_schema

    @property
    def fields(self) -> Mapping[str, JSONObject]:
        return self._plain.fields

    @property
    def hint(self) -> str:
        return str(self.form.get("x-hint", ""))

    @property
    def example(self) -> JSON:
        examples = self.form.get("examples")
        return examples[0] if isinstance(examples, list) and examples else self._plain.example

    # Answers.

    def accept(self, content: object) -> JSON:
        """Return the content, which fits the schema, and has what the output reads."""
        if content is None and self.needs_no_data:
            return None
        accepted = self._plain.accept(content)
        try:
            self.definition.read_output(accepted)
            self.definition.summarize(accepted)
        except ExpressionError as error:
            raise InvalidAnswer(f"the output of kind {self.listed_as} cannot be read from it: {error}") from None
        return accepted

    def read_output(self, content: JSON) -> JSON:
        return None if content is None else self.definition.read_output(content)

    def summarize(self, content: JSON) -> JSON:
        return None if content is None else self.definition.summarize(content)

    def secret_values(self, content: object) -> dict[str, str]:
        return self._plain.secret_values(content)

    def in_words(self, text: str) -> JSON:
        """Return the content that the class of the kind reads in typed words. For clients: it may import a package."""
        return read_typed(self.listed_as, self.definition.settings, text)
