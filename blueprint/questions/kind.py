"""The base classes of all kinds of questions: what a kind asks for, how it takes an answer, and its traits.

A kind is one class with a `kind` of its own; its definition registers it. No code branches on kinds elsewhere: it reads
their traits. `Question` carries the kind on the wire.
"""

import inspect
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Self, TypeVar, get_args

from pydantic import (
    BaseModel,
    ConfigDict,
    ModelWrapValidatorHandler,
    SerializeAsAny,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from holdfast.blueprint.expressions.lists import typed_items
from holdfast.blueprint.expressions.values import write_text
from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.blueprint.jsonschemas import list_misfits
from holdfast.blueprint.parts import NAME_PATTERN, Option, Risk

TEXT = {"type": "string"}
YES = {"yes": True, "y": True, "true": True, "no": False, "n": False, "false": False}
"""The words for a boolean."""
WHOLE = "content"
"""The output that is the content itself."""
QUESTION_KINDS: dict[str, type["QuestionKind"]] = {}
"""The class of each kind that is registered, by name: ours, and those of authors' packages."""


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
    def of(cls, problems: Sequence[tuple[str, str]]) -> "InvalidAnswer":
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
    if problems := list_misfits(schema, content):
        raise InvalidAnswer.of([(join_paths(path, inner), reason) for inner, reason in problems])


def join_paths(path: str, inner: str) -> str:
    """Return the path of what is inside of a part.

    >>> join_paths("payload", "title"), join_paths("payload", "[0]"), join_paths("", "title")
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


class QuestionKind(BaseModel):
    """A kind of question to a person: the base class of all, ours and those of authors' packages.

    Its fields are what one question says; those of an author's kind are keys of the `hitl` step that asks with it,
    beside `ask`. `@question_kind` registers a class.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)

    kind: ClassVar[str]
    """Its name: what an author writes as `ask`."""
    output: ClassVar[str] = WHOLE
    """An expression of `content`, the accepted answer: what the step gives."""
    summary: ClassVar[str | None] = None
    """A template of `content`: the answer as a turn of a conversation; None: the content."""
    consents: ClassVar[bool] = False
    """True if an answer is a consent: it holds only for what was shown, and only people can give it."""
    hidden: ClassVar[bool] = False
    """True if values are asked for that only tools get to see: they go to the secret store, what is sent refers to
    them. In the schema of an author's kind these are the fields that are `writeOnly`."""
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

    def schema(self) -> JSONObject:
        """Return the JSON Schema of an answer: its `title`, `description` and `examples` tell people what is asked.

        `x-hint` says how a person answers in words. Of its properties, `x-placeholder` shows what to type, `x-error`
        what is wrong, `x-widget: long_text` gives a text several lines, `x-widget: lines` a list a line for each item,
        and `x-order` (a number) their order.
        """
        raise NotImplementedError("the class has none")

    def read(self, text: str) -> JSON:
        """Return the content that typed words mean, such as `****`; None if they mean nothing of their own."""
        return None


_Kind = TypeVar("_Kind", bound=QuestionKind)


def question_kind(cls: type[_Kind]) -> type[_Kind]:
    """Register a kind of question. Raises `TypeError` for a name that cannot be its.

    >>> @question_kind
    ... class Mood(QuestionKind):
    ...     kind = "doctest_mood"
    ...     best: int = 5
    ...     def schema(self):
    ...         return {"type": "integer", "minimum": 1, "maximum": self.best}
    >>> Mood(best=3).schema()["maximum"]
    3
    """
    name = getattr(cls, "kind", None)
    if not isinstance(name, str) or not re.fullmatch(NAME_PATTERN, name):
        raise TypeError(f"{cls.__qualname__}: `kind` must be a name of letters, digits, _ and -, not {name!r}")
    for method in (cls.schema, cls.read):
        if inspect.iscoroutinefunction(method):
            raise TypeError(f"{method.__qualname__} is a coroutine: write it with def, nobody waits for it")
    other = QUESTION_KINDS.setdefault(name, cls)
    # A module of authors' is loaded once more in the workflow sandbox.
    if (other.__module__, other.__qualname__) != (cls.__module__, cls.__qualname__):
        taken = "one of Holdfast's" if issubclass(other, Asked) else f"{other.__module__}.{other.__qualname__}"
        raise TypeError(f"two question kinds are named {name!r}: {cls.__module__}.{cls.__qualname__}, and {taken}")
    QUESTION_KINDS[name] = cls
    return cls


