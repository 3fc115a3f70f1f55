"""Where secret values lie: written by clients, read by tools on workers. A history holds references only.

`[secrets]` in `holdfast.toml` says where; the embedded server takes the folder `secrets` in its state folder.
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from client.config import Config, ConfigError
from protocol.answers import Answer, Refusal
from protocol.questions import InvalidAnswer, Secret
from protocol.secrets import DIRECTORY, ENVIRONMENT, Reference, reference_in

UNSET = (
    "no secret store is set, so that the value could not be kept; nothing was sent. Set store in [secrets] of "
    "holdfast.toml, or HOLDFAST_SECRETS, to dir:PATH, a folder that clients and workers share; or set a variable where "
    "the worker runs, list it in env of [secrets], and answer with secret:env/NAME"
)


class Store(Protocol):
    """Keeps values under ids. One more is a class, a row in `stores`, and one in `protocol.secrets.IDS`."""

    def read(self, id: str) -> str | None:
        """The value; None if there is none. Raises OSError."""


class Directory:
    """A folder of its owner's alone: each value in a file, under 128 random bits."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def put(self, value: str) -> str:
        """Keep the value; its reference. It appears whole or not at all. Raises ConfigError."""
        id_ = secrets.token_hex(16)
        draft = self.folder / f"{id_}.new"
        try:
            self._make()
            file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(file, "w", encoding="utf-8", newline="") as out:
                out.write(value)
                out.flush()
                os.fsync(out.fileno())
            draft.rename(self.folder / id_)
        except OSError as error:
            with suppress(OSError):
                draft.unlink(missing_ok=True)
            told = f"{self.folder}: a secret cannot be kept there: {error.strerror}; nothing was sent. Make it writable"
            raise ConfigError(f"{told}, or set store in [secrets] to another folder") from None
        return str(Reference(DIRECTORY, id_))

    def _make(self) -> None:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if stat.S_IMODE(self.folder.stat().st_mode) & 0o077:
            told = f"{self.folder}: others may look into it, so no secret is kept there; nothing was sent"
            raise ConfigError(f"{told}. Type: chmod 700 {self.folder}")

    def read(self, id: str) -> str | None:
        """See base class."""
        try:
            return (self.folder / id).read_bytes().decode()
        except FileNotFoundError:
            return None

    def drop(self, id: str) -> None:
        """Forget a value."""
        with suppress(OSError):
            (self.folder / id).unlink(missing_ok=True)


class Environment:
    """The variables of the worker's environment that the configuration lists; nobody writes them from here."""

    def __init__(self, names: Collection[str]) -> None:
        self.names = names

    def read(self, id: str) -> str | None:
        """See base class. A variable that is not listed is none: who answers must not choose what tools read."""
        return os.environ.get(id) if id in self.names else None


def stores(config: Config, *, embedded: bool = False) -> dict[str, Store]:
    """What tools of a worker read from, by the name in references."""
    found: dict[str, Store] = {ENVIRONMENT: Environment(config.secrets.env)}
    if (folder := config.secret_folder(embedded=embedded)) is not None:
        found[DIRECTORY] = Directory(folder)
    return found


def keeper(config: Config, *, embedded: bool) -> Directory | None:
    """Where a client puts values; None where nobody said."""
    folder = config.secret_folder(embedded=embedded)
    return None if folder is None else Directory(folder)


def kept(asked: Secret, answer: Answer, store: Directory | None) -> Answer:
    """The answer with each value put into the store, and its reference in its place.

    Raises Refusal if it does not fit, and ConfigError where there is no store; neither repeats a value.
    """
    try:
        given = asked.by_name(answer.content)
    except InvalidAnswer as error:
        told = f"question {answer.question}: {error}; nothing was sent"
        raise Refusal("invalid_answer", told) from None
    if store is None and not all(map(reference_in, given.values())):
        raise ConfigError(UNSET)
    referred = {name: value if store is None else _referred(value, store) for name, value in given.items()}
    return answer.model_copy(update={"content": referred[""] if asked.form is None else referred})


def _referred(value: str, store: Directory) -> str:
    return value if reference_in(value) else store.put(value)


def forget(made: Answer, given: Answer, store: Directory | None) -> None:
    """Remove what was put into the store for an answer that was refused; not what it named itself."""
    for reference in map(reference_in, _values(made.content) - _values(given.content)):
        if store is not None and reference is not None and reference.store == DIRECTORY:
            store.drop(reference.id)


def _values(content: Any) -> set[str]:
    inside = content.values() if isinstance(content, dict) else [content]
    return {value for value in inside if isinstance(value, str)}


def says_the_same(content: Any, before: Any, store: Directory | None) -> bool:
    """Whether an answer repeats one whose references are known: by the references, or by what they stand for."""
    if isinstance(content, dict) and isinstance(before, dict):
        pairs = [(content[name], before.get(name)) for name in content]
        return content.keys() == before.keys() and all(says_the_same(one, other, store) for one, other in pairs)
    reference = reference_in(before)
    if content == before or reference is None or store is None or reference.store != DIRECTORY:
        return bool(content == before)
    try:
        return bool(content == store.read(reference.id))
    except OSError:
        return False
