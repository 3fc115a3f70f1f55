"""The kinds of questions to people, and the open question as clients see it.

One class for each kind checks and converts the content of an answer, in workflows and in clients alike.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal

from pydantic import Field, SerializerFunctionWrapHandler, TypeAdapter, model_serializer

from holdfast.blueprint.expressions import text_of
from holdfast.blueprint.expressions.texts import NoJson, read_json
from holdfast.blueprint.jsonschemas import problems_of
from holdfast.blueprint.kinds import Option
from holdfast.protocol.address import Address
from holdfast.protocol.people import EVERYBODY, People
from holdfast.protocol.secrets import PATTERN, reference_in
from holdfast.protocol.values import Value, digest_of

TEXT = {"type": "string"}
REFERENCE = {"type": "string", "pattern": PATTERN}
FACT = "x-fact"
"""Key in the schema of a `Fact` that holds its name: a `Question` on the wire has no other place for it."""
JUDGED = "x-judged"
"""Key in the schema of a `Judgement` that holds the JSON type of the input that failed."""
SCOPES = ("once", "run", "always")
PERMISSION = {
    "type": "object",
    "required": ["granted"],
    "properties": {
        "granted": {"type": "boolean"},
        "scope": {"enum": list(SCOPES), "default": "once"},
        "reason": {"type": "string"},
    },
    "additionalProperties": False,
}


REVISE = "revise"
"""The verdict of a review that sends a plan back to its planner."""


EDIT_FORMS = '"edit: <new input>" or {"action": "edit", "input": …}'
_EDIT = re.compile(r"edit\s*:\s*(?P<input>.*\S)", re.IGNORECASE | re.DOTALL)


class InvalidAnswer(ValueError):
    """Content that does not fit its question.

    Args:
        reason: What is wrong, for a person.
        path: Where in the content, such as `payload.title`; empty: all of it.
    """

    def __init__(self, reason: str, path: str = "") -> None:
        super().__init__(f"{path}: {reason}" if path else reason)
        self.reason, self.path = reason, path


class _Question(Value):
    """The base class of all kinds of questions."""

    kind: str
    message: str
    default: Any = None
    info: Any = None

    @model_serializer(mode="wrap")
    def _with_its_kind(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Write the kind although it is the default of each class: it is the discriminator of `Asked`."""
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
        """Data that a person sees beside the message."""
        return self.info

    def when_declined(self, reason: str | None) -> Any:
        """Return the content that declining stands for; None: the question then counts as not answered."""
        return None

    def says_no(self, content: Any) -> bool:
        """Return whether accepted content is a refusal: with a quorum, one such answer closes the question."""
        return False

    def accept(self, content: Any) -> Any:
        """Return the content in its final form, which becomes the output of the step. Raises `InvalidAnswer`."""
        for path, reason in problems_of(self.requested_schema, content):
            raise InvalidAnswer(reason, path)
        return content


class Input(_Question):
    """Text, or a form that a JSON Schema describes."""

    kind: Literal["input"] = "input"
    form: dict[str, Any] | None = None
    """JSON Schema of the content; None: text."""
    optional: bool = False
    """True if null is accepted: an interrupt that may be resumed without data."""

    @property
    def requested_schema(self) -> dict[str, Any]:
        if self.form is not None:
            return self.form
        return {} if self.optional else TEXT

    def accept(self, content: Any) -> Any:
        """Return the content unchanged. Text must not be blank."""
        if self.optional and content is None:
            return None
        return some_text(content) if self.form is None and not self.optional else super().accept(content)


