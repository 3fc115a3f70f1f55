"""Find and read text files: blueprints, and what they consist of and name."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from holdfast.blueprint.expressions.error import nearest

BLUEPRINT_SUFFIXES = (".yaml", ".yml", ".json")
TEST_SUFFIX = ".test.yaml"
_STEPS = re.compile(r"^[\"']?steps[\"']?\s*:", re.MULTILINE)
_IN_BRACES = re.compile(r"\s*\{.*\bsteps[\"']?\s*:", re.DOTALL)


def walk_files(
    folder: Path, endings: tuple[str, ...], on_error: Callable[[OSError], None] | None = None
) -> Iterator[Path]:
    """Yield the files of a folder and those below it whose names end so; hidden files and folders are left out.

    Args:
        folder: The folder.
        endings: What the names end with, such as `.yaml`.
        on_error: Gets the error of a folder that cannot be read, which is passed over.
    """
    for place, below, names in os.walk(folder, onerror=on_error):
        below[:] = sorted(name for name in below if not name.startswith("."))  # not looked into: a .venv is large
        yield from (Path(place, name) for name in sorted(names) if name.endswith(endings) and not name.startswith("."))


def has_steps(path: Path) -> bool:
    """Return whether a file looks like a blueprint, with or without mistakes: not replies, nor tests.

    Raises:
        OSError: The file cannot be read.
    """
    if path.name.endswith(TEST_SUFFIX) or not path.is_file():
        return False
    text = path.read_text(encoding="utf-8", errors="replace")
    return _STEPS.search(text) is not None or _IN_BRACES.match(text) is not None


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
