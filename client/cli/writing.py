"""New files for a person: never over what is there; and the command that runs what was written."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from client.cli.output import print_json, say
from client.reading import BadUsage


def check_free(path: Path) -> None:
    """Raises `BadUsage` if something is there already, or if there is no such folder."""
    if path.exists() or path.is_symlink():
        raise BadUsage(f"{path} is there already, and is not overwritten")
    if not path.parent.is_dir():
        raise BadUsage(f"{path} cannot be written: there is no folder {path.parent}")


def write_all(texts: Mapping[Path, str]) -> None:
    """Write these files; none of them, if one cannot be. Raises `BadUsage`."""
    for path in texts:
        check_free(path)
    for path, text in texts.items():
        _write_new(path, text)
        say(f"wrote {path}")


def _write_new(path: Path, text: str) -> None:
    try:
        with path.open("x", encoding="utf-8") as opened:
            opened.write(text)
    except OSError as error:
        raise BadUsage(f"{path} cannot be written: {error.strerror}") from error


def tell_command(file: Path, as_json: bool, **more: Any) -> None:
    """Say how the file is run; with JSON, that and whatever else is to be told."""
    command = shlex.join(["holdfast", "run", str(file)])
    if as_json:
        print_json({**more, "command": command})
    else:
        say("run it with:")
        print(command)
