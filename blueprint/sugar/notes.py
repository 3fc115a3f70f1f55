"""What is kept while short forms are spelled out: the problems, and the folder that files are named from."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from blueprint.errors import Problem
from blueprint.grammar.base import Part
from blueprint.source import Place, PlacedDict
from blueprint.spelling import known_keys, nearest, unknown_key

_MAX_TEXT = 256 * 1024


@dataclass
class Notes:
    """The folder of a blueprint (None: it was not read from a file), and what was found in it."""

    folder: Path | None
    problems: list[Problem] = field(default_factory=list)

    def add(self, place: Place, path: str, code: str, message: str, hint: str | None = None) -> None:
        self.problems.append(place.problem(path, code, message, hint))

    def spelled(self, written: PlacedDict, part: type[Part], path: str) -> PlacedDict:
        """A copy in which each misspelt key is the one that was meant; keys nobody knows are left out."""
        known = known_keys(part)
        right = written.copy()
        for key in [key for key in written if key not in known]:
            value, places = right.take(key)
            code, message, hint = unknown_key(part, key)
            self.add(places[0], f"{path}.{key}" if path else key, code, message, hint)
            meant = nearest(key, known) if code == "unknown_key" else None
            if meant is not None and meant not in right:
                right.put(meant, value, places)
        return right

    def only(self, written: PlacedDict, known: tuple[str, ...], path: str) -> None:
        """Say which keys a short form does not have."""
        for key in [key for key in written if key not in known]:
            close = nearest(key, known)
            hint = f"did you mean {close!r}?" if close else f"known here: {', '.join(known)}"
            self.add(written.key_place(key), f"{path}.{key}", "unknown_key", f"unknown key {key!r}", hint)

    def absolute(self, file: str) -> str:
        """A file's path by itself; as written where there is no folder."""
        return file if self.folder is None else os.path.abspath(self.folder / file)

    def text_of(self, file: Any, place: Place, path: str) -> str:
        """What stands in a text file beside the blueprint."""
        if not isinstance(file, str) or not file:
            self.add(place, path, "bad_value", "'from_file' must be the path of a text file")
            return ""
        if self.folder is None:
            hint = "write the text here, or read the blueprint from a file"
            self.add(place, path, "unreadable_file", f"cannot read {file!r}: this blueprint has no folder", hint)
            return ""
        try:
            raw = Path(self.absolute(file)).read_bytes()
            if len(raw) > _MAX_TEXT:
                raise ValueError(f"it has more than {_MAX_TEXT // 1024} KiB")
            return raw.decode("utf-8-sig")
        except (OSError, ValueError) as error:
            why = error.strerror or str(error) if isinstance(error, OSError) else _why(error)
            hint = "the path is relative to the blueprint's folder"
            self.add(place, path, "unreadable_file", f"cannot read {file!r}: {why}", hint)
            return ""


def _why(error: ValueError) -> str:
    return "it is no UTF-8 text" if isinstance(error, UnicodeDecodeError) else str(error)
