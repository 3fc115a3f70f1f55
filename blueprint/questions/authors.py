"""Kinds of questions that authors' packages add: one class each, and the data that a workflow needs of it.

The class runs where a blueprint is read and where a question is shown or raised, never in a workflow: there the kind is
its `KindDefinition`, which stands in the run's history. So a changed package changes no run that has begun.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import to_json

from holdfast.blueprint.expressions import evaluate, names_in, names_in_expression, render
from holdfast.blueprint.expressions.error import did_you_mean
from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.blueprint.jsonschemas import BadSchema, validator
from holdfast.blueprint.parts import NAME_PATTERN, Name, Part, Schema
from holdfast.blueprint.question_kinds import ASK_KINDS, AskKind, import_sources

WHOLE = "content"
"""The output that is the content itself."""


def _check_name(name: str) -> str:
    if name in ASK_KINDS:
        raise ValueError(f"{name!r} is a kind of Holdfast's: give yours another name")
    return name


def _check_output(expression: str) -> str:
    _check_reads(names_in_expression(expression))
    return expression


def _check_summary(template: str) -> str:
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
        return content if self.output == WHOLE else evaluate(self.output, {WHOLE: content})

    def summarize(self, content: JSON) -> JSON:
        """Return an answer as a turn of a conversation. Raises `ExpressionError`, as the output."""
        return content if self.summary is None else render(self.summary, {WHOLE: content})

    def known_output(self) -> Schema:
        """Return what is known of the output before the run, as JSON Schema: the part that a plain path leads to."""
        schema: JSON = self.answer
        first, *keys = self.output.split(".")
        for key in keys if first == WHOLE else [""]:
            schema = schema["properties"].get(key, {}) if "properties" in schema else {}
        return schema if isinstance(schema, dict) and "$ref" not in schema else {}

    @property
    def traits(self) -> AskKind:
        """What the checks, the explanation and the drawing of a step need to know of the kind."""
        return AskKind(takes_options=False, hidden=self.hidden)


class QuestionKind(BaseModel):
    """The base class of the kinds of authors' packages; a class is registered by `@question_kind`.

    Its fields are keys of the `hitl` step that asks with it, beside `ask`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    kind: ClassVar[str]
    """What an author writes as `ask`."""
    output: ClassVar[str] = WHOLE
    """An expression of `content`, the accepted answer: what the step gives."""
    summary: ClassVar[str | None] = None
    """A template of `content`: the answer as a turn of a conversation; None: the content."""
    consents: ClassVar[bool] = False
    """True if an answer is a consent: it holds only for what was shown, and only people can give it."""
    hidden: ClassVar[bool] = False
    """True if the fields of the answer that are `writeOnly` are secrets: only tools get to see their values."""
    takes_signal: ClassVar[bool] = True
    """False if an answer must come by update."""
    needs_data: ClassVar[bool] = True
    """False if null is an answer, too."""

    message: str = ""
    """The question: the `message` of a step, or what a tool asks."""
    default: Any = None
    """The answer that counts if the deadline passes."""
    info: Any = None
    """JSON that a person sees beside the message."""

    def schema(self) -> JSONObject:  # type: ignore[override]  # pydantic's own of this name is deprecated
        """Return the JSON Schema of an answer: its `title`, `description` and `examples` tell people what is asked.

        Of its properties, `x-placeholder` shows what to type, `x-error` what is wrong, `x-widget: long_text` gives a
        text several lines, and `x-order` (a number) their order.
        """
        raise NotImplementedError

    def read(self, text: str) -> JSON:
        """Return the content that typed words mean, such as `****`; None if they mean nothing of their own."""
        return None

    def define(self) -> KindDefinition:
        """Return the data that a workflow needs. Raises `ValueError` with what cannot be used."""
        answer = self.schema()
        try:
            validator(answer)
        except BadSchema as error:
            raise ValueError(f"{type(self).__name__}.schema() is not a JSON Schema: {error}") from None
        return KindDefinition(
            name=self.kind,
            answer=_mark_secrets(answer) if self.hidden else answer,
            output=self.output,
            summary=self.summary,
            consents=self.consents,
            hidden=self.hidden,
            takes_signal=self.takes_signal,
            needs_data=self.needs_data,
            settings=self.model_dump(mode="json", exclude=set(_COMMON), exclude_defaults=True),
        )


