"""Read the text files that a blueprint consists of and names. Used by `load` and `sugar`."""

from __future__ import annotations

import os
from pathlib import Path

from holdfast.blueprint.expressions.error import nearest


class UnreadableFile(Exception):
    """A file that cannot be read as text; the message is the reason."""

    def __init__(self, reason: str, hint: str | None = None) -> None:
        super().__init__(reason)
        self.hint = hint


def text_of_file(path: Path, most: int) -> str:
    """Return the text of a file in UTF-8 of at most so many bytes. Raises `UnreadableFile`."""
    try:
        with path.open("rb") as opened:
            raw = opened.read(most + 1)
    except OSError as error:
        reason = error.strerror or str(error)
        raise UnreadableFile(reason[:1].lower() + reason[1:], _similar_name(path)) from None
    except ValueError as error:  # a path with a null byte
        raise UnreadableFile(str(error)) from None
    if len(raw) > most:
        raise UnreadableFile(f"it has more than {most // 1024:,} KiB", "keep long texts in files of their own")
    try:
        # With or without the byte-order mark that some editors write.
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UnreadableFile(f"it is not UTF-8 text (byte {error.start})", "save it as UTF-8") from None


def _similar_name(path: Path) -> str | None:
    """Return a hint: a file of nearly the same name in the folder, if there is one."""
    try:
        beside = sorted(os.listdir(path.parent))
    except OSError:
        return None
    # By the names without their endings: these would make any two blueprints similar.
    stems = {Path(name).stem: name for name in beside if name != path.name}
    close = nearest(path.stem, stems)
    return None if close is None else f"did you mean {stems[close]!r}?"
