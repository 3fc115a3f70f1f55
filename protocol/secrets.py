"""References to secret values: what stands for a value wherever it must not be itself."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

DIRECTORY, ENVIRONMENT = "dir", "env"
IDS = {DIRECTORY: r"[0-9a-f]{32}", ENVIRONMENT: r"[A-Za-z_][A-Za-z0-9_]*"}
"""By the name of a store, how its ids look: 128 random bits, the name of a variable."""
PATTERN = "^secret:(?:" + "|".join(f"{store}/{id_}" for store, id_ in IDS.items()) + ")$"
_REFERENCE = re.compile("secret:(" + "|".join(IDS) + ")/(.+)")


class Reference(NamedTuple):
    """A value by the store that keeps it, and its id there."""

    store: str
    id: str

    def __str__(self) -> str:
        return f"secret:{self.store}/{self.id}"


def reference_in(text: Any) -> Reference | None:
    """The reference that the text is; None for everything else, which may be a value.

    >>> reference_in("secret:env/API_KEY"), reference_in("secret:dir/../key"), reference_in("hunter2")
    (Reference(store='env', id='API_KEY'), None, None)
    """
    found = _REFERENCE.fullmatch(text) if isinstance(text, str) else None
    return Reference(found[1], found[2]) if found and re.fullmatch(IDS[found[1]], found[2]) else None
