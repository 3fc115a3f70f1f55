"""The fields of a question as a terminal asks for them: one by one, each typed in one line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.blueprint.jsonschemas import BadSchema, list_misfits
from holdfast.blueprint.questions import YES, value_problem
from holdfast.client.forms.controls import ABSENT, sort_fields
from holdfast.client.reading import parse_value
from holdfast.protocol.display import one_line
from holdfast.protocol.questions import Question

FIELDS_SHOWN = 8
"""The most fields of a form in the example of the command that answers it."""
_PLAIN = ("string", "number", "integer")


@dataclass(frozen=True)
class FormField:
    """One field of a form."""

    name: str
    schema: Mapping[str, JSON]
    is_required: bool
    words: Mapping[str, str]
    """What to type for a value, where it is not the value itself."""

    @property
    def is_hidden(self) -> bool:
        """True if what is typed may not be shown."""
        return self.schema.get("writeOnly") is True

    @property
    def is_boolean(self) -> bool:
        return bool(self.schema.get("type") == "boolean")

    @property
    def _item(self) -> JSONObject | None:
        """The schema of the items of a list that is typed in one line: of texts and numbers, also some given ones."""
        item = self.schema.get("items") if self.schema.get("type") == "array" else None
        return item if isinstance(item, dict) and ("enum" in item or item.get("type") in _PLAIN) else None

    @property
    def label(self) -> str:
        """The name with the description, and in brackets what may be typed."""
        return self._describe(self._if_blank("Enter: {}", "Enter: leave out"))

    @property
    def summary(self) -> str:
        """The same for a list of the fields, of which none is asked for."""
        return self._describe(self._if_blank("default: {}", "optional"))

    def _describe(self, if_blank: list[str]) -> str:
        description = self.schema.get("description") or self.schema.get("title")
        example = self.schema.get("x-placeholder") or self.schema.get("placeholder")
        notes = "; ".join([*([f"such as {example}"] if example else []), *self._values(), *if_blank])
        return f"{self.name}{f': {description}' if description else ''}{f' ({notes})' if notes else ''}"

    def _values(self) -> list[str]:
        """Return what may be typed, or its type where it is no text."""
        if "enum" in self.schema:
            return [" | ".join(self.words.get(str(value), str(value)) for value in self.schema["enum"])]
        type_ = self.schema.get("type")
        if self._item is not None:
            return [" | ".join(map(str, self._item.get("enum", []))) or "one or more", "with commas between"]
        return [{"boolean": "yes | no"}.get(type_, type_)] if isinstance(type_, str) and type_ != "string" else []

    def _if_blank(self, default: str, optional: str) -> list[str]:
        if "default" in self.schema:
            return [default.format(shown_default(self.schema["default"]))]
        return [] if self.is_required else [optional]

    def value(self, text: str) -> JSON:
        """Return the value that is typed; for blank text the default, or `ABSENT`."""
        if not text.strip():
            return self.schema.get("default", ABSENT)
        if self.is_boolean:
            return YES.get(text.strip().lower(), text)
        for value in self.schema.get("enum", []):
            if text.strip() == str(value):
                return value
        value = parse_value(text, dict(self.schema))
        if self._item is not None and isinstance(value, str):
            return [parse_value(part.strip(), self._item) for part in text.split(",") if part.strip()]
        return value

    def problem(self, value: object) -> str | None:
        """Return what is wrong with a value, or None; a schema with references is checked with the whole form."""
        if value is ABSENT:
            return "this field is needed" if self.is_required else None
        if self.is_hidden and isinstance(value, str):
            return value_problem(self.schema, value)
        try:
            problems = list_misfits(dict(self.schema), value)
        except BadSchema:
            return None
        return "; ".join(f"{path}: {reason}" if path else reason for path, reason in problems) or None


def list_fields(question: Question) -> list[FormField]:
    """Return the fields of a form that can be asked for one by one; [] for other questions."""
    required = question.requestedSchema.get("required", [])
    return [
        FormField(name, schema, name in required, question.asked.labels)
        for name, schema in sort_fields(question.asked.fields).items()
    ]


def make_example(schema: JSONObject) -> str:
    """Return an example with the required fields of a form, or all if none is required; "" if it has no fields.

    >>> make_example({"required": ["a"], "properties": {"a": {}, "b": {}}}), make_example({"type": "object"})
    ('{"a": …}', '')
    """
    fields = schema.get("properties") or {}
    needed = [name for name in schema.get("required", []) if name in fields] or list(fields)
    example = ", ".join(f"{json.dumps(one_line(name), ensure_ascii=False)}: …" for name in needed[:FIELDS_SHOWN])
    return f"{{{example}}}" if needed else ""


def shown_default(value: object) -> str:
    """Return what Enter stands for."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
