"""Tools that the tests' blueprints call; each call appends a line to a file, so that it can be counted."""

from __future__ import annotations

import time
from pathlib import Path

from activities import tool


def calls(folder: Path, name: str) -> int:
    path = folder / name
    return len(path.read_text().splitlines()) if path.exists() else 0


def _count(folder: str, name: str) -> None:
    with (Path(folder) / name).open("a") as file:
        file.write("called\n")


@tool(idempotent=True)
def counted(folder: str, name: str) -> str:
    _count(folder, name)
    return f"{name} {calls(Path(folder), name)}"


@tool
def hangs_once(folder: str, name: str) -> str:
    """Takes effect, then hangs in its first call for as long as the file `hang` is there."""
    _count(folder, name)
    while (Path(folder) / "hang").exists():
        time.sleep(0.05)
    return "done"
