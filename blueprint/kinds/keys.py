"""The keys that an author may write: which a form knows, which is nearest to an unknown one, or where that belongs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from holdfast.blueprint.expressions.error import nearest
from holdfast.blueprint.parts import Part
from holdfast.blueprint.words.text import enumerate_words

_ELSEWHERE = {
    "compensate": "a step of a `block` says how it is undone: undo: {uses: TOOL}",
    "meta": "nothing here reads it: remove it, or write a comment",
    "pipeline_config": "nothing here reads it: remove it",
    "plugins": "write a step that checks the output, or an output_schema",
    "processing": "nothing here reads it: remove it, or give an output_schema",
    "usage_limits": "write limits: {model_calls: …, tokens: …, cost_usd: …}",
    "validators": "write a step that checks the output, or an output_schema",
}
"""Keys of other systems without a like here, with what to do instead."""
Form = type[Part] | Sequence[str]
"""A part of a blueprint, or the keys of a short form that has no class."""


def own_keys(part: type[Part]) -> list[str]:
    """Return the keys of the core form as an author writes them."""
    return [field.alias or name for name, field in part.model_fields.items()]


def known_keys(form: Form) -> list[str]:
    """Return the keys that an author may write, short forms included."""
    return [*own_keys(form), *form.short_keys] if isinstance(form, type) else list(form)


def meant_kind(word: str, kinds: Mapping[str, type[Part]]) -> str | None:
    """Return the kind that an unknown one stands for, if that can be told: what others call it, or the nearest name."""
    other = (kind for kind, part in kinds.items() if word.casefold() in getattr(part, "other_names", ()))
    return next(other, None) or nearest(word, kinds)


def hint_of_block(name: str, block: type[Part], key: str) -> str | None:
    """Return where under the key `name` of its step an unknown key belongs; None if the block does not know it."""
    inside = block_key(block, key)
    return None if inside is None else f"it belongs under `{name}:`, as {name}.{inside}"


def block_key(block: type[Part], key: str) -> str | None:
    """Return the key of the block that is written so, or meant by it; None if it has none."""
    return key if key in known_keys(block) else block.synonyms.get(key)


def meant_key(form: Form, key: str, valid_keys: Iterable[str]) -> str | None:
    """Return the known key that an unknown one stands for, if it can be told."""
    synonym = form.synonyms.get(key) if isinstance(form, type) else None
    return synonym or nearest(key, valid_keys)


def unknown_key(form: Form, key: str, kinds: Mapping[str, type[Part]]) -> tuple[str, str, str]:
    """Return the code, message and hint for an unknown key; `kinds` are the step kinds, which may know it."""
    return "unknown_key", f"unknown key {key!r}", _hint(form, key, kinds)


def _hint(form: Form, key: str, kinds: Mapping[str, type[Part]]) -> str:
    if isinstance(form, type) and (hint := form.hint_for(key)):
        return hint
    others = [kind for kind, other in kinds.items() if key in own_keys(other)]
    if others and form in kinds.values():
        return f"only {enumerate_words(others)} steps have it"
    if key in _ELSEWHERE and key not in known_keys(form):
        return _ELSEWHERE[key]
    if match := meant_key(form, key, known_keys(form)):
        return f"did you mean {match!r}?"
    return f"known here: {', '.join(known_keys(form))}"
