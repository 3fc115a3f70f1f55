"""A person who types at the prompts."""

from __future__ import annotations

import asyncio
import io
import sys
from typing import Any

import pytest

from holdfast.cli.prompts import Terminal
from holdfast.cli.tables import console
from holdfast.protocol.answers import Answer


class Typing:
    """Types lines, and sees what is shown."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.monkeypatch, self.shown = monkeypatch, io.StringIO()
        monkeypatch.setattr(sys, "stderr", self.shown)

    def __call__(self, asked: Any, *lines: str) -> Answer | None:
        typed = io.TextIOWrapper(io.BytesIO("".join(f"{line}\n" for line in lines).encode()))
        self.monkeypatch.setattr(sys, "stdin", typed)
        return asyncio.run(Terminal(console(self.shown), editing=False).answer(asked))

    def content(self, asked: Any, *lines: str) -> Any:
        answer = self(asked, *lines)
        assert answer is not None
        return answer.content


@pytest.fixture
def typing(monkeypatch: pytest.MonkeyPatch) -> Typing:
    return Typing(monkeypatch)
