"""The packages of an author, which a configuration lists: importing them registers kinds of questions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

Importer = Callable[[Path | None], Mapping[str, str]]
"""Imports the packages that a configuration lists, for a blueprint in a folder; returns by package why one failed."""
_importers: list[Importer] = []


def add_importer(importer: Importer) -> None:
    """Call a function before a kind of question counts as unknown.

    So a command imports packages only where it meets one of their kinds.
    """
    if importer not in _importers:
        _importers.append(importer)


def import_packages(folder: Path | None) -> dict[str, str]:
    """Import the packages of all importers, and return by package why it cannot be imported."""
    return {package: reason for importer in _importers for package, reason in importer(folder).items()}
