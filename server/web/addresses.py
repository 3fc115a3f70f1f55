"""The addresses of pages, and the one-time links that sign one browser in, for whatever links to them.

A command that may write to the state folder makes such a link. It is a file, named by the digest of its token, so that
a command needs no running server and no library to make one, and taking it away is atomic: of two browsers one gets
in.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote, urlencode

from holdfast.protocol.questions import Question
from holdfast.runtime.config import Config, ServeSection

ONCE_PARAMETER = "once"
ONCE_SECONDS = 86400.0
"""Seconds that an unused link is valid."""
ONCE_FOLDER = "once"


def run_address(run: str, below: str = "", **query: object) -> str:
    """Return the address of a page of a run.

    >>> run_address("a b", "/graph", back=3)
    '/runs/a%20b/graph?back=3'
    """
    return f"/runs/{quote(run, safe='')}{below}" + (f"?{urlencode(query)}" if query else "")


def question_path(run: str, question: str) -> str:
    """Return the address of a question's page, by the ids of the run and of the question."""
    return f"/questions/{quote(run, safe='')}/{quote(question, safe='')}"


def question_address(question: Question) -> str:
    """Return the address of a question's page."""
    return question_path(question.run, question.id)


def temporal_address(ui: str | None, namespace: str, run: str) -> str | None:
    """Return the address of a run in Temporal's own UI; None if that of the UI is not known.

    >>> temporal_address("http://localhost:8233", "default", "a b")
    'http://localhost:8233/namespaces/default/workflows/a%20b'
    """
    return None if ui is None else f"{ui}/namespaces/{namespace}/workflows/{quote(run, safe='')}"


def new_once_token(home: Path, user: str) -> str:
    """Make a token that signs one browser in as this user, and return it."""
    folder = home / ONCE_FOLDER
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    _remove_old(folder)
    token = secrets.token_urlsafe(32)
    file = os.open(folder / _digest(token), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(file, "w", encoding="utf-8") as out:
        out.write(user)
    return token


def once_link(config: Config, address: str, user: str, new_token: Callable[[str], str] | None = None) -> str:
    """Return a link to the server at this address that signs one browser in as this user.

    It is the plain address where a proxy or a provider signs people in.

    Args:
        config: The configuration.
        address: The address of the server.
        user: The user, such as `user:ana`.
        new_token: Makes the token for the user; by default one in the state folder.
    """
    if not signs_in_by_link(config.serve):
        return config.serve.url or address
    token = new_once_token(config.home, user) if new_token is None else new_token(user)
    return f"{address}/?{ONCE_PARAMETER}={token}"


def signs_in_by_link(settings: ServeSection) -> bool:
    """Return whether people sign in by one-time links, as neither a proxy nor a provider signs them in."""
    return settings.user_header is None and settings.oidc is None


def take_once_token(home: Path, token: str) -> str | None:
    """Use up a token and return its user; None if it is unknown, used or too old."""
    file = home / ONCE_FOLDER / _digest(token)
    taken = file.with_suffix(".taken")
    try:
        file.rename(taken)  # of two requests one succeeds
        user, age = taken.read_text(encoding="utf-8"), time.time() - taken.stat().st_mtime
        taken.unlink()
    except FileNotFoundError:
        return None
    return user if age < ONCE_SECONDS else None


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def _remove_old(folder: Path) -> None:
    for file in folder.iterdir():
        with suppress(FileNotFoundError):  # used, or removed by another command, since the folder was listed
            if time.time() - file.stat().st_mtime > ONCE_SECONDS:
                file.unlink()
