"""When the embedded worker is replaced: what counts as a change of its code or settings."""

import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.runtime.config import load_config
from holdfast.runtime.embedded.server import Server
from holdfast.runtime.embedded.worker import OUR_CODE, ROOT, _compute_fingerprint

LOADED = """
import sys, holdfast.worker
print(*(m.__file__ for name, m in list(sys.modules.items()) if name.startswith("holdfast.") and m.__file__), sep="\\n")
"""


def test_an_interpreter_by_another_name_is_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config, server = load_config(tmp_path), Server(1, 2, 3, tmp_path / "db")
    before = _compute_fingerprint(config, server)
    monkeypatch.setattr(sys, "executable", str(Path(sys.executable).with_name("python3.99")))
    assert _compute_fingerprint(config, server) == before
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    assert _compute_fingerprint(config, server) != before


@pytest.mark.slow
def test_a_worker_loads_no_module_of_ours_whose_change_would_not_replace_it() -> None:
    listed = subprocess.run([sys.executable, "-c", LOADED], check=True, capture_output=True, text=True).stdout
    loaded = [Path(file).resolve() for file in listed.split()]
    watched = [ROOT / name for name in OUR_CODE]
    assert ROOT / "runtime" / "encryption.py" in loaded
    assert [file for file in loaded if not any(file.is_relative_to(place) for place in watched)] == []
