"""The `hitl` kind: ask a person."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import ClassVar

from holdfast.blueprint.findings import Findings
from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.blueprint.kinds.description import Cost, Drawing, StepDescription
from holdfast.blueprint.kinds.document import Blueprint
from holdfast.blueprint.kinds.expansion import Expansion
from holdfast.blueprint.kinds.hitl_checks import check_hitl
from holdfast.blueprint.kinds.hitl_fields import HitlFields
from holdfast.blueprint.kinds.hitl_kinds import write_definition
from holdfast.blueprint.kinds.hitl_words import describe_ask, describe_question
from holdfast.blueprint.kinds.keys import own_keys
from holdfast.blueprint.kinds.knowledge import Knowledge
from holdfast.blueprint.kinds.schema_forms import (
    TEXT,
    Schema,
    set_form,
)
from holdfast.blueprint.questions import Asked, list_kinds_for_steps
from holdfast.blueprint.shape import Shape
from holdfast.blueprint.source import PlacedDict, PlacedList, Position
from holdfast.blueprint.words.text import Vocabulary, say_template, say_unquoted


class Hitl(HitlFields):
    """Ask a person; the output is what may be acted on. `input_schema` and `timeout` describe the answer."""

    synonyms: ClassVar[Mapping[str, str]] = {
        **HitlFields.synonyms,
        **dict.fromkeys(("prompt", "question", "text", "title"), "message"),
        **dict.fromkeys(("assignee", "approvers", "who", "to"), "assignees"),
        **dict.fromkeys(("schema", "form"), "input_schema"),
        **{"choices": "options", "deadline": "timeout", "type": "ask"},
    }
    other_names: ClassVar[tuple[str, ...]] = ("human", "human_input", "user", "ask", "question", "input", "approval")
    input_schema_describes_answer: ClassVar[bool] = True

    @property
    def stops(self) -> bool:
        return True

    @classmethod
    def gather(cls, definition: PlacedDict, path: str, expansion: Expansion) -> PlacedDict:
        name = definition.get("ask")
        if not isinstance(name, str) or name in list_kinds_for_steps():
            return definition
        return write_definition(name, definition, path, expansion, own_keys(cls))

    @classmethod
    def expand(cls, step: PlacedDict, path: str, expansion: Expansion) -> None:
        options = step.get("options")
        if isinstance(options, PlacedList):
            step["options"] = options.each(_option)
        if isinstance(step.get("verify"), str):
            step["verify"] = PlacedDict.at(step.value_place("verify"), agent=step["verify"])
        if isinstance(step.get("verify"), PlacedDict):
            expansion.expand_agent(step["verify"], "agent", f"{path}.verify")
        if step.get("default") is not None and step.get("on_timeout") is None:
            step.put("on_timeout", "default", step.places["default"])

    @classmethod
    def allow_short_forms(cls, definitions: Schema) -> None:
        option = {"anyOf": [{"type": ["string", "number", "boolean"]}, {"$ref": "#/$defs/Option"}]}
        set_form(definitions[cls.__name__], "options", {"anyOf": [TEXT, {"type": "array", "items": option}]})
        verify = {"anyOf": [TEXT, {"$ref": "#/$defs/Verification"}]}
        set_form(definitions[cls.__name__], "verify", verify)

    def check(self, path: str, blueprint: Blueprint, findings: Findings) -> None:
        super().check(path, blueprint, findings)
        check_hitl(self, path, findings)

    @property
    def answered_question(self) -> Asked | None:
        return None if self.question.is_pause else self.question

    @property
    def gives_reply(self) -> bool:
        return True

    @property
    def reply_remarks(self) -> Mapping[str, JSONObject]:
        return self.question.remarks

    @property
    def null_cause(self) -> str | None:
        if self.on_timeout == "skip":
            return f"nobody may answer {self.name} in time (on_timeout: skip)"
        if self.question.yes_or_no and not self.question.permits and self.on_decline != "fail":
            return f"{self.name} may be rejected"
        if self.on_decline == "continue" and not self.question.permits:
            return f"a person may decline {self.name} (on_decline: continue)"
        return super().null_cause

    def output_shape(self, knowledge: Knowledge) -> Shape:
        question = self.answered_question
        if question is None:
            return knowledge.input
        schema = question.output_schema
        if question.hidden:  # what is given are references to the values that the form describes
            schema = {}
        elif isinstance(self.options, str):  # which they are is known when they are rendered
            schema = {"type": "string" if question.most_choices == 1 else "array"}
        return Shape(schema, step=self.name, question=question)

    def describe(self, names: Vocabulary) -> StepDescription:
        return StepDescription(describe_question(self, names), asks=(describe_ask(self, names),))

    def cost(self) -> Cost:
        return Cost(times=1 if self.verify is None else self.verify.rounds + 1)

    def draw(self, names: Vocabulary) -> Drawing:
        seen = names.after(say_template(self.input, names))
        text = "waits for a word" if self.question.is_pause else say_unquoted(self.message, seen)
        return Drawing(
            "question", [text, *self.people_line(names)], helper="" if self.verify is None else "checks the answer"
        )


def _option(value: object, place: Position, _: int) -> JSON:
    """Expand an option: `warm` is `{id: warm, label: warm}`; a number or `true` is the text it is written as."""
    if isinstance(value, bool | int | float):
        # As it is written, so that 1.50 stays so; an alias and an anchor are written as more than their value.
        value = json.dumps(value) if place.raw.startswith(("*", "&")) else place.raw.strip()
    if not isinstance(value, str):
        return value
    return PlacedDict.at(place, id=value, label=value)
