"""The question for secret values, which only tools get to see; elsewhere references stand for them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from holdfast.blueprint.amounts import say_count
from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.blueprint.jsonschemas import list_misfits
from holdfast.blueprint.questions.kind import Asked, Draft, InvalidAnswer, join_paths, question_kind
from holdfast.blueprint.schema_messages import own_words, words_for_pattern

DIRECTORY, ENVIRONMENT = "dir", "env"
IDS = {DIRECTORY: r"[0-9a-f]{32}", ENVIRONMENT: r"[A-Za-z_][A-Za-z0-9_]*"}
"""Pattern of the ids, by store: 128 random bits as hex, or the name of an environment variable."""
PATTERN = "^secret:(?:" + "|".join(f"{store}/{id_}" for store, id_ in IDS.items()) + ")$"
_REFERENCE = re.compile("secret:(" + "|".join(IDS) + ")/(.+)")
REFERENCE = {"type": "string", "pattern": PATTERN}
_LABELS = ("title", "description", "placeholder", "x-placeholder", "errorMessage", "x-error")
_CONSTRAINTS = ("minLength", "maxLength", "pattern")
ROTATE = "it has been sent: rotate it, and answer with `holdfast answer` or `holdfast attach`, which send a reference"


class SecretReference(NamedTuple):
    """A reference to a secret: the store that keeps it, and its id there."""

    store: str
    id: str

    def __str__(self) -> str:
        return f"secret:{self.store}/{self.id}"


def reference_in(text: object) -> SecretReference | None:
    """Return the reference that the text is, or None for everything else: that may be the secret itself.

    >>> reference_in("secret:env/API_KEY"), reference_in("secret:dir/../key"), reference_in("hunter2")
    (SecretReference(store='env', id='API_KEY'), None, None)
    """
    match = _REFERENCE.fullmatch(text) if isinstance(text, str) else None
    return SecretReference(match[1], match[2]) if match and re.fullmatch(IDS[match[1]], match[2]) else None


@question_kind
class Secret(Asked):
    """A question for secret values. Accepted content is a reference to the secret store, or an object of several.

    No error message repeats the content, which may be the secret itself.
    """

    kind = "secret"
    in_steps = "values that only tools see"
    request = "asks {who} for {what}, visible to tools only: {message}"
    hidden = True
    takes_signal = False
    form: JSONObject | None = None
    """JSON Schema of an object of the values by name; None: one value without a name.

    A field that says `secret: false` is a plain one, whose value stands in the answer.
    """

    @classmethod
    def of(cls, draft: Draft) -> Asked:
        return cls(message=draft.message, form=draft.form)

    @classmethod
    def held_by(cls, fields: Mapping[str, JSON]) -> JSONObject:
        schema = fields["requestedSchema"]
        return {**super().held_by(fields), "form": schema if "properties" in schema else None}

    def for_clients(self) -> Asked:
        """Return the same question with a form that asks for references, as `schema` does."""
        return self if self.form is None else self.model_copy(update={"form": self.schema()})

    def schema(self) -> JSONObject:
        if self.form is None:
            return REFERENCE
        return {
            "type": "object",
            "required": self._needed,
            "minProperties": 1,
            "properties": {name: _describe_request(field) for name, field in self._properties.items()},
            "additionalProperties": False,
        }

    @property
    def output_schema(self) -> JSONObject:
        return {}

    @property
    def fields(self) -> Mapping[str, JSONObject]:
        """The fields as a person fills them in: a hidden one is `writeOnly`, and asks for the value."""
        return {name: _describe_field(field) if is_hidden(field) else field for name, field in self._properties.items()}

    @property
    def _properties(self) -> Mapping[str, JSONObject]:
        return self.form["properties"] if self.form else {}

    @property
    def _hidden(self) -> list[str]:
        return [name for name, field in self._properties.items() if is_hidden(field)]

    @property
    def _needed(self) -> list[str]:
        return [] if self.form is None else list(self.form.get("required", []))

    @property
    def example(self) -> JSON:
        hidden = self._hidden
        return {name: f"secret:env/{name}" if name in hidden else "…" for name in self.fields} or "secret:env/NAME"

    def accept(self, content: object) -> JSON:
        """Return the content unchanged. What is hidden must be references only."""
        try:
            values = self.secret_values(content)
        except InvalidAnswer as error:
            told = [(path, f"{reason}; if it was the value, {ROTATE}") for path, reason in error.problems]
            raise InvalidAnswer.of(told) from None
        for name, value in values.items():
            if reference_in(value) is None:
                raise InvalidAnswer(f"this is not a reference secret:<store>/<id>; if it is the value, {ROTATE}", name)
        return content

    def secret_values(self, content: JSON) -> dict[str, str]:
        if self.form is None:
            values = {"": content}
        elif isinstance(content, dict):
            values = {name: content[name] for name in self._hidden if name in content}
        else:
            raise InvalidAnswer(f"expected an object with {', '.join(self.fields)}")
        problems = [] if self.form is None else list(self._plain_problems(content))
        hidden = ((name, _hidden_problem(self.fields.get(name, {}), value)) for name, value in values.items())
        problems += [(name, reason) for name, reason in hidden if reason]
        if problems:
            raise InvalidAnswer.of(sorted(problems))
        return values

    def _plain_problems(self, content: JSONObject) -> Iterator[tuple[str, str]]:
        """Yield what is wrong with the names of the content, and with the fields that are not hidden."""
        if not content or not content.keys() <= self.fields.keys():
            raise InvalidAnswer(f"expected an object with no other keys than {', '.join(self.fields)}")
        for name in self._needed:
            if name not in content:
                yield name, own_words(self.form or {}, "required", name) or "is missing"
        for name in content.keys() - set(self._hidden):
            for path, reason in list_misfits(dict(self.fields[name]), content[name]):
                yield join_paths(name, path), reason


def is_hidden(field: Mapping[str, JSON]) -> bool:
    """Return whether a field of such a form holds a secret: unless it says `secret: false`."""
    return field.get("secret") is not False


def value_problem(field: Mapping[str, JSON], value: str) -> str | None:
    """Return what a hidden value does not fit, without the value; None if it fits, or is a reference."""
    if reference_in(value) is not None:
        return None
    for key in (key for key in _CONSTRAINTS if key in field):
        if any(list_misfits({"type": "string", key: field[key]}, value)):
            return own_words(dict(field), key) or _bound_in_words(key, field[key])
    return None


def _bound_in_words(key: str, bound: JSON) -> str:
    if key == "pattern":
        words = words_for_pattern(str(bound))
        return f"must be {words}" if words else f"must have the form {bound}"
    return f"must have at {'least' if key == 'minLength' else 'most'} {say_count(bound, 'character')}"


def _hidden_problem(field: Mapping[str, JSON], value: object) -> str | None:
    if not isinstance(value, str) or not value.strip():
        return "expected text that is not blank"
    return value_problem(field, value)


def _describe_request(field: Mapping[str, JSON]) -> JSONObject:
    """Return what is accepted for a field; `value` says for clients what the hidden value must fit."""
    if not is_hidden(field):
        return dict(field)
    constraints = _constraints(field)
    about = {**_only(_LABELS, field), **({"value": constraints} if constraints else {})}
    return {**about, "writeOnly": True, **REFERENCE}


def _describe_field(field: Mapping[str, JSON]) -> JSONObject:
    return {"type": "string", "writeOnly": True, **_only(_LABELS, field), **_constraints(field)}


def _constraints(field: Mapping[str, JSON]) -> JSONObject:
    """Return what a value must fit, of a field as its author wrote it, or as clients get it."""
    if field.get("pattern") == PATTERN:
        return dict(field.get("value", {}))
    return _only(_CONSTRAINTS, field)


def _only(keys: tuple[str, ...], field: Mapping[str, JSON]) -> JSONObject:
    return {key: field[key] for key in keys if key in field}
