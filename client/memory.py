"""The questions seen last, so that they can be answered when no worker is there to ask. `Answering` keeps one."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

from pydantic import ValidationError

from holdfast.protocol.questions import Question

LARGEST = 500


class QuestionMemory:
    """The last 500 questions seen, in a file or, without one, in this process."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._seen: dict[str, Question] = {}

    def of(self, run: str) -> list[Question]:
        """Return the questions of a run that were seen last; they may be closed by now."""
        return [question for question in self._read() if question.run == run]

    def keep(self, questions: Sequence[Question]) -> None:
        """Keep these questions as the latest."""
        new = {question.id: question for question in questions}
        older = [question for question in self._read() if question.id not in new]
        latest = [*older, *new.values()][-LARGEST:]
        self._seen = {question.id: question for question in latest}
        if self._path is not None and new:
            self._write(self._path, latest)

    def _read(self) -> list[Question]:
        if self._path is None or not self._path.exists():
            return list(self._seen.values())
        try:
            return [Question.model_validate(entry) for entry in json.loads(self._path.read_text())]
        except (ValueError, ValidationError):  # written by another version; nothing depends on it
            return []

    @staticmethod
    def _write(path: Path, questions: Sequence[Question]) -> None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Written beside the file and moved over it: other processes read and write the same file.
        part = path.with_suffix(f".{os.getpid()}")
        part.touch(mode=0o600)
        part.write_text(json.dumps([question.model_dump(mode="json") for question in questions]))
        part.replace(path)
