"""What can be asked of a person. One class a kind; each says whether it accepts an answer."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter

from blueprint.expressions import text_of
from blueprint.grammar import Option
from blueprint.jsonschemas import problems_of
from protocol.address import Address
from protocol.values import Value, digest_of

TEXT = {"type": "string"}


class InvalidAnswer(ValueError):
    """The content does not fit its question; `path` says where in the content."""

    def __init__(self, reason: str, path: str = "") -> None:
        super().__init__(f"{path}: {reason}" if path else reason)
        self.reason, self.path = reason, path


class Input(Value):
    """Text, or a form that a JSON Schema describes."""

    kind: Literal["input"] = "input"
    message: str
    form: dict[str, Any] | None = None
    default: Any = None
    info: Any = None

    @property
    def requested_schema(self) -> dict[str, Any]:
        return self.form or TEXT

    @property
    def choices(self) -> Sequence[Option]:
        return ()

    def accept(self, content: Any) -> Any:
        """The content itself; plain text must not be blank."""
        if self.form is None:
            return some_text(content)
        for path, reason in problems_of(self.form, content):
            raise InvalidAnswer(reason, path)
        return content


class _Choice(Value):
    message: str
    options: list[Option] = []
    allow_custom: bool = False
    max_selections: int = 1
    default: Any = None
    info: Any = None

    @property
    def choices(self) -> Sequence[Option]:
        return self.options

    @property
    def requested_schema(self) -> dict[str, Any]:
        one = TEXT if self.allow_custom or not self.options else {"enum": [option.id for option in self.options]}
        if self.max_selections == 1:
            return one
        return {"type": "array", "items": one, "minItems": 1, "maxItems": self.max_selections, "uniqueItems": True}

    def accept(self, content: Any) -> Any:
        """Option ids (a label is taken for its id), or own text where that is allowed."""
        if self.max_selections == 1:
            return self._one(content, "")
        if not isinstance(content, list) or not content:
            raise InvalidAnswer(f"expected a list of 1 to {self.max_selections} options, got {brief(content)}")
        if len(content) > self.max_selections:
            raise InvalidAnswer(f"at most {self.max_selections} options, got {len(content)}")
        chosen = [self._one(item, f"[{index}]") for index, item in enumerate(content)]
        for index, item in enumerate(chosen):
            if item in chosen[:index]:
                raise InvalidAnswer(f"{brief(item)} is chosen twice", f"[{index}]")
        return chosen

    def _one(self, content: Any, path: str) -> str:
        if isinstance(content, str) and (option := self._option(content)):
            return option.id
        if self.allow_custom or not self.options:
            return some_text(content, path)
        ids = ", ".join(option.id for option in self.options)
        raise InvalidAnswer(f"{brief(content)} is none of the options: {ids}", path)

    def _option(self, text: str) -> Option | None:
        """An option by id or label: exact first, then without case and outer space."""
        for spelled in (str, _folded):
            for option in self.options:
                if spelled(text) in (spelled(option.id), spelled(option.label)):
                    return option
        return None


class Clarification(_Choice):
    """A question with suggestions; a person may answer in their own words."""

    kind: Literal["clarification"] = "clarification"
    allow_custom: bool = True


class Decision(_Choice):
    """A choice with weight: only the options count."""

    kind: Literal["decision"] = "decision"


class Choice(_Choice):
    """An `input` that offers options."""

    kind: Literal["choice"] = "choice"


Asked = Input | Clarification | Decision | Choice
_asked: TypeAdapter[Asked] = TypeAdapter(Annotated[Asked, Field(discriminator="kind")])


class Question(Value):
    """An open question, as everybody sees it."""

    id: str
    address: Address
    owner: str
    run: str
    kind: str
    message: str
    requestedSchema: dict[str, Any]
    options: list[Option] = []
    allow_custom: bool = False
    max_selections: int = 1
    default: Any = None
    info: Any = None
    parents: list[dict[str, Any]] = []
    root_cause: bool = True
    iteration: int | None = None
    round: int = 1
    asked_at: datetime
    deadline: datetime | None = None
    assignees: list[str] = []
    quorum: int = 1
    answers_so_far: int = 0
    digest: str

    def accept(self, content: Any) -> Any:
        """What the asked kind says of the content; raises `InvalidAnswer`."""
        return self._as_asked().accept(content)

    def _as_asked(self) -> Asked:
        if self.kind == "input" and not self.options:
            form = None if self.requestedSchema == TEXT else self.requestedSchema
            return Input(message=self.message, form=form)
        kind = "choice" if self.kind == "input" else self.kind
        own = {"allow_custom": self.allow_custom, "max_selections": self.max_selections, "options": self.options}
        return _asked.validate_python({"kind": kind, "message": self.message, **own})


def question_of(
    asked: Asked,
    *,
    address: Address,
    owner: str,
    run: str,
    round_: int,
    iteration: int | None,
    at: datetime,
    deadline: datetime | None,
) -> Question:
    """The open question that stands for what is asked; its id is the same on every replay."""
    shown = {} if isinstance(asked, Input) else {"allow_custom": asked.allow_custom}
    many = {} if isinstance(asked, Input) else {"max_selections": asked.max_selections}
    options = [option.model_dump(exclude_defaults=True) for option in asked.choices]
    return Question(
        id=digest_of(owner, address, round_),
        address=address,
        owner=owner,
        run=run,
        kind="input" if isinstance(asked, Choice) else asked.kind,
        message=asked.message,
        requestedSchema=asked.requested_schema,
        options=list(asked.choices),
        **shown,
        **many,
        default=asked.default,
        info=asked.info,
        iteration=iteration,
        round=round_,
        asked_at=at,
        deadline=deadline,
        digest=digest_of(asked.message, asked.requested_schema, options, asked.info),
    )


def some_text(content: Any, path: str = "") -> str:
    """The text itself, unchanged; blank text is no answer."""
    if not isinstance(content, str):
        raise InvalidAnswer(f"expected text, got {brief(content)}", path)
    if not content.strip():
        raise InvalidAnswer("expected some text, got a blank one", path)
    return content


def brief(value: Any, limit: int = 80) -> str:
    """A value as a message shows it, cut where it is long.

    >>> brief(None), brief("warm"), brief({"a": 1})
    ('null', "'warm'", '{"a":1}')
    """
    text = repr(value) if isinstance(value, str) else text_of(value)
    return text if len(text) <= limit else f"{text[:limit]}…"


def _folded(text: str) -> str:
    return text.strip().casefold()
