"""The form in which people are named: `user:ana`, `group:editors`."""

import re

USER, GROUP = "user:", "group:"
REQUESTER = "requester"
"""In `not_by`: whoever started the run."""
LONGEST = 200
_WRITTEN = re.compile(r"(?:user|group):[^\x00-\x20\x7f](?:[^\x00-\x1f\x7f]*[^\x00-\x20\x7f])?")


def is_person(text: str) -> bool:
    """Return whether the text names a user or a group.

    >>> [is_person(text) for text in ("user:ana", "group:the editors", "ana", "user: ", "requester")]
    [True, True, False, False, False]
    """
    return len(text) <= LONGEST and _WRITTEN.fullmatch(text) is not None


def name_hint(name: str, key: str) -> str:
    """Return how to write a name that is neither a user nor a group."""
    if name.strip() and ":" not in name and name != REQUESTER:
        return f"did you mean {USER + name.strip()[:40]!r} or {GROUP + name.strip()[:40]!r}?"
    return "write user:NAME or group:NAME" + (f", or {REQUESTER}" if key == "not_by" else "")