class Judgement(Input):
    """A question about a failure: which action to take.

    An edit may also be given as `edit: <new input>`, or as the new input alone, unless that is a text: it may be a
    misspelt action.
    """

    def accept(self, content: Any) -> Any:
        """Return an object with the action, in whichever form it was given."""
        form = self.form or {}
        actions = form["properties"]["action"]["enum"]
        match content:
            case {"action": _}:
                pass
            case str() if content.strip().casefold() in actions:
                content = {"action": content.strip().casefold()}
            case str() if (edit := _EDIT.fullmatch(content.strip())) is not None:
                content = {"action": "edit", "input": _read_as(form[JUDGED], edit["input"])}
            case str() | None:
                raise InvalidAnswer(f"say {', '.join(actions)}; to edit: {EDIT_FORMS}")
            case _ if json_type(content) == form[JUDGED]:
                content = {"action": "edit", "input": content}
        if isinstance(content, dict) and content.get("action") == "edit" and "input" not in content:
            raise InvalidAnswer(f"is missing; write {EDIT_FORMS}", "input")
        return super().accept(content)


def json_type(value: Any) -> str:
    """Return the JSON Schema type of a value.

    >>> json_type({}), json_type(1.5), json_type(True), json_type(None)
    ('object', 'number', 'boolean', 'null')
    """
    for type_, name in ((bool, "boolean"), (int | float, "number"), (str, "string"), (list, "array"), (dict, "object")):
        if isinstance(value, type_):
            return name
    return "null"


def _read_as(type_: str, text: str) -> Any:
    """Return the value behind `edit:`. It is a text if the input was one; otherwise JSON, if it can be parsed."""
    if type_ == "string":
        return text
    try:
        return read_json(text)
    except NoJson:
        return text


class Fact(Input):
    """A question for one of several facts.

    An answer is the fact's value, or an object of several facts; accepted content is always an object by name.
    """

    name: str
    facts: dict[str, Any]
    """JSON Schema of the object of all facts."""

    @property
    def own(self) -> dict[str, Any]:
        """JSON Schema of this fact's value."""
        return _with_definitions(self.facts["properties"][self.name], self.facts)

    @property
    def requested_schema(self) -> dict[str, Any]:
        several = {
            "type": "object",
            "minProperties": 1,
            "properties": self.facts["properties"],
            "additionalProperties": False,
        }
        single = self.facts["properties"][self.name]
        return {FACT: self.name, **_with_definitions({"anyOf": [single, several]}, self.facts)}

    @property
    def choices(self) -> Sequence[Option]:
        values = self.own.get("enum", [])
        texts = values if all(isinstance(value, str) for value in values) else []
        return [Option(id=text, label=text) for text in texts if text]

    def accept(self, content: Any) -> Any:
        """Return the facts by name, each checked against its own schema. Text must not be blank."""
        problems = problems_of(self.own, content)
        # The value of a fact may be an object itself: only one that is no such value counts as several facts.
        if isinstance(content, dict) and problems and content:
            return self._several(content)
        if isinstance(content, str) and not problems:
            some_text(content)
        for path, reason in problems:
            raise InvalidAnswer(reason, path)
        return {self.name: content}

    def _several(self, content: dict[str, Any]) -> dict[str, Any]:
        schemas = self.facts["properties"]
        for name, value in content.items():
            if name not in schemas:
                raise InvalidAnswer(f"is none of what is asked for: {', '.join(schemas)}", name)
            for path, reason in problems_of(_with_definitions(schemas[name], self.facts), value):
                raise InvalidAnswer(reason, f"{name}.{path}" if path else name)
        return content


class Permission(_Question):
    """A request for consent. Only an explicit `granted: true` is a yes."""

    kind: Literal["permission"] = "permission"

    @property
    def requested_schema(self) -> dict[str, Any]:
        return PERMISSION

    def accept(self, content: Any) -> Any:
        """Return the content, an object that grants or denies; a bare `true` or "yes" is refused."""
        if not isinstance(content, dict):
            raise InvalidAnswer(f'expected {{"granted": true}} or {{"granted": false, …}}, got {brief(content)}')
        return super().accept(content)

    def when_declined(self, reason: str | None) -> Any:
        return {"granted": False, **({"reason": reason} if reason else {})}

    def says_no(self, content: Any) -> bool:
        return content["granted"] is not True