class Asked(QuestionKind):
    """A question of a kind that workflows know as it is: the base class of our kinds.

    A kind of an author's is data to them, see `CustomQuestion`.
    """

    model_config = ConfigDict(strict=False)

    message: str

    # Traits of a kind.

    listed_as: ClassVar[str] = ""
    """The `kind` that people and clients see, where it is another one."""
    in_steps: ClassVar[str] = ""
    """What an author asks for with it in a `hitl` step; empty: it is asked by Holdfast, not in steps."""
    for_people: ClassVar[bool] = True
    """False if another system answers: it is in nobody's list, and nobody is told of it."""
    is_pause: ClassVar[bool] = False
    """True for a pause rather than a question: `holdfast resume` ends it."""
    is_breakpoint: ClassVar[bool] = False
    """True if the content is the context of the run, which a person may edit."""
    yes_or_no: ClassVar[bool] = False
    """True if "yes", and "no" with a reason, always answer it: only an explicit yes is one."""
    permits: ClassVar[bool] = False
    """True if a person permits an action, with its risk and its details."""
    scopes: ClassVar[Sequence[str]] = ()
    """For how long a yes may hold; the last one: for every run."""
    needs_options: ClassVar[bool] = False
    """True if whoever writes the question must offer something; a template that gives nothing leaves it free."""
    takes_options: ClassVar[bool] = False
    """True if an author may offer options."""
    tells_refusals: ClassVar[bool] = False
    """True if declining and cancelling are answers of their own, which whoever asks hears as such."""
    labels: ClassVar[Mapping[str, str]] = {}
    """The words to type for a value of its form."""

    # How a step that asks with it is described.

    request: ClassVar[str] = "asks {who} for {what}: {message}"
    """`what` describes the answer, `subject` the input; `about` is the message, `form` its schema."""
    request_to_choose: ClassVar[str] = "asks {who} to choose{many}: {message}"
    """The same where there are options."""
    offers: ClassVar[str] = "Choices"
    """What its options are called where own words are accepted beside them."""
    declined_as: ClassVar[str] = "fail"
    """What declining means unless `on_decline` is written."""
    declining: ClassVar[str] = ""
    """The same as a sentence, where it does not fail the step."""
    skipping: ClassVar[str] = ""
    """What `on_timeout: skip` means, as a clause; empty: the run goes on without an answer."""

    @model_validator(mode="wrap")
    @classmethod
    def _of_its_kind(cls, data: object, read: ModelWrapValidatorHandler[Self]) -> Self:
        """Read a value of any kind as an instance of the kind's class."""
        if not isinstance(data, dict) or "kind" not in data:
            return read(data)
        name, own = data["kind"], {key: value for key, value in data.items() if key != "kind"}
        if cls is not Asked and name == cls.kind:
            return read(own)
        if cls is not Asked or (kind := find_asked(name)) is None:
            known = [name for name, kind in QUESTION_KINDS.items() if issubclass(kind, cls)]
            raise ValueError(f"unknown kind of question {name!r}; known: {', '.join(known)}")
        return kind.model_validate(own)  # type: ignore[return-value]

    @model_serializer(mode="wrap")
    def _with_its_kind(self, write: SerializerFunctionWrapHandler) -> JSONObject:
        """Write the kind, which is no field: it tells which class to read."""
        return {"kind": self.kind, **write(self)}

    # On the wire.

    @classmethod
    def of(cls, draft: Draft) -> "Asked":
        """Return the question for what an author wrote in a `hitl` step."""
        raise NotImplementedError

    @classmethod
    def held_by(cls, fields: Mapping[str, JSON]) -> JSONObject:
        """Return the values of those fields that a `Question` on the wire shows in any case.

        Args:
            fields: The message, `requestedSchema`, options, default and info of the question.
        """
        return {"message": fields["message"], "default": fields.get("default"), "info": fields.get("info")}

    def for_clients(self) -> "Asked":
        """Return what clients get to see: without what only the workflow that asks checks."""
        return self

    # What is asked.

    @property
    def stopped_at(self) -> tuple[str, str] | None:
        """The address of a step, and `before` or `after`, if the run has stopped there; None for other questions."""
        return None

    @property
    def shown_kind(self) -> str:
        """The kind that people and clients see."""
        return self.listed_as or self.kind

    @property
    def value_schema(self) -> JSONObject:
        """JSON Schema of the value that a person is prompted for, where more may be given."""
        return self.schema()

    @property
    def first_content(self) -> JSON:
        """What a form shows before anything is typed; null: nothing."""
        return None

    @property
    def output_schema(self) -> JSONObject:
        """What is known, before the run, of what `read_output` gives, as JSON Schema."""
        return self.schema()

    @property
    def choices(self) -> Sequence[Option]:
        return ()

    @property
    def takes_own_words(self) -> bool:
        """True if text beside the options is accepted."""
        return False

    @property
    def offers_nothing(self) -> bool:
        """True if its author has to offer options, or to take own words, and does not."""
        return self.needs_options and not self.choices and not self.takes_own_words

    @property
    def lacks_options(self) -> bool:
        """True if only an option can answer it, and there is none."""
        return False

    @property
    def most_choices(self) -> int:
        """Return the number of options that may be chosen."""
        return 1

    @property
    def fields(self) -> Mapping[str, JSONObject]:
        """The fields of a form that can be asked for one by one, each with its schema; {} for other questions."""
        schema = self.schema()
        fields = schema.get("properties", {})
        is_form = schema.get("type") == "object" and all(isinstance(field, dict) for field in fields.values())
        return fields if is_form and not self.choices else {}

    @property
    def awaits(self) -> tuple[str, str] | None:
        """The name and the key of the event that it waits for; None if people answer."""
        return None

    @property
    def takes_early(self) -> bool:
        """True if an event that came before it was asked is taken."""
        return True

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
        return str(self.schema().get("x-hint", ""))

    @property
    def signal_refusal(self) -> str:
        """Why an answer may not come by signal; empty: it may."""
        if self.hidden:
            return "a secret cannot be sent by signal, because signals stay in the history"
        return "" if self.takes_signal else f"an answer of kind {self.shown_kind} cannot be sent by signal"

    @property
    def example(self) -> JSON:
        """Example of an answer's content; `…` where any value will do."""
        examples = self.schema().get("examples")
        return examples[0] if isinstance(examples, list) and examples else "…"

    # Answers.

    def accept(self, content: object) -> JSON:
        """Return the content in its final form, which is kept as the answer. Raises `InvalidAnswer`."""
        content = self.read_short(content)
        check_schema(self.schema(), content)
        return content

    def read_short(self, content: object) -> JSON:
        """Return the content that a text such as "yes", or corrections, stand for; other content unchanged."""
        match content:
            case str():
                meant = self.read(content)
            case dict():
                meant = self.read_corrections(content)
            case _:
                meant = None
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

    def read_refusal(self, reason: str | None) -> JSON:
        """Return the output of a step that goes on although its question was declined."""
        return self.output_without_answer

    def ask_again(self, content: JSON) -> "Asked | None":
        """Return the question that is asked next, if accepted content does not settle this one."""
        return None

    def give_back(self, reason: str) -> Self:
        """Return the question as it is asked again after its answer was given back."""
        return self.model_copy(update={"message": write_returned(self.message, reason)})

    @property
    def remarks(self) -> Mapping[str, JSONObject]:
        """JSON Schemas of what an answer may say beside the output, by the field of the step's `reply`."""
        return {}

    def read_remarks(self, content: JSON) -> JSONObject:
        """Return what accepted content says beside the output: fields of the step's `reply`."""
        return {key: content[key] for key in self.remarks if key in content}

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

    def read(self, text: str) -> JSON:
        """Return the content that short words stand for; None if they stand for none."""
        if self._is_list:
            return typed_items(text)
        return YES.get(text.strip().lower()) if self._is_boolean else None

    def read_corrections(self, changes: JSONObject) -> JSON:
        """Return the content for an object that holds only what is to be changed; None if it is no such object."""
        return None

    @property
    def _is_list(self) -> bool:
        """True if the answer is a list that is no choice of options, and whose items may be texts."""
        items = self.value_schema.get("items")
        of_texts = not isinstance(items, dict) or items.get("type", "string") == "string"
        return not self.choices and self.value_schema.get("type") == "array" and of_texts

    @property
    def _is_boolean(self) -> bool:
        return not self.choices and self.value_schema.get("type") == "boolean"