_COMMON = tuple(QuestionKind.model_fields)
"""What every question has, and a step writes as keys of its own."""
_Kind = TypeVar("_Kind", bound=QuestionKind)
_kinds: dict[str, type[QuestionKind]] = {}


def question_kind(cls: type[_Kind]) -> type[_Kind]:
    """Register a kind of question. Raises `TypeError` for a name that cannot be its.

    >>> @question_kind
    ... class Mood(QuestionKind):
    ...     kind = "doctest_mood"
    ...     best: int = 5
    ...     def schema(self):
    ...         return {"type": "integer", "minimum": 1, "maximum": self.best}
    >>> Mood(best=3).define().answer["maximum"]
    3
    """
    name = getattr(cls, "kind", None)
    if not isinstance(name, str) or not re.fullmatch(NAME_PATTERN, name):
        raise TypeError(f"{cls.__qualname__}: `kind` must be a name of letters, digits, _ and -, not {name!r}")
    other = _kinds.setdefault(name, cls)
    # A module of authors' is loaded once more in the workflow sandbox.
    if name in ASK_KINDS or (other.__module__, other.__qualname__) != (cls.__module__, cls.__qualname__):
        taken = "one of Holdfast's" if name in ASK_KINDS else other.__qualname__
        raise TypeError(f"two question kinds are named {name!r}: {cls.__qualname__}, and {taken}")
    _kinds[name] = cls
    return cls


def find_kind(name: str, folder: Path | None = None) -> type[QuestionKind] | None:
    """Return the class of an author's kind; None if no package has it. Not for workflows: it imports packages."""
    if name not in _kinds and name not in ASK_KINDS:
        import_sources(folder)
    return _kinds.get(name)


def describe_unknown(name: str, folder: Path | None) -> tuple[str, str | None]:
    """Return the message for a kind that there is not, and the hint: a kind that is meant, or why a package failed."""
    known = [*ASK_KINDS, *_kinds]
    failed = [f"{package} cannot be imported: {reason}" for package, reason in import_sources(folder).items()]
    hint = "; ".join(failed) or "a kind of yours is a class in a package that [worker] imports lists"
    message = f"'ask' must be {', '.join(map(repr, known[:-1]))} or {known[-1]!r}, not {name[:60]!r}"
    return message, did_you_mean(name, known) or hint


def known_kinds() -> dict[str, type[QuestionKind]]:
    """Return the authors' kinds that are registered so far, by name."""
    return dict(_kinds)


def setting_names(kind: type[QuestionKind]) -> list[str]:
    """Return the keys that a step may write for a kind beside `ask`."""
    return [name for name in kind.model_fields if name not in _COMMON]


def read_settings(kind: type[QuestionKind], settings: JSONObject) -> QuestionKind:
    """Return an instance with these settings, checked as strictly as the keys of a step. Raises `ValidationError`."""
    return kind.model_validate_json(to_json(settings))


def read_typed(name: str, settings: JSONObject, text: str) -> JSON:
    """Return the content that typed words mean for a kind; None if they mean nothing, or the class is not here."""
    kind = find_kind(name)
    try:
        return None if kind is None else read_settings(kind, settings).read(text)
    except ValidationError:  # the package has changed since the question was asked
        return None


def _mark_secrets(answer: JSONObject) -> JSONObject:
    """Return the form of secrets: a field that is not `writeOnly` says `secret: false`, as in a step's own form."""
    properties = {
        name: {key: value for key, value in form.items() if key != "writeOnly"}
        if form.get("writeOnly") is True
        else {**form, "secret": False}
        for name, form in answer.get("properties", {}).items()
    }
    return {**answer, "properties": properties}
