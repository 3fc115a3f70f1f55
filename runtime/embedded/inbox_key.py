"""The key with which the embedded set's inbox signs for people who have signed in: made once, known to its worker.

It is no key of the configuration: commands without a token are taken as before, and are worth as little.
"""

from __future__ import annotations

from pathlib import Path

from holdfast.protocol.guard import Key
from holdfast.runtime.own_files import own_key

INBOX = "inbox"
"""The id of the key in tokens."""


def inbox_key_file(home: Path) -> Path:
    """Return the file of the key; make it if there is none."""
    path = home / "inbox.key"
    own_key(path)
    return path


def inbox_key(path: Path) -> Key:
    """Return the key in a file."""
    return Key(INBOX, path.read_text(encoding="ascii").strip(), "person")