class Review(_Question):
    """A payload that a person accepts, edits or rejects; accepted content always holds the payload to use."""

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
        """Return the verdict with the payload to use: the edited one, which must fit, or the original."""
        super().accept(content)
        if content["verdict"] == "edited" and self.payload_schema is not None:
            for path, reason in problems_of(self.payload_schema, content["payload"]):
                raise InvalidAnswer(reason, f"payload.{path}" if path else "payload")
        return content if content["verdict"] == "edited" else {**content, "payload": self.payload}


ROTATE = "it has been sent: rotate it, and answer with `holdfast answer` or `holdfast attach`, which send a reference"


class Secret(_Question):
    """A question for secret values. Accepted content is a reference to the secret store, or an object of several.

    No error message repeats the content, which may be the secret itself.
    """

    kind: Literal["secret"] = "secret"
    form: dict[str, Any] | None = None
    """JSON Schema of an object of the values by name; None: one value without a name."""

    @property
    def requested_schema(self) -> dict[str, Any]:
        if self.form is None:
            return REFERENCE
        labels = ("title", "description")
        return {
            "type": "object",
            "required": self._needed,
            "minProperties": 1,
            "properties": {
                name: {**{key: field[key] for key in labels if key in field}, **REFERENCE}
                for name, field in self.form["properties"].items()
            },
            "additionalProperties": False,
        }

    @property
    def _needed(self) -> list[str]:
        return [] if self.form is None else list(self.form.get("required", []))

    def accept(self, content: Any) -> Any:
        """Return the content unchanged. It must hold references only."""
        try:
            values = self.by_name(content)
        except InvalidAnswer as error:
            raise InvalidAnswer(f"{error.reason}; if a value stood there, {ROTATE}", error.path) from None
        for name, value in values.items():
            if reference_in(value) is None:
                raise InvalidAnswer(f"this is no reference secret:<store>/<id>; if it is the value, {ROTATE}", name)
        return content

    def by_name(self, content: Any) -> dict[str, str]:
        """Return values or references by name; a single value without a name is under "". Raises `InvalidAnswer`."""
        if self.form is None:
            values = {"": content}
        elif isinstance(content, dict):
            values = self._checked_names(content)
        else:
            raise InvalidAnswer(f"expected an object with {', '.join(self.form['properties'])}")
        for name, value in values.items():
            if not isinstance(value, str) or not value.strip():
                raise InvalidAnswer("expected text that is not blank", name)
        return values

    def _checked_names(self, content: dict[str, Any]) -> dict[str, Any]:
        names = self.form["properties"] if self.form else {}
        if not content or not content.keys() <= names.keys():
            raise InvalidAnswer(f"expected an object of nothing but {', '.join(names)}")
        for name in self._needed:
            if name not in content:
                raise InvalidAnswer("is missing", name)
        return content


class Checkpoint(_Question):
    """A stop before or after a step. A person continues, with the context as it is or an edited one."""

    kind: Literal["checkpoint"] = "checkpoint"
    context_schema: dict[str, Any] | None = None
    """JSON Schema of an edited context."""

    @property
    def requested_schema(self) -> dict[str, Any]:
        return self.context_schema or {"type": "object"}

    def accept(self, content: Any) -> Any:
        """Return null, or the edited context, which must fit."""
        return None if content is None else super().accept(_an_object(content))


class Hold(_Question):
    """A pause that an author wrote; its content is null."""

    kind: Literal["hold"] = "hold"

    @property
    def requested_schema(self) -> dict[str, Any]:
        return {"type": "null"}


