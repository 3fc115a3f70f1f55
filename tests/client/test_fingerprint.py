"""The embedded worker and inbox: when the worker is replaced, and the inbox's key, which only its owner has."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from holdfast.blueprint.load import loads
from holdfast.client.answering import Answering, Sender
from holdfast.client.runs import Runs
from holdfast.protocol.answers import Answer
from holdfast.protocol.events import QuestionAnswered
from holdfast.runtime.config import Config, load_config
from holdfast.runtime.connection import connect
from holdfast.runtime.embedded import stop_all
from holdfast.runtime.embedded.inbox_key import inbox_key, inbox_key_file
from holdfast.runtime.embedded.server import Server
from holdfast.runtime.embedded.worker import OUR_CODE, ROOT, _compute_fingerprint
from tests.conftest import until
from tests.flows import ONE

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


def test_a_change_of_the_authors_code_counts_and_byte_code_does_not(tmp_path: Path) -> None:
    module = tmp_path / "tools" / "mail.py"
    module.parent.mkdir()
    module.write_text("")
    (tmp_path / "holdfast.toml").write_text('[worker]\nimports = ["tools.mail"]')
    config, server = load_config(tmp_path), Server(1, 2, 3, tmp_path / "db")
    before = _compute_fingerprint(config, server)
    (module.parent / "mail.pyc").write_text("")
    (module.parent / ".#mail.py").symlink_to("nowhere")
    assert _compute_fingerprint(config, server) == before
    module.write_text("SENT = []")
    assert _compute_fingerprint(config, server) != before


@pytest.mark.slow
def test_a_worker_loads_no_module_of_ours_whose_change_would_not_replace_it() -> None:
    listed = subprocess.run([sys.executable, "-c", LOADED], check=True, capture_output=True, text=True).stdout
    loaded = [Path(file).resolve() for file in listed.split()]
    watched = [ROOT / name for name in OUR_CODE]
    assert ROOT / "runtime" / "encryption.py" in loaded
    assert [file for file in loaded if not any(file.is_relative_to(place) for place in watched)] == []


def test_it_is_made_once_and_for_its_owner_alone(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as several:
        files = set(several.map(inbox_key_file, [tmp_path] * 8))
    [file] = files
    assert os.listdir(tmp_path) == [file.name]
    assert file.stat().st_mode & 0o777 == 0o600
    assert inbox_key(file) == inbox_key(inbox_key_file(tmp_path))
    assert len(inbox_key(file).secret) == 64 and inbox_key(file).may_prove("person")


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Config:
    for name in [name for name in os.environ if name.startswith(("TEMPORAL_", "HOLDFAST_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOLDFAST_HOME", str(tmp_path / "state"))
    return load_config(tmp_path)


@pytest.mark.slow
async def test_the_worker_of_the_embedded_set_knows_it(config: Config) -> None:
    try:
        connection = await connect(config)
        runs = Runs(connection.client, answering=Answering(inbox=inbox_key(inbox_key_file(config.home))))
        run = await runs.start(loads(ONE, name="one"))
        [question] = await until(lambda: runs.questions(run), "the question")
        await runs.acting_as(Sender("user:ana", proof="person")).answer(
            run, [Answer(question=question.id, content="x")]
        )
        replies = [event.data for event in await runs.watch.events(run) if isinstance(event.data, QuestionAnswered)]
        assert [reply.proved_by for reply in replies] == ["person"]
    finally:
        await stop_all(config)
