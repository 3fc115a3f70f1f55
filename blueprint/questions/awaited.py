"""The kind of question that no person is asked: a step waits for an event of another system."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import ConfigDict, Field

from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.blueprint.questions.kind import Asked, InvalidAnswer, brief, check_schema, question_kind

_TEXT = {"type": "string"}
EVENT_REMARKS: Mapping[str, JSONObject] = {
    "event": {
        "type": "object",
        "required": ["name", "key", "id"],
        "properties": {"name": _TEXT, "key": _TEXT, "id": {"type": ["string", "null"]}},
        "additionalProperties": False,
    }
}
"""What the reply to an event says beside its payload."""


@question_kind
class AwaitedEvent(Asked):
    """An event of another system; an accepted one is its name, key, payload and id."""

    model_config = ConfigDict(populate_by_name=True)

    kind = "event"
    for_people = False
    name: str
    key: str
    # An alias, as a field called `schema` would replace a method of pydantic's models.
    payload: JSONObject = Field({}, alias="schema")
    """JSON Schema of the payload."""
    early: Literal["keep", "drop"] = "keep"
    """Whether one that came before the question was asked is taken."""

    @classmethod
    def held_by(cls, fields: Mapping[str, JSON]) -> JSONObject:
        info: JSONObject = fields["info"]
        form: JSONObject = fields["requestedSchema"]
        held = {**super().held_by(fields), "info": None, "name": info["name"], "key": info["key"]}
        return {**held, "payload": form["properties"]["payload"]}

    @property
    def awaits(self) -> tuple[str, str]:
        return self.name, self.key

    @property
    def takes_early(self) -> bool:
        return self.early == "keep"

    @property
    def shown_info(self) -> JSON:
        return {"name": self.name, "key": self.key}

    def schema(self) -> JSONObject:
        text = {"type": "string", "minLength": 1}
        properties = {"name": {"const": self.name}, "key": {"const": self.key}, "payload": self.payload, "id": text}
        return {"type": "object", "required": ["payload"], "properties": properties, "additionalProperties": False}

    @property
    def fields(self) -> Mapping[str, JSONObject]:
        """None: no person is prompted for it."""
        return {}

    @property
    def example(self) -> JSON:
        return {"payload": {}, "id": "evt-1"}

    def accept(self, content: object) -> JSON:
        """Return the event whole: whoever stands in for a system need not repeat its name and key.

        What this returned is accepted again, for a run that goes on from another one.
        """
        if not isinstance(content, dict):
            raise InvalidAnswer(f'expected the event, such as {{"payload": {{}}, "id": "evt-1"}}; got {brief(content)}')
        check_schema(self.schema(), {key: value for key, value in content.items() if key != "id" or value is not None})
        return {"name": self.name, "key": self.key, "payload": content["payload"], "id": content.get("id")}

    def read_output(self, content: JSON) -> JSON:
        return content["payload"]

    @property
    def remarks(self) -> Mapping[str, JSONObject]:
        return EVENT_REMARKS

    def read_remarks(self, content: JSON) -> JSONObject:
        return {"event": {key: content[key] for key in ("name", "key", "id")}}