class _Choice(_Question):
    """The base class of questions with options."""

    options: list[Option] = []
    allow_custom: bool = False
    max_selections: int = 1
    by_index: bool = False
    """True if a number stands for an option too, counted from 0."""

    @property
    def choices(self) -> Sequence[Option]:
        return self.options

    @property
    def requested_schema(self) -> dict[str, Any]:
        item = TEXT if self.allow_custom or not self.options else {"enum": [option.id for option in self.options]}
        if self.max_selections == 1:
            return item
        return {"type": "array", "items": item, "minItems": 1, "maxItems": self.max_selections, "uniqueItems": True}

    def accept(self, content: Any) -> Any:
        """Return the id of the chosen option, a list of ids, or custom text where that is allowed.

        A label stands for its option.
        """
        if self.max_selections == 1:
            return self._selection(content, "")
        if not isinstance(content, list) or not content:
            raise InvalidAnswer(f"expected a list of 1 to {self.max_selections} options, got {brief(content)}")
        if len(content) > self.max_selections:
            raise InvalidAnswer(f"at most {self.max_selections} options, got {len(content)}")
        chosen = [self._selection(item, f"[{index}]") for index, item in enumerate(content)]
        for index, item in enumerate(chosen):
            if item in chosen[:index]:
                raise InvalidAnswer(f"{brief(item)} is chosen twice", f"[{index}]")
        return chosen

    def _selection(self, content: Any, path: str) -> str:
        if self.by_index and type(content) is int and 0 <= content < len(self.options):
            named = self._option(str(content))  # an option that is called "2" comes before the one at index 2
            return self.options[content].id if named is None else named.id
        if isinstance(content, str) and (option := self._option(content)):
            return option.id
        if self.allow_custom or not self.options:
            return some_text(content, path)
        ids = ", ".join(option.id for option in self.options)
        raise InvalidAnswer(f"{brief(content)} is none of the options: {ids}", path)

    def _option(self, text: str) -> Option | None:
        """Return the option with this id or label: an exact match first, then one that ignores case and outer space."""
        for normalize in (str, _folded):
            for option in self.options:
                if normalize(text) in (normalize(option.id), normalize(option.label)):
                    return option
        return None


class Clarification(_Choice):
    """A question with suggestions, which a person may answer in their own words."""

    kind: Literal["clarification"] = "clarification"
    allow_custom: bool = True


class Decision(_Choice):
    """A choice between the options only, for decisions of weight."""

    kind: Literal["decision"] = "decision"


class Choice(_Choice):
    """An `input` that offers options; its kind on the wire is `input`."""

    kind: Literal["choice"] = "choice"


Asked = Input | Clarification | Decision | Choice | Permission | Review | Secret | Checkpoint | Hold
_asked: TypeAdapter[Asked] = TypeAdapter(Annotated[Asked, Field(discriminator="kind")])


