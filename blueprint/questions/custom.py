"""Kinds of questions that authors' packages add, and the data that a workflow has of them.

The class runs where a blueprint is read and where a question is shown or raised, never in a workflow: there the kind is
its `KindDefinition`, which stands in the run's history. So a changed package changes no run that has begun.
"""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import AfterValidator, Field, ValidationError, field_serializer
from pydantic_core import to_json

from holdfast.blueprint.expressions.error import ExpressionError, did_you_mean
from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.blueprint.jsonschemas import BadSchema, validator
from holdfast.blueprint.packages import import_packages
from holdfast.blueprint.parts import Name, Part, Schema
from holdfast.blueprint.questions.forms import Input
from holdfast.blueprint.questions.kind import (
    QUESTION_KINDS,
    WHOLE,
    Asked,
    Draft,
    InvalidAnswer,
    QuestionKind,
    find_asked,
    list_kinds_for_steps,
    question_kind,
)
from holdfast.blueprint.questions.secret import Secret

_COMMON = tuple(QuestionKind.model_fields)
"""What every question has, and a step writes as keys of its own."""


def _check_name(name: str) -> str:
    if find_asked(name) is not None:
        raise ValueError(f"{name!r} is a kind of Holdfast's: give yours another name")
    return name


def _check_output(expression: str) -> str:
    from holdfast.blueprint.expressions.evaluation import names_in_expression  # noqa: PLC0415  it loads jinja2

    _check_reads(names_in_expression(expression))
    return expression


def _check_summary(template: str) -> str:
    from holdfast.blueprint.expressions.evaluation import names_in  # noqa: PLC0415  it loads jinja2

    _check_reads(names_in(template))
    return template


def _check_reads(names: set[tuple[str, ...]]) -> None:
    if others := sorted({name for name, *_ in names} - {WHOLE}):
        raise ValueError(f"a kind reads {WHOLE} only, not {', '.join(others)}")


class KindDefinition(Part):
    """A kind of question as data: all that a workflow needs of it."""

    name: Annotated[Name, AfterValidator(_check_name)] = Field(description="The name of the kind.", examples=["rating"])
    answer: Schema = Field(
        description="JSON Schema of an accepted answer.", examples=[{"type": "integer", "minimum": 1, "maximum": 5}]
    )
    output: Annotated[str, AfterValidator(_check_output)] = Field(
        WHOLE, description="An expression of `content`: the output of the step.", examples=["content.stars"]
    )
    summary: Annotated[str, AfterValidator(_check_summary)] | None = Field(
        None,
        description="A template of `content`: the answer as a turn of a conversation; default: the content.",
        examples=["{{ content.stars }} stars"],
    )
    consents: bool = Field(False, description="An answer holds only for what was shown, and only people give it.")
    hidden: bool = Field(False, description="Fields that are `writeOnly` are secrets, which only tools get to see.")
    takes_signal: bool = Field(True, description="May an answer come by signal?")
    needs_data: bool = Field(True, description="Without it null is an answer, too.")
    settings: dict[str, Any] = Field({}, description="The fields of its class.", examples=[{"stars": 5}])

    def read_output(self, content: JSON) -> JSON:
        """Return the output for an answer. Raises `ExpressionError` where it lacks what the output reads."""
        from holdfast.blueprint.expressions.evaluation import evaluate  # noqa: PLC0415  it loads jinja2

        return content if self.output == WHOLE else evaluate(self.output, {WHOLE: content})

    def summarize(self, content: JSON) -> JSON:
        """Return an answer as a turn of a conversation. Raises `ExpressionError`, as the output."""
        from holdfast.blueprint.expressions.evaluation import render  # noqa: PLC0415  it loads jinja2

        return content if self.summary is None else render(self.summary, {WHOLE: content})

    def of(self, draft: Draft) -> CustomQuestion:
        """Return the question for what an author wrote in a `hitl` step."""
        return CustomQuestion.define(self, draft.message, draft.default)


def define_kind(question: QuestionKind) -> KindDefinition:
    """Return the data that a workflow needs of a kind. Raises `ValueError` with what cannot be used."""
    name = f"{type(question).__name__}.schema()"
    try:
        answer = question.schema()
    except Exception as error:  # noqa: BLE001  the author's code
        raise ValueError(f"{name} raises {describe_raise(error)}") from None
    try:
        validator(answer)
    except BadSchema as error:
        raise ValueError(f"{name} is not a JSON Schema: {error}") from None
    return KindDefinition(
        name=question.kind,
        answer=_mark_secrets(answer) if question.hidden else answer,
        output=question.output,
        summary=question.summary,
        consents=question.consents,
        hidden=question.hidden,
        takes_signal=question.takes_signal,
        needs_data=question.needs_data,
        settings=question.model_dump(mode="json", exclude=set(_COMMON), exclude_defaults=True),
    )


