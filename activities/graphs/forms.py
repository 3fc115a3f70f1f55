"""Forms of other libraries: the interrupts whose shape is known become questions, and the answers take their shape.

LangChain's human-in-the-loop middleware (one interrupt for all actions of a turn, or one for each), the agent inbox,
and the elicitations of MCP.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from langgraph.types import Interrupt as GraphInterrupt

from holdfast.activities.elicitation import BadElicitation, make_question, response_to
from holdfast.blueprint.json_values import JSON, JSONObject
from holdfast.blueprint.questions import RESPOND, ActionReview, Asked, Input, Permission
from holdfast.protocol.address import segment
from holdfast.protocol.agents import InterruptAnswer


class KnownForm(ABC):
    """An interrupt of a known shape: its questions, and the value that answers make of it."""

    @property
    @abstractmethod
    def questions(self) -> Sequence[Asked]:
        """The questions, one an action."""

    @abstractmethod
    def read(self, n: int, answer: InterruptAnswer) -> JSON:
        """Return what an answer to the n-th question is for the library. Raises `ValueError` for what it forbids."""

    def join(self, values: Sequence[JSON]) -> JSON:
        """Return what the graph is resumed with, of what `read` has returned for each question."""
        return values[0]

    def paths(self, place: str) -> list[str]:
        """Return the path of each question, for an interrupt at this place."""
        return [place] if len(self.questions) == 1 else [f"{place};{name}" for name in self._segments]

    @property
    def _segments(self) -> list[str]:
        return [segment("level", "action", n) for n in range(1, len(self.questions) + 1)]


@dataclass(frozen=True)
class Action:
    """An action that a person decides on."""

    name: str
    args: JSON
    text: str
    allowed: frozenset[str]
    """Of `approve`, `edit`, `reject` and `respond`."""
    args_schema: JSONObject | None = None

    @property
    def question(self) -> Asked:
        """Text where only an answer is wanted, a permission where nothing may be changed, else a review."""
        info: JSONObject = {"action": self.name, "args": self.args}
        if self.allowed == {"respond"}:
            return Input(message=self.message, info=info)
        if not self.allowed & {"edit", "respond"}:
            return Permission(message=self.message, info=info)
        return ActionReview(
            message=self.message,
            payload=self.args,
            payload_schema=self.args_schema or ({"type": "object"} if isinstance(self.args, dict) else None),
            info={"action": self.name},
            editable="edit" in self.allowed,
            answerable="respond" in self.allowed,
        )

    @property
    def message(self) -> str:
        # The text that LangChain makes by itself repeats what is shown beside it.
        made = f"Tool: {self.name}\nArgs: {self.args}"
        is_own = self.text.strip() and not self.text.endswith(made)
        return self.text.strip() if is_own else f"May {self.name} be called?"

    def decide(self, answer: InterruptAnswer) -> tuple[str, JSON]:
        """Return the decision, and the arguments, the answer or the reason. Raises `ValueError` for a forbidden one."""
        content = answer.content
        if not isinstance(content, dict):
            return self._check_allowed("respond", content)
        match content.get("verdict", "unchanged" if content.get("granted") is True else "rejected"):
            case "unchanged":
                return self._check_allowed("approve", None)
            case "edited":
                return self._check_allowed("edit", content["payload"])
            case verdict if verdict == RESPOND:
                return self._check_allowed("respond", content["reason"])
        return self._check_allowed("reject", content.get("reason"))

    def _check_allowed(self, decision: str, value: JSON) -> tuple[str, JSON]:
        if decision not in self.allowed:
            raise ValueError(f"{decision}: {self.name} allows only {', '.join(sorted(self.allowed))}")
        return decision, value


@dataclass(frozen=True)
class _ActionForm(KnownForm):
    actions: Sequence[Action]

    @property
    def questions(self) -> Sequence[Asked]:
        return [action.question for action in self.actions]

    @property
    def _segments(self) -> list[str]:
        return [segment("level", action.name, n) for n, action in enumerate(self.actions, 1)]


class MiddlewareForm(_ActionForm):
    """The decisions of LangChain's middleware on all actions of a turn, by position."""

    def read(self, n: int, answer: InterruptAnswer) -> JSON:
        action = self.actions[n]
        decision, value = action.decide(answer)
        match decision:
            case "edit":
                return {"type": "edit", "edited_action": {"name": action.name, "args": value}}
            case "approve":
                return {"type": "approve"}
        return {"type": decision, **({"message": value} if value else {})}

    def join(self, values: Sequence[JSON]) -> JSON:
        return {"decisions": list(values)}


class CallForm(MiddlewareForm):
    """The decision of LangChain's middleware on one action."""

    def join(self, values: Sequence[JSON]) -> JSON:
        return values[0]


