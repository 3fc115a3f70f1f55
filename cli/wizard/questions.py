"""What the wizard asks, in order: what is asked next follows from the answers so far."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from holdfast.blueprint.json_values import JSONObject

PATTERNS = {
    "clarify": "ask until it is clear",
    "feedback": "write, show, revise",
    "approval": "a person decides before something is done",
    "conversation": "an agent that asks",
    "items": "the same for every item of a list",
}
NEVER = "never"
"""The deadline of a question that has none."""


@dataclass(frozen=True)
class WizardQuestion:
    """A question of the wizard."""

    name: str
    """The answer's field in `WizardAnswers`, by which a file of answers names it."""
    message: str
    schema: JSONObject
    """JSON Schema of the answer, which is a text."""

    @property
    def words(self) -> list[str]:
        """Return the words to choose from; none if the answer is free."""
        return list(self.schema.get("enum", ()))


def _ask_text(name: str, message: str, longest: int = 500) -> WizardQuestion:
    return WizardQuestion(name, message, {"type": "string", "minLength": 1, "maxLength": longest})


def _ask_pattern(name: str, message: str, pattern: str) -> WizardQuestion:
    return WizardQuestion(name, message, {"type": "string", "pattern": pattern})


def _ask_choice(name: str, message: str, words: list[str]) -> WizardQuestion:
    return WizardQuestion(name, message, {"type": "string", "enum": words})


_BASICS = [
    _ask_pattern(
        "name", "What is it called? (a letter, then letters, digits, - and _)", "^[A-Za-z][A-Za-z0-9_-]{0,59}$"
    ),
    _ask_text("goal", "What is it for? (a sentence)"),
    _ask_choice(
        "pattern",
        "\n".join(["How does it work?", *(f"  {name}: {words}" for name, words in PATTERNS.items())]),
        list(PATTERNS),
    ),
]
_FACTS = _ask_pattern(
    "facts",
    "Which facts are to be asked for? (names, such as: audience, length, tone)",
    r"^ *[A-Za-z]\w*( *, *[A-Za-z]\w*)* *$",
)
_ITEMS = _ask_text("items", "Which items, to begin with? (separated by commas; --input gives others)", 2000)
_MODEL = _ask_pattern(
    "model",
    "Which model writes? (such as openai:gpt-5.2; scripted takes replies from a file, and needs no key)",
    r"^\S+$",
)
_DEADLINE = _ask_pattern(
    "deadline",
    "By when must a person have answered? (such as 2d or 1h30m; never is no deadline)",
    "^(never|([1-9][0-9]{0,2}[smhdw]){1,3})$",
)
_OF_PATTERN = {
    "clarify": [_FACTS],
    "feedback": [
        _MODEL,
        _ask_text("question", "What is the person asked about each draft? (such as Is this good?)"),
        _DEADLINE,
    ],
    "approval": [_ask_text("question", "What is the person asked? (such as Shall it be paid?)"), _DEADLINE],
    "conversation": [
        _MODEL,
        _ask_text("question", "What is the person asked first? (such as What do you want?)"),
        _DEADLINE,
    ],
    "items": [
        _ITEMS,
        _MODEL,
        _ask_text("question", "What is the person asked about each? (such as Keep this?)"),
        _DEADLINE,
    ],
}
_MISSED = {
    "feedback": _ask_choice("unanswered", "And if nobody answers by then? (keep the draft; fail)", ["keep", "fail"]),
    "approval": _ask_choice("unanswered", "And if nobody answers by then? (refuse; fail)", ["refuse", "fail"]),
    "conversation": _ask_choice(
        "unanswered", "And if nobody answers by then? (the agent decides; fail)", ["decide", "fail"]
    ),
    "items": _ask_choice("unanswered", "And if nobody answers by then? (keep; drop; fail)", ["keep", "drop", "fail"]),
}


def next_question(answers: Mapping[str, str]) -> WizardQuestion | None:
    """Return the question that comes after these answers; None if all are given."""
    asked = list(_BASICS)
    if pattern := answers.get("pattern"):
        asked += _OF_PATTERN[pattern]
        if answers.get("deadline", NEVER) != NEVER:
            asked.append(_MISSED[pattern])
    return next((question for question in asked if question.name not in answers), None)
