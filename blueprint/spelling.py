"""Keys that are not known where they stand: what the author may have meant."""

from __future__ import annotations

from collections.abc import Iterable

from blueprint.expressions.error import did_you_mean
from blueprint.grammar import KINDS, Agent, LoopBlock, Operation, Step
from blueprint.grammar.base import Part

_SHORT_FORMS: dict[type[Part], tuple[str, ...]] = {
    LoopBlock: ("stop_when",),
    Agent: ("system_prompt",),
    Operation: ("value",),
}


def known_keys(part: type[Part]) -> list[str]:
    """The keys an author may write, short forms included."""
    return [*(field.alias or name for name, field in part.model_fields.items()), *_SHORT_FORMS.get(part, ())]


def nearest(word: str, known: Iterable[str]) -> str | None:
    """
    >>> nearest("max_lops", ["max_loops", "body"])
    'max_loops'
    """
    known = list(known)
    hint = did_you_mean(word, known)
    return None if hint is None else next(name for name in known if hint == f"did you mean {name!r}?")


def unknown_key(part: type[Part], key: str) -> tuple[str, str, str | None]:
    """Code, message and hint."""
    return "unknown_key", f"unknown key {key!r}", _hint(part, key)


def _hint(part: type[Part], key: str) -> str:
    if issubclass(part, Step):
        if part is KINDS["loop"] and key in known_keys(LoopBlock):
            return f"it belongs under `loop:`, as loop.{key}"
        if kinds := [kind for kind, other in KINDS.items() if key in other.model_fields]:
            return f"only {' and '.join(kinds)} steps have it"
    if part is LoopBlock and key in KINDS["loop"].model_fields:
        return "it belongs to the step, beside `loop:`"
    if part is Operation and key == "value":
        return "it belongs beside the target: {set: {target: context.x, value: …}}"
    if meant := nearest(key, known_keys(part)):
        return f"did you mean {meant!r}?"
    return f"known here: {', '.join(known_keys(part))}"
