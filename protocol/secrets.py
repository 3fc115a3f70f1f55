"""References to secrets, `secret:<store>/<id>`: they stand for the value in payloads, histories and views."""

from __future__ import annotations

import re
from typing import NamedTuple

DIRECTORY, ENVIRONMENT = "dir", "env"
IDS = {DIRECTORY: r"[0-9a-f]{32}", ENVIRONMENT: r"[A-Za-z_][A-Za-z0-9_]*"}
"""Pattern of the ids, by store: 128 random bits as hex, or the name of an environment variable."""
PATTERN = "^secret:(?:" + "|".join(f"{store}/{id_}" for store, id_ in IDS.items()) + ")$"
_REFERENCE = re.compile("secret:(" + "|".join(IDS) + ")/(.+)")


class SecretReference(NamedTuple):
    """A reference to a secret: the store that keeps it, and its id there."""

    store: str
    id: str

    def __str__(self) -> str:
        return f"secret:{self.store}/{self.id}"


def reference_in(text: object) -> SecretReference | None:
    """Return the reference that the text is, or None for everything else: that may be the secret itself.

    >>> reference_in("secret:env/API_KEY"), reference_in("secret:dir/../key"), reference_in("hunter2")
    (SecretReference(store='env', id='API_KEY'), None, None)
    """
    match = _REFERENCE.fullmatch(text) if isinstance(text, str) else None
    return SecretReference(match[1], match[2]) if match and re.fullmatch(IDS[match[1]], match[2]) else None
