"""What can be asked of a person. One class a kind; each says whether it accepts an answer."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field, SerializerFunctionWrapHandler, TypeAdapter, model_serializer

from blueprint.expressions import text_of
from blueprint.grammar import Option
from blueprint.jsonschemas import problems_of
from protocol.address import Address
from protocol.people import EVERYBODY, People
from protocol.secrets import PATTERN, reference_in
from protocol.values import Value, digest_of

TEXT = {"type": "string"}
REFERENCE = {"type": "string", "pattern": PATTERN}
FACT = "x-fact"
"""In the schema of a `Fact`: its name."""
PERMISSION = {
    "type": "object",
    "required": ["granted"],
    "properties": {
        "granted": {"type": "boolean"},
        "scope": {"enum": ["once", "run", "always"], "default": "once"},
        "reason": {"type": "string"},
    },
    "additionalProperties": False,
}


class InvalidAnswer(ValueError):
    """The content does not fit its question; `path` says where in the content."""

    def __init__(self, reason: str, path: str = "") -> None:
        super().__init__(f"{path}: {reason}" if path else reason)
        self.reason, self.path = reason, path


class _Question(Value):
    """What every kind says of itself."""

    kind: str
    message: str
    default: Any = None
    info: Any = None

    @model_serializer(mode="wrap")
    def _with_its_kind(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """On the wire the kind always stands, though it is each class's default: it tells the classes apart."""
        return {"kind": self.kind, **write(self)}

    @property
    def requested_schema(self) -> dict[str, Any]:
        """JSON Schema of an accepted answer's content."""
        raise NotImplementedError

    @property
    def choices(self) -> Sequence[Option]:
        return ()

    @property
    def shown_info(self) -> Any:
        """What a person is shown beside the message."""
        return self.info

    def when_declined(self, reason: str | None) -> Any:
        """What declining means, where that is an answer of its own; None: that the question was not answered."""
        return None

    def says_no(self, content: Any) -> bool:
        """Whether accepted content refuses what is asked; where several must accept, that ends it like declining."""
        return False

    def accept(self, content: Any) -> Any:
        """The content itself, if it fits; raises `InvalidAnswer`."""
        for path, reason in problems_of(self.requested_schema, content):
            raise InvalidAnswer(reason, path)
        return content


class Input(_Question):
    """Text, or a form that a JSON Schema describes."""

    kind: Literal["input"] = "input"
    form: dict[str, Any] | None = None
    optional: bool = False
    """Whether null will do: an interrupt that may be resumed without data."""

    @property
    def requested_schema(self) -> dict[str, Any]:
        return self.form or ({} if self.optional else TEXT)

    def accept(self, content: Any) -> Any:
        """The content itself; plain text must not be blank."""
        if self.optional and content is None:
            return None
        return some_text(content) if self.form is None and not self.optional else super().accept(content)


class Fact(Input):
    """One of several facts: its value, or an object of several facts at once; accepted content is always an object."""

    name: str
    facts: dict[str, Any]
    """JSON Schema of the object that they make."""

    @property
    def own(self) -> dict[str, Any]:
        """JSON Schema of this one."""
        return _with_definitions(self.facts["properties"][self.name], self.facts)

    @property
    def requested_schema(self) -> dict[str, Any]:
        several = {
            "type": "object",
            "minProperties": 1,
            "properties": self.facts["properties"],
            "additionalProperties": False,
        }
        one = self.facts["properties"][self.name]
        return {FACT: self.name, **_with_definitions({"anyOf": [one, several]}, self.facts)}

    @property
    def choices(self) -> Sequence[Option]:
        values = self.own.get("enum", [])
        texts = values if all(isinstance(value, str) for value in values) else []
        return [Option(id=text, label=text) for text in texts if text]

    def accept(self, content: Any) -> Any:
        """Facts by name, each of which fits its own schema; text must not be blank."""
        wrong = problems_of(self.own, content)
        if isinstance(content, dict) and wrong and content:
            return self._several(content)
        if isinstance(content, str) and not wrong:
            some_text(content)
        for path, reason in wrong:
            raise InvalidAnswer(reason, path)
        return {self.name: content}

    def _several(self, content: dict[str, Any]) -> dict[str, Any]:
        known = self.facts["properties"]
        for name, value in content.items():
            if name not in known:
                raise InvalidAnswer(f"is none of what is asked for: {', '.join(known)}", name)
            for path, reason in problems_of(_with_definitions(known[name], self.facts), value):
                raise InvalidAnswer(reason, f"{name}.{path}" if path else name)
        return content


