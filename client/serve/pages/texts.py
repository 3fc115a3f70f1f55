"""The texts of the pages: one TOML file for each language. Templates call them as `t("table.key", name=value)`."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parent / "languages"
DEFAULT_LANGUAGE = "en"
Entry = str | Mapping[str, str]
"""A text, or the forms `one` and `other` of a text that counts."""


class Texts:
    """The texts of one language.

    Args:
        language: The tag of the language, such as `en`.
        entries: The texts by key.
    """

    def __init__(self, language: str, entries: Mapping[str, Entry]) -> None:
        self.language, self.entries = language, entries

    def __call__(self, key: str, **values: object) -> str:
        """Return a text with its values filled in; one that counts is chosen by `count`. Raises `KeyError`."""
        entry = self.entries[key]
        if not isinstance(entry, str):
            entry = entry["one" if values.get("count") == 1 else "other"]
        return entry.format_map(values) if values else entry

    def __contains__(self, key: str) -> bool:
        return key in self.entries


@cache
def load_texts(language: str = DEFAULT_LANGUAGE, folder: Path = FOLDER) -> Texts:
    """Return the texts of a language, with English ones in place of those that its file leaves out."""
    entries = dict(_entries(tomllib.loads((folder / f"{language}.toml").read_text(encoding="utf-8"))))
    if language != DEFAULT_LANGUAGE:
        entries = {**load_texts(DEFAULT_LANGUAGE, folder).entries, **entries}
    return Texts(language, entries)


def languages(folder: Path = FOLDER) -> list[str]:
    """Return the tags of the languages there are, sorted."""
    return sorted(path.stem for path in folder.glob("*.toml"))


def chosen_language(accepted: str, folder: Path = FOLDER) -> str:
    """Return the language to show for the value of an `Accept-Language` header.

    >>> chosen_language("tlh, en-GB;q=0.8"), chosen_language("")
    ('en', 'en')
    """
    available = languages(folder)
    for tag in _by_preference(accepted):
        for candidate in (tag, tag.partition("-")[0]):
            if candidate in available:
                return candidate
    return DEFAULT_LANGUAGE


def _by_preference(accepted: str) -> list[str]:
    """Return the tags of an `Accept-Language` header, the preferred first."""
    weighted = []
    for part in accepted.lower().split(","):
        tag, _, parameter = part.strip().partition(";")
        try:
            weight = float(parameter.strip().removeprefix("q=") or 1)
        except ValueError:
            weight = 0.0
        if tag and weight > 0:
            weighted.append((weight, tag))
    return [tag for _, tag in sorted(weighted, key=lambda pair: -pair[0])]


def _entries(table: Mapping[str, object], prefix: str = "") -> list[tuple[str, Entry]]:
    entries: list[tuple[str, Entry]] = []
    for name, value in table.items():
        if isinstance(value, dict) and set(value) != {"one", "other"}:
            entries += _entries(value, f"{prefix}{name}.")
        elif isinstance(value, str | dict):
            entries.append((f"{prefix}{name}", value))
    return entries