class Question(Value):
    """An open question, as clients see it."""

    id: str
    address: Address
    owner: str
    """Id of the workflow that asks, and takes the answer."""
    run: str
    kind: str
    message: str
    requestedSchema: dict[str, Any]
    """JSON Schema of an accepted answer's content. The name is that of the Model Context Protocol."""
    options: list[Option] = []
    allow_custom: bool = False
    max_selections: int = 1
    by_index: bool = False
    optional: bool = False
    """True if null is accepted: an interrupt whose author allows it."""
    default: Any = None
    """Content that is used if the deadline passes."""
    info: Any = None
    parents: list[dict[str, Any]] = []
    """The composites around an interrupt, outermost first: `address` and `info`."""
    root_cause: bool = True
    iteration: int | None = None
    round: int = 1
    """How often this address has asked, from 1."""
    asked_at: datetime
    deadline: datetime | None = None
    assignees: list[str] = []
    """Users and groups that may answer now; empty: anyone."""
    not_by: list[str] = []
    quorum: int = 1
    answers_so_far: int = 0
    accepted_by: list[str] = []
    reminders: int = 0
    digest: str

    @property
    def people(self) -> People:
        """The people who may answer, and how many of them must."""
        return People(assignees=self.assignees, not_by=self.not_by, quorum=self.quorum)

    @property
    def so_far(self) -> str:
        """Progress towards the quorum, in words; empty where one answer is enough."""
        if self.quorum == 1:
            return ""
        names = f" ({', '.join(self.accepted_by)})" if self.accepted_by else ""
        alike = ", and as many must choose the same" if self.options else ""
        return f"{self.answers_so_far} of {self.quorum} have accepted{names}{alike}"

    def accept(self, content: Any) -> Any:
        """Return the content as the kind of the question accepts it. Raises `InvalidAnswer`."""
        return self._as_asked().accept(content)

    @property
    def needs_no_data(self) -> bool:
        """True if null is an answer: to a hold, a checkpoint, or an interrupt whose author allows it."""
        return self.kind in ("hold", "checkpoint") or self.optional

    @property
    def field(self) -> dict[str, Any]:
        """JSON Schema of the value that a person is prompted for; for a fact that is its own value."""
        return self.requestedSchema["anyOf"][0] if FACT in self.requestedSchema else self.requestedSchema

    @property
    def example(self) -> Any:
        """Example of an answer's content."""
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
        """The question as a `Secret`, whose values must never be sent; None for every other kind."""
        asked = self._as_asked() if self.kind == "secret" else None
        return asked if isinstance(asked, Secret) else None

    def _as_asked(self) -> Asked:
        """Return an instance of the class that asks: on the wire only its schema and some traits are left of it."""
        common: dict[str, Any] = {"message": self.message}
        if FACT in self.requestedSchema:
            single, several = self.requestedSchema["anyOf"]
            name = self.requestedSchema[FACT]
            facts = {**self.requestedSchema, "properties": {**several["properties"], name: single}}
            return Fact(**common, name=name, facts=facts)
        match self.kind:
            case "input" if JUDGED in self.requestedSchema:
                return Judgement(**common, form=self.requestedSchema)
            case "input" if not self.options:
                form = self.requestedSchema if self.requestedSchema != TEXT and not self.optional else None
                return Input(**common, form=form, optional=self.optional)
            case "review":
                return Input(**common, form=self.requestedSchema)
            case "secret":
                form = self.requestedSchema if self.requestedSchema.get("type") == "object" else None
                return Secret(**common, form=form)
            case "checkpoint":
                return Checkpoint(**common, context_schema=self.requestedSchema)
            case "permission" | "hold":
                return _asked.validate_python({"kind": self.kind, **common})
        choice = {
            "allow_custom": self.allow_custom,
            "max_selections": self.max_selections,
            "by_index": self.by_index,
            "options": self.options,
        }
        return _asked.validate_python({"kind": "choice" if self.kind == "input" else self.kind, **common, **choice})


@dataclass(frozen=True)
class QuestionRequest:
    """A question to be asked: what, where, of whom, and for how long."""

    asked: Asked
    address: Address
    iteration: int | None = None
    timeout: float | None = None
    """Seconds until the question expires; None: never."""
    takes_default: bool = False
    """True if the default counts as the answer when the question expires."""
    parents: Sequence[dict[str, Any]] = ()
    """The composites around an interrupt, outermost first: `address` and `info`."""
    people: People = EVERYBODY


def question_of(request: QuestionRequest, *, owner: str, run: str, round_: int, at: datetime) -> Question:
    """Return the open question for a request. Its id is the same on every replay.

    Args:
        owner: Id of the workflow that asks.
        round_: How often the address has asked, from 1.
        at: Time of the asking, from the workflow's clock.
    """
    people = request.people
    return Question(
        id=digest_of(owner, request.address, round_),
        address=request.address,
        owner=owner,
        run=run,
        **shown_of(request.asked),
        parents=list(request.parents),
        iteration=request.iteration,
        round=round_,
        asked_at=at,
        deadline=None if request.timeout is None else at + timedelta(seconds=request.timeout),
        assignees=people.assignees,
        not_by=people.not_by,
        quorum=people.quorum,
    )


