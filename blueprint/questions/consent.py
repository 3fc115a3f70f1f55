"""Questions for a consent: permissions and reviews. Both fail closed: only an explicit yes is one."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import ClassVar

from holdfast.blueprint.json_values import JSON, JSONObject, same
from holdfast.blueprint.questions.agreement import agrees, plainly, refuses
from holdfast.blueprint.questions.kind import Asked, Draft, InvalidAnswer, brief, check_schema, question_kind

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
_SENTENCE = re.compile(r"\s*[^\W\d_]\S*\s+\S")
"""Two words at least, and no JSON."""
_REASON = re.compile(r"[^,.;:!\u2013\u2014\n]*[,.;:!\u2013\u2014\n](.*)", re.DOTALL)


@question_kind
class Permission(Asked):
    """A request for consent. Only an explicit `granted: true` is a yes."""

    kind = "permission"
    in_steps = "an explicit yes"
    request = "asks {who} for an explicit yes: {message}"
    declined_as = "denied"
    declining = "Declining is a no; after a no the run goes on with false."
    permits = True
    consents = True
    yes_or_no = True
    scopes: ClassVar[Sequence[str]] = SCOPES

    @classmethod
    def of(cls, draft: Draft) -> Asked:
        weights = draft.weights
        info = {**weights, "details": weights.get("details", draft.value)} if weights else draft.value
        return cls(message=draft.message, default=draft.default, info=info)

    def schema(self) -> JSONObject:
        return PERMISSION

    @property
    def output_schema(self) -> JSONObject:
        return {"type": "boolean"}

    @property
    def hint(self) -> str:
        return "yes · no, and why"

    @property
    def example(self) -> JSON:
        return self.yes()

    def accept(self, content: object) -> JSON:
        """Return the content, an object that grants or denies; `true`, `false` and plain words stand for one."""
        content = self.read_short(content)
        if isinstance(content, bool):
            content = self.yes() if content else self.no()
        if not isinstance(content, dict):
            json = '{"granted": true} or {"granted": false, "reason": …}'
            raise InvalidAnswer(f'say yes, or "no, WHY" (as JSON {json}), not {brief(content)}')
        return super().accept(content)

    def read_output(self, content: JSON) -> JSON:
        return content["granted"] is True

    @property
    def output_without_answer(self) -> JSON:
        return False

    @property
    def remarks(self) -> Mapping[str, JSONObject]:
        return {"scope": {"enum": list(SCOPES)}, "reason": {"type": "string"}}

    def summarize(self, content: JSON) -> JSON:
        return _say("yes" if content["granted"] is True else "no", content)

    def when_declined(self, reason: str | None) -> JSON:
        return self.no(reason or "")

    def says_no(self, content: JSON) -> bool:
        return content["granted"] is not True

    def yes(self) -> JSON:
        return {"granted": True}

    def no(self, reason: str = "") -> JSON:
        return {"granted": False, **({"reason": reason} if reason else {})}

    def read(self, text: str) -> JSON:
        """Return the content of a yes, with or without a scope, or of a no and its reason; else None."""
        if (decided := _yes_or_no(self, text)) is not None:
            return decided
        word, _, scope = text.partition(",")
        return {"granted": True, "scope": scope.strip()} if agrees(word) and scope.strip() in SCOPES else None


@question_kind
class Review(Asked):
    """A payload that a person accepts, edits or rejects; accepted content always holds the payload to use."""

    kind = "review"
    in_steps = "look at the input, change it"
    request = "shows {subject} to {who}, who may change or reject it{about}{form}"
    declined_as = "rejected"
    declining = "Declining is a rejection; after one the run goes on with null."
    consents = True
    yes_or_no = True
    labels = {"unchanged": "yes", "rejected": "no, WHY"}
    payload: JSON = None
    payload_schema: JSONObject | None = None
    revisable: bool = False
    """True if the payload, a plan, may go back to its planner."""

    @classmethod
    def of(cls, draft: Draft) -> Asked:
        return cls(message=draft.message, default=draft.default, payload=draft.value, payload_schema=draft.form)

    @classmethod
    def held_by(cls, fields: Mapping[str, JSON]) -> JSONObject:
        schema, info = fields["requestedSchema"], fields.get("info") or {}
        payload = schema["properties"]["payload"]
        whole = {**payload, "$defs": schema["$defs"]} if "$defs" in schema else payload
        held = {"payload": info.get("payload"), "info": info.get("about"), "payload_schema": whole or None}
        return {**super().held_by(fields), **held}

    def schema(self) -> JSONObject:
        return review_schema(self.payload_schema, revisable=self.revisable)

    @property
    def output_schema(self) -> JSONObject:
        return self.payload_schema or {}

    @property
    def verdicts(self) -> Sequence[str]:
        return ["unchanged", "edited", "rejected", *([REVISE] if self.revisable else [])]

    @property
    def hint(self) -> str:
        revise = "what to change, in a sentence: it is revised · " if self.revisable else ""
        return f"yes: it is right · no, and why · {revise}a JSON object with the corrections"

    @property
    def example(self) -> JSON:
        return self.yes()

    def read_output(self, content: JSON) -> JSON:
        return None if self.says_no(content) else content["payload"]

    @property
    def remarks(self) -> Mapping[str, JSONObject]:
        return {"verdict": {"enum": [*self.verdicts, None]}, "reason": {"type": "string"}}

    def summarize(self, content: JSON) -> JSON:
        if content["verdict"] == "edited":
            return content["payload"]
        return _say("yes" if content["verdict"] == "unchanged" else "no", content)

    def when_declined(self, reason: str | None) -> JSON:
        return {"verdict": "rejected", "payload": self.payload, **({"reason": reason} if reason else {})}

    def says_no(self, content: JSON) -> bool:
        return bool(content["verdict"] == "rejected")

    @property
    def shown_info(self) -> JSON:
        return {"payload": self.payload} if self.info is None else {"payload": self.payload, "about": self.info}

    def accept(self, content: JSON) -> JSON:
        """Return the verdict with the payload to use: the edited one, which must fit, or the original."""
        content = self.read_short(content)
        if not isinstance(content, dict):
            edited = '{"verdict": "edited", "payload": …}'
            right = "an object of what is right" if isinstance(self.payload, dict) else edited
            raise InvalidAnswer(f'say yes, "no, WHY", or as JSON {right}, not {brief(content)}')
        content = super().accept(content)
        if content["verdict"] == "edited" and self.payload_schema is not None:
            check_schema(self.payload_schema, content["payload"], "payload")
        sent = content.get("payload")
        if content["verdict"] == "edited":
            return content
        if sent is not None and not same(sent, self.payload):
            verdict = content["verdict"]
            raise InvalidAnswer(f'it is not what was shown, but the verdict is "{verdict}"; say "edited"', "payload")
        return {**content, "payload": self.payload}

    def yes(self) -> JSON:
        return {"verdict": "unchanged"}

    def no(self, reason: str = "") -> JSON:
        return {"verdict": "rejected", **({"reason": reason} if reason else {})}

    def read(self, text: str) -> JSON:
        """Return the content of a yes, of a no and its reason, or of revise and what to change; else None.

        Where the payload may be revised, a sentence of one's own says what to change.
        """
        if (decided := _yes_or_no(self, text)) is not None:
            return decided
        if not self.revisable:
            return None
        word, _, wanted = text.partition(",")
        if plainly(word) == REVISE:
            return {"verdict": REVISE, "reason": wanted.strip()}
        return {"verdict": REVISE, "reason": text.strip()} if _SENTENCE.match(text) else None

    def read_corrections(self, changes: JSONObject) -> JSON:
        """Return the payload with other values for some of its keys; None if there are keys that it may not have.

        An empty object changes nothing, and is no yes.
        """
        if not isinstance(self.payload, dict) or not changes:
            return None
        keys = self.payload.keys() | self.schema()["properties"]["payload"].get("properties", {}).keys()
        if "verdict" in changes or not changes.keys() <= keys:
            return None
        return {"verdict": "edited", "payload": {**self.payload, **changes}}


def review_schema(payload: JSONObject | None, *, revisable: bool = False) -> JSONObject:
    """Return the JSON Schema of an answer to a review; only the verdict `edited` needs a payload.

    Args:
        payload: JSON Schema of the payload.
        revisable: Allow the verdict `revise`, with a reason.
    """
    shape = payload or {}
    definitions = {"$defs": shape["$defs"]} if "$defs" in shape else {}
    if not all(reference.startswith("#/$defs/") for reference in _references(shape)):
        # Moved into a larger schema, such references would point elsewhere; `accept` checks the payload itself.
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


def _references(schema: JSON) -> list[str]:
    match schema:
        case dict():
            own = [schema["$ref"]] if isinstance(schema.get("$ref"), str) else []
            return own + [reference for inner in schema.values() for reference in _references(inner)]
        case list():
            return [reference for inner in schema for reference in _references(inner)]
    return []


def _say(word: str, content: JSONObject) -> str:
    """Return a yes or a no with its reason."""
    return f"{word}: {content['reason']}" if content.get("reason") else word


def _yes_or_no(asked: Asked, text: str) -> JSON:
    """Return the content of a yes, or of a no and its reason; None for other words, and for JSON: `{"no": 5}`."""
    if text.lstrip().startswith(("{", "[")):
        return None
    if agrees(text):
        return asked.yes()
    return asked.no(_reason_in(text)) if refuses(text) else None


def _reason_in(text: str) -> str:
    """Return the text that follows a no; empty if there is none."""
    match = _REASON.fullmatch(text.strip())
    return match[1].strip() if match else ""