def _mark_secrets(answer: JSONObject) -> JSONObject:
    """Return the form of secrets: a field that is not `writeOnly` says `secret: false`, as in a step's own form."""
    properties = {
        name: {key: value for key, value in form.items() if key != "writeOnly"}
        if form.get("writeOnly") is True
        else {**form, "secret": False}
        for name, form in answer.get("properties", {}).items()
    }
    return {**answer, "properties": properties}


@question_kind
class CustomQuestion(Asked):
    """A question of an author's kind: an input or a secret, with the schema and the traits that its data says."""

    kind = "custom"
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
    def listed_as(self) -> str:
        return self.definition.name

    @property
    def consents(self) -> bool:
        return self.definition.consents

    @property
    def hidden(self) -> bool:
        return self.definition.hidden

    @property
    def takes_signal(self) -> bool:
        return self.definition.takes_signal

    @property
    def needs_data(self) -> bool:
        return self.definition.needs_data

    # What is asked.

    def for_clients(self) -> Asked:
        """Return the same question with the form that `schema` shows."""
        return self.model_copy(update={"form": self.schema()})

    def schema(self) -> JSONObject:
        return self._plain.schema()

    @property
    def output_schema(self) -> JSONObject:
        """The part of the schema to which the output leads, if it is a plain path."""
        schema: JSON = self.form
        first, *keys = self.definition.output.split(".")
        for key in keys if first == WHOLE else [""]:
            schema = schema["properties"].get(key, {}) if "properties" in schema else {}
        return schema if isinstance(schema, dict) and "$ref" not in schema else {}

    @property
    def fields(self) -> Mapping[str, JSONObject]:
        return self._plain.fields

    @property
    def example(self) -> JSON:
        return self._plain.example

    # Answers.

    def accept(self, content: object) -> JSON:
        """Return the content, which fits the schema, and has what the output reads."""
        if content is None and not self.needs_data:
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

    def read(self, text: str) -> JSON:
        """Return the content that the class of the kind reads in typed words; raises as `read_typed`.

        For clients: it may import a package.
        """
        return read_typed(self.listed_as, self.definition.settings, text)


def find_kind(name: str, folder: Path | None = None) -> type[QuestionKind] | None:
    """Return the class of an author's kind; None if no package has it. Not for workflows: it imports packages."""
    if name not in QUESTION_KINDS:
        _import_kinds(folder)
    return known_kinds().get(name)


def describe_unknown(name: str, folder: Path | None) -> tuple[str, str | None]:
    """Return the message for a kind that there is not, and the hint: a kind that is meant, or why a package failed."""
    failed = [f"{package} cannot be imported: {reason}" for package, reason in _import_kinds(folder).items()]
    known = [*list_kinds_for_steps(), *known_kinds()]
    hint = "; ".join(failed) or "a kind of yours is a class in a package that [worker] imports lists"
    message = f"'ask' must be {', '.join(map(repr, known[:-1]))} or {known[-1]!r}, not {name[:60]!r}"
    return message, did_you_mean(name, known) or hint


def _import_kinds(folder: Path | None) -> dict[str, str]:
    """Import the authors' packages; return by package why one failed, of which no kind is left: no worker has it."""
    failed = import_packages(folder)
    for name, kind in known_kinds().items():
        if any(f"{kind.__module__}.".startswith(f"{package}.") for package in failed):
            del QUESTION_KINDS[name]
    return failed


def known_kinds() -> dict[str, type[QuestionKind]]:
    """Return the authors' kinds that are registered so far, by name."""
    return {name: kind for name, kind in QUESTION_KINDS.items() if not issubclass(kind, Asked)}


def setting_names(kind: type[QuestionKind]) -> list[str]:
    """Return the keys that a step may write for a kind beside `ask`."""
    return [name for name in kind.model_fields if name not in _COMMON]


def read_settings(kind: type[QuestionKind], settings: JSONObject) -> QuestionKind:
    """Return an instance with these settings, checked as strictly as the keys of a step. Raises `ValidationError`."""
    return kind.model_validate_json(to_json(settings))


def read_typed(name: str, settings: JSONObject, text: str) -> JSON:
    """Return the content that typed words mean for a kind; None if they mean nothing.

    Raises:
        InvalidAnswer: The class is not here, it has changed since the question was asked, or its `read` raises.
    """
    kind = find_kind(name)
    if kind is None:
        raise InvalidAnswer(f"the kind {name!r} reads words, and no package here has it: give the content as JSON")
    try:
        asked = read_settings(kind, settings)
    except ValidationError:
        raise InvalidAnswer(f"the kind {name!r} has changed since it was asked: give the content as JSON") from None
    try:
        return asked.read(text)
    except InvalidAnswer:
        raise
    except Exception as error:  # noqa: BLE001  the author's code
        raise InvalidAnswer(f"the kind {name!r} cannot read {text[:60]!r}: {describe_raise(error)}") from None


def describe_raise(error: Exception) -> str:
    """Return what an author's class has raised, and where."""
    at = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} (raised at {at.filename}:{at.lineno} in {at.name})"
