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
