"""The state of an expansion: the problems found so far, and the folder that file paths are relative to."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from holdfast.blueprint.errors import Problem
from holdfast.blueprint.kinds.parts import Part
from holdfast.blueprint.source import PlacedDict, Position
from holdfast.blueprint.suggest import known_keys, nearest, unknown_key

_MAX_TEXT = 256 * 1024


@dataclass
class ExpansionReport:
    """The folder of a blueprint (None: it was not read from a file), and the problems found in it."""

    folder: Path | None
    problems: list[Problem] = field(default_factory=list)

    def add(self, place: Position, path: str, code: str, message: str, hint: str | None = None) -> None:
        self.problems.append(place.problem(path, code, message, hint))

    def correct_keys(self, mapping: PlacedDict, part: type[Part], path: str) -> PlacedDict:
        """Return a copy with misspelt keys corrected and unknown keys left out; each is reported."""
        allowed = known_keys(part)
        corrected = mapping.copy()
        for key in [key for key in mapping if key not in allowed]:
            value, places = corrected.take(key)
            code, message, hint = unknown_key(part, key)
            self.add(places[0], f"{path}.{key}" if path else key, code, message, hint)
            intended = nearest(key, allowed) if code == "unknown_key" else None
            if intended is not None and intended not in corrected:
                corrected.put(intended, value, places)
        return corrected

    def refuse_other_keys(self, mapping: PlacedDict, allowed: tuple[str, ...], path: str) -> None:
        """Report the keys that a short form does not have."""
        for key in [key for key in mapping if key not in allowed]:
            close = nearest(key, allowed)
            hint = f"did you mean {close!r}?" if close else f"known here: {', '.join(allowed)}"
            self.add(mapping.key_place(key), f"{path}.{key}", "unknown_key", f"unknown key {key!r}", hint)

    def absolute(self, file: str) -> str:
        """Return a file's absolute path, or the path as written if there is no folder."""
        return file if self.folder is None else os.path.abspath(self.folder / file)

    def text_of(self, file: Any, place: Position, path: str) -> str:
        """Return the content of a text file beside the blueprint, or "" with a problem reported."""
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
            reason = error.strerror or str(error) if isinstance(error, OSError) else _reason_of(error)
            hint = "the path is relative to the blueprint's folder"
            self.add(place, path, "unreadable_file", f"cannot read {file!r}: {reason}", hint)
            return ""


def _reason_of(error: ValueError) -> str:
    return "it is no UTF-8 text" if isinstance(error, UnicodeDecodeError) else str(error)
