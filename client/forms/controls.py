"""The controls of a form for a JSON Schema: which kind of field each part of a value gets. Pages render them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.blueprint.jsonschemas import shown_path
from holdfast.blueprint.schema_messages import Path, words_for_pattern
from holdfast.blueprint.schema_references import find_reference

ABSENT = object()
"""The value of a field that is left out."""
Widget = Literal[
    "text",
    "long",
    "secret",
    "number",
    "date",
    "time",
    "datetime",
    "boolean",
    "choice",
    "choices",
    "lines",
    "group",
    "list",
    "json",
]
"""The kinds of fields:

`text` a line; `long` text of several lines; `secret` text that is not shown as it is typed; `number`; `date`, `time`
and `datetime` (in UTC); `boolean` yes or no; `choice` one of a few values; `choices` several of them; `lines` a list of
texts, one a line; `group` an object; `list` items of one kind; `json` any other value, written as JSON.
"""
PREFIX, HIDDEN_PREFIX = "f:", "s:"
"""The beginning of the name of each control, which goes on with its path in the value; of one whose text is secret."""
MOST_LEVELS = 4
"""Groups and lists that are nested deeper are written as JSON."""
LONG_TEXT = 120
"""Text that may have more characters gets several lines."""
MOST_FIELDS = 60
"""An object with more fields is written as JSON."""
_FORMATS: Mapping[str, Widget] = {"date": "date", "time": "time", "date-time": "datetime"}
_LONG_FORMATS = ("textarea", "multiline", "markdown", "long")


@dataclass(frozen=True)
class Selectable:
    """One of the values of a choice."""

    value: JSON
    label: str
    code: str
    """The text that a browser sends for it."""


@dataclass(frozen=True)
class FormControl:
    """One field of a form, or a group of them."""

    path: Path
    """The place of its value in the whole."""
    widget: Widget
    label: str
    is_required: bool
    schema: JSONObject
    """The schema of its value, with a reference resolved."""
    is_nullable: bool = False
    """True if null is a value."""
    choices: Sequence[Selectable] = ()
    parts: Sequence[FormControl] = ()
    """The fields of a group."""

    @property
    def name(self) -> str:
        """Return the name under which a browser sends what is typed."""
        return (HIDDEN_PREFIX if self.widget == "secret" else PREFIX) + self.place

    @property
    def place(self) -> str:
        """Return the place of its value as problems name it."""
        return shown_path(self.path)

    @property
    def description(self) -> str:
        return str(self.schema.get("description") or "")

    @property
    def pattern(self) -> str:
        """Return what text must look like, in words where the pattern is simple; empty if there is no pattern."""
        pattern = str(self.schema.get("pattern") or "")
        return words_for_pattern(pattern) or pattern

    @property
    def placeholder(self) -> str:
        """Return an example of what to type; empty if the schema has none."""
        examples = self.schema.get("examples")
        example = examples[0] if isinstance(examples, list) and examples else ""
        return str(self.schema.get("x-placeholder") or self.schema.get("placeholder") or example)

    @property
    def is_whole(self) -> bool:
        """Return whether a number must be a whole one."""
        return bool(self.schema.get("type") == "integer")

    @property
    def keyboard(self) -> str:
        """Return the `inputmode` of the keys that a phone shows for it; empty for those of a text."""
        if self.widget == "number":
            return "numeric" if self.is_whole else "decimal"
        return {"email": "email", "uri": "url"}.get(self.schema.get("format", ""), "")

    @property
    def may_have_lines(self) -> bool:
        """Return whether a text may have several lines, though nothing says that it is long."""
        return self.widget == "text" and not self.schema.keys() & {"format", "pattern", "maxLength"}

    @property
    def count_name(self) -> str:
        """Return the name under which a browser sends how many items of a list it shows."""
        return f"{self.name}#"

    def item(self, index: int) -> FormControl:
        """Return the control of one item of a list."""
        return _move(self.parts[0], len(self.path), index)

    def walk(self) -> Iterator[FormControl]:
        """Yield the control and those of its parts; the items of lists are no parts."""
        yield self
        if self.widget == "group":
            for part in self.parts:
                yield from part.walk()


def make_control(
    schema: JSONObject, *, path: Path = (), label: str = "", is_required: bool = True, root: JSONObject | None = None
) -> FormControl:
    """Return the control for a value that a schema describes.

    Args:
        schema: The JSON Schema of the value.
        path: The place of the value in the whole form.
        label: Its name for people; by default the schema's title, else the last part of the path.
        is_required: False if the value may be left out.
        root: The schema that references are relative to; by default `schema`.
    """
    root = schema if root is None else root
    whole, is_nullable = _without_null(_resolve(schema, root), root)
    title = whole.get("title") or schema.get("title") or (path[-1] if path and isinstance(path[-1], str) else "")
    widget = _choose_widget(whole, root, len(path))
    return FormControl(
        path=path,
        widget=widget,
        label=label or str(title),
        is_required=is_required,
        schema=whole,
        is_nullable=is_nullable,
        choices=_read_choices(whole, root) if widget in ("choice", "choices") else (),
        parts=_make_parts(widget, whole, path, root),
    )


def make_group(fields: Mapping[str, JSONObject], required: Sequence[str]) -> FormControl:
    """Return the control of an object with these fields, however many: what is hidden is never typed as JSON."""
    parts = [
        make_control(schema, path=(name,), is_required=name in required) for name, schema in sort_fields(fields).items()
    ]
    schema: JSONObject = {"type": "object", "properties": dict(fields), "required": list(required)}
    return FormControl(path=(), widget="group", label="", is_required=True, schema=schema, parts=parts)


def sort_fields(properties: Mapping[str, JSON]) -> Mapping[str, JSON]:
    """Return the fields of an object in the order of their `x-order`; those without one stay where they are, as 0."""

    def order(field: tuple[str, JSON]) -> float:
        place = field[1].get("x-order") if isinstance(field[1], dict) else None
        return place if isinstance(place, int | float) else 0

    return dict(sorted(properties.items(), key=order))


def _choose_widget(schema: JSONObject, root: JSONObject, level: int) -> Widget:
    if _read_choices(schema, root) and schema.get("type") != "array":
        return "choice"
    match schema.get("type"):
        case "string":
            return _widget_of_text(schema)
        case "number" | "integer":
            return "number"
        case "boolean":
            return "boolean"
        case "object" if _is_form(schema) and level < MOST_LEVELS:
            return "group"
        case "array" if schema.get("x-widget") == "lines":
            return "lines"
        case "array" if isinstance(schema.get("items"), dict) and level < MOST_LEVELS:
            return _widget_of_list(schema, root)
    return "json"


def _widget_of_text(schema: JSONObject) -> Widget:
    if schema.get("writeOnly") is True:
        return "secret"
    format_ = schema.get("format")
    if isinstance(format_, str) and format_ in _FORMATS:
        return _FORMATS[format_]
    default = schema.get("default")
    is_long = schema.get("maxLength", 0) > LONG_TEXT or schema.get("minLength", 0) > LONG_TEXT
    has_lines = isinstance(default, str) and "\n" in default
    is_long = is_long or schema.get("x-widget") == "long_text"
    return "long" if is_long or has_lines or format_ in _LONG_FORMATS else "text"


def _widget_of_list(schema: JSONObject, root: JSONObject) -> Widget:
    if "prefixItems" in schema:
        return "json"
    item = _resolve(schema["items"], root)
    if _read_choices(item, root):
        return "choices" if schema.get("uniqueItems") else "list"
    return "lines" if item.get("type") == "string" and _widget_of_text(item) == "text" else "list"


def _is_form(schema: JSONObject) -> bool:
    """Return whether an object has nothing but named fields, few enough to be shown."""
    fields = schema.get("properties")
    if not isinstance(fields, dict) or not 0 < len(fields) <= MOST_FIELDS:
        return False
    return not isinstance(schema.get("additionalProperties"), dict) and "patternProperties" not in schema


def _make_parts(widget: Widget, schema: JSONObject, path: Path, root: JSONObject) -> Sequence[FormControl]:
    if widget == "group":
        required = schema.get("required", [])
        return [
            make_control(
                part if isinstance(part, dict) else {}, path=(*path, key), is_required=key in required, root=root
            )
            for key, part in sort_fields(schema["properties"]).items()
        ]
    return [make_control(schema["items"], path=(*path, 0), root=root)] if widget == "list" else ()


def _read_choices(schema: JSONObject, root: JSONObject) -> Sequence[Selectable]:
    """Return the values of an `enum`, a `const`, or of `oneOf` with titled constants; of a list those of its items."""
    if schema.get("type") == "array" and isinstance(schema.get("items"), dict):
        return _read_choices(_resolve(schema["items"], root), root)
    titled = schema.get("oneOf") or schema.get("anyOf")
    if isinstance(titled, list) and titled and all(isinstance(part, dict) and "const" in part for part in titled):
        pairs = [(part["const"], str(part.get("title") or _show(part["const"]))) for part in titled]
    else:
        values = schema.get("enum", [schema["const"]] if "const" in schema else [])
        names = schema.get("enumNames", [])
        labels = [str(name) for name in names] if len(names) == len(values) else [_show(value) for value in values]
        pairs = list(zip(values, labels, strict=True))
    return [Selectable(value, label, str(index)) for index, (value, label) in enumerate(pairs)]


def _show(value: JSON) -> str:
    return {None: "null", True: "yes", False: "no"}.get(value, str(value)) if _is_plain(value) else str(value)


def _is_plain(value: JSON) -> bool:
    return value is None or isinstance(value, bool)


def _resolve(schema: JSONObject, root: JSONObject) -> JSONObject:
    """Return the schema that references inside the document lead to; {} (any value) for those that lead nowhere."""
    passed = 0
    while isinstance(reference := schema.get("$ref"), str):
        passed += 1
        target = find_reference(reference, root)
        if not isinstance(target, dict) or passed > MOST_LEVELS:
            return {}
        schema = {**target, **{key: value for key, value in schema.items() if key != "$ref"}}
    return schema


def _without_null(schema: JSONObject, root: JSONObject) -> tuple[JSONObject, bool]:
    """Return the schema of the values other than null, and whether null is a value."""
    match schema:
        case {"type": [*types]} if "null" in types and len(types) == 2:
            values = {"enum": [value for value in schema["enum"] if value is not None]} if "enum" in schema else {}
            return {**schema, "type": next(type_ for type_ in types if type_ != "null"), **values}, True
        case {"anyOf": [*forms]} if {"type": "null"} in forms and len(forms) == 2:
            other = next(form for form in forms if form != {"type": "null"})
            rest = {key: value for key, value in schema.items() if key != "anyOf"}
            return {**_resolve(other, root), **rest}, True
    return schema, False


def _move(control: FormControl, level: int, index: int) -> FormControl:
    """Return a control of an item at another index of the list whose items are at this level of the path."""
    path = (*control.path[:level], index, *control.path[level + 1 :])
    parts = [_move(part, level, index) for part in control.parts]
    return FormControl(**{**control.__dict__, "path": path, "parts": parts})