class InboxForm(_ActionForm):
    """The responses of the agent inbox, by position."""

    def read(self, n: int, answer: InterruptAnswer) -> JSON:
        action = self.actions[n]
        decision, value = action.decide(answer)
        match decision:
            case "approve":
                return {"type": "accept", "args": None}
            case "edit":
                return {"type": "edit", "args": {"action": action.name, "args": value}}
            case "reject" if not (value and "respond" in action.allowed):
                return {"type": "ignore", "args": None}
        return {"type": "response", "args": value}  # also a reason: the inbox ignores without one

    def join(self, values: Sequence[JSON]) -> JSON:
        return list(values)


@dataclass(frozen=True)
class ElicitationForm(KnownForm):
    """The form of an MCP elicitation; declining and cancelling it are answers."""

    asked: Asked

    @property
    def questions(self) -> Sequence[Asked]:
        return [self.asked]

    def read(self, n: int, answer: InterruptAnswer) -> JSON:
        return response_to(self.asked, answer)


def read_form(interrupt: GraphInterrupt[Any]) -> KnownForm | None:
    """Return the form of an interrupt; None if its shape is not one of those that are known."""
    value = interrupt.value
    if isinstance(value, dict):
        if isinstance(value.get("action_requests"), list) and isinstance(value.get("review_configs"), list):
            return _read_turn(value)
        if value.get("type") == "tool_approval" and isinstance(interrupt.response_schema, dict):
            return _read_call(value, interrupt.response_schema)
        if isinstance(value.get("requestedSchema"), dict) and isinstance(value.get("message"), str):
            return _read_elicitation(value)
    requests = value if isinstance(value, list) else [value]
    actions = [_read_inbox(request) for request in requests]
    return InboxForm([action for action in actions if action]) if actions and all(actions) else None


def _read_turn(value: JSONObject) -> KnownForm | None:
    configs, requests = value["review_configs"], value["action_requests"]
    if not requests or not all(_is_action(request, "name") for request in requests):
        return None
    allowed = {
        config.get("action_name"): config.get("allowed_decisions") for config in configs if isinstance(config, dict)
    }
    return MiddlewareForm(
        [
            _make_action(
                request["name"], request["args"], request, allowed.get(request["name"]) or ["approve", "reject"]
            )
            for request in requests
        ]
    )


def _read_call(value: JSONObject, schema: JSONObject) -> KnownForm | None:
    if not _is_action(value, "name"):
        return None
    kinds = {
        kind: found for found in _find_objects(schema) if (kind := _read_const(found.get("properties", {}).get("type")))
    }
    edit = _resolve(kinds.get("edit", {}).get("properties", {}).get("edited_action", {}), schema)
    args = _resolve(edit.get("properties", {}).get("args", {}), schema)
    shape = {**args, "$defs": schema["$defs"]} if args and "$defs" in schema else args
    return CallForm([_make_action(value["name"], value["args"], value, list(kinds), shape or None)])


def _read_elicitation(value: JSONObject) -> KnownForm | None:
    try:
        asked = make_question("graph", {"method": "elicitation/create", "params": value})
    except BadElicitation:
        return None
    return ElicitationForm(asked.model_copy(update={"message": value["message"], "info": None}))


def _read_inbox(request: JSON) -> Action | None:
    if not isinstance(request, dict) or not isinstance(config := request.get("config"), dict):
        return None
    if not isinstance(action := request.get("action_request"), dict) or not _is_action(action, "action"):
        return None
    words = {"allow_accept": "approve", "allow_edit": "edit", "allow_ignore": "reject", "allow_respond": "respond"}
    return _make_action(
        action["action"], action["args"], request, [word for key, word in words.items() if config.get(key) is True]
    )


def _is_action(value: JSON, name: str) -> bool:
    return isinstance(value, dict) and isinstance(value.get(name), str) and "args" in value


def _make_action(
    name: str, args: JSON, described: JSONObject, allowed: Sequence[str], schema: JSONObject | None = None
) -> Action:
    return Action(name, args, str(described.get("description") or ""), frozenset(allowed), schema)


def _find_objects(schema: JSON) -> list[JSONObject]:
    """Return every schema of an object inside a schema."""
    match schema:
        case dict():
            own = [schema] if isinstance(schema.get("properties"), dict) else []
            return own + [found for inner in schema.values() for found in _find_objects(inner)]
        case list():
            return [found for inner in schema for found in _find_objects(inner)]
    return []


def _read_const(schema: JSON) -> str | None:
    return schema.get("const") if isinstance(schema, dict) else None


def _resolve(schema: JSONObject, whole: JSONObject) -> JSONObject:
    name = str(schema.get("$ref", "")).removeprefix("#/$defs/")
    found: JSONObject = whole.get("$defs", {}).get(name, schema) if name else schema
    return found
