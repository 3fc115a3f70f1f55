"""Texts in their reader's language: one TOML file for each. Templates of pages and notices call `t("table.key")`."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from string import Formatter

from holdfast.runtime.config import ConfigError

_TAG = re.compile(r"[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*")
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
def load_texts(language: str, *folders: Path) -> Texts:
    """Return the texts of a language: of a later folder before an earlier one, in English where none has them."""
    entries = {} if language == DEFAULT_LANGUAGE else dict(load_texts(DEFAULT_LANGUAGE, *folders).entries)
    for path in (folder / f"{language}.toml" for folder in folders):
        if path.exists():
            entries |= _read(path)
    return Texts(language, entries)


def check_texts(folder: Path, *folders: Path) -> None:
    """Raise `ConfigError` for a folder that is missing, or has a text for which the others have no English.

    Args:
        folder: The folder.
        folders: Those whose English has every text.
    """
    if not folder.is_dir():
        raise ConfigError(f"{folder}: no such folder; make it, or correct languages in [serve]")
    english = load_texts(DEFAULT_LANGUAGE, *folders).entries
    for path in sorted(folder.glob("*.toml")):
        try:
            if not _TAG.fullmatch(path.stem):
                raise ValueError('its name must be the tag of a language, such as "de" or "pt-BR"')
            for key, entry in _read(path).items():
                _check_entry(key, entry, english)
        except ValueError as error:  # also of a file that is no TOML
            raise ConfigError(f"{path}: {error}") from None


def _check_entry(key: str, entry: Entry, english: Mapping[str, Entry]) -> None:
    """Raise `ValueError` for a text that is not known, or that uses what it does not get."""
    if key not in english:
        close = get_close_matches(key, english, 1)
        raise ValueError(f"unknown text {key}" + (f"; did you mean {close[0]}?" if close else ""))
    try:
        unknown = _list_names(entry) - _list_names(english[key])
    except ValueError as error:
        raise ValueError(f"{key}: {error}") from None
    if unknown:
        known = ", ".join(f"{{{name}}}" for name in sorted(_list_names(english[key]))) or "none"
        raise ValueError(f"{key}: unknown name {{{min(unknown)}}}; there are: {known}")


def _list_names(entry: Entry) -> set[str]:
    texts = [entry] if isinstance(entry, str) else entry.values()
    return {name for text in texts for _, name, _, _ in Formatter().parse(text) if name is not None}


def list_languages(*folders: Path) -> list[str]:
    """Return the tags of the languages in these folders, sorted."""
    return sorted({path.stem for folder in folders for path in folder.glob("*.toml")})


def choose_language(accepted: str, *folders: Path) -> str:
    """Return the language to show for the value of an `Accept-Language` header."""
    return find_nearest_language([tag for wanted in _by_preference(accepted) for tag in widen_tag(wanted)], *folders)


def find_nearest_language(tags: Iterable[str], *folders: Path) -> str:
    """Return the first of these languages that there are texts for; else English."""
    available = {tag.lower(): tag for tag in list_languages(*folders)}
    return next((available[tag.lower()] for tag in tags if tag.lower() in available), DEFAULT_LANGUAGE)


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


def _read(path: Path) -> dict[str, Entry]:
    """Return the texts of a file by key. Raises `ValueError` if it is no TOML."""
    return dict(_entries(tomllib.loads(path.read_text(encoding="utf-8"))))


def _entries(table: Mapping[str, object], prefix: str = "") -> list[tuple[str, Entry]]:
    entries: list[tuple[str, Entry]] = []
    for name, value in table.items():
        if isinstance(value, dict) and set(value) != {"one", "other"}:
            entries += _entries(value, f"{prefix}{name}.")
        elif isinstance(value, str | dict):
            entries.append((f"{prefix}{name}", value))
    return entries
