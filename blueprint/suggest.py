"""Suggestions for unknown keys: the nearest known key, or where the key belongs."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.blueprint.expressions.error import did_you_mean
from holdfast.blueprint.kinds import KINDS, Agent, LoopBlock, Operation, PlanStep, Step
from holdfast.blueprint.kinds.parts import Part
from holdfast.blueprint.kinds.step import ImportConfig

_SHORT_FORMS: dict[type[Part], tuple[str, ...]] = {
    LoopBlock: ("stop_when",),
    Agent: ("system_prompt",),
    Operation: ("value",),
}


def known_keys(part: type[Part]) -> list[str]:
    """Return the keys that an author may write, short forms included."""
    return [*(field.alias or name for name, field in part.model_fields.items()), *_SHORT_FORMS.get(part, ())]


def nearest(word: str, candidates: Iterable[str]) -> str | None:
    """Return the candidate most similar to the word, or None.

    >>> nearest("max_lops", ["max_loops", "body"])
    'max_loops'
    """
    candidates = list(candidates)
    hint = did_you_mean(word, candidates)
    return None if hint is None else next(name for name in candidates if hint == f"did you mean {name!r}?")


def unknown_key(part: type[Part], key: str) -> tuple[str, str, str | None]:
    """Return the code, message and hint for an unknown key."""
    return "unknown_key", f"unknown key {key!r}", _hint(part, key)


_MEANT: dict[type[Part], dict[str, str]] = {
    PlanStep: dict.fromkeys(("description", "task", "prompt", "text", "action"), "instruction")
    | dict.fromkeys(("depends_on", "requires"), "dependencies")
}
"""Keys that others use for the same."""


def meant_key(part: type[Part], key: str, known: Iterable[str]) -> str | None:
    """Return the known key that an unknown one stands for, if it can be told."""
    return _MEANT.get(part, {}).get(key) or nearest(key, known)


_ELSEWHERE: dict[type[Part], dict[str, str]] = {
    ImportConfig: {
        "input_to": "its input is set by `input:`",
        "propagate_hitl": "the questions of an import are always asked: remove it",
        "inherit_context": "an import has a context of its own: hand over what it needs by `input:`",
        "inherit_conversation": "an import has a conversation of its own: hand over what it needs by `input:`",
        "timeout_s": "an import runs many steps: give `timeout` to them",
        "max_retries": "an import runs many steps: give `retry` to them",
    }
}
"""Keys of Flujo, with the way to write the same here."""


def _hint(part: type[Part], key: str) -> str:
    if hint := _ELSEWHERE.get(part, {}).get(key):
        return hint
    if issubclass(part, Step):
        if part is KINDS["loop"] and key in known_keys(LoopBlock):
            return f"it belongs under `loop:`, as loop.{key}"
        if kinds := [kind for kind, other in KINDS.items() if key in other.model_fields]:
            return f"only {' and '.join(kinds)} steps have it"
    if part is LoopBlock and key in KINDS["loop"].model_fields:
        return "it belongs to the step, beside `loop:`"
    if part is Operation and key == "value":
        return "it belongs beside the target: {set: {target: context.x, value: …}}"
    if match := meant_key(part, key, known_keys(part)):
        return f"did you mean {match!r}?"
    return f"known here: {', '.join(known_keys(part))}"
