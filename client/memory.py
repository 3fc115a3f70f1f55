"""The questions seen last, so that they can be answered when no worker is there to ask. `Answering` keeps one."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path

from pydantic import ValidationError

from holdfast.blueprint.json_values import JSONObject
from holdfast.protocol.questions import Question
from holdfast.runtime.encryption import KeyRing, NotDecrypted
from holdfast.runtime.own_files import write_whole

LARGEST = 500
"""Questions."""
LARGEST_QUESTION = 64 * 1024
"""Characters of a question as JSON: the run is asked for one with more."""
LARGEST_FILE = 4 * 1024 * 1024
"""Characters: of more the questions seen last are written."""
CONTEXT = "questions"
_ANSWERED = "answered_here"
"""The key of the time, in seconds since 1970, at which this machine has answered a question."""


class QuestionMemory:
    """The last 500 questions seen that are not too large, in a file or, without one, in this process.

    The file is read again when another process has written it, and written when something new was seen.
    """

    def __init__(self, path: Path | None = None, ring: KeyRing | None = None) -> None:
        """`ring` encrypts the file, if it has keys."""
        self._path, self._ring = path, ring or KeyRing()
        self._seen: dict[str, JSONObject] = {}
        self._stamp: tuple[int, ...] | None = None
        """Of the file, as it was read or written last."""
        self._is_ahead = False
        """Whether something was seen that is not in the file."""
        self.writes_at_once = True
        """False in a process that sees many questions, and calls `write` now and then."""

    def of(self, run: str) -> list[Question]:
        """Return the questions of a run that were seen last; they may be closed by now."""
        return [question for entry in self._read().values() if entry.get("run") == run for question in _parse(entry)]

    def find(self, id: str) -> Question | None:
        """Return the question of this id, if it was seen lately; it may be closed by now."""
        return next(iter(_parse(self._read().get(id, {}))), None)

    def keep(self, questions: Sequence[Question]) -> None:
        """Keep these questions as the latest."""
        seen = self._read()
        entries = {question.id: question.model_dump(mode="json") for question in questions}
        # Most are as they were: a server sees the same ones again and again, and need not write them to measure them.
        new = {id_: entry for id_, entry in entries.items() if seen.get(id_) == entry or _is_small(entry)}
        if all(seen.get(id_) == entry for id_, entry in new.items()):
            return
        for id_, entry in new.items():
            seen.pop(id_, None)
            seen[id_] = entry
        for id_ in list(seen)[:-LARGEST]:
            del seen[id_]
        self._is_ahead = True
        if self.writes_at_once:
            self.write()

    def list_ids(self) -> frozenset[str]:
        """Return the ids of the questions seen last."""
        return frozenset(self._read())

    def settle(self, ids: Sequence[str]) -> None:
        """Note that these questions were answered from here just now; they are the ones seen last."""
        seen = self._read()
        for id_ in ids:
            if (entry := seen.pop(id_, None)) is not None:
                seen[id_] = {**entry, _ANSWERED: time.time()}
                self._is_ahead = True
        if self.writes_at_once:
            self.write()

    def forget(self, run: str) -> None:
        """Keep no question of a run any longer: its contents are erased."""
        seen = self._read()
        gone = [id_ for id_, entry in seen.items() if entry.get("run") == run]
        for id_ in gone:
            del seen[id_]
        self._is_ahead = self._is_ahead or bool(gone)
        self.write()

    def was_answered(self, id: str, before: float) -> bool:
        """Return whether a question was answered from here before a time, in seconds since 1970."""
        return bool(self._read().get(id, {}).get(_ANSWERED, before) < before)

    def write(self) -> None:
        """Write what was seen since the last time."""
        if self._path is not None and self._is_ahead:
            text = f"[{', '.join(self._write_entries())}]"
            write_whole(self._path, self._ring.seal_text(text, CONTEXT).encode())
            self._stamp, self._is_ahead = _read_stamp(self._path), False

    def _write_entries(self) -> list[str]:
        """Return the questions as JSON texts, as many of the last as the file may hold."""
        texts, size = [json.dumps(entry) for entry in self._read().values()], 0
        for number, text in enumerate(reversed(texts)):
            size += len(text)
            if size > LARGEST_FILE:
                return texts[len(texts) - number :]
        return texts

    def _read(self) -> dict[str, JSONObject]:
        """Return the questions as JSON, by id: most of them nobody asks for, and they are not parsed."""
        stamp = None if self._path is None else _read_stamp(self._path)
        if self._path is None or stamp in (None, self._stamp):
            return self._seen
        ahead = self._seen if self._is_ahead else {}
        self._seen, self._stamp = {**self._read_file(self._path), **ahead}, stamp
        return self._seen

    def _read_file(self, path: Path) -> dict[str, JSONObject]:
        try:
            entries = json.loads(self._ring.open_text(path.read_text(), CONTEXT))
            return {entry["id"]: entry for entry in entries}
        except (ValueError, TypeError, KeyError, NotDecrypted):  # of another version or key; nothing depends on it
            return {}


def _read_stamp(path: Path) -> tuple[int, ...] | None:
    """Return what changes whenever the file is written; None if there is none."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def _is_small(entry: JSONObject) -> bool:
    return len(json.dumps(entry)) <= LARGEST_QUESTION


def _parse(entry: JSONObject) -> list[Question]:
    """Return the question that was kept; none if another version kept it."""
    try:
        return [Question.model_validate({key: value for key, value in entry.items() if key != _ANSWERED})]
    except ValidationError:
        return []
