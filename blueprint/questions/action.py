"""Reviews of a call that a library is about to make, as LangChain's middleware and the agent inbox ask for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.blueprint.questions.agreement import plainly
from holdfast.blueprint.questions.consent import Permission, Review, review_schema
from holdfast.blueprint.questions.kind import question_kind

RESPOND = "respond"
"""The verdict of a review that answers in the place of the action."""


@question_kind
class ActionReview(Review):
    """An action with its arguments, which a person allows, changes, rejects, or answers in its place."""

    kind = "action_review"
    listed_as = "review"
    editable: bool = True
    """True if the arguments may be changed."""
    answerable: bool = False
    """True if a person may say what the action gives, so that it is not done."""

    @classmethod
    def held_by(cls, fields: Mapping[str, JSON]) -> JSONObject:
        verdicts = fields["requestedSchema"]["properties"]["verdict"]["enum"]
        return {**super().held_by(fields), "editable": "edited" in verdicts, "answerable": RESPOND in verdicts}

    def schema(self) -> JSONObject:
        schema = review_schema(self.payload_schema)
        reasoned = {"if": {"properties": {"verdict": {"const": RESPOND}}}, "then": {"required": ["reason"]}}
        properties = {**schema["properties"], "verdict": {"enum": list(self.verdicts)}}
        return {**schema, "properties": properties, **({"allOf": [reasoned]} if self.answerable else {})}

    @property
    def verdicts(self) -> Sequence[str]:
        return [
            "unchanged",
            *(["edited"] if self.editable else []),
            "rejected",
            *([RESPOND] if self.answerable else []),
        ]

    @property
    def hint(self) -> str:
        edit = " · a JSON object with the corrections" if self.editable else ""
        respond = f" · {RESPOND}, and what it gives" if self.answerable else ""
        return f"yes: do it · no, and why{respond}{edit}"

    def read(self, text: str) -> JSON:
        """Return the content of a yes, of a no and its reason, or of what the action gives; else None."""
        word, _, given = text.partition(",")
        if self.answerable and plainly(word) == RESPOND and given.strip():
            return {"verdict": RESPOND, "reason": given.strip()}
        return super().read(text)

    def read_output(self, content: JSON) -> JSON:
        return None if content["verdict"] == RESPOND else super().read_output(content)

    def summarize(self, content: JSON) -> JSON:
        return f"{RESPOND}, {content['reason']}" if content["verdict"] == RESPOND else super().summarize(content)

    def read_corrections(self, changes: JSONObject) -> JSON:
        return super().read_corrections(changes) if self.editable else None


@question_kind
class Confirmation(Permission):
    """The confirmation of a call that Google's ADK asks for."""

    kind = "confirmation"
    listed_as = "permission"
    scopes: ClassVar[Sequence[str]] = ("once",)

    def for_tool(self, content: JSON) -> JSON:
        """Return the response that ADK expects."""
        return {"confirmed": content["granted"] is True}


@question_kind
class PayloadConfirmation(Review):
    """The same with a value that a person may change, which goes back to the tool."""

    kind = "payload_confirmation"
    listed_as = "review"

    def for_tool(self, content: JSON) -> JSON:
        """Return the response that ADK expects."""
        return {"confirmed": False} if self.says_no(content) else {"confirmed": True, "payload": content["payload"]}
