"""The questions seen last, so that they can be answered when no worker is there to ask. `Answering` keeps one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from pydantic import ValidationError

from holdfast.blueprint.json_values import JSONObject
from holdfast.protocol.questions import Question
from holdfast.runtime.encryption import KeyRing, NotDecrypted
from holdfast.runtime.own_files import write_whole

LARGEST = 500
CONTEXT = "questions"


class QuestionMemory:
    """The last 500 questions seen, in a file or, without one, in this process."""

    def __init__(self, path: Path | None = None, ring: KeyRing | None = None) -> None:
        """`ring` encrypts the file, if it has keys."""
        self._path, self._ring = path, ring or KeyRing()
        self._seen: dict[str, JSONObject] = {}

    def of(self, run: str) -> list[Question]:
        """Return the questions of a run that were seen last; they may be closed by now."""
        return [question for entry in self._read().values() if entry.get("run") == run for question in _parse(entry)]

    def find(self, id: str) -> Question | None:
        """Return the question of this id, if it was seen lately; it may be closed by now."""
        return next(iter(_parse(self._read().get(id, {}))), None)

    def keep(self, questions: Sequence[Question]) -> None:
        """Keep these questions as the latest."""
        if not questions:
            return
        new = {question.id: question.model_dump(mode="json") for question in questions}
        older = {id_: entry for id_, entry in self._read().items() if id_ not in new}
        self._seen = dict([*older.items(), *new.items()][-LARGEST:])
        if self._path is not None:
            text = json.dumps(list(self._seen.values()))
            write_whole(self._path, self._ring.seal_text(text, CONTEXT).encode())

    def _read(self) -> dict[str, JSONObject]:
        """Return the questions as JSON, by id: most of them nobody asks for, and they are not parsed."""
        if self._path is None or not self._path.exists():
            return self._seen
        try:
            entries = json.loads(self._ring.open_text(self._path.read_text(), CONTEXT))
            return {entry["id"]: entry for entry in entries}
        except (ValueError, TypeError, KeyError, NotDecrypted):  # of another version or key; nothing depends on it
            return {}


def _parse(entry: JSONObject) -> list[Question]:
    """Return the question that was kept; none if another version kept it."""
    try:
        return [Question.model_validate(entry)]
    except ValidationError:
        return []
