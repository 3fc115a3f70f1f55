"""The base class of all kinds of questions: what a kind asks for, how it takes an answer, and its traits.

A kind is one class with a `kind` of its own; its definition registers it. No code branches on kinds elsewhere: it reads
their traits. `Question` carries the kind on the wire.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Self, get_args

from pydantic import (
    BaseModel,
    ConfigDict,
    ModelWrapValidatorHandler,
    SerializeAsAny,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from holdfast.blueprint.expressions import text_of
from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.blueprint.jsonschemas import problems_of
from holdfast.blueprint.parts import Option, Risk

TEXT = {"type": "string"}
YES = {"yes": True, "y": True, "true": True, "no": False, "n": False, "false": False}
"""The words for a boolean."""
QUESTION_KINDS: dict[str, type[Asked]] = {}
"""The class of each kind, by name."""


class InvalidAnswer(ValueError):
    """Content that does not fit its question.

    Args:
        reason: What is wrong, for a person.
        path: Where in the content, such as `payload.title`; empty: all of it.
    """

    def __init__(self, reason: str, path: str = "") -> None:
        super().__init__(f"{path}: {reason}" if path else reason)
        self.problems: Sequence[tuple[str, str]] = [(path, reason)]
        """All that is wrong, as pairs of path and reason."""

    @classmethod
    def of(cls, problems: Sequence[tuple[str, str]]) -> InvalidAnswer:
        """Return the error of several problems at once, each a pair of path and reason."""
        error = cls("; ".join(f"{path}: {reason}" if path else reason for path, reason in problems))
        error.problems = problems
        return error


def check_schema(schema: JSONObject, content: object, path: str = "") -> None:
    """Raise `InvalidAnswer` with everything in the content that does not fit a schema.

    Args:
        schema: The schema.
        content: The content, or a part of it.
        path: Where the part is in the content.
    """
    if problems := problems_of(schema, content):
        raise InvalidAnswer.of([(joined(path, inner), reason) for inner, reason in problems])


def joined(path: str, inner: str) -> str:
    """Return the path of what is inside of a part.

    >>> joined("payload", "title"), joined("payload", "[0]"), joined("", "title")
    ('payload.title', 'payload[0]', 'title')
    """
    return f"{path}.{inner}" if path and inner and not inner.startswith("[") else path + inner


@dataclass(frozen=True)
class Draft:
    """The parts of a question as an author writes them, rendered; each kind takes what it has use for."""

    message: str
    default: JSON = None
    value: JSON = None
    """What the question is about: a payload to review, or details beside the message."""
    form: JSONObject | None = None
    """JSON Schema of the answer."""
    options: Sequence[Option] = ()
    allow_custom: bool | None = None
    """None: as the kind has it."""
    most: int = 1
    """How many options may be chosen."""
    weights: JSONObject = field(default_factory=dict)
    """Of an action to be permitted: its `action`, `risk` and `details`, as far as the author gives them."""


class Asked(BaseModel):
    """A question to a person: the base class of all kinds."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    kind: str
    message: str
    default: JSON = None
    info: JSON = None

    # Traits of a kind.

    listed_as: ClassVar[str] = ""
    """The `kind` that people and clients see, where it is another one."""
    for_people: ClassVar[bool] = True
    """False if another system answers: it is in nobody's list, and nobody is told of it."""
    consents: ClassVar[bool] = False
    """True if an answer is a consent: it holds only for what was shown, and only people can give it."""
    hidden: ClassVar[bool] = False
    """True if values are asked for that nobody may see: they go to the secret store, what is sent refers to them."""
    signal_refusal: ClassVar[str] = ""
    """Why an answer may not come by signal; empty: it may."""
    is_pause: ClassVar[bool] = False
    """True for a pause rather than a question: `holdfast resume` ends it."""
    is_breakpoint: ClassVar[bool] = False
    """True if the content is the context of the run, which a person may edit."""
    yes_or_no: ClassVar[bool] = False
    """True if "yes", and "no" with a reason, always answer it."""
    scopes: ClassVar[Sequence[str]] = ()
    """For how long a yes may hold; the last one: for every run."""
    tells_refusals: ClassVar[bool] = False
    """True if declining and cancelling are answers of their own, which whoever asks hears as such."""
    labels: ClassVar[Mapping[str, str]] = {}
    """The words to type for a value of its form."""

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        """Register a class that has a kind of its own."""
        super().__pydantic_init_subclass__(**kwargs)
        if "kind" in cls.__dict__.get("__annotations__", {}):
            name = cls.model_fields["kind"].default
            other = QUESTION_KINDS.setdefault(name, cls)
            # A module of authors' is loaded once more in the workflow sandbox.
            if (other.__module__, other.__qualname__) != (cls.__module__, cls.__qualname__):
                raise TypeError(f"two question kinds are named {name!r}: {other.__qualname__}, {cls.__qualname__}")

    @model_validator(mode="wrap")
    @classmethod
    def _of_its_kind(cls, data: object, read: ModelWrapValidatorHandler[Self]) -> Self:
        """Read a value of any kind as an instance of the kind's class."""
        if cls is not Asked or not isinstance(data, dict):
            return read(data)
        if (kind := QUESTION_KINDS.get(data.get("kind", ""))) is None:
            raise ValueError(f"unknown kind of question {data.get('kind')!r}; known: {', '.join(QUESTION_KINDS)}")
        return kind.model_validate(data)  # type: ignore[return-value]

    @model_serializer(mode="wrap")
    def _with_its_kind(self, write: SerializerFunctionWrapHandler) -> JSONObject:
        """Write the kind although it is the default of each class: it tells which class to read."""
        return {"kind": self.kind, **write(self)}

    # On the wire.

    @classmethod
    def of(cls, draft: Draft) -> Asked:
        """Return the question for what an author wrote in a `hitl` step."""
        raise NotImplementedError

    @classmethod
    def held_by(cls, fields: Mapping[str, JSON]) -> JSONObject:
        """Return the values of those fields that a `Question` on the wire shows in any case.

        Args:
            fields: The message, `requestedSchema`, options, default and info of the question.
        """
        return {"message": fields["message"], "default": fields.get("default"), "info": fields.get("info")}

    def for_clients(self) -> Asked:
        """Return what clients get to see: without what only the workflow that asks checks."""
        return self

    # What is asked.

    @property
    def stopped_at(self) -> tuple[str, str] | None:
        """The address of a step, and `before` or `after`, if the run has stopped there; None for other questions."""
        return None

    @property
    def requested_schema(self) -> JSONObject:
        """JSON Schema of an accepted answer's content."""
        raise NotImplementedError

    @property
    def value_schema(self) -> JSONObject:
        """JSON Schema of the value that a person is prompted for, where more may be given."""
        return self.requested_schema

    @property
    def choices(self) -> Sequence[Option]:
        return ()

    @property
    def takes_own_words(self) -> bool:
        """True if text beside the options is accepted."""
        return False

    @property
    def most_choices(self) -> int:
        """Return the number of options that may be chosen."""
        return 1

    @property
    def fields(self) -> Mapping[str, JSONObject]:
        """The fields of a form that can be asked for one by one, each with its schema; {} for other questions."""
        schema = self.requested_schema
        fields = schema.get("properties", {})
        is_form = schema.get("type") == "object" and all(isinstance(field, dict) for field in fields.values())
        return fields if is_form and not self.choices else {}

    @property
    def awaits(self) -> tuple[str, str] | None:
        """The name and the key of the event that it waits for; None if people answer."""
        return None

    @property
    def shown_info(self) -> JSON:
        """Data that a person sees beside the message."""
        return self.info

    @property
    def link(self) -> str | None:
        """The address of a page that the person is to open, of HTTP or HTTPS; None if there is none."""
        return None

    @property
    def risk(self) -> Risk | None:
        """Return the risk of a consent: it is shown as `risk` in its details."""
        risk = self.info.get("risk") if self.consents and isinstance(self.info, dict) else None
        return risk if risk in get_args(Risk) else None

    @property
    def verdicts(self) -> Sequence[str]:
        """The verdicts that a review takes."""
        return ()

    @property
    def hint(self) -> str:
        """Return how a person answers in words; empty: as its fields or options say."""
        return ""

    @property
    def example(self) -> JSON:
        """Example of an answer's content; `…` where any value will do."""
        return "…"

    # Answers.

    @property
    def needs_no_data(self) -> bool:
        """True if null is an answer."""
        return self.is_pause

    def accept(self, content: object) -> JSON:
        """Return the content in its final form, which is kept as the answer. Raises `InvalidAnswer`."""
        content = self.read_words(content)
        check_schema(self.requested_schema, content)
        return content

    def read_words(self, content: object) -> JSON:
        """Return the content that a text such as "yes" stands for, wherever it was typed; other content unchanged."""
        meant = self.in_words(content) if isinstance(content, str) else None
        return content if meant is None else meant

    def read_output(self, content: JSON) -> JSON:
        """Return what an author may act on: the output of the step that asked.

        Args:
            content: Accepted content.
        """
        return content

    @property
    def output_without_answer(self) -> JSON:
        """The output of a step that goes on although nobody has answered."""
        return None

    def read_remarks(self, content: JSON) -> JSONObject:
        """Return what accepted content says beside the output: fields of the step's `reply`."""
        return {}

    def summarize(self, content: JSON) -> JSON:
        """Return accepted content as a turn of a conversation."""
        return content

    def for_tool(self, content: JSON) -> JSON:
        """Return accepted content in the form in which a tool that has asked gets it."""
        return content

    def when_declined(self, reason: str | None) -> JSON:
        """Return the content that declining stands for; None: the question then counts as not answered."""
        return None

    def says_no(self, content: object) -> bool:
        """Return whether accepted content is a refusal: with a quorum, one such answer closes the question."""
        return False

    def secret_values(self, content: object) -> dict[str, str]:
        """Return the hidden values in content by name; a single one without a name is under "". Raises `InvalidAnswer`.

        The content may hold values, or references to them.
        """
        raise InvalidAnswer("no secret is asked for")

    # Typed words.

    def yes(self) -> JSON:
        """Return the content that says yes; None if the question cannot be answered so."""
        return True if self._is_boolean else None

    def no(self, reason: str = "") -> JSON:
        """Return the content that says no, perhaps with a reason; None if the question cannot be answered so."""
        return False if self._is_boolean else None

    def in_words(self, text: str) -> JSON:
        """Return the content that short words stand for; None if they stand for none."""
        return YES.get(text.strip().lower()) if self._is_boolean else None

    @property
    def takes_corrections(self) -> bool:
        """True if an object may be typed that holds only what is to be changed."""
        return False

    def corrected(self, changes: JSONObject) -> JSON:
        """Return the content for an object of corrections; None if it is none."""
        return None

    @property
    def _is_boolean(self) -> bool:
        return not self.choices and self.value_schema.get("type") == "boolean"


AnyAsked = Annotated[Asked, SerializeAsAny()]
"""A question of any kind, as a field of a value that crosses a process."""


def some_text(content: object, path: str = "") -> str:
    """Return the text unchanged. Raises `InvalidAnswer` for blank text, and for anything that is not text."""
    if not isinstance(content, str):
        raise InvalidAnswer(f"expected text, got {brief(content)}", path)
    if not content.strip():
        raise InvalidAnswer("expected text that is not blank", path)
    return content


def brief(value: object, limit: int = 80) -> str:
    """Return a value for a message, cut to `limit` characters.

    >>> brief(None), brief("warm"), brief({"a": 1})
    ('null', "'warm'", '{"a":1}')
    """
    text = repr(value) if isinstance(value, str) else text_of(value)
    return text if len(text) <= limit else f"{text[:limit]}…"


def with_definitions(schema: JSONObject, whole: JSONObject) -> JSONObject:
    """Return a part of a schema with the `$defs` of the whole, which it may refer to."""
    return {**schema, "$defs": whole["$defs"]} if "$defs" in whole else schema
