"""What a conversion has changed, and what it leaves to the author, by line of the file it was read from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from holdfast.blueprint.source import PlacedDict, Position


@dataclass(frozen=True)
class Note:
    """One place of a document: what was done there, or what is left to do.

    Args:
        line: Of the file that was read, from 1.
        text: For the author.
    """

    file: str
    line: int
    text: str


@dataclass
class Notes:
    """The notes of one document, each list in the order of its lines."""

    changed: list[Note] = field(default_factory=list)
    """What means the same as before."""
    left: list[Note] = field(default_factory=list)
    """What the author has to do or to decide."""

    def change(self, place: Position, text: str) -> None:
        """Note what was written in another way."""
        self.changed.append(Note(place.source.file, place.line, text))

    def leave(self, place: Position, text: str) -> None:
        """Note what could not be turned."""
        self.left.append(Note(place.source.file, place.line, text))

    def drop(self, holder: PlacedDict, keys: Mapping[str, str], *, left: bool) -> None:
        """Take out keys, and note why each was left out; with `left` the author has to do something about it."""
        for key in [key for key in keys if key in holder]:
            _, (place, _) = holder.take(key)
            (self.leave if left else self.change)(place, f"{key} was left out: {keys[key]}")

    def sort(self) -> None:
        """Put both lists in the order of their lines; what is said twice of a line stays once."""
        for notes in (self.changed, self.left):
            notes[:] = sorted(dict.fromkeys(notes), key=lambda note: note.line)
