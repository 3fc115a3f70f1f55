"""The questions seen last, so that they can be answered when no worker is there to ask. `Answering` keeps one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from pydantic import ValidationError

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
        self._seen: dict[str, Question] = {}

    def of(self, run: str) -> list[Question]:
        """Return the questions of a run that were seen last; they may be closed by now."""
        return [question for question in self._read() if question.run == run]

    def find(self, id: str) -> Question | None:
        """Return the question of this id, if it was seen lately; it may be closed by now."""
        return next((question for question in self._read() if question.id == id), None)

    def keep(self, questions: Sequence[Question]) -> None:
        """Keep these questions as the latest."""
        new = {question.id: question for question in questions}
        older = [question for question in self._read() if question.id not in new]
        latest = [*older, *new.values()][-LARGEST:]
        self._seen = {question.id: question for question in latest}
        if self._path is not None and new:
            self._write(self._path, self._ring, latest)

    def _read(self) -> list[Question]:
        if self._path is None or not self._path.exists():
            return list(self._seen.values())
        try:
            return [
                Question.model_validate(entry)
                for entry in json.loads(self._ring.open_text(self._path.read_text(), CONTEXT))
            ]
        except (ValueError, ValidationError, NotDecrypted):  # of another version or key; nothing depends on it
            return []

    @staticmethod
    def _write(path: Path, ring: KeyRing, questions: Sequence[Question]) -> None:
        text = json.dumps([question.model_dump(mode="json") for question in questions])
        write_whole(path, ring.seal_text(text, CONTEXT).encode())
