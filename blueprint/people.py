"""The form in which people are named: `user:ana`, `group:editors`."""

import re
import unicodedata
from collections.abc import Collection

USER, GROUP = "user:", "group:"
REQUESTER = "requester"
"""In `not_by`: whoever started the run."""
LONGEST = 200
_WRITTEN = re.compile(r"(?:user|group):[^\x00-\x20\x7f](?:[^\x00-\x1f\x7f]*[^\x00-\x20\x7f])?")


def canonical_name(name: str) -> str:
    """Return the one spelling of a user, a group, or a bare name, by which names are stored and compared.

    Capitals do not count, nor whether an accent is a character of its own: sign-ins, files and people differ in both.

    >>> canonical_name("user:JOSE\u0301") == canonical_name("user:jos\u00e9") == "user:jos\u00e9"
    True
    """
    # Folding may leave a text that is not composed any more.
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


def is_person(text: str) -> bool:
    """Return whether the text names a user or a group.

    >>> [is_person(text) for text in ("user:ana", "group:the editors", "ana", "user: ", "requester")]
    [True, True, False, False, False]
    """
    return len(text) <= LONGEST and _WRITTEN.fullmatch(text) is not None


def say_too_few(quorum: int, able: Collection[str]) -> str:
    """Return that so many people cannot accept, as only these may answer.

    >>> say_too_few(2, ["user:ana"])
    'a quorum of 2 cannot be reached: user:ana may answer'
    """
    return f"a quorum of {quorum} cannot be reached: {', '.join(sorted(able)) or 'nobody'} may answer"


def name_hint(name: str, key: str) -> str:
    """Return how to write a name that is neither a user nor a group."""
    if name.strip() and ":" not in name and name != REQUESTER:
        return f"did you mean {USER + name.strip()[:40]!r} or {GROUP + name.strip()[:40]!r}?"
    return "write user:NAME or group:NAME" + (f", or {REQUESTER}" if key == "not_by" else "")
