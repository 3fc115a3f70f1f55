"""When the embedded worker is replaced: what counts as a change of its code or settings."""

import sys
from pathlib import Path

import pytest

from holdfast.client.config import load_config
from holdfast.client.embedded.server import Server
from holdfast.client.embedded.worker import _fingerprint


def test_an_interpreter_by_another_name_is_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config, server = load_config(tmp_path), Server(1, 2, 3, tmp_path / "db")
    before = _fingerprint(config, server)
    monkeypatch.setattr(sys, "executable", str(Path(sys.executable).with_name("python3.99")))
    assert _fingerprint(config, server) == before
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    assert _fingerprint(config, server) != before
