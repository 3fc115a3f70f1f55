"""Texts in their reader's language: one TOML file for each. Templates of pages and notices call `t("table.key")`."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

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

    def table(self, name: str) -> dict[str, Entry]:
        """Return the texts of a table, for a script."""
        return {
            key.removeprefix(f"{name}."): entry for key, entry in self.entries.items() if key.startswith(f"{name}.")
        }

    def __contains__(self, key: str) -> bool:
        return key in self.entries


@cache
def load_texts(language: str, folder: Path) -> Texts:
    """Return the texts of a language in a folder, with English ones in place of those that its file leaves out."""
    entries = dict(_entries(tomllib.loads((folder / f"{language}.toml").read_text(encoding="utf-8"))))
    if language != DEFAULT_LANGUAGE:
        entries = {**load_texts(DEFAULT_LANGUAGE, folder).entries, **entries}
    return Texts(language, entries)


def list_languages(folder: Path) -> list[str]:
    """Return the tags of the languages in a folder, sorted."""
    return sorted(path.stem for path in folder.glob("*.toml"))


def choose_language(accepted: str, folder: Path) -> str:
    """Return the language to show for the value of an `Accept-Language` header."""
    return find_nearest_language([tag for wanted in _by_preference(accepted) for tag in widen_tag(wanted)], folder)


def find_nearest_language(tags: Iterable[str], folder: Path) -> str:
    """Return the first of these languages that there are texts for; else English."""
    available = list_languages(folder)
    return next((tag for tag in tags if tag in available), DEFAULT_LANGUAGE)


def widen_tag(tag: str) -> list[str]:
    """Return the tag of a language and those of wider ones, the nearest first.

    >>> widen_tag("pt-BR"), widen_tag("")
    (['pt-BR', 'pt'], [])
    """
    words = tag.split("-")
    return ["-".join(words[:count]) for count in range(len(words), 0, -1) if words[0]]


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