class Permission(_Question):
    """May this be done? Only an explicit `granted: true` is a yes."""

    kind: Literal["permission"] = "permission"

    @property
    def requested_schema(self) -> dict[str, Any]:
        return PERMISSION

    def accept(self, content: Any) -> Any:
        """The content, if it is an object that grants or denies; a bare yes is none."""
        if not isinstance(content, dict):
            raise InvalidAnswer(f'expected {{"granted": true}} or {{"granted": false, …}}, got {brief(content)}')
        return super().accept(content)

    def when_declined(self, reason: str | None) -> Any:
        return {"granted": False, **({"reason": reason} if reason else {})}

    def says_no(self, content: Any) -> bool:
        return content["granted"] is not True


class Review(_Question):
    """Look at a payload, and change it; the accepted content always holds the payload that counts."""

    kind: Literal["review"] = "review"
    payload: Any = None
    payload_schema: dict[str, Any] | None = None

    @property
    def requested_schema(self) -> dict[str, Any]:
        return review_schema(self.payload_schema)

    def when_declined(self, reason: str | None) -> Any:
        return {"verdict": "rejected", "payload": self.payload, **({"reason": reason} if reason else {})}

    def says_no(self, content: Any) -> bool:
        return bool(content["verdict"] == "rejected")

    @property
    def shown_info(self) -> Any:
        return {"payload": self.payload} if self.info is None else {"payload": self.payload, "about": self.info}

    def accept(self, content: Any) -> Any:
        """The verdict with the payload: the edited one, which must fit, or the one that was shown."""
        super().accept(content)
        if content["verdict"] == "edited" and self.payload_schema is not None:
            for path, reason in problems_of(self.payload_schema, content["payload"]):
                raise InvalidAnswer(reason, f"payload.{path}" if path else "payload")
        return content if content["verdict"] == "edited" else {**content, "payload": self.payload}


ROTATE = "it has been sent: rotate it, and answer with `holdfast answer` or `holdfast attach`, which send a reference"


class Secret(_Question):
    """Values that nothing may show: accepted content is a reference to the secret store, or an object of several.

    No message of it repeats what was given.
    """

    kind: Literal["secret"] = "secret"
    form: dict[str, Any] | None = None
    """JSON Schema of an object of names; None: one value without a name."""

    @property
    def requested_schema(self) -> dict[str, Any]:
        if self.form is None:
            return REFERENCE
        told = ("title", "description")
        return {
            "type": "object",
            "required": self._needed,
            "minProperties": 1,
            "properties": {
                name: {**{key: field[key] for key in told if key in field}, **REFERENCE}
                for name, field in self.form["properties"].items()
            },
            "additionalProperties": False,
        }

    @property
    def _needed(self) -> list[str]:
        return [] if self.form is None else list(self.form.get("required", []))

    def accept(self, content: Any) -> Any:
        """The content itself, if it holds references only."""
        try:
            given = self.by_name(content)
        except InvalidAnswer as error:
            raise InvalidAnswer(f"{error.reason}; if a value stood there, {ROTATE}", error.path) from None
        for name, value in given.items():
            if reference_in(value) is None:
                raise InvalidAnswer(f"this is no reference secret:<store>/<id>; if it is the value, {ROTATE}", name)
        return content

    def by_name(self, content: Any) -> dict[str, str]:
        """What was given for each name, a value or a reference; for the one without a name under ""."""
        if self.form is None:
            given = {"": content}
        elif isinstance(content, dict):
            given = self._known(content)
        else:
            raise InvalidAnswer(f"expected an object with {', '.join(self.form['properties'])}")
        for name, value in given.items():
            if not isinstance(value, str) or not value.strip():
                raise InvalidAnswer("expected text that is not blank", name)
        return given

    def _known(self, content: dict[str, Any]) -> dict[str, Any]:
        names = self.form["properties"] if self.form else {}
        if not content or not content.keys() <= names.keys():
            raise InvalidAnswer(f"expected an object of nothing but {', '.join(names)}")
        for name in self._needed:
            if name not in content:
                raise InvalidAnswer("is missing", name)
        return content


