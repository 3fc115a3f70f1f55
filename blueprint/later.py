"""What the language names and this version does not have: an entry goes when its turn comes."""

from blueprint.grammar.base import Part

KINDS = frozenset({"plan"})

KEYS: dict[type[Part], frozenset[str]] = {}

VALUES: dict[str, frozenset[str]] = {"ask": frozenset({"secret"})}
"""By the key whose value they are."""


def is_later_key(part: type[Part], key: str) -> bool:
    return any(key in keys for owner, keys in KEYS.items() if issubclass(part, owner))


def is_later_value(key: str, value: object) -> bool:
    return isinstance(value, str) and value in VALUES.get(key, frozenset())


def told(name: object) -> str:
    """
    >>> told("plan")
    "'plan' is part of the language but not of this version"
    """
    return f"{name!r} is part of the language but not of this version"