def write_returned(message: str, reason: str) -> str:
    """Return the message of a question that is asked again, as its answer was given back."""
    return f"The answer was returned: {reason}\n\n{message}"


def find_asked(name: str) -> type[Asked] | None:
    """Return the class of one of our kinds by its name; None for any other name."""
    kind = QUESTION_KINDS.get(name)
    return kind if kind is not None and issubclass(kind, Asked) else None


def asks_people(kind: str) -> bool:
    """Return whether people answer the questions of a kind: of those that are not known here, which authors made, yes.

    >>> asks_people("event"), asks_people("stars")
    (False, True)
    """
    own = find_asked(kind)
    return own is None or own.for_people


def list_kinds_for_steps() -> dict[str, type[Asked]]:
    """Return our kinds that a `hitl` step may ask with, by name."""
    kinds = sorted(QUESTION_KINDS.items())
    return {name: kind for name, kind in kinds if issubclass(kind, Asked) and kind.in_steps and not kind.listed_as}


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
    text = repr(value) if isinstance(value, str) else write_text(value)
    return text if len(text) <= limit else f"{text[:limit]}…"


def with_definitions(schema: JSONObject, whole: JSONObject) -> JSONObject:
    """Return a part of a schema with the `$defs` of the whole, which it may refer to."""
    return {**schema, "$defs": whole["$defs"]} if "$defs" in whole else schema