class Checkpoint(_Question):
    """Before or after a step: go on, with the context as it is or as it is given back."""

    kind: Literal["checkpoint"] = "checkpoint"
    context_schema: dict[str, Any] | None = None

    @property
    def requested_schema(self) -> dict[str, Any]:
        return self.context_schema or {"type": "object"}

    def accept(self, content: Any) -> Any:
        """Null, or a context that fits."""
        return None if content is None else super().accept(_an_object(content))


class Hold(_Question):
    """A pause without a question."""

    kind: Literal["hold"] = "hold"

    @property
    def requested_schema(self) -> dict[str, Any]:
        return {"type": "null"}


class _Choice(_Question):
    options: list[Option] = []
    allow_custom: bool = False
    max_selections: int = 1
    by_index: bool = False
    """Whether a number means an option too, counted from 0."""

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
        if self.by_index and type(content) is int and 0 <= content < len(self.options):
            called_so = self._option(str(content))
            return self.options[content].id if called_so is None else called_so.id
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


Asked = Input | Clarification | Decision | Choice | Permission | Review | Secret | Checkpoint | Hold
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
    by_index: bool = False
    default: Any = None
    info: Any = None
    parents: list[dict[str, Any]] = []
    root_cause: bool = True
    iteration: int | None = None
    round: int = 1
    asked_at: datetime
    deadline: datetime | None = None
    assignees: list[str] = []
    """Who may answer now: users and groups; empty: anyone."""
    not_by: list[str] = []
    quorum: int = 1
    answers_so_far: int = 0
    accepted_by: list[str] = []
    reminders: int = 0
    digest: str

    @property
    def people(self) -> People:
        """Who may answer, and how many must."""
        return People(assignees=self.assignees, not_by=self.not_by, quorum=self.quorum)

    @property
    def so_far(self) -> str:
        """How far the quorum is, in words; nothing where one answer is enough."""
        if self.quorum == 1:
            return ""
        who = f" ({', '.join(self.accepted_by)})" if self.accepted_by else ""
        alike = ", and as many must choose the same" if self.options else ""
        return f"{self.answers_so_far} of {self.quorum} have accepted{who}{alike}"

    def accept(self, content: Any) -> Any:
        """What the asked kind says of the content; raises `InvalidAnswer`."""
        return self._as_asked().accept(content)

    @property
    def needs_no_data(self) -> bool:
        """Whether it may be answered with nothing: a hold, a stop, or an interrupt whose author allows it."""
        return self.kind in ("hold", "checkpoint") or (self.kind == "input" and self.requestedSchema == {})

    @property
    def field(self) -> dict[str, Any]:
        """The schema of what is typed first of all: of a fact, its own."""
        return self.requestedSchema["anyOf"][0] if FACT in self.requestedSchema else self.requestedSchema

    @property
    def example(self) -> Any:
        """What an answer's content may look like."""
        match self.kind:
            case "permission":
                return {"granted": True}
            case "review":
                return {"verdict": "unchanged"}
            case "secret":
                names = self.requestedSchema.get("properties")
                return "secret:env/NAME" if names is None else {name: f"secret:env/{name}" for name in names}
            case "hold" | "checkpoint":
                return None
        return "…"

    @property
    def secret(self) -> Secret | None:
        """What is asked, if it is a secret: its values must not be sent."""
        asked = self._as_asked() if self.kind == "secret" else None
        return asked if isinstance(asked, Secret) else None

    def _as_asked(self) -> Asked:
        told: dict[str, Any] = {"message": self.message}
        if FACT in self.requestedSchema:
            one, several = self.requestedSchema["anyOf"]
            name = self.requestedSchema[FACT]
            facts = {**self.requestedSchema, "properties": {**several["properties"], name: one}}
            return Fact(**told, name=name, facts=facts)
        match self.kind:
            case "input" if not self.options:
                form = self.requestedSchema if self.requestedSchema not in (TEXT, {}) else None
                return Input(**told, form=form, optional=self.requestedSchema == {})
            case "review":
                return Input(**told, form=self.requestedSchema)
            case "secret":
                form = self.requestedSchema if self.requestedSchema.get("type") == "object" else None
                return Secret(**told, form=form)
            case "checkpoint":
                return Checkpoint(**told, context_schema=self.requestedSchema)
            case "permission" | "hold":
                return _asked.validate_python({"kind": self.kind, **told})
        own = {
            "allow_custom": self.allow_custom,
            "max_selections": self.max_selections,
            "by_index": self.by_index,
            "options": self.options,
        }
        return _asked.validate_python({"kind": "choice" if self.kind == "input" else self.kind, **told, **own})


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
    parents: Sequence[dict[str, Any]] = (),
    people: People = EVERYBODY,
) -> Question:
    """The open question that stands for what is asked; its id is the same on every replay."""
    own: dict[str, Any] = {}
    if isinstance(asked, _Choice):
        own = {
            "allow_custom": asked.allow_custom,
            "max_selections": asked.max_selections,
            "by_index": asked.by_index,
        }
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
        **own,
        default=asked.default,
        info=asked.shown_info,
        parents=list(parents),
        iteration=iteration,
        round=round_,
        asked_at=at,
        deadline=deadline,
        assignees=people.assignees,
        not_by=people.not_by,
        quorum=people.quorum,
        digest=digest_of(asked.message, asked.requested_schema, options, asked.shown_info),
    )


