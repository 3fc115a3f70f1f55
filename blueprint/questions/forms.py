"""Questions for text or for a form: inputs, what to do about a failure, facts."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from holdfast.blueprint.expressions.texts import NoJson, read_json
from holdfast.blueprint.json_values import JSON, JSONObject, same
from holdfast.blueprint.jsonschemas import list_misfits
from holdfast.blueprint.parts import Option
from holdfast.blueprint.questions.choices import Choice
from holdfast.blueprint.questions.kind import (
    TEXT,
    Asked,
    Draft,
    InvalidAnswer,
    check_schema,
    question_kind,
    some_text,
    with_definitions,
)

EDIT_FORMS = '"edit: <new input>" or {"action": "edit", "input": …}'
_EDIT = re.compile(r"edit\s*:\s*(?P<input>.*\S)", re.IGNORECASE | re.DOTALL)


@question_kind
class Input(Asked):
    """Text, or a form that a JSON Schema describes."""

    kind = "input"
    in_steps = "text or a form"
    takes_options = True
    form: JSONObject | None = None
    """JSON Schema of the content; None: text."""
    optional: bool = False
    """True if null is accepted: an interrupt that may be resumed without data."""

    @classmethod
    def of(cls, draft: Draft) -> Asked:
        if draft.options:
            return Choice.of(draft)
        return cls(message=draft.message, form=draft.form, default=draft.default)

    @classmethod
    def held_by(cls, fields: Mapping[str, JSON]) -> JSONObject:
        schema = fields["requestedSchema"]
        return {**super().held_by(fields), "form": None if schema in (TEXT, {}) else schema}

    def schema(self) -> JSONObject:
        if self.form is not None:
            return self.form
        return {} if self.optional else TEXT

    @property
    def needs_data(self) -> bool:
        return not self.optional

    def accept(self, content: object) -> JSON:
        """Return the content unchanged. Text must not be blank."""
        if self.optional and content is None:
            return None
        return some_text(content) if self.form is None and not self.optional else super().accept(content)


@question_kind
class Judgement(Asked):
    """A question about a failure: which action to take.

    An edit may also be given as `edit: <new input>`, or as the new input alone, unless that is a text: it may be a
    misspelt action. The input as it was, which a form shows, is none beside another action.
    """

    kind = "judgement"
    listed_as = "input"
    form: JSONObject
    """JSON Schema of the action with its input or value."""
    info: JSONObject
    """What failed; `input` is what it failed with."""

    @classmethod
    def held_by(cls, fields: Mapping[str, JSON]) -> JSONObject:
        return {**super().held_by(fields), "form": fields["requestedSchema"]}

    @property
    def first_content(self) -> JSON:
        return {"input": self.info["input"]}

    @property
    def actions(self) -> Sequence[str]:
        actions: list[str] = self.form["properties"]["action"]["enum"]
        return actions

    @property
    def hint(self) -> str:
        return " · ".join("edit: <new input>" if action == "edit" else action for action in self.actions)

    def schema(self) -> JSONObject:
        return self.form

    def accept(self, content: object) -> JSON:
        """Return an object with the action, in whichever form it was given. Nothing in it may be without effect."""
        failed = self.info["input"]
        match content:
            case dict() if "action" in content:
                if content["action"] != "edit" and same(content.get("input"), failed):
                    content = {name: given for name, given in content.items() if name != "input"}
                _refuse_unused(content["action"], content, {"input": "edit", "value": "skip"})
            case str() if (word := content.strip().casefold()) in self.actions and word != "edit":
                content = {"action": word}
            case str() if (edit := _EDIT.fullmatch(content.strip())) is not None:
                content = {"action": "edit", "input": _read_as(_json_type(failed), edit["input"])}
            case str() | None:
                raise InvalidAnswer(f"say {', '.join(self.actions)}; to edit: {EDIT_FORMS}")
            case _ if _json_type(content) == _json_type(failed):
                content = {"action": "edit", "input": content}
        if isinstance(content, dict) and content.get("action") == "edit" and "input" not in content:
            raise InvalidAnswer("is missing: the input with which it is tried again", "input")
        return super().accept(content)


def _refuse_unused(chosen: object, given: Mapping[str, JSON], wanted: Mapping[str, str]) -> None:
    """Raise `InvalidAnswer` for what is given beside a choice that takes no account of it.

    Args:
        chosen: The choice.
        given: What stands beside it, by name.
        wanted: Those names, each with the only choice for which it counts.
    """
    for name, choice in wanted.items():
        if given.get(name) is not None and chosen != choice and isinstance(chosen, str):
            raise InvalidAnswer(f'counts only with "{choice}", not with "{chosen}": leave it out', name)


OUTCOMES = ("done", "retry", "fail")
OUTCOME_FORMS = '"done: <result>" or {"outcome": "done", "result": …}'
_DONE = re.compile(r"done\s*:\s*(?P<result>.*\S)", re.IGNORECASE | re.DOTALL)


@question_kind
class LostCall(Asked):
    """A question about a tool call that was lost: did it take effect, shall it run again, has the step failed?

    An answer is one of the words, `done: <result>`, or an object with `outcome` and `result`.
    """

    kind = "lost_call"
    listed_as = "input"

    @property
    def hint(self) -> str:
        return "done, or done: <result> · retry · fail"

    def schema(self) -> JSONObject:
        return {
            "type": "object",
            "properties": {
                "outcome": {
                    "enum": list(OUTCOMES),
                    "description": "done: it took effect; retry: run it again; fail: the step fails",
                },
                "result": {"description": "what it returned, if it took effect"},
            },
            "required": ["outcome"],
            "additionalProperties": False,
        }

    def accept(self, content: object) -> JSON:
        """Return an object with the outcome, in whichever form it was given."""
        if isinstance(content, str) or content is None:
            content = _outcome_in(content or "")
        if isinstance(content, dict):
            _refuse_unused(content.get("outcome"), content, {"result": "done"})
        return super().accept(content)


def _outcome_in(text: str) -> JSONObject:
    if text.strip().casefold() in OUTCOMES:
        return {"outcome": text.strip().casefold()}
    if (done := _DONE.fullmatch(text.strip())) is None:
        raise InvalidAnswer(f"say {', '.join(OUTCOMES)}; with a result: {OUTCOME_FORMS}")
    return {"outcome": "done", "result": _read_as("", done["result"])}


def _json_type(value: object) -> str:
    """Return the JSON Schema type of a value.

    >>> _json_type({}), _json_type(1.5), _json_type(True), _json_type(None)
    ('object', 'number', 'boolean', 'null')
    """
    # Booleans first: True is an instance of int.
    for type_, name in ((bool, "boolean"), (int | float, "number"), (str, "string"), (list, "array"), (dict, "object")):
        if isinstance(value, type_):
            return name
    return "null"


def _read_as(type_: str, text: str) -> JSON:
    """Return the value behind `edit:`. It is a text if the input was one; otherwise JSON, if it can be parsed."""
    if type_ == "string":
        return text
    try:
        return read_json(text)
    except NoJson:
        return text


@question_kind
class Fact(Asked):
    """A question for one of several facts.

    An answer is the fact's value, or an object of several facts; accepted content is always an object by name.
    """

    kind = "fact"
    listed_as = "input"
    name: str
    facts: JSONObject
    """JSON Schema of the object of all facts."""

    @classmethod
    def held_by(cls, fields: Mapping[str, JSON]) -> JSONObject:
        schema = fields["requestedSchema"]
        facts = with_definitions({"properties": schema["anyOf"][1]["properties"]}, schema)
        return {**super().held_by(fields), "facts": facts}

    def for_clients(self) -> Asked:
        """Return the same question without what the form of all facts says beside its fields."""
        fields = with_definitions({"properties": self.facts["properties"]}, self.facts)
        return self.model_copy(update={"facts": fields})

    @property
    def value_schema(self) -> JSONObject:
        """JSON Schema of this fact's value."""
        return with_definitions(self.facts["properties"][self.name], self.facts)

    def schema(self) -> JSONObject:
        several = {
            "type": "object",
            "minProperties": 1,
            "properties": self.facts["properties"],
            "additionalProperties": False,
        }
        single = self.facts["properties"][self.name]
        return with_definitions({"anyOf": [single, several]}, self.facts)

    @property
    def choices(self) -> Sequence[Option]:
        values = self.value_schema.get("enum", [])
        texts = values if all(isinstance(value, str) for value in values) else []
        return [Option(id=text, label=text) for text in texts if text]

    def accept(self, content: object) -> JSON:
        """Return the facts by name, each checked against its own schema. Text must not be blank."""
        content = self.read_short(content)
        problems = list_misfits(self.value_schema, content)
        # The value of a fact may be an object itself: only one that is no such value counts as several facts.
        if isinstance(content, dict) and problems and content:
            return self._several(content)
        if isinstance(content, str) and not problems:
            some_text(content)
        if problems:
            raise InvalidAnswer.of(problems)
        return {self.name: content}

    def _several(self, content: JSONObject) -> JSONObject:
        schemas = self.facts["properties"]
        for name, value in content.items():
            if name not in schemas:
                raise InvalidAnswer(f"is not one of the fields: {', '.join(schemas)}", name)
            check_schema(with_definitions(schemas[name], self.facts), value, name)
        return content
