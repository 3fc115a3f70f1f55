"""The `wait` kind: wait for an event of another system."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

from pydantic import ConfigDict, Field

from holdfast.blueprint.findings import Findings, is_literal
from holdfast.blueprint.json_values import JSONObject
from holdfast.blueprint.kinds.base import Step
from holdfast.blueprint.kinds.description import PREVIOUS, Drawing, StepDescription
from holdfast.blueprint.kinds.document import Blueprint
from holdfast.blueprint.kinds.expansion import Expansion
from holdfast.blueprint.kinds.knowledge import Knowledge
from holdfast.blueprint.kinds.schema_forms import Schema, object_form
from holdfast.blueprint.kinds.template_values import DURATION, DurationTemplate, TemplateForm
from holdfast.blueprint.parts import EVENT_NAME, Part, Template
from holdfast.blueprint.questions import EVENT_REMARKS
from holdfast.blueprint.shape import UNKNOWN, Shape, join_shapes, make_constant
from holdfast.blueprint.source import PlacedDict
from holdfast.blueprint.words.schemas import shape
from holdfast.blueprint.words.text import Vocabulary, describe_span, say_template

_OWN = ("for", "key", "schema", "early", "timeout", "on_timeout", "default")


class Wait(Step):
    """Wait for an event that another system sends; the output is its payload. No person is asked."""

    # `for` is a word of Python's, and a field named `schema` would hide one of pydantic's own.
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True, populate_by_name=True)

    kind: Literal["wait"]
    event: str = Field(
        alias="for",
        pattern=EVENT_NAME,
        max_length=100,
        description="The name of the event.",
        examples=["payment.received"],
    )
    key: Template = Field(
        description="Identifies the event among those of its name: a template of a text.",
        examples=["{{ input.invoice }}"],
    )
    payload: Schema | None = Field(
        None,
        alias="schema",
        description="JSON Schema of the event's payload; one that does not fit is refused.",
        examples=[{"type": "object", "required": ["amount"], "properties": {"amount": {"type": "number"}}}],
    )
    early: Literal["keep", "drop"] = Field(
        "keep",
        description="An event that comes before the step waits for it: keep it for the step for a day, or drop it.",
    )
    timeout: DurationTemplate | None = Field(
        None,
        description="The deadline, from the moment of waiting: a duration, or a template of one. None: no deadline.",
    )
    on_timeout: Literal["fail", "default", "skip"] | None = Field(
        None, description="At the deadline: fail, give the default, or go on with null; default: fail."
    )
    default: Template | None = Field(
        None, description="The output if no event comes by the deadline.", examples=[{"amount": 0}]
    )

    @property
    def stops(self) -> bool:
        return True

    @property
    def gives_reply(self) -> bool:
        return True

    @property
    def reply_remarks(self) -> Mapping[str, JSONObject]:
        return EVENT_REMARKS

    def reads(self) -> Mapping[str, Template]:
        return {**super().reads(), "key": self.key, "default": self.default, "timeout": self.timeout}

    def template_forms(self) -> Mapping[str, TemplateForm]:
        return {"timeout": DURATION}

    @property
    def null_cause(self) -> str | None:
        return (
            f"no event may come for {self.name} in time (on_timeout: skip)"
            if self.on_timeout == "skip"
            else super().null_cause
        )

    def output_shape(self, knowledge: Knowledge) -> Shape:
        if self.payload is None or not is_literal(self.default):
            return UNKNOWN
        return join_shapes([Shape(self.payload), *([] if self.default is None else [make_constant(self.default)])])

    def schemas(self) -> Mapping[str, Schema | None]:
        return {**super().schemas(), "schema": self.payload}

    @classmethod
    def gather(cls, definition: PlacedDict, path: str, expansion: Expansion) -> PlacedDict:
        """Move keys under `wait:` beside `name`."""
        return expansion.without_block(definition, "wait", path)

    @classmethod
    def expand(cls, step: PlacedDict, path: str, expansion: Expansion) -> None:
        if step.get("default") is not None and step.get("on_timeout") is None:
            step.put("on_timeout", "default", step.places["default"])

    @classmethod
    def allow_short_forms(cls, definitions: Schema) -> None:
        """Allow the keys of `wait` under `wait:` too."""
        own = definitions[cls.__name__]
        keys: Schema = own["properties"]
        nested = object_form("The same keys, nested.", {key: keys[key] for key in _OWN}, ["for", "key"])
        example = {"for": "payment.received", "key": "{{ input.invoice }}"}
        keys["wait"] = {**nested, "examples": [example]}
        own["required"] = [key for key in own["required"] if key not in ("for", "key")]
        own["anyOf"] = [{"required": ["for", "key"]}, {"required": ["wait"]}]

    def check(self, path: str, blueprint: Blueprint, findings: Findings) -> None:
        super().check(path, blueprint, findings)
        if isinstance(self.key, str) and not self.key.strip():
            message = "the key is empty: it tells the events of one name apart"
            findings.add(f"{path}.key", "bad_value", message, 'write a template, such as "{{ input.invoice }}"')
        if self.on_timeout == "default" and self.default is None:
            findings.add(f"{path}.on_timeout", "missing_key", "on_timeout: default needs a default", "add default:")
        if self.default is not None and self.on_timeout != "default":
            message = f"a default is not used with on_timeout: {self.on_timeout}"
            findings.add_key(f"{path}.default", "conflict", message, "remove one of them")
        if self.on_timeout is not None and self.timeout is None and not findings.is_unread(f"{path}.timeout"):
            key = "default" if self.default is not None else "on_timeout"
            message = f"{key!r} without a timeout is never used"
            findings.add_key(f"{path}.{key}", "conflict", message, "add timeout: 3d")

    def describe(self, names: Vocabulary) -> StepDescription:
        inside = names if self.input == PREVIOUS else names.after(say_template(self.input, names))
        form = "" if self.payload is None else f"; its payload is {shape(self.payload)}"
        text = f"waits for the event {self.event} with the key {say_template(self.key, inside)}{form}."
        text += " One that came before is not taken." if self.early == "drop" else ""
        if self.timeout is not None:
            then = {"default": f"returns {say_template(self.default, inside)}", "skip": "goes on without it"}
            what = then.get(self.on_timeout or "", "fails")
            text += f" If none comes within {describe_span(self.timeout, inside)}, it {what}."
        return StepDescription(text)

    def draw(self, names: Vocabulary) -> Drawing:
        lines = [f"waits for {self.event}"]
        return Drawing(
            "plain", lines if self.timeout is None else [*lines, f"{describe_span(self.timeout, names)} at most"]
        )


def waits_in(value: object) -> Iterator[Wait]:
    """Yield every `wait` step of a blueprint or a part of one, of its imports too."""
    match value:
        case Part():
            if isinstance(value, Wait):
                yield value
            for inner in value.__dict__.values():
                yield from waits_in(inner)
        case dict():
            for inner in value.values():
                yield from waits_in(inner)
        case list():
            for inner in value:
                yield from waits_in(inner)