def _with_definitions(schema: dict[str, Any], whole: dict[str, Any]) -> dict[str, Any]:
    """A part of a schema that may refer to the whole's `$defs`."""
    return {**schema, "$defs": whole["$defs"]} if "$defs" in whole else schema


def review_schema(payload: dict[str, Any] | None) -> dict[str, Any]:
    """What an answer to a review looks like; an edited payload is needed with the verdict `edited` only."""
    shape = payload or {}
    definitions = {"$defs": shape["$defs"]} if "$defs" in shape else {}
    if not all(reference.startswith("#/$defs/") for reference in _references(shape)):
        shape, definitions = {}, {}  # they would point elsewhere; the owner checks the payload itself
    verdict = {"enum": ["unchanged", "edited", "rejected"]}
    inside = {key: value for key, value in shape.items() if key not in ("$defs", "$schema", "$id")}
    edited = {"if": {"properties": {"verdict": {"const": "edited"}}}, "then": {"required": ["payload"]}}
    return {
        "type": "object",
        "required": ["verdict"],
        "properties": {"verdict": verdict, "payload": inside, "reason": {"type": "string"}},
        "additionalProperties": False,
        **edited,
        **definitions,
    }


def _references(schema: Any) -> list[str]:
    match schema:
        case dict():
            own = [schema["$ref"]] if isinstance(schema.get("$ref"), str) else []
            return own + [found for inner in schema.values() for found in _references(inner)]
        case list():
            return [found for inner in schema for found in _references(inner)]
    return []


def _an_object(content: Any) -> Any:
    if not isinstance(content, dict):
        raise InvalidAnswer(f"expected the changed context, an object, or null; got {brief(content)}")
    return content


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
