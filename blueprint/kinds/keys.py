"""The keys that an author may write: which a part knows, which is nearest to an unknown one, or where that belongs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from holdfast.blueprint.expressions.error import did_you_mean
from holdfast.blueprint.kinds.parts import Part


def known_keys(part: type[Part]) -> list[str]:
    """Return the keys that an author may write, short forms included."""
    return [*(field.alias or name for name, field in part.model_fields.items()), *part.short_keys]


def nearest(word: str, candidates: Iterable[str]) -> str | None:
    """Return the candidate most similar to the word, or None.

    >>> nearest("max_lops", ["max_loops", "body"])
    'max_loops'
    """
    candidates = list(candidates)
    hint = did_you_mean(word, candidates)
    return None if hint is None else next(name for name in candidates if hint == f"did you mean {name!r}?")


def meant_key(part: type[Part], key: str, known: Iterable[str]) -> str | None:
    """Return the known key that an unknown one stands for, if it can be told."""
    return part.synonyms.get(key) or nearest(key, known)


def unknown_key(part: type[Part], key: str, kinds: Mapping[str, type[Part]]) -> tuple[str, str, str | None]:
    """Return the code, message and hint for an unknown key; `kinds` are the step kinds, which may know it."""
    return "unknown_key", f"unknown key {key!r}", _hint(part, key, kinds)


def _hint(part: type[Part], key: str, kinds: Mapping[str, type[Part]]) -> str:
    if hint := part.hint_for(key):
        return hint
    others = [kind for kind, other in kinds.items() if key in other.model_fields]
    if others and part in kinds.values():
        return f"only {' and '.join(others)} steps have it"
    if match := meant_key(part, key, known_keys(part)):
        return f"did you mean {match!r}?"
    return f"known here: {', '.join(known_keys(part))}"