def shown_of(asked: Asked) -> dict[str, Any]:
    """Return the fields of a `Question` that show what is asked, with their digest."""
    options = [option.model_dump(exclude_defaults=True) for option in asked.choices]
    return {
        "kind": "input" if isinstance(asked, Choice) else asked.kind,
        "message": asked.message,
        "requestedSchema": asked.requested_schema,
        "options": list(asked.choices),
        **_traits(asked),
        "default": asked.default,
        "info": asked.shown_info,
        "digest": digest_of(asked.message, asked.requested_schema, options, asked.shown_info),
    }


def _traits(asked: Asked) -> dict[str, Any]:
    """Return the traits of a question, all of them: it may replace one that has others."""
    match asked:
        case _Choice():
            choice = asked.model_dump(include={"allow_custom", "max_selections", "by_index"})
            return {**choice, "optional": False}
        case Input():
            return {"allow_custom": False, "max_selections": 1, "by_index": False, "optional": asked.optional}
    return {"allow_custom": False, "max_selections": 1, "by_index": False, "optional": False}


def _with_definitions(schema: dict[str, Any], whole: dict[str, Any]) -> dict[str, Any]:
    """Return a part of a schema with the `$defs` of the whole, which it may refer to."""
    return {**schema, "$defs": whole["$defs"]} if "$defs" in whole else schema


def review_schema(payload: dict[str, Any] | None, *, revisable: bool = False) -> dict[str, Any]:
    """Return the JSON Schema of an answer to a review; only the verdict `edited` needs a payload.

    Args:
        payload: JSON Schema of the payload.
        revisable: Allow the verdict `revise`, with a reason.
    """
    shape = payload or {}
    definitions = {"$defs": shape["$defs"]} if "$defs" in shape else {}
    if not all(reference.startswith("#/$defs/") for reference in _references(shape)):
        # Moved into a larger schema, such references would point elsewhere; the owner checks the payload itself.
        shape, definitions = {}, {}
    verdict = {"enum": ["unchanged", "edited", "rejected", *([REVISE] if revisable else [])]}
    reasoned = {"allOf": [{"if": {"properties": {"verdict": {"const": REVISE}}}, "then": {"required": ["reason"]}}]}
    inside = {key: value for key, value in shape.items() if key not in ("$defs", "$schema", "$id")}
    edited = {"if": {"properties": {"verdict": {"const": "edited"}}}, "then": {"required": ["payload"]}}
    return {
        "type": "object",
        "required": ["verdict"],
        "properties": {"verdict": verdict, "payload": inside, "reason": {"type": "string"}},
        "additionalProperties": False,
        **edited,
        **(reasoned if revisable else {}),
        **definitions,
    }


def verdicts_of(question: Question) -> list[str]:
    """Return the verdicts that a review takes."""
    return list(question.requestedSchema.get("properties", {}).get("verdict", {}).get("enum", []))


def _references(schema: Any) -> list[str]:
    match schema:
        case dict():
            own = [schema["$ref"]] if isinstance(schema.get("$ref"), str) else []
            return own + [reference for inner in schema.values() for reference in _references(inner)]
        case list():
            return [reference for inner in schema for reference in _references(inner)]
    return []


def _an_object(content: Any) -> Any:
    if not isinstance(content, dict):
        raise InvalidAnswer(f"expected the changed context, an object, or null; got {brief(content)}")
    return content


def some_text(content: Any, path: str = "") -> str:
    """Return the text unchanged. Raises `InvalidAnswer` for blank text, and for anything that is not text."""
    if not isinstance(content, str):
        raise InvalidAnswer(f"expected text, got {brief(content)}", path)
    if not content.strip():
        raise InvalidAnswer("expected text that is not blank", path)
    return content


def brief(value: Any, limit: int = 80) -> str:
    """Return a value for a message, cut to `limit` characters.

    >>> brief(None), brief("warm"), brief({"a": 1})
    ('null', "'warm'", '{"a":1}')
    """
    text = repr(value) if isinstance(value, str) else text_of(value)
    return text if len(text) <= limit else f"{text[:limit]}…"


def _folded(text: str) -> str:
    return text.strip().casefold()
