"""Write new files for `create`, never over existing ones, and print the command that runs them."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from holdfast.cli.output import print_json, print_text, say
from holdfast.cli.schemas import FOLDER, FileKind, find_file_kind, name_schema, write_schemas
from holdfast.client.reading import BadUsage


def check_free(path: Path) -> None:
    """Raise `BadUsage` if the path exists, or its folder does not."""
    if path.exists() or path.is_symlink():
        raise BadUsage(f"{path} already exists and is not overwritten")
    if not path.parent.is_dir():
        raise BadUsage(f"{path} cannot be written: there is no folder {path.parent}")


def write_all(texts: Mapping[Path, str]) -> None:
    """Write these files; none, if one of them exists. Raises `BadUsage`."""
    for path in texts:
        check_free(path)
    for path, text in texts.items():
        _write_new(path, name_schema(path, text))
        say(f"wrote {path}")
    for folder in {path.parent for path in texts}:
        kinds = [find_file_kind(path, text) for path, text in texts.items() if path.parent == folder]
        _write_schemas(folder, [kind for kind in FileKind if kind in kinds])


def _write_schemas(folder: Path, kinds: Sequence[FileKind]) -> None:
    try:
        if kinds:
            write_schemas(folder, kinds)
    except OSError as error:
        raise BadUsage(f"{folder / FOLDER} cannot be written: {error.strerror}") from error


def _write_new(path: Path, text: str) -> None:
    try:
        with path.open("x", encoding="utf-8") as stream:
            stream.write(text)
    except OSError as error:
        raise BadUsage(f"{path} cannot be written: {error.strerror}") from error


def print_command(command: str, as_json: bool, **more: Any) -> None:
    """Print the command that runs what was written; with `as_json` a JSON object of it and `more`."""
    if as_json:
        print_json({**more, "command": command})
    else:
        say("run it with:")
        print_text(command)


def run_command(file: Path) -> str:
    """Return the command that runs a file."""
    return shlex.join(["holdfast", "run", str(file)])
